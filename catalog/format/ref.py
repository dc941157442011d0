"""Entries of refs, which name cuts, and openings, which hold what reading such a cut begins with.
Pure.

Source: docs/format.md, section 12.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ...errors import CorruptObject, UnsupportedFeature
from ..wire import lakelog_ref_pb2 as wire
from .cut import Cut, cut_message, cut_of_message
from .frame import (
    FrameKind,
    LogIdentity,
    decode_frame,
    encode_frame,
    has_unknown_fields,
    parse_message,
)
from .names import LogObject, check_id, is_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RefKind = Literal["tag", "published", "removed"]

FOLDER: Final = "_refs/"
SUFFIX: Final = ".ref"
OPENING_SUFFIX: Final = ".opening"
_KINDS: Final[dict[int, RefKind]] = {
    wire.TAG: "tag",
    wire.PUBLISHED: "published",
    wire.REMOVED: "removed",
}
_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}
_AGAIN: Final = (
    "Restore the object from a copy; or remove the name with `lakelog tag delete URL NAME`, and "
    "name the cut again"
)
_NO_LOG: Final = LogIdentity(bytes(16), 1)
_KEY: Final = re.compile(
    r"_refs/(?P<name>[^/]+)/(?:[0-9]{12}-(?P<number>[1-9][0-9]{0,11})\.ref"
    r"|(?P<id>[0-9a-f]{32})\.(?P<database>[^/.]+)\.opening)"
)


@dataclass(frozen=True, slots=True)
class Ref:
    """What a name stands for: an entry of its series.

    Attributes:
        name: Of the tag or published cut.
        number: Of the entry, from 1; each move has the next one.
        id: 16 random bytes.
        kind: tag, published, or removed.
        cuts: By database, sorted; empty of a removed one.
        created_at_us: µs since 1970, UTC.
        expires_at_us: From then on it isn't found and keeps nothing; 0: never.
        keep_s: How long what a later entry replaces stays readable, in seconds.
        message: Of its author.
    """

    name: str
    number: int
    id: bytes
    kind: RefKind
    cuts: Mapping[str, Cut]
    created_at_us: int
    expires_at_us: int = 0
    keep_s: int = 0
    message: str = ""


def ref_folder(name: str) -> str:
    """Returns where the entries of a name lie. Raises `InvalidName`."""
    return f"{FOLDER}{check_id(name, 'tag')}/"


def opening_key(ref: Ref, database: str) -> str:
    """Returns the key of what opening a database at an entry reads."""
    return f"{ref_folder(ref.name)}{ref.id.hex()}.{database}{OPENING_SUFFIX}"


@dataclass(frozen=True, slots=True)
class RefKey:
    """What the key of an object below `_refs/` says.

    Attributes:
        name: Of the ref.
        number: Of an entry; 0 of an opening.
        id: Of the entry that an opening belongs to, hex; empty of an entry.
    """

    name: str
    number: int
    id: str


def parse_ref_key(key: str) -> RefKey | None:
    """Returns what a key says; None if it is neither an entry's nor an opening's."""
    match = _KEY.fullmatch(key)
    if match is None or not is_id(match["name"]):
        return None
    if match["database"] is not None and not is_id(match["database"]):
        return None
    return RefKey(match["name"], int(match["number"] or 0), match["id"] or "")


def encode_ref(ref: Ref) -> bytes:
    """Returns the object of an entry."""
    message = wire.Ref(
        name=ref.name,
        number=ref.number,
        id=ref.id,
        kind=_NUMBERS[ref.kind],  # type: ignore[arg-type]
        cuts=[cut_message(ref.cuts[database]) for database in sorted(ref.cuts)],
        created_at_us=ref.created_at_us,
        expires_at_us=ref.expires_at_us,
        keep_s=ref.keep_s,
        message=ref.message,
    )
    body = message.SerializeToString(deterministic=True)
    return encode_frame(FrameKind.REF, _NO_LOG, body)[0]


def decode_ref(data: bytes, key: str) -> Ref:
    """Returns the entry that an object holds.

    Raises:
        CorruptObject: Damaged, or not the entry that its key says.
        UnsupportedFeature: Of a later version, so that nobody knows what it keeps.
    """
    message = wire.Ref()
    try:
        parse_message(message, decode_frame(data, FrameKind.REF, key).message, key)
    except CorruptObject as error:
        error.hint = _AGAIN
        raise
    if has_unknown_fields(message) or message.kind not in _KINDS:
        raise UnsupportedFeature(
            f"{key} is of a later version of lakelog", key=key, hint="Upgrade lakelog"
        )
    kind = _KINDS[message.kind]
    cuts = [cut_of_message(cut) for cut in message.cuts]
    known = [cut for cut in cuts if cut is not None and all(p.log for p in cut.writers.values())]
    names = [cut.database for cut in known]
    says = parse_ref_key(key)
    if (
        says is None
        or (says.name, says.number) != (message.name, message.number)
        or len(message.id) != 16
        or len(known) < len(cuts)
        or any(low >= high for low, high in itertools.pairwise(names))
        or bool(known) != (kind != "removed")
    ):
        raise CorruptObject(
            f"{key} doesn't hold what its name says",
            key=key,
            hint=_AGAIN,
        )
    return Ref(
        message.name, message.number, message.id, kind, dict(zip(names, known, strict=True)),
        message.created_at_us, message.expires_at_us, message.keep_s, message.message,
    )  # fmt: skip


# --- Openings -------------------------------------------------------------------------------------

Bodies = tuple[LogObject, bytes]


def encode_opening(logs: Mapping[str, Sequence[Bodies]]) -> bytes:
    """Returns an object that holds the base and the later transactions of logs, by writer."""
    message = wire.Opening(
        logs=[
            wire.OpeningLog(
                writer=writer,
                objects=[
                    wire.OpeningObject(
                        revision=item.revision,
                        uuid4=bytes.fromhex(item.uuid8),
                        is_checkpoint=item.kind == "checkpoint",
                        length=len(body),
                    )
                    for item, body in logs[writer]
                ],
            )
            for writer in sorted(logs)
        ]
    )
    attached = b"".join(body for writer in sorted(logs) for _, body in logs[writer])
    body = message.SerializeToString(deterministic=True)
    return encode_frame(FrameKind.OPENING, _NO_LOG, body, attached)[0]


def decode_opening(data: bytes, key: str, cut: Cut) -> dict[str, list[Bodies]]:
    """Returns the objects that an opening of a cut holds, by writer.

    Raises:
        CorruptObject: Damaged, or its parts don't fit each other.
        UnsupportedFeature: Of a later version.
    """
    frame = decode_frame(data, FrameKind.OPENING, key)
    message = wire.Opening()
    parse_message(message, frame.message, key)
    logs: dict[str, list[Bodies]] = {}
    offset = 0
    for log in message.logs:
        position = cut.writers.get(log.writer)
        if position is None or position.log is None:
            raise CorruptObject(f"{key} is not the opening of its cut", key=key)
        items = logs.setdefault(log.writer, [])
        for one in log.objects:
            item = LogObject(
                position.log.incarnation, one.revision, one.uuid4.hex(),
                "checkpoint" if one.is_checkpoint else "transaction",
            )  # fmt: skip
            end = offset + one.length
            if len(one.uuid4) != 4 or end > len(frame.attachments):
                raise CorruptObject(f"{key} is cut short", key=key)
            items.append((item, bytes(frame.attachments[offset:end])))
            offset = end
    return logs
