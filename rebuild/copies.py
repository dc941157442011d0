"""The objects of a log in its two places, the log and its mirror: their names, and what each copy
holds. Check, repair and rebuild read them by this alone.

An object counts as damaged only after two reads.

Source: docs/format.md, sections 4.3 and 4.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import mirror_key, mirror_log_folder, parse_log_object
from ..catalog.format.objects import decode_checkpoint, decode_transaction, read_seal
from ..errors import CorruptError, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..catalog.format.names import LogObject
    from ..catalog.read.log_folder import LogFolder
    from ..store import Store

    Names = dict[LogObject, dict[int, int]]  # by name and place the size as listed

MISSING: Final = "is missing"
LOG, MIRROR = 0, 1  # the two places of an object
MAX_OBJECT_BYTES: Final = 2 << 30  # no object of a log is larger
_AT_ONCE: Final = 256


class ObjectCopy(NamedTuple):
    """An object of a log in one of its two places.

    Attributes:
        body, decoded: Its bytes, and what they decode to; None: it is not there, or damaged.
        problem: What is wrong with it; empty: nothing.
        newer: A later version wrote it.
    """

    body: bytes | None = None
    decoded: Any = None
    problem: str = MISSING
    newer: UnsupportedFeature | None = None


Pair = tuple[ObjectCopy, ObjectCopy]


def names_of(log: LogFolder, unknown: Callable[[str], None] = lambda key: None) -> Names:
    """Lists the names in both places, the mirror first: what is committed meanwhile is in the log
    before it is there.

    Args:
        unknown: Called with each key in the log's folder that is none of lakelog's.
    Requests: 2 LIST per 1,000 names on S3.
    """
    found: Names = {}
    mirror = mirror_log_folder(log.writer, log.database)
    for place, folder in ((MIRROR, mirror), (LOG, log.folder)):
        for info in log.store.list(folder):
            item = parse_log_object(info.key[len(folder) :])
            if item is not None:
                found.setdefault(item, {})[place] = info.size_bytes
            elif place == LOG:
                unknown(info.key)
    return found


def read_items(log: LogFolder, names: Names, items: Sequence[LogObject]) -> Iterator[Pair]:
    """Reads objects of a log by their names in both places, some at a time; what is too large for
    one is damaged.

    Raises:
        UnsupportedFeature: A later version wrote one.
    Requests: As `read_pairs`.
    """
    damaged = ObjectCopy(problem="is damaged: it is larger than any object of a log")
    for low in range(0, len(items), _AT_ONCE):
        some = items[low : low + _AT_ONCE]
        large = {item for item in some if max(names[item].values()) > MAX_OBJECT_BYTES}
        keys = [log.folder + item.name for item in some if item not in large]
        pairs = iter(read_pairs(log.store, keys))
        for item in some:
            one, other = (damaged, damaged) if item in large else next(pairs)
            newer = one.newer or other.newer
            if newer is not None and one.body is None is other.body:
                raise newer
            yield one, other


def read_pairs(store: Store, keys: Sequence[str]) -> list[Pair]:
    """Reads objects of a log in both places. What can't be decoded is read a second time.

    Args:
        keys: Those of the log itself.
    Requests: 2 GET an object; 1 more for each that can't be decoded.
    """
    found: list[Pair] = []
    for low in range(0, len(keys), _AT_ONCE):
        own = keys[low : low + _AT_ONCE]
        places = [*own, *map(mirror_key, own)]
        bodies = store.get_many(places)
        copies = [
            _read_copy(store, place, key, body)
            for place, key, body in zip(places, [*own, *own], bodies, strict=True)
        ]
        found += zip(copies[: len(own)], copies[len(own) :], strict=True)
    return found


def _read_copy(store: Store, place: str, key: str, body: bytes | None) -> ObjectCopy:
    found = ObjectCopy()
    for again in (True, False):
        if body is None:
            break
        try:
            return ObjectCopy(body, _decode(body, key), "")
        except CorruptError as error:
            newer = error if isinstance(error, UnsupportedFeature) else None
            found = ObjectCopy(problem=f"is damaged: {error.message}", newer=newer)
        if again:
            body = store.get_many([place])[0]
    return found


def _decode(body: bytes, key: str) -> Any:
    """Decodes an object by the kind that its key says."""
    if key.endswith(".checkpoint"):
        return decode_checkpoint(body, key)
    if not key.endswith(".transaction"):
        return decode_frame(body, FrameKind.SEGMENT, key)
    try:
        return decode_transaction(body, key)
    except CorruptError:
        seal = read_seal(body, key)  # one that only takes a name continues no chain
        if seal is None:
            raise
        return seal
