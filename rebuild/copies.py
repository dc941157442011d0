"""The objects of a log in its two places, the log and its mirror: their names, and what each copy
holds. Check, repair and rebuild read them by this alone.

An object counts as damaged only after two reads.

Source: docs/format.md, sections 4.3 and 4.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..catalog.format.frame import (
    HEADER_BYTES,
    MAX_OBJECT_BYTES,
    FrameKind,
    declared_bytes,
    decode_frame,
)
from ..catalog.format.names import REPLICA_MARK, mirror_key, mirror_log_folder, parse_log_object
from ..catalog.format.objects import decode_checkpoint, decode_transaction, read_seal
from ..errors import CorruptError, ObjectNotFound, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..catalog.format.names import LogObject
    from ..catalog.read.log_folder import LogFolder
    from ..store import Store

    Names = dict[LogObject, dict[int, int]]  # by name and place the size as listed

MISSING: Final = "is missing"
LOG, MIRROR = 0, 1  # the two places of an object
_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 128 << 20
_LARGE_BYTES: Final = 16 << 20  # it costs little beside this to read the header first


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
            elif place == LOG and info.key != folder + REPLICA_MARK:
                unknown(info.key)
    return found


def sizes_of(log: LogFolder, names: Names) -> dict[str, int]:
    """The sizes of objects as listed, by the keys of both places."""
    found = {}
    for item, sizes in names.items():
        key = log.folder + item.name
        found.update({(key, mirror_key(key))[place]: size for place, size in sizes.items()})
    return found


def read_items(log: LogFolder, names: Names, items: Sequence[LogObject]) -> Iterator[Pair]:
    """Reads objects of a log by their names in both places, some at a time.

    Raises:
        UnsupportedFeature: A later version wrote one.
    Requests: As `read_pairs`.
    """
    sizes = sizes_of(log, names)
    keys = [log.folder + item.name for item in items]
    for one, other in read_pairs(log.store, keys, sizes):
        newer = one.newer or other.newer
        if newer is not None and one.body is None is other.body:
            raise newer
        yield one, other


def read_pairs(store: Store, keys: Sequence[str], sizes: Mapping[str, int]) -> Iterator[Pair]:
    """Reads objects of a log in both places, some at a time. What can't be decoded is read a second
    time; of what is large its first bytes are read before, and no more of what they say isn't one.

    Args:
        keys: Those of the log itself.
        sizes: By key, as listed; of what isn't listed it is not asked.
    Requests: 2 GET an object; 1 more for each that can't be decoded, or is large.
    """
    for own in _together(keys, sizes):
        places = [*own, *map(mirror_key, own)]
        damaged = {place: problem for place in places if (problem := _misfit(store, place, sizes))}
        wanted = [place for place in places if place not in damaged]
        bodies = dict(zip(wanted, store.get_many(wanted), strict=True))
        copies = [
            ObjectCopy(problem=damaged[place])
            if place in damaged
            else _read_copy(store, place, key, bodies.pop(place))
            for place, key in zip(places, [*own, *own], strict=True)
        ]
        yield from zip(copies[: len(own)], copies[len(own) :], strict=True)


def _together(keys: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The keys of objects that are read at once."""
    some: list[str] = []
    total = 0
    for key in keys:
        size = min(sizes.get(key, 0) + sizes.get(mirror_key(key), 0), 2 * MAX_OBJECT_BYTES)
        if some and (len(some) == _AT_ONCE or total + size > _BYTES_AT_ONCE):
            yield some
            some, total = [], 0
        some.append(key)
        total += size
    if some:
        yield some


def _misfit(store: Store, place: str, sizes: Mapping[str, int]) -> str:
    """What is wrong with the size of a large object; empty: nothing."""
    size = sizes.get(place, 0)
    if size > MAX_OBJECT_BYTES:
        return f"is damaged: it has {size} bytes, more than any object of a log"
    if size <= _LARGE_BYTES:
        return ""
    try:
        said = declared_bytes(store.get(place, start=0, end=HEADER_BYTES))
    except ObjectNotFound:
        return ""
    return "" if said == size else f"is damaged: it has {size} bytes, and its header says otherwise"


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
