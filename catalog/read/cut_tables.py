"""The tables of a cut: what each log of it knows of their files and schemas, each read once.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import (
    CorruptError,
    SchemaConflict,
    TableNotFound,
    UnsupportedFeature,
    UsageError,
    WriterNotFound,
    it_has,
    some_names,
)
from ..data.unify import FileSchema, distinct, only, shown, unify
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.names import is_text
from ..format.segments import SCHEMAS
from ..log.known_schemas import KnownSchemas, decode_schemas
from ..scalars import value_of
from ..where.tree import DAY_S, PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.unify import Shown
    from ..format.pieces import Piece
    from ..log.files import Files
    from ..log.known_schemas import SchemaEntry
    from ..log.state import State
    from ..where.outcomes import Facts
    from .keys import TableKeys
    from .table_facts import TableFacts


class TablesWarning(UserWarning):
    """Names of some tables can't be listed, since what holds them is damaged."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A range of names that can't be listed.

    Attributes:
        first, last: Of the range; no last: without end.
        error: Why.
    """

    first: str
    last: str | None
    error: CorruptError

    def holds(self, name: str) -> bool:
        """Whether a name is in the range."""
        above = self.last is not None and name.encode() > self.last.encode()
        return self.first.encode() <= name.encode() and not above

    def within(self, other: Unlisted) -> Unlisted | None:
        """What both ranges share, or None; the reason is its own, unless the other is too new."""
        first = max(self.first, other.first, key=str.encode)
        ends = [end for end in (self.last, other.last) if end is not None]
        last = min(ends, key=str.encode, default=None)
        is_newer = isinstance(other.error, UnsupportedFeature)
        shared = Unlisted(first, last, other.error if is_newer else self.error)
        return shared if last is None or shared.holds(last) else None


def table_names(state: State) -> set[str]:
    """Returns the tables that a log knows a schema of; warns of ranges that can't be listed. Raises
    `CorruptError` if none can be: the names of the segments are damaged, or too new."""
    names, unlisted = listed_tables(state)
    for one in unlisted:
        if one.last is None:
            raise one.error
        warnings.warn(
            f"The tables of {state.writer}/{state.database} from {one.first!r} to {one.last!r} "
            f"can't all be listed: {one.error.message}",
            TablesWarning,
            stacklevel=3,
        )
    return names


def listed_tables(state: State) -> tuple[set[str], list[Unlisted]]:
    """The tables that a log knows a schema of, and the ranges of names in which there may be more:
    no base tells."""
    try:
        return state.schemas.tables(), []
    except CorruptError as error:
        first = error
    probe = state.copy()
    names, left = _at_base(probe)
    while left and not any(isinstance(one.error, UnsupportedFeature) for one in left):
        try:
            probe.fall_back(first)
        except CorruptError:
            break
        found, faults = _at_base(probe)
        names.update(name for name in found if any(one.holds(name) for one in left))
        left = [both for one in left for fault in faults if (both := one.within(fault))]
    return names, left


def _at_base(state: State) -> tuple[set[str], list[Unlisted]]:
    """What the present base of a state, and the transactions since, say of tables; and what of the
    base can't be used."""
    known = KnownSchemas()
    faults: list[Unlisted] = []
    pieces: list[Piece] = []
    try:
        pieces = state.of_kind(SCHEMAS)
    except CorruptError as error:
        faults.append(Unlisted("", None, error))
    for piece in pieces:
        try:
            assert state.base is not None
            data = state.bytes_of([piece])[0]
            known.load(decode_schemas(data, piece, state.base.message.revision), piece.where)
        except CorruptError as error:
            said = piece.segment
            faults.append(Unlisted(said.first_table, said.last_table, error))
    for transaction in state.tail:
        known.apply(transaction)
    return known.tables(), faults


class CutTables:
    """The tables of one database at a cut: the states of the logs, by writer."""

    def __init__(self, database: str, states: Sequence[State]) -> None:
        self.database = database
        self.states = states
        self._tables: dict[tuple[str, str], tuple[Files, KnownSchemas]] = {}
        self._schemas: dict[tuple[str, str], list[SchemaEntry]] = {}
        self._shown: dict[tuple[str, str, bytes], Shown] = {}
        self._of_files: dict[tuple[str, str | None], list[FileSchema]] = {}
        self._facts: dict[tuple[str, str], TableFacts] = {}
        self._keys: dict[str, TableKeys | None] = {}
        self._reading = RLock()

    def names(self) -> list[str]:
        """Names of the tables, sorted."""
        return sorted({name for state in self.states for name in table_names(state)})

    def of_writer(self, writer: str | None) -> Sequence[State]:
        """Returns the log of one writer, or all. Raises `WriterNotFound`."""
        if writer is None:
            return self.states
        found = [state for state in self.states if state.writer == writer]
        if not found:
            raise WriterNotFound(
                f"Writer {writer!r} has committed nothing to {self.database!r} at this point in "
                "time",
                key=str(writer),
                hint=f"These have: {some_names([state.writer for state in self.states])}",
            )
        return found

    def check(self, table: str, partition: str | None = None) -> None:
        """Raises `TableNotFound` if the cut doesn't know a table, `UsageError` if the name is no
        text, and `CorruptObject` if the cut may know it, and can't be read."""
        for what, name in (("table", table), ("partition", "" if partition is None else partition)):
            if not is_text(name):
                raise UsageError(
                    f"The name of a {what} is text, not {name!r}",
                    hint="Give it as valid Unicode",
                )
        if any(self.schemas_of(state, table) for state in self.states):
            return
        for state in self.states:  # it may have files: such a table is there, and can't be used
            self.table_of(state, table)
        if not any(self.schemas_of(state, table) for state in self.states):
            raise TableNotFound(
                f"Database {self.database!r} has no table {table!r} at this point in time",
                key=table,
                hint=it_has(table, self.names()),
            )

    def table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        """The files and schemas of a table in one log, of one base, read once; those of a partition
        are not kept."""
        key = (state.writer, table)
        if partition is not None and key not in self._tables:
            return state.table_of(table, partition)
        with self._reading:  # threads that ask for one table read it once
            if key not in self._tables:
                self._tables[key] = found = state.table_of(table)
                self._schemas[key] = found[1].of_table(table)
            return self._tables[key]

    def facts_of(self, state: State, table: str, partition: str | None = None) -> TableFacts:
        """What one log knows of the columns of a table's files; kept as `table_of` is."""
        from .table_facts import TableFacts

        of = self.table_of(state, table, partition)
        key = (state.writer, table)
        if of is not self._tables.get(key):
            return TableFacts(state, table, of)
        return self._facts.setdefault(key, TableFacts(state, table, of))

    def schemas_of(self, state: State, table: str) -> list[SchemaEntry]:
        """What one log knows of a table, oldest first, read once."""
        key = (state.writer, table)
        with self._reading:
            if key not in self._schemas:
                self._schemas[key] = state.schemas_of(table).of_table(table)
            return self._schemas[key]

    def shown(self, state: State, table: str, fingerprint: bytes) -> Shown:
        """Returns what files of a schema show in one log. Raises `CorruptObject` if the schema, or
        the definition of the table's columns, can't be read."""
        key = (state.writer, table, fingerprint)
        with self._reading:
            if key not in self._shown:
                definition = state.definitions.of(table)
                for entry in self.schemas_of(state, table):
                    if entry.fingerprint == fingerprint:
                        self._shown[key] = shown(entry.schema, definition)
            return self._shown[key]

    def leaves_out(self, table: str) -> bool:
        """Whether some live files of a table are left out."""
        return False

    def keys_of(self, table: str) -> TableKeys | None:
        """Returns the keys of a table, or None. Raises `SchemaConflict` if logs give it different
        ones."""
        with self._reading:
            if table not in self._keys:
                from .keys import TableKeys, table_key

                key = table_key(self.states, table)
                self._keys[table] = TableKeys(self, table, key) if key else None
            return self._keys[table]

    def touched(self, table: str) -> int:
        """How many files of a table may hold a key that another row has.

        Requests: 1 GET for each piece of statistics of the columns of the key, the first time.
        """
        keys = self.keys_of(table)
        return 0 if keys is None else keys.touched()

    def key_files(self, state: State, table: str, files: Sequence[str]) -> list[int]:
        """Per file of a log among how many its keys are resolved; 0: they are known, or there is no
        key. See `touched`."""
        keys = self.keys_of(table)
        return [0] * len(files) if keys is None else keys.meeting(state.writer, files)

    def resolved(
        self, store: Store, table: str, asked: Sequence[tuple[State, Sequence[FilePart]]]
    ) -> list[FilePart]:
        """Files of a table that are asked for, by log; where it has a key, each with the rows that
        newer ones supersede. See `TableKeys.resolved`."""
        keys = self.keys_of(table)
        if keys is None:
            return [part for _, parts in asked for part in parts]
        return keys.resolved(store, asked)

    def file_schemas(self, table: str, writer: str | None = None) -> list[FileSchema]:
        """Returns the schemas of the live files of a table (of one writer); of former ones where
        there are none. Raises `TableNotFound` or `WriterNotFound`."""
        table, writer = value_of(table), value_of(writer)
        self.check(table)
        states = self.of_writer(writer)

        def found(*, live: bool) -> list[FileSchema]:
            return [item for state in states for item in self._schemas_in(state, table, live=live)]

        if (table, writer) not in self._of_files:
            live = found(live=True)
            self._of_files[table, writer] = distinct(live or found(live=False))
        return self._of_files[table, writer]

    def _schemas_in(self, state: State, table: str, *, live: bool) -> list[FileSchema]:
        """A log's schemas of a table, oldest first; only those of live files, if so asked."""
        used = self.table_of(state, table)[0].fingerprints(table) if live else None
        entries = self.schemas_of(state, table)
        if used is not None:
            entries = [entry for entry in entries if entry.fingerprint in used]
        return [self._file_schema(state, table, entry.fingerprint) for entry in entries]

    def _file_schema(self, state: State, table: str, fingerprint: bytes) -> FileSchema:
        example = partial(self._example, state, table, fingerprint)
        return FileSchema(self.shown(state, table, fingerprint).schema, state.writer, example)

    def _example(self, state: State, table: str, fingerprint: bytes) -> str:
        """The path of a live file with a schema; nothing if there is none."""
        rows = self.table_of(state, table)[0].table(table)
        same = pc.equal(rows.column("schema_fingerprint"), column([fingerprint], pa.binary(16))[0])
        return min(rows.filter(same).column("path").to_pylist(), default="")


# --- Tables without the files whose types conflict ------------------------------------------------

_NAMED: Final = 5  # files of one writer: there may be very many


class ConflictWarning(UserWarning):
    """Files of a table are left out, as their types conflict with those of others."""


class AgreeingTables(CutTables):
    """Tables of which each file can be read together with the others: of two that can't the one
    stays that comes first in the order of docs/format.md, section 5.3; and of times that the finest
    unit of their column doesn't hold none does, as far as statistics tell. A file is left out as a
    whole, whichever columns are asked for; of a table with a key its rows still supersede others.

    Warns:
        ConflictWarning: Once a table: why, and which files.
    """

    def __init__(self, database: str, states: Sequence[State]) -> None:
        super().__init__(database, states)
        self._lost: dict[str, dict[str, set[bytes]]] = {}
        self._far: dict[str, dict[str, set[str]]] = {}
        self._of_key: dict[str, CutTables] = {}
        self._whole = CutTables(database, states)

    def leaves_out(self, table: str) -> bool:
        """Whether some live files of a table are left out."""
        return bool(self._left_out(table) or self._far[table])

    def keys_of(self, table: str) -> TableKeys | None:
        """As in `CutTables`: by the rows of all files but those whose key has other types than that
        of the files that are read: no row of the one is a row of the other's key."""
        found = self._whole.keys_of(table)
        if found is None or not self.leaves_out(table):
            return found
        with self._reading:
            if table not in self._of_key:
                lost = self._of_other_keys(table, found.key)
                self._of_key[table] = _Without(self.database, self.states, lost)
            return self._of_key[table].keys_of(table)

    def _of_other_keys(self, table: str, key: Sequence[str]) -> dict[str, set[bytes]]:
        """Of the files that are left out those whose key can't be united with that of the rest."""
        kept: list[FileSchema] = []
        lost: dict[str, set[bytes]] = {}
        items = list(self._used(table))
        for left_out in (False, True):
            for writer, fingerprint, item in items:
                if (fingerprint in self._left_out(table).get(writer, ())) != left_out:
                    continue
                own = pa.schema([field for field in item.schema if field.name in key])
                try:
                    unify([*kept, FileSchema(own, writer)], table)
                    kept.append(FileSchema(own, writer))
                except SchemaConflict:
                    lost.setdefault(writer, set()).add(fingerprint)
        return lost

    def table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        """As in `CutTables`, with the files that agree."""
        files, known = super().table_of(state, table, partition)
        lost = self._left_out(table).get(state.writer, set())
        far = self._far[table].get(state.writer, set())
        return (_without(files, table, lost, far), known) if lost or far else (files, known)

    def _used(self, table: str) -> Iterator[tuple[str, bytes, FileSchema]]:
        """The schemas of all live files, in their order: writer, fingerprint and what it shows."""
        for state in self.states:
            used = super().table_of(state, table)[0].fingerprints(table)
            for entry in self.schemas_of(state, table):
                if entry.fingerprint in used:
                    item = self._file_schema(state, table, entry.fingerprint)
                    yield state.writer, entry.fingerprint, item

    def _left_out(self, table: str) -> dict[str, set[bytes]]:
        """By writer the schemas whose files are left out."""
        with self._reading:
            if table not in self._lost:
                self._lost[table], self._far[table] = {}, {}  # meanwhile nothing is left out
                lost, kept = self._conflicting(table)
                self._far[table] = self._beyond(table, kept)
                self._lost[table] = lost
            return self._lost[table]

    def _conflicting(self, table: str) -> tuple[dict[str, set[bytes]], list[FileSchema]]:
        kept: list[FileSchema] = []
        lost: dict[str, set[bytes]] = {}
        for writer, fingerprint, item in self._used(table):
            try:
                unify([*kept, item], table)
                kept.append(item)
            except SchemaConflict as error:
                lost.setdefault(writer, set()).add(fingerprint)
                state = next(one for one in self.states if one.writer == writer)
                files = super().table_of(state, table)[0].table(table)
                same = _are_of(files.column("schema_fingerprint"), {fingerprint})
                _warn(error.message, files.filter(same))
        return lost, kept

    def _beyond(self, table: str, kept: Sequence[FileSchema]) -> dict[str, set[str]]:
        """By writer the paths of files with times that the unit of their column doesn't hold."""
        from .table_facts import TableFacts

        kinds: dict[str, set[str]] = {}
        for item in kept:
            for field in item.schema:
                if pa.types.is_timestamp(field.type) or pa.types.is_date32(field.type):
                    kinds.setdefault(field.name, set()).add(str(field.type))
        names = [name for name, own in kinds.items() if len(own) > 1]
        found: dict[str, set[str]] = {}
        if not names:
            return found
        read = only(unify(kept, table), set(names))
        for state in self.states:
            of = super().table_of(state, table)
            files = of[0].table(table)
            far = [np.zeros(0, np.bool_)]
            for source in TableFacts(state, table, of).of_files(names):
                own = np.zeros(len(source.live), np.bool_)
                for members, facts in source.units.by_schema(read):
                    for field in read:
                        own[members] |= _is_beyond(facts(field.name), field.type)
                far.append(own[source.live])
            beyond = files.filter(array(np.concatenate(far)))
            if beyond.num_rows:
                found[state.writer] = set(beyond.column("path").to_pylist())
                said = (
                    f"Files of {state.writer!r} hold times beyond {', '.join(map(str, read.types))}"
                )
                _warn(f"{said} in {', '.join(names)} of table {table!r}", beyond)
        return found


class _Without(CutTables):
    """Tables without the files of some schemas, by writer, of the one that is asked for."""

    def __init__(
        self, database: str, states: Sequence[State], lost: Mapping[str, set[bytes]]
    ) -> None:
        super().__init__(database, states)
        self._lost = lost

    def table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        files, known = super().table_of(state, table, partition)
        lost = self._lost.get(state.writer)
        return (_without(files, table, lost), known) if lost else (files, known)


def _is_beyond(facts: Facts, wanted: pa.DataType) -> np.ndarray:
    """Per file whether it holds times that a unit doesn't, by what is known of it."""
    beyond: np.ndarray = np.zeros(len(facts.rows), np.bool_)
    if facts.low is None or facts.high is None or facts.kind is None:
        return beyond
    finer = PER_SECOND[wanted.unit]
    if pa.types.is_date32(facts.kind):
        finer *= DAY_S
    else:
        finer //= PER_SECOND[facts.kind.unit]
    if finer > 1:
        most = (1 << 63) // finer
        beyond |= facts.high.known & (np.asarray(facts.high.values) > most)
        beyond |= facts.low.known & (np.asarray(facts.low.values) < -most)
    return beyond


def _warn(why: str, rows: pa.Table) -> None:
    paths = sorted(rows.column("path").to_pylist())
    count = int(numbers(rows.column("row_count")).sum())
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    warnings.warn(
        f"{why}: left out are {count:,} rows of {', '.join(paths[:_NAMED])}{more}",
        ConflictWarning,
        stacklevel=2,
    )


def _are_of(fingerprints: pa.ChunkedArray, wanted: Set[bytes]) -> pa.ChunkedArray:
    return pc.is_in(fingerprints, column(sorted(wanted), pa.binary(16)))


def _without(files: Files, table: str, lost: Set[bytes], paths: Set[str] = frozenset()) -> Files:
    """Files of a table without those of some schemas, and some more."""
    gone = column(sorted(paths), pa.string())
    found = files.copy()
    for part in found.parts:
        if table in part.run.ranges:
            start, end = part.run.ranges[table]
            names = part.run.core.column("schema_fingerprint").slice(start, end - start)
            dead = np.zeros(part.run.rows, np.bool_) if part.dead is None else part.dead.copy()
            dead[start:end] |= numbers(_are_of(names, lost))
            if paths:
                own = part.run.core.column("path").slice(start, end - start)
                dead[start:end] |= numbers(pc.is_in(own, gone))
            part.dead = dead
    added = found.added.get(table, {})
    found.added[table] = {
        path: held
        for path, held in added.items()
        if held[0].schema_fingerprint not in lost and path not in paths
    }
    return found
