"""What a delete would do to one log: which files go as a whole by what the log knows of them, and
which may hold such rows among others.

Source: docs/changing.md, "Deletes".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import LakelogError, OperationConflict, TableNotFound, UsageError
from ..data.hidden import Bitmaps
from ..data.scan import Projection, read_file, read_projected
from ..data.unify import FileSchema, conform, readable_columns, shown
from ..format.columns import array, is_null, numbers
from ..format.definitions import encode_definition
from ..format.names import base_folder
from ..format.schema import column_id, plain, with_column_id
from ..log.column_ids import ids_in
from ..log.deletes import Tombstone
from ..log.lookup import schemas_with
from ..log.part import in_partition
from ..parallel import parallel
from .cut_tables import CutTables
from .file_order import by_commit
from .file_parts import file_parts, keyed
from .hidden import bound_filter, with_deletes
from .row_filter import columns_of_text, row_filter
from .scan_request import Asked
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.state import State
    from .row_filter import RowFilter


def meets(wanted: RowFilter, batch: pa.RecordBatch) -> np.ndarray:
    """Per row of a batch of one file whether it meets a predicate: true, not false and not null.

    Args:
        batch: With the columns and types of the file, in whose metadata ids stand.
    """
    if wanted.expression is None and not wanted.target.names:
        rows = batch  # a constant
    else:
        own = batch.select(readable_columns(batch.schema, wanted.target))
        rows = conform(own, wanted.target)
    if wanted.expression is None:
        from ..where.emit import mask

        said = mask(wanted.predicate, rows)
        true: np.ndarray = numbers(said).astype(np.bool_) & ~is_null(said)
        return true
    name = "row"
    while name in rows.schema.names:
        name += "_"
    count = array(np.arange(batch.num_rows, dtype=np.int64))
    numbered = pa.Table.from_batches([rows]).append_column(name, count)
    met = np.zeros(batch.num_rows, np.bool_)
    met[numbers(numbered.filter(wanted.expression).column(name))] = True
    return met


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The rows of a table that an operation replaces or deletes.

    Attributes:
        table: Its name.
        where: The predicate that they meet; None: all rows.
        partition: Those of files of this one; None: of any.
        schemas: Of the files that it found, and of the data that comes.
    """

    table: str
    where: Any
    partition: str | None
    schemas: Sequence[FileSchema]

    def bound(self, more: Sequence[FileSchema] = ()) -> RowFilter | None:
        """`where` as it is meant, of files with more schemas too; None: all rows."""
        if self.where is None:
            return None
        return row_filter(self.where, [*self.schemas, *more], self.table)

    def may_hold(self, wanted: RowFilter | None, state: State, files: Files) -> list[str]:
        """The files of which rows may be asked for; any of those beside which `where` doesn't mean
        what it did.

        Args:
            wanted: What `bound` gave when the files were looked at.
            files: Some that came since.
        """
        known = schemas_with(state, [self.table])
        new = None
        try:
            new = self.bound(seen_schemas(state, self.table, files, known))
        except LakelogError:
            wanted = None  # it means nothing any more
        if new is not None and (
            wanted is None or (new.predicate, new.target) != (wanted.predicate, wanted.target)
        ):
            new = None
        found: list[str] = []
        names = [] if new is None else new.target.names
        for source in TableFacts(state, self.table, (files, known)).of_files(names):
            some = source.live if new is None else source.live & source.units.judge(new).true
            if self.partition is not None:
                here = in_partition(source.files, self.partition).to_numpy(zero_copy_only=False)
                some = some & here.astype(np.bool_)
            found += source.files.column("path").filter(array(some)).to_pylist()
        return found


def seen_schemas(state: State, table: str, files: Files, known: KnownSchemas) -> list[FileSchema]:
    """What live files show."""
    used, definition = files.fingerprints(table), state.definitions.of(table)
    entries = [entry for entry in known.of_table(table) if entry.fingerprint in used]
    return [FileSchema(shown(entry.schema, definition).schema, state.writer) for entry in entries]


_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """What a delete finds in a log.

    Attributes:
        wanted: The predicate, bound to the columns of the cut.
        tombstone: The same, as the log would hold it; None: it looks at columns that only other
            logs have, so that rows can go by their numbers alone.
        whole: Paths of files all of whose rows go.
        touched: Paths of files that may hold such rows among others.
        parts: What reading each of both takes, by path.
        live: How many tombstones the table has.
        revision: Of the state that was looked at.
        may_hold: Of some files of the table the paths of those that may hold such rows; the state
            is that which they are files of.
    """

    wanted: RowFilter
    tombstone: Tombstone | None
    whole: tuple[str, ...]
    touched: tuple[str, ...]
    parts: dict[str, FilePart]
    live: int
    revision: int
    may_hold: Callable[[State, Files], Sequence[str]]

    def without_whole(self) -> DeletePlan:
        """The same delete without letting files go as a whole."""
        return replace(self, whole=(), touched=self.whole + self.touched)


def plan_delete(
    state: State,
    table: str,
    where: str,
    gone: Collection[str] = frozenset(),
    others: Sequence[State] = (),
) -> DeletePlan:
    """Judge the live files of a table in one log by a predicate.

    Args:
        gone: Paths that are left out.
        others: Other logs of the cut whose columns the predicate is about.
    Raises:
        TableNotFound: The log doesn't know the table.
        InvalidPredicate: No predicate over it.
        SchemaConflict: Files disagree about the type of a column that it looks at.
        UsageError: No text.
    Requests: those of `Snapshot.files` with a predicate.
    """
    where = sql_text(where)
    tables = cut_with(state, others)
    schemas = tables.file_schemas(table)
    found = row_filter(where, schemas, table)
    facts = tables.facts_of(state, table)
    whole, touched = judged(facts, found, gone)
    target = columns_of_text(where, schemas, table)
    has = _has(state, table, target)
    return DeletePlan(
        wanted=found,
        tombstone=_tombstone(state, table, where, target) if has else None,
        whole=whole,
        touched=touched,
        parts=parts_by_path(tables, state, table, {*whole, *touched}),
        live=len(state.deletes.of_table(table)),
        revision=state.revision,
        may_hold=partial(AskedRows(table, where, None, schemas).may_hold, found),
    )


def cut_with(state: State, others: Sequence[State]) -> CutTables:
    """The tables of a log and of others of its database."""
    found = sorted([state, *others], key=lambda each: each.writer)
    return CutTables(state.database, found)


def refuse_unfit(tombstone: Tombstone, revision: int, state: State) -> None:
    """Hold a delete by predicate against the files that came since it looked at a log: it holds of
    them, too, and one whose types it can't look at could not be read any more.

    Args:
        revision: Of the state that it looked at.
        state: That which it is to be committed onto.
    Raises:
        OperationConflict: There is one; or the table has been dropped.
    """
    if state.revision == revision:
        return
    table = tombstone.table
    try:
        schemas = CutTables(state.database, [state]).file_schemas(table)
    except TableNotFound as error:
        raise OperationConflict(
            f"The delete of table {table!r} looked at revision {revision}, and the table has been "
            "dropped since",
            key=table,
            table=table,
            hint="Nothing was committed. There are no rows left to delete",
        ) from error
    for item in schemas:
        found = bound_filter(tombstone, item.schema)
        if isinstance(found, str):
            raise OperationConflict(
                f"The delete of table {table!r} looked at revision {revision}, and files have come "
                f"since in which column {found!r} has a type that doesn't go with that in others",
                key=table,
                table=table,
                hint="Nothing was committed. Run the transaction again: it then names the files",
            )


def sql_text(where: Any) -> str:
    """Returns a predicate that the log can hold. Raises `UsageError` if it is no text."""
    if not isinstance(where, str):
        raise UsageError(
            f"where= is SQL text, not {type(where).__name__}",
            hint='Give something like "temp > 30 AND hour < 6"',
        )
    return where


def _has(state: State, table: str, target: pa.Schema) -> bool:
    """Whether a log has all of some columns of a cut."""
    ids = ids_in(state, table, state.definitions.of(table)).ids
    return all(name in ids for name in target.names)


def _tombstone(state: State, table: str, where: str, target: pa.Schema) -> Tombstone:
    """A predicate with its columns as they are now."""
    if not len(target):
        return Tombstone(table, where, b"", 0, 0)
    known = state.definitions.of(table)
    ids = ids_in(state, table, known).ids
    columns = pa.schema([with_column_id(field, ids[field.name]) for field in target])
    given = {} if known is None else known.defaults
    defaults = {
        field.name: given[field.name].cast(plain(field.type))
        for field in target
        if field.name in given
    }
    message = encode_definition(table, columns, defaults, max(map(column_id, columns)))
    return Tombstone(table, where, message.SerializeToString(deterministic=True), 0, 0)


def judged(
    facts: TableFacts, found: RowFilter, gone: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the paths of live files all of whose rows meet a predicate, and of those of which
    some may, by the log's statistics. Those of an external file prove nothing of all its rows.

    Requests: as `TableFacts.of_files`.
    """
    whole: list[str] = []
    touched: list[str] = []
    for source in facts.of_files(found.target.names):
        some = source.units.judge(found).true & source.live
        sure = source.units.judge(found, proven=True)
        # An expression may rule out rows that the predicate lets through.
        all_true = some & ~sure.false & ~sure.null & (found.expression is None)
        paths = source.files.column("path")
        whole += paths.filter(array(all_true)).to_pylist()
        touched += paths.filter(array(some & ~all_true)).to_pylist()
    return tuple(p for p in whole if p not in gone), tuple(p for p in touched if p not in gone)


def parts_by_path(
    tables: CutTables, state: State, table: str, wanted: Collection[str]
) -> dict[str, FilePart]:
    """Some live files of a table in one log, with what hides rows of them, by path."""
    if not wanted:
        return {}
    rows, parts = bare_parts(tables, state, table, wanted)
    found = with_deletes(tables, state, Asked(table, None, None, None), rows, parts)
    return dict(zip(rows.column("path").to_pylist(), found, strict=True))


def bare_parts(
    tables: CutTables, state: State, table: str, wanted: Collection[str]
) -> tuple[pa.Table, Iterator[FilePart]]:
    """Some live files of a table in one log, by commit; and what reading each takes, whatever hides
    rows of it."""
    files, _ = tables.table_of(state, table)
    rows = by_commit(files.table(table, whole=True))
    chosen = np.array([path in wanted for path in rows.column("path").to_pylist()], np.bool_)
    rows = rows.filter(array(chosen))
    folder = base_folder(state.writer, state.database)
    parts = file_parts(rows, folder, partial(tables.shown, state, table), {}, {})
    return rows, keyed(parts, folder, state)


def matching_rows(store: Store, parts: Sequence[FilePart], wanted: RowFilter) -> list[np.ndarray]:
    """Returns per file the numbers of its rows that meet a predicate and that nothing hides yet,
    ascending. Raises as reading does.

    Requests: 1 or more GET a file.
    """
    bitmaps = Bitmaps(store)
    columns = Projection(wanted.target)

    def of_file(part: FilePart) -> np.ndarray:
        read = read_projected(store, part, columns, bitmaps)
        found = [places[meets(wanted, batch)] for batch, places in read]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    return parallel(of_file, parts, at_once=_AT_ONCE)


def visible_rows(store: Store, parts: Sequence[FilePart]) -> int:
    """How many rows of some files nothing hides.

    Requests: none for files without deletes; else 1 or more GET a file.
    """
    bitmaps = Bitmaps(store)

    def of_file(part: FilePart) -> int:
        if part.hidden is None:
            return part.row_count
        return sum(batch.num_rows for batch, _ in read_file(store, part, [], bitmaps))

    return sum(parallel(of_file, parts, at_once=_AT_ONCE))
