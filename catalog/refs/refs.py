"""Tags and published cuts: names for cuts of one or more databases, and what they keep from prune.

A name is a series of entries. A tag is made once and removed by hand; a published cut moves, and
its earlier cuts stay readable for a time.

Prune and a new entry exclude each other by each writing before it looks: prune marks where a log
will begin and then reads the refs; an entry is put and then the marks are read. So one of two that
meet sees the other: prune stops, or the entry is taken back. A mark counts for a floor, and both
have half of it from their first look to their last request. Where the caller died before it could
take its entry back, prune does.

Source: docs/format.md, section 12.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from ...errors import (
    ConflictError,
    CorruptError,
    CorruptObject,
    LakelogError,
    ObjectNotFound,
    RefMoved,
    SnapshotPruned,
    TagNotFound,
    UnsupportedFeature,
    it_has,
)
from ..format.names import name_prefix, parse_log_object
from ..format.ref import (
    FOLDER,
    SUFFIX,
    Ref,
    decode_opening,
    decode_ref,
    encode_opening,
    encode_ref,
    opening_key,
    parse_ref_key,
    ref_folder,
)
from ..log.listing import read_listing
from ..parallel import parallel
from ..read.log_reader import LogReader
from ..read.points_in_time import state_at
from .series import Entry, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...store import ObjectInfo, Store
    from ..ambient import Ambient
    from ..format.cut import Cut, Position
    from ..format.ref import Bodies, RefKind
    from ..log.state import State
    from ..margins import Margins

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MARKS: Final = "_pruned/"
_LOG_BYTES: Final = 4 << 20  # a log with more to open is opened by itself
_OPENING_BYTES: Final = 256 << 20
_TRIES: Final = 8
_TRIM_EVERY: Final = 16  # moves
_DAMAGED: Final = bytes(16)  # the id of an entry that can't be read


@dataclass(frozen=True, slots=True)
class Refs:
    """The names of a catalog.

    Attributes:
        store: Of the catalog.
        ambient, margins: Clock and identities; how long things are left alone.
    """

    store: Store
    ambient: Ambient
    margins: Margins

    # --- Looking ----------------------------------------------------------------------------------

    def find(self, name: str) -> Ref:
        """Returns what a name stands for now.

        Raises:
            TagNotFound: Nothing, or it has expired.
            CorruptObject, UnsupportedFeature: Its entry can't be read.
        Requests: 1 LIST, 1 GET; to name what there is, those of `names`.
        """
        ref = self._newest(name)[1]
        if ref is None or not self._counts(ref):
            names = list(self._entries())
            raise TagNotFound(
                f"{self.store.url} has no tag or published cut {name!r}",
                key=name,
                hint=it_has(name, names) if names else "`lakelog tag create URL NAME` makes one",
            )
        return ref

    def names(self) -> list[Ref]:
        """Returns what each name stands for now, by name; without removed and expired ones.

        Requests: 1 LIST (per 1,000 names on S3), 1 GET for each.
        """
        found = []
        for entries in self._entries().values():
            try:
                (ref,) = self._read(entries[:1])
            except CorruptObject as error:
                warnings.warn(str(error), RefWarning, stacklevel=3)
                continue
            if ref is not None and self._counts(ref):
                found.append(ref)
        return found

    def history(self, name: str) -> list[Ref]:
        """Returns the entries of a name that are left, the newest first.

        Requests: 1 LIST, 1 GET for each.
        """
        entries = [entry.key for entry in self._series(name).entries()]
        return [ref for ref in self._read_keys(entries) if ref is not None]

    def states(self, ref: Ref, database: str, writers: Iterable[str] | None = None) -> list[State]:
        """Returns the states of a database's logs at an entry.

        Args:
            writers: Only of these; None: of all.
        Requests: 1 GET; for each log that the opening doesn't hold, those of `state_at`.
        """
        cut = ref.cuts[database]
        logs: dict[str, list[Bodies]] = {}
        with suppress(ObjectNotFound, CorruptError):  # it only saves requests
            key = opening_key(ref, database)
            logs = decode_opening(self.store.get(key), key, cut)
        wanted = [w for w in cut.writers if writers is None or w in writers]
        others = [w for w in wanted if not logs.get(w)]
        found = dict(
            zip(others, parallel(lambda w: self._state(cut, w, None), others), strict=True)
        )
        return [found.get(w) or self._state(cut, w, logs[w]) for w in wanted]

    def _state(self, cut: Cut, writer: str, bodies: Sequence[Bodies] | None) -> State:
        log = LogReader(self.store, writer, cut.database, self.ambient)
        position = cut.writers[writer]
        if not bodies:
            return state_at(log, position)
        held = {log.folder + item.name: body for item, body in bodies}
        listing = read_listing(writer, cut.database, sorted(item.name for item, _ in bodies))
        return state_at(replace(log, bodies=held), position, listing)

    # --- Changing ---------------------------------------------------------------------------------

    def put(
        self,
        name: str,
        kind: RefKind,
        cuts: Mapping[str, Cut],
        *,
        expect: int | None = None,
        expires_at_us: int = 0,
        keep_s: int = 0,
        message: str = "",
    ) -> Ref:
        """Puts the next entry of a name.

        Args:
            kind: tag: the name must be free; published: it must not be a tag's; removed: it must
                stand for something.
            expect: The number of the entry that is replaced, 0 for a free name; None: whichever.
        Raises:
            TagNotFound: Nothing is there to be removed.
            ConflictError: The name stands for something of another kind.
            RefMoved: It doesn't stand at the expected entry.
            SnapshotPruned: A prune is deleting what the cut needs; the name is as before.
            CapabilityMissing: The store has no put-if-absent.
        Requests: 2 LIST, 1 GET and 1 PUT; for each log 1 LIST and 1 GET an object of its opening,
            and 1 PUT for each database; 1 LIST more per 1,000 pruned logs.
        """
        series = self._series(name)
        new = Ref(
            name, 0, self.ambient.new_id(), kind, dict(sorted(cuts.items())),
            self.ambient.now_us(), expires_at_us, keep_s, message,
        )  # fmt: skip
        began_s = self.ambient.monotonic_s()
        self._refuse_pruned(new)
        openings = self._put_openings(new)
        try:
            old, new, entry = self._append(series, new, expect)
        except LakelogError:
            self.store.delete(openings, ordered=False)
            raise
        try:
            self._refuse_pruned(new)
            if 0 < self.margins.idle_limit_s < self.ambient.monotonic_s() - began_s:
                raise RefMoved(f"Naming {name!r} took too long", key=name, hint="Try again")
        except (SnapshotPruned, RefMoved):
            self._take_back(series, old, entry)
            raise
        if old is not None and old.id == _DAMAGED:
            series.delete([one for one in series.entries() if one.number == old.number])
        if new.number % _TRIM_EVERY == 0 or kind == "removed":
            self._trim(series, entry)
        return new

    def take_back_pruned(self, pins: Iterable[Pin]) -> None:
        """Puts what stood there before, of names whose newest entries name what was pruned: their
        callers have died, or are about to do the same.

        Requests: 1 LIST, 1 GET for each entry of each name; 1 PUT each.
        """
        for pin in pins:
            series = self._series(pin.name)
            entries = [entry for entry in series.entries() if entry.number <= pin.number]
            if entries and entries[0].number == pin.number and pin.is_newest:
                before = self._read(entries[1:2])
                self._take_back(series, before[0] if before else None, entries[0])

    def _append(
        self, series: Series, new: Ref, expect: int | None
    ) -> tuple[Ref | None, Ref, Entry]:
        """Puts an entry after the newest; again where another one came first and none is expected.
        Returns the one it replaces, too."""
        for attempt in range(_TRIES):
            entry, old = self._newest(new.name, damaged=new.kind == "removed")
            number = entry.number if old is not None and self._counts(old) else 0
            if expect is not None and expect != number:
                raise RefMoved(
                    f"{new.name!r} stands at entry {number}, not {expect}"
                    + (f": {old.message}" if number and old is not None and old.message else ""),
                    key=new.name,
                    hint="Look at what it stands for now, and publish again if it is still wanted",
                )
            _refuse_kind(new, old if number else None)
            new = replace(new, number=entry.number + 1)
            try:
                return old, new, series.append(encode_ref(new), entry)
            except RefMoved:
                if expect is not None or attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _take_back(self, series: Series, old: Ref | None, entry: Entry) -> None:
        """Puts what stood there before, unless another entry has come since."""
        before = Ref("", 0, b"", "removed", {}, self.ambient.now_us()) if old is None else old
        again = replace(before, name=_name_of(series), number=entry.number + 1)
        if old is None:
            again = replace(again, id=self.ambient.new_id())
        with suppress(RefMoved):
            series.append(encode_ref(again), entry)

    def _put_openings(self, ref: Ref) -> list[str]:
        """Puts what opening the cuts reads; returns the keys."""
        keys = []
        for database, cut in ref.cuts.items():
            found = parallel(lambda w, cut=cut: self._bodies(cut, w), list(cut.writers))  # type: ignore[misc]
            logs: dict[str, Sequence[Bodies]] = {}
            left = _OPENING_BYTES
            for writer, bodies in zip(cut.writers, found, strict=True):
                size_bytes = sum(len(body) for _, body in bodies)
                if bodies and size_bytes <= min(left, _LOG_BYTES):
                    logs[writer] = bodies
                    left -= size_bytes
            key = opening_key(ref, database)
            self.store.put(key, encode_opening(logs))
            keys.append(key)
        return keys

    def _bodies(self, cut: Cut, writer: str) -> list[Bodies]:
        """The objects that a log is opened with at a cut, once they were read as a reader does."""
        log = LogReader(self.store, writer, cut.database, self.ambient)
        bodies = log.objects_at(cut.writers[writer])
        self._state(cut, writer, bodies)
        return bodies

    def _trim(self, series: Series, newest: Entry) -> None:
        """Deletes entries that keep nothing any more, and openings that belong to none.

        Requests: 1 LIST, 1 GET for each entry that is left; 1 DELETE each.
        """
        infos = list(self.store.list(series.folder))
        entries = [entry for entry in series.entries() if entry.number <= newest.number]
        now = self._now()
        floor = dt.timedelta(seconds=self.margins.prune_floor_s)
        pairs = [(e, r) for e, r in zip(entries, self._read(entries), strict=True) if r is not None]
        going = [
            old
            for (later, _), (old, ref) in pairwise(pairs)
            if (replaced := later.modified_at) is not None
            and now - replaced > max(floor, dt.timedelta(seconds=ref.keep_s))
        ]
        staying = {ref.id.hex() for entry, ref in pairs if entry not in going}
        series.delete(going)
        stray = [info.key for info in infos if _is_stray(info, staying, now - floor)]
        self.store.delete(stray, ordered=False)

    # --- Parts ------------------------------------------------------------------------------------

    def _series(self, name: str) -> Series:
        return Series(self.store, ref_folder(name), SUFFIX, self.ambient, self.margins)

    def _newest(self, name: str, *, damaged: bool = False) -> tuple[Entry, Ref | None]:
        """The entry that counts, and what it says.

        Args:
            damaged: Whether one that can't be read is taken for a tag of nothing.
        """
        entry, body = self._series(name).read_newest()
        try:
            return entry, decode_ref(body, entry.key) if entry.number else None
        except CorruptObject:
            if not damaged:
                raise
            return entry, Ref(name, entry.number, _DAMAGED, "tag", {}, 0)

    def _now(self) -> dt.datetime:
        """By the store's clock, where answers carry its time."""
        at = EPOCH + dt.timedelta(microseconds=self.ambient.now_us())
        return self.store.server_time() or at

    def _counts(self, ref: Ref) -> bool:
        return ref.kind != "removed" and not _is_expired(ref, self._now())

    def _entries(self) -> dict[str, list[Entry]]:
        """All entries by name, the newest first.

        Raises:
            UnsupportedFeature: Something else is there.
        """
        found: dict[str, list[Entry]] = defaultdict(list)
        now_s = self.ambient.monotonic_s()
        for info in self.store.list(FOLDER):
            says = parse_ref_key(info.key)
            if says is None:
                if info.key.startswith((f"{FOLDER}_probe/", f"{FOLDER}.")):
                    continue
                raise UnsupportedFeature(
                    f"{info.key} is no ref that this lakelog knows, and may keep any revision",
                    key=info.key,
                    hint="Nothing was changed. Upgrade lakelog, or remove the object if it is none "
                    "of lakelog's",
                )
            if says.number:
                entry = Entry(says.number, info.key, info.size_bytes, info.modified_at, now_s)
                found[says.name].append(entry)
        return dict(found)

    def _read(self, entries: Sequence[Entry]) -> list[Ref | None]:
        """The entries, each read once in a process: none is ever changed."""
        known = _READ.setdefault(self.store, {})
        new = [entry for entry in entries if _version(entry) not in known]
        if len(known) > _MOST_READ:
            known.clear()
        for entry, ref in zip(new, self._read_keys([one.key for one in new]), strict=True):
            if ref is not None:
                known[_version(entry)] = ref
        return [known.get(_version(entry)) for entry in entries]

    def _read_keys(self, keys: Sequence[str]) -> list[Ref | None]:
        bodies = self.store.get_many(keys)
        return [
            None if body is None else decode_ref(body, key)
            for key, body in zip(keys, bodies, strict=True)
        ]

    def _refuse_pruned(self, ref: Ref) -> None:
        marks = beginnings(self.store, self._now(), self.margins) if ref.cuts else {}
        for database, cut in ref.cuts.items():
            for writer, position in cut.writers.items():
                assert position.log is not None
                begins = marks.get((writer, database, position.log.incarnation), 0)
                if position.revision < begins:
                    raise SnapshotPruned(
                        f"Revision {position.revision} of {writer}/{database} is being pruned, or "
                        f"was within the last day: what lies before revision {begins} goes",
                        key=f"{writer}/{database}",
                        hint="Name a later cut; or, if it can still be read, try again tomorrow",
                    )


class RefWarning(UserWarning):
    """A tag or published cut can't be read."""


# What was read of entries, by their version in a listing.
_READ: WeakKeyDictionary[Store, dict[tuple[object, ...], Ref]] = WeakKeyDictionary()
_MOST_READ: Final = 10_000


def _version(entry: Entry) -> tuple[object, ...]:
    return entry.key, entry.size_bytes, entry.modified_at


def _refuse_kind(new: Ref, old: Ref | None) -> None:
    if new.kind == "removed":
        if old is None:
            raise TagNotFound(f"There is no tag {new.name!r}", key=new.name)
    elif old is not None and new.kind == "tag":
        raise ConflictError(
            f"{new.name!r} is a {_kind_text(old)} already",
            key=new.name,
            hint="Choose another name, or remove it first: `lakelog tag delete URL NAME`",
        )
    elif old is not None and old.kind == "tag":
        raise ConflictError(
            f"{new.name!r} is a tag, which doesn't move",
            key=new.name,
            hint="Publish under another name, or run `lakelog tag delete URL NAME` first",
        )


def _kind_text(ref: Ref) -> str:
    return "tag" if ref.kind == "tag" else "published cut"


def _name_of(series: Series) -> str:
    return series.folder[len(FOLDER) : -1]


def _is_expired(ref: Ref, now: dt.datetime) -> bool:
    now_us = (now - EPOCH) // dt.timedelta(microseconds=1)
    return bool(ref.expires_at_us) and ref.expires_at_us <= now_us


def _is_stray(info: ObjectInfo, ids: set[str], before: dt.datetime) -> bool:
    """Checks whether an object is an old opening of no entry of these ids."""
    says = parse_ref_key(info.key)
    is_old = info.modified_at is not None and info.modified_at < before
    return says is not None and bool(says.id) and says.id not in ids and is_old


# --- What prune must keep -------------------------------------------------------------------------


class Pin(NamedTuple):
    """A revision of a log that a name keeps.

    Attributes:
        name, number: Of the entry.
        is_newest: Whether the name stands for it now; else it was replaced a short time ago.
        position: In the log.
    """

    name: str
    number: int
    is_newest: bool
    position: Position

    @property
    def incarnation(self) -> int:
        """Of the log."""
        assert self.position.log is not None
        return self.position.log.incarnation


def pins_of(refs: Refs, writer: str, database: str, log_id: bytes, now: dt.datetime) -> list[Pin]:
    """Returns what names keep of a log.

    Args:
        log_id: Of the log, which may have been renamed since it was named.
        now: The time to judge ages by.
    Raises:
        CorruptObject, UnsupportedFeature: A name can't be read, so nobody knows what it keeps.
    Requests: 1 LIST (per 1,000 objects on S3), 1 GET for each entry of each name that this process
        hasn't read.
    """
    pins = []
    for name, entries in refs._entries().items():
        later: Entry | None = None
        for entry, ref in zip(entries, refs._read(entries), strict=True):
            if ref is not None and _is_kept(ref, later, now):
                pins += [
                    Pin(name, entry.number, later is None, position)
                    for cut in ref.cuts.values()
                    for owner, position in cut.writers.items()
                    if (owner, cut.database) == (writer, database)
                    or (position.log is not None and position.log.log_id == log_id)
                ]
            later = entry
    return pins


def _is_kept(ref: Ref, later: Entry | None, now: dt.datetime) -> bool:
    if ref.kind == "removed" or _is_expired(ref, now):
        return False
    if later is None or later.modified_at is None:
        return True
    return now - later.modified_at < dt.timedelta(seconds=ref.keep_s)


# --- Marks of prune -------------------------------------------------------------------------------


def beginnings(store: Store, now: dt.datetime, margins: Margins) -> dict[tuple[str, str, int], int]:
    """Returns, by writer, database and incarnation, the revision before which prune deletes, or did
    within the floor.

    Requests: 1 LIST per 1,000 marks.
    """
    found: dict[tuple[str, str, int], int] = {}
    for info in store.list(_MARKS):
        parts = info.key[len(_MARKS) :].split("/")
        item = parse_log_object(f"{parts[-1]}.checkpoint")
        if len(parts) != 3 or item is None or _is_over(info, now, margins):
            continue
        place = parts[0], parts[1], item.incarnation
        found[place] = max(found.get(place, 0), item.revision)
    return found


def mark_beginnings(
    refs: Refs, writer: str, database: str, begins: Mapping[int, int], now: dt.datetime
) -> list[str]:
    """Puts marks of where a log will begin, by incarnation, and deletes those that are over;
    returns the keys of the new ones, which no other prune has.

    Requests: 1 LIST; 1 PUT for each incarnation, 1 DELETE for each mark that is over.
    """
    folder = f"{_MARKS}{writer}/{database}/"
    uuid8 = refs.ambient.new_id()[:4].hex()
    old = [info.key for info in refs.store.list(folder) if _is_over(info, now, refs.margins)]
    keys = [f"{folder}{name_prefix(*place)}.{uuid8}" for place in begins.items()]
    for key in keys:
        refs.store.put(key, b"")
    refs.store.delete(old, ordered=False)
    return keys


def _is_over(info: ObjectInfo, now: dt.datetime, margins: Margins) -> bool:
    """Checks whether a mark is older than the floor: its prune deletes nothing more."""
    floor = dt.timedelta(seconds=margins.prune_floor_s)
    return info.modified_at is not None and now - info.modified_at > floor
