"""The objects of a log in its two places, the log and its mirror: their names, and what each copy
holds. Check, repair and rebuild read them by this alone.

An object counts as damaged only after two reads.

Source: docs/format.md, sections 4.3 and 4.8.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..catalog.format.frame import MAX_OBJECT_BYTES, FrameKind, decode_frame
from ..catalog.format.names import REPLICA_MARK, mirror_key, mirror_log_folder, parse_log_object
from ..catalog.format.objects import decode_checkpoint, decode_transaction, read_seal
from ..errors import CorruptError, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..catalog.format.names import LogObject
    from ..catalog.read.log_folder import LogFolder
    from ..store import Store

    Names = dict[LogObject, dict[int, int]]  # by name and place the size as listed

MISSING: Final = "is missing"
LOG, MIRROR = 0, 1  # the two places of an object
_BYTES_AT_ONCE: Final = 128 << 20
_LEAST_BYTES: Final = 1 << 19  # that an object counts for: so many are read at once


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
    return {
        mirror_key(log.folder + item.name) if place == MIRROR else log.folder + item.name: size
        for item, sizes in names.items()
        for place, size in sizes.items()
    }


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
    time; what is larger than any object can be is not read at all.

    Args:
        keys: Those of the log itself.
        sizes: By key, as listed; of what isn't listed it is not asked.
    Requests: 2 GET an object; 1 more for each that can't be decoded.
    """
    weights = (
        max(_LEAST_BYTES, *(sizes.get(k, 0) for k in (key, mirror_key(key)))) for key in keys
    )
    numbers = (total // _BYTES_AT_ONCE for total in itertools.accumulate(weights))
    for _, some in itertools.groupby(zip(numbers, keys, strict=True), key=itemgetter(0)):
        own = [key for _, key in some]
        places = [*own, *map(mirror_key, own)]
        wanted = [place for place in places if sizes.get(place, 0) <= MAX_OBJECT_BYTES]
        bodies = dict(zip(wanted, store.get_many(wanted), strict=True))
        copies = [
            _read_copy(store, place, key, bodies.pop(place))
            if place in bodies
            else ObjectCopy(problem=f"is damaged: it has {sizes[place]} bytes, too many for a log")
            for place, key in zip(places, [*own, *own], strict=True)
        ]
        yield from zip(copies[: len(own)], copies[len(own) :], strict=True)


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
