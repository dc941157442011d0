"""What each commit between two states of a log did to one table: the one resolver of changes.
Pure.

A step is a file of which a commit put rows in or took rows out: as a whole, or by deletes. A commit
that only replaces files by others with the same rows makes none. Steps come in the order of the
commits.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.run import at_revisions, files_rows, original_revisions
from ..format.segments import FILES_COLUMNS
from .compared import REWRITES, live_files
from .definitions import DefinitionEntry
from .deletes import Deletes, tombstone_of
from .known_schemas import KnownSchemas
from .operations import RESTORE
from .part import Part, batch_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..format.objects import DecodedTransaction
    from ..wire import lakelog_transaction_pb2 as wire
    from .deletes import RowDeletes, Tombstone
    from .known_schemas import SchemaEntry
    from .state import State


INSERT: Final = 1
DELETE: Final = -1
GONE: Final = -1  # the place of no view: the file isn't live
WHOLE: Final = 0  # that of all rows

# Beside the columns of FILES: file and event by numbers; whether rows of it went (-1) or came, by
# what hid rows of it before and after the commit (places in `views`); and whether that is the only
# step that counts of the file. `revision` is that of the commit.
STEP_COLUMNS: Final = pa.schema(
    [
        *FILES_COLUMNS,
        *(pa.field(name, pa.int64(), nullable=False) for name in ("file", "event")),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("sign", "before", "after")),
        pa.field("alone", pa.bool_(), nullable=False),
    ]
)
_NAMED: Final = ("path", "partition", "schema_fingerprint")


class _Event(NamedTuple):
    """An event of `Touched` by a revision; `before` and `after` are places in `views`."""

    name: bytes
    before: int
    after: int
    rewrite: bool
    revision: int


@dataclass(slots=True)
class Steps:
    """Gathers the steps of one log and table, commit by commit.

    Args:
        before: The state that the first of them follows.
        table: Of which files.
        marks: What is known of deletes beside the commits.

    Attributes:
        schemas: By fingerprint those that files of the steps may have.
        views: What hides rows of files, by the places that steps have: nothing, at place `WHOLE`.
        times: When each commit of the log was, µs.
        digests: That of each commit's object.
        definitions: What commits said of the table's columns, in order.
        deleting: The commits that say a delete of the table, whether it met any row or not.
        restoring: Those that go back, with whatever else they are.
        joined: Those that several transactions share.
        removed: By path the revision that took a file out last.
    """

    before: State
    table: str
    marks: Marks
    schemas: dict[bytes, SchemaEntry] = field(default_factory=dict)
    views: list[View] = field(default_factory=lambda: [View()])
    times: dict[int, int] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    definitions: list[DefinitionEntry] = field(default_factory=list)
    deleting: set[int] = field(default_factory=set)
    restoring: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)
    removed: dict[str, int] = field(default_factory=dict)
    _known: KnownSchemas = field(default_factory=KnownSchemas)
    _facts: list[pa.Table] = field(default_factory=list)  # of files, with the columns of FILES
    _events: list[_Event] = field(default_factory=list)
    _places: dict[View, int] = field(default_factory=lambda: {View(): WHOLE})
    _touched: Touched = field(init=False)

    def __post_init__(self) -> None:
        rows = live_files(self.before, self.table).table(self.table, whole=True)
        self._facts.append(_with_table(rows, self.table))
        self._learn(self.before.schemas_of(self.table))
        by_number = self.before.deletes.rows_of(self.table)
        self._touched = Touched(self.table, self.marks, by_number, self._first_names)

    # --- Commit by commit -------------------------------------------------------------------------

    def take(self, transaction: DecodedTransaction) -> None:
        """One more commit, the next after those before."""
        message, touched = transaction.message, self._touched
        revision = message.revision
        self.times[revision] = message.commit.committed_at_us
        self.digests[revision] = transaction.digest
        members = message.commit.members
        if len(members) > 1:
            self.joined.add(revision)
        if any(RESTORE in member.summary for member in members):
            self.restoring.add(revision)
        adds = []
        for position, (action, rewrite) in enumerate(
            zip(message.actions, _rewrites(transaction), strict=True)
        ):
            kind = action.WhichOneof("kind") or ""
            if kind == "add_batch":
                for rows in self._batch(transaction, position):
                    self._come(rows, revision, rewrite=rewrite)
            if getattr(getattr(action, kind, None), "table", None) != self.table:
                continue
            if kind == "add":
                add = action.add
                adds.append(add)
                name = name_of(add.path, add.partition, add.schema_fingerprint)
                touched.come(add.path, name, revision, rewrite=rewrite)
            elif kind == "remove":
                touched.go(action.remove.path, rewrite=rewrite)
                self.removed[action.remove.path] = revision
            else:
                touched.mark(action, revision, position)
                self._learn_of(action, transaction)
        if adds:
            self._facts.append(files_rows(adds, [revision] * len(adds)))
        self._events += (
            _Event(name, self._place(before), self._place(after), rewrite, revision)
            for name, before, after, rewrite in touched.end(transaction)
        )

    def _learn_of(self, action: wire.Action, transaction: DecodedTransaction) -> None:
        """What an action says of schemas and columns, and that it deletes."""
        kind = action.WhichOneof("kind")
        if kind == "tombstone":
            self.deleting.add(transaction.message.revision)
        elif kind == "schema":
            self._known.apply(transaction)
            self._learn(self._known)
        elif kind == "definition":
            message = action.definition.SerializeToString(deterministic=True)
            revision = transaction.message.revision
            self.definitions.append(DefinitionEntry(message, revision, transaction.key))

    def _come(self, rows: pa.Table, revision: int, *, rewrite: bool) -> None:
        self._facts.append(rows)
        for path, *rest in zip(*(rows.column(name).to_pylist() for name in _NAMED), strict=True):
            self._touched.come(path, name_of(path, *rest), revision, rewrite=rewrite)

    def _first_names(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        facts = self._facts[0]
        own = facts.filter(pc.is_in(facts.column("path"), column(paths, pa.string())))
        rows = zip(*(own.column(name).to_pylist() for name in _NAMED), strict=True)
        return {row[0]: name_of(*row) for row in rows}

    def _place(self, view: View | None) -> int:
        if view is None:
            return GONE
        place = self._places.setdefault(view, len(self.views))
        if place == len(self.views):
            self.views.append(view)
        return place

    def _batch(self, transaction: DecodedTransaction, position: int) -> Iterator[pa.Table]:
        for part, _ in batch_parts(transaction.batches[position]):
            if not isinstance(part, Part):
                raise part
            if self.table in part.run.ranges:
                start, end = part.run.ranges[self.table]
                yield part.run.full().slice(start, end - start)

    def _learn(self, known: KnownSchemas) -> None:
        self.schemas |= {entry.fingerprint: entry for entry in known.of_table(self.table)}

    # --- All together -----------------------------------------------------------------------------

    def rows(self, *, net: bool) -> pa.Table:
        """The steps, as `STEP_COLUMNS`, in the order of the commits; of one commit what it took out
        before what it put in. Of a file that stays there are two: rows may come, too.

        Args:
            net: Leave out files that came and went again between, and those that went and came
                back. Of a file of which rows were deleted all steps stay, and aren't `alone`.
        Raises:
            CorruptObject: A file was removed that nothing says was there.
        """
        facts, at, events = self._found()
        rewrites = self._believed(facts, at, events)
        kept = ~(events["rewrite"] & np.isin(events["revision"], rewrites))
        at, events = at[kept], {name: values[kept] for name, values in events.items()}
        before, after, revision = events["before"], events["after"], events["revision"]
        sign = (after >= WHOLE).astype(np.int32) - (before >= WHOLE)
        alone, left = np.ones(len(at), np.bool_), np.ones(len(at), np.bool_)
        if net:
            parted = np.isin(at, at[(before > WHOLE) | (after > WHOLE)])
            left[~parted] = _net(at[~parted], sign[~parted])
            _, places, counts = np.unique(at, return_inverse=True, return_counts=True)
            alone = ~parted | (counts[places] < 2)
        picks = [np.flatnonzero(left & (sign <= 0)), np.flatnonzero(left & (sign >= 0))]
        chosen = np.concatenate(picks)
        signs = np.repeat(np.array([DELETE, INSERT], np.int32), [len(some) for some in picks])
        sorted_by = np.lexsort((chosen, signs, revision[chosen]))
        chosen = chosen[sorted_by]
        found = facts.take(array(at[chosen]))
        found = at_revisions(found, array(revision[chosen]), original_revisions(found))
        more = [each[chosen] for each in (before, after, alone)]
        columns = [array(each) for each in (at[chosen], chosen, signs[sorted_by], *more)]
        return pa.Table.from_arrays([*found.columns, *columns], schema=STEP_COLUMNS)

    def rewrites(self) -> list[int]:
        """The commits that only replace files by others with the same rows, as far as numbers tell,
        ascending."""
        return sorted(self._believed(*self._found()).tolist())

    def _found(self) -> tuple[pa.Table, np.ndarray, dict[str, np.ndarray]]:
        """Facts of files, the place there of that of each event, and the events."""
        columns = list(zip(*self._events, strict=True)) or [()] * len(_Event._fields)
        facts = pa.concat_tables(self._facts).combine_chunks()
        texts = [pc.cast(facts.column(name), pa.binary()) for name in _NAMED]
        between = column([NUL], pa.binary())[0]
        joined = pc.binary_join_element_wise(*texts, between).combine_chunks()
        first = texts[0].slice(0, self._facts[0].num_rows).combine_chunks()
        named = column(columns[0], pa.binary())
        # Those of the first state are known by their paths, which come first.
        places = pc.coalesce(
            pc.index_in(named, value_set=joined), pc.index_in(named, value_set=first)
        )
        if places.null_count:
            name = columns[0][places.is_null().to_pylist().index(True)]
            path = name.partition(NUL)[0].decode()
            raise CorruptObject(
                f"A commit removes {path}, and nothing says that it was there", key=path
            )
        same = numbers(pc.index_in(joined, value_set=joined)).astype(np.int64)
        kinds = (np.int32, np.int32, np.bool_, np.int64)
        events: dict[str, np.ndarray] = {
            name: np.array(values, kind)
            for name, values, kind in zip(_Event._fields[1:], columns[1:], kinds, strict=True)
        }
        return facts, same[numbers(places)] if len(named) else np.zeros(0, np.int64), events

    def _believed(
        self, facts: pa.Table, at: np.ndarray, events: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """The revisions of commits whose rewrites take out as many rows as they put in, or may,
        where it is open how many of them were deleted."""
        chosen = np.flatnonzero(events["rewrite"])
        at = at[chosen]
        low_after, high_after = self._visible(events["after"][chosen], facts, at)
        low_before, high_before = self._visible(events["before"][chosen], facts, at)
        revisions, places = np.unique(events["revision"][chosen], return_inverse=True)
        low, high = np.zeros(len(revisions), np.int64), np.zeros(len(revisions), np.int64)
        np.add.at(low, places, low_after - high_before)
        np.add.at(high, places, high_after - low_before)
        found: np.ndarray = revisions[(low <= 0) & (high >= 0)]
        return found

    def _visible(
        self, places: np.ndarray, facts: pa.Table, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How many rows of files can be seen at least, and at most."""
        counts = numbers(facts.column("row_count"))[at] if len(at) else np.zeros(0, np.int64)
        low, high = (np.where(places == GONE, 0, counts) for _ in range(2))
        for number in np.flatnonzero(places > WHOLE):
            view = self.views[places[number]]
            hidden = [entry.cardinality for entry in view.rows]
            high[number] -= max(hidden, default=0)
            low[number] = 0 if view.tombstones else max(0, low[number] - sum(hidden))
        return low, high


def _with_table(rows: pa.Table, table: str) -> pa.Table:
    names = pa.repeat(column([table], pa.string())[0], rows.num_rows)
    others = [rows.column(name) for name in FILES_COLUMNS.names[1:]]
    return pa.Table.from_arrays([names, *others], schema=FILES_COLUMNS)


def _rewrites(transaction: DecodedTransaction) -> list[bool]:
    """Per action whether its member says that it changes no rows. Where the actions of several
    members were joined it counts only if they all say so."""
    members = transaction.message.commit.members
    count = len(transaction.message.actions)
    said = [member.operation in REWRITES for member in members]
    apart = [
        is_rewrite
        for member, is_rewrite in zip(members, said, strict=True)
        for _ in range(min(member.action_count, count))
    ]
    if all(said) or len(apart) != count or not all(member.action_count for member in members):
        return [all(said)] * count
    return apart


def _net(files: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Which steps are left once those of one file that cancel each other are gone: of the sign
    that is left over, the last ones."""
    _, codes = np.unique(files, return_inverse=True)
    total = np.zeros(codes.max(initial=-1) + 1, np.int64)
    np.add.at(total, codes, sign)
    left = np.flatnonzero(sign == np.sign(total)[codes])
    order = left[np.lexsort((-left, codes[left]))]  # by file, the last step first
    firsts = np.r_[True, codes[order][1:] != codes[order][:-1]] if len(order) else order
    starts = np.maximum.accumulate(np.where(firsts, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - starts
    kept = np.zeros(len(sign), np.bool_)
    kept[order[rank < np.abs(total)[codes[order]]]] = True
    return kept


# --- Commits that touch the files of a table ------------------------------------------------------

NUL: Final = b"\0"  # no path holds it: it parts a path from what else makes a file read as it does


class View(NamedTuple):
    """What hides rows of a live file."""

    tombstones: tuple[Tombstone, ...] = ()
    rows: tuple[RowDeletes, ...] = ()


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of deletes beside the transactions.

    Attributes:
        views: By path what hides rows of files of the first state, where something may.
        met: The files of the first state of which a tombstone may hide rows.
        spared: Files that came since, perhaps with others, of which it hides none.
    """

    views: Mapping[str, View]
    met: Callable[[Tombstone], Collection[str]]
    spared: Callable[[Tombstone], Collection[str]]


class Event(NamedTuple):
    """What a commit did to a file.

    Attributes:
        name: Its path; of one that came since also its partition and schema, see `name_of`.
        before, after: What hid rows of it; None: it wasn't live.
        rewrite: Whether it came or went by what calls itself a rewrite.
    """

    name: bytes
    before: View | None
    after: View | None
    rewrite: bool


def name_of(path: str, partition: str, fingerprint: bytes) -> bytes:
    """What tells a file from others of its table: in another partition, or with another schema, it
    may read otherwise."""
    return NUL.join((path.encode(), partition.encode(), fingerprint))


class Touched:
    """Follows the commits after a first state.

    Args:
        table: Whose files.
        marks: What else is known.
        rows: By path the row deletes at the first state.
        names: Of files of the first state, by path, their names of `name_of`.
    """

    def __init__(
        self,
        table: str,
        marks: Marks,
        rows: Mapping[str, Sequence[RowDeletes]],
        names: Callable[[Sequence[str]], Mapping[str, bytes]],
    ) -> None:
        self._table = table
        self._marks = marks
        self._names_of = names
        self._deletes = Deletes(recent={(table, path): list(some) for path, some in rows.items()})
        self._now: dict[str, View | None] = {}  # of files that were touched
        self._added: dict[str, int] = {}  # of files that came: the revision that added them last
        self._new: dict[str, None] = {}  # of these, those that were not there at first
        self._names: dict[str, bytes] = {}  # of files that came
        self._begin()

    def _begin(self) -> None:
        self._old: dict[str, View | None] = {}
        self._came: dict[str, tuple[bytes, bool]] = {}  # name, and whether by a rewrite
        self._went: dict[str, bool] = {}
        self._marked: dict[str, None] = {}
        self._tombstones: list[Tombstone] = []

    # --- Within a commit --------------------------------------------------------------------------

    def come(self, path: str, name: bytes, revision: int, *, rewrite: bool) -> None:
        """A file is added by a revision."""
        if path not in self._now:
            self._new[path] = None
            self._now[path] = None
        self._old.setdefault(path, self._now[path])
        self._now[path] = View()
        self._added[path] = revision
        self._came[path] = (name, rewrite)

    def go(self, path: str, *, rewrite: bool) -> None:
        """A file is removed."""
        self._old.setdefault(path, self._view(path))
        self._now[path] = None
        self._went[path] = rewrite

    def mark(self, action: wire.Action, revision: int, number: int) -> None:
        """Takes note of an action that deletes rows; `number` is its place in the commit
        `revision`."""
        kind = action.WhichOneof("kind")
        if kind == "row_deletes":
            self._marked[action.row_deletes.path] = None
        elif kind == "tombstone":
            self._tombstones.append(tombstone_of(action.tombstone, revision, number, ""))

    def end(self, transaction: DecodedTransaction) -> Iterator[Event]:
        """The commit is over: its events."""
        self._deletes.apply(transaction)
        for path in self._marked:
            rows = self._deletes.recent.get((self._table, path), ())
            self._hide(path, rows=tuple(rows))
        for tombstone in self._tombstones:
            for path in self._met(tombstone):
                if path not in self._came:
                    self._hide(path, more=(tombstone,))
        yield from self._events()
        self._names |= {path: name for path, (name, _) in self._came.items()}
        self._begin()

    def _view(self, path: str) -> View | None:
        """What hides rows of a file by now; None: it isn't live."""
        return self._now[path] if path in self._now else self._marks.views.get(path, View())

    def _hide(
        self,
        path: str,
        *,
        rows: tuple[RowDeletes, ...] | None = None,
        more: tuple[Tombstone, ...] = (),
    ) -> None:
        view = self._view(path)
        if view is not None:
            self._old.setdefault(path, view)
            held = view.rows if rows is None else rows
            self._now[path] = View((*view.tombstones, *more), held)

    def _met(self, tombstone: Tombstone) -> Iterator[str]:
        """Files of which a tombstone may hide rows, if they are live and older."""
        for path in self._marks.met(tombstone):
            if self._added.get(path, -1) < tombstone.revision:
                yield path
        if self._new:
            spared, only = self._marks.spared(tombstone), set(tombstone.paths)
            for path in self._new:
                known = path not in spared and (not only or path in only)
                if known and self._added[path] < tombstone.revision:
                    yield path

    def _events(self) -> Iterator[Event]:
        both = [path for path in self._came if self._old[path] is not None]
        unknown = [path for path in both if path not in self._names]
        names = {**self._names_of(unknown), **self._names} if both else self._names
        for path, old in self._old.items():
            before = old
            name, after = names.get(path, path.encode()), self._now[path]
            came = self._came.get(path)
            went = self._went.get(path)
            if before is not None and came is not None and came[0] != name:
                yield Event(name, before, None, bool(went))
                before = None
            rewrite = any(one for one in (came and came[1], went) if one is not None)
            if came is not None and after is not None:
                name = came[0]
            if before != after:
                yield Event(name, before, after, rewrite and None in (before, after))
