"""Updates within a transaction: rows of one log get other values, in the log that holds them. Their
old versions are hidden by number and the new ones written, in one commit.

Source: docs/changing.md, "Updates".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import InvalidSchema, LakelogError, UsageError, it_has
from ..data.hidden import Bitmaps
from ..data.parquet import FILE_BYTES
from ..data.scan import Projection, read_projected
from ..data.unify import unify
from ..format import compute as pc
from ..format import deletes as form
from ..format.columns import array, column, one_chunk
from ..format.names import escape_name
from ..log.build import Claim, require_actions
from ..log.partitioning import columns_of
from ..read.delete_plan import cut_with, judged, meets, parts_by_path
from ..read.file_order import by_commit
from ..read.row_filter import row_filter
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .base_transaction import Updated
from .deleting import Rows, readable_states
from .inputs import Counted
from .upserting import Upserting, newer_than, newest_clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..data.file_part import FilePart
    from ..log.files import Files
    from ..log.state import State
    from ..read.cut_tables import CutTables
    from ..read.row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The rows of one log that an update may change.

    Attributes:
        tables: Of the cut.
        state: The log's state there.
        wanted: Which rows.
        schema: The columns of the table in the cut.
        written: Those of the rows that are written: as the log has them, and such as get values.
        paths: Of the files that may hold such rows, with partition and clocks, by commit.
    """

    tables: CutTables
    state: State
    wanted: RowFilter
    schema: pa.Schema
    written: pa.Schema
    paths: pa.Table


@dataclass(slots=True)
class _Group:
    """Files of one partition, whose rows are written anew together."""

    clock: tuple[int, int]
    parts: dict[str, FilePart] = field(default_factory=dict)


class Updating(Upserting):
    """The part of a transaction that gives rows other values."""

    def update(
        self,
        table: str,
        set: Mapping[str, Any],
        where: Any,
        *,
        file_bytes: int = FILE_BYTES,
        bloom: Sequence[str] = (),
    ) -> Updated:
        """Give the rows of this writer's files that meet a predicate other values. For those of all
        writers there is `Catalog.update`.

        What is updated are rows that were committed before, as readers see them: of a table with a
        key the newest of each key. The new version of a row stands in this log, too, and takes the
        place of the old one in the same commit.

        Args:
            set: By column its new value: a constant, or a pyarrow expression over the table's
                columns.
            where: SQL text (docs/reading.md, "Predicates"), or a pyarrow expression; None: all
                rows. Rows for which it is null stay.
            file_bytes, bloom: As for `write`.
        Raises:
            TableNotFound: Nobody has such a table.
            InvalidPredicate, SchemaConflict: The predicate doesn't fit the table.
            InvalidSchema: A value doesn't fit its column.
            UsageError: There is no such column; or this transaction has changed the table before.
            OperationConflict, FileNotLive (at the commit): Rows of the table were deleted
                meanwhile, or a file with such rows is gone; or, of a table with a key, files came.
            ColumnsChanged (at the commit): Another commit has changed the columns.
            Else as `delete` by rows, and `write`. After an error later than these the transaction
            is lost.
        Requests: those of `Catalog.snapshot`; of `Snapshot.files` with `where`; 1 or more GET for
            each file that may hold such rows; 1 PUT a file, and 1 for 4,096 files of which rows are
            replaced.
        """
        with self._intent.asking():
            others = readable_states(self._session)
            return self._update(table, set, where, others, file_bytes=file_bytes, bloom=bloom)

    def _update(
        self, table: str, values: Mapping[str, Any], where: Any, others: Sequence[State],
        **options: Any,
    ) -> Updated:  # fmt: skip
        """Updates rows of this log; `others` are the other logs of the cut."""
        self._check_open("row_delta")
        self._session.refuse_fenced()
        table = value_of(table)
        escape_name(table, "table")
        self._intent.refuse_begun(table)
        if table in self._added.values():
            raise UsageError(
                f"This transaction has added files to table {table!r}, whose rows can't be updated",
                key=table,
                hint="Commit it, and update in another transaction",
            )

        def planned(state: State) -> UpdatePlan:
            return plan_update(state, others, table, values, where)

        plan = self._session.ask_anew(planned)
        plan = replace(plan, written=self._own.with_not_null(table, plan.written, refuses=False))
        assigned = Assigned(values, plan.schema)
        clock = _clock_above(plan, table, self._session.clock())
        rows = 0
        paths: list[str] = []
        replaced: dict[str, FilePart] = {}
        matching: list[np.ndarray] = []
        with self._operation_guard.doing("update", table):
            for partition, group in _groups(self._session.wide, plan, table).items():
                found = _Found(self._session.wide, plan, group, assigned)
                given = {"partition": partition} | _moved(partition, values)
                new = Counted(iter(found))
                if new.any():
                    paths += self._written(
                        table, plan.written, new, clock=clock or group.clock, on_conflict="allow",
                        **given, **options,
                    )  # fmt: skip
                    rows += new.rows
                replaced |= group.parts
                matching += found.numbers
            gone = Rows(
                self._session, table, replaced, matching,
                revision=plan.state.revision, stay=partial(self._files_stay, table),
            )  # fmt: skip
            self._replace(table, gone, minds_new_files=clock is not None)
        return Updated(rows, len(gone.whole), len(gone.bitmaps), tuple(paths))

    def _replace(self, table: str, gone: Rows, *, minds_new_files: bool) -> None:
        """Take rows out that others of this transaction take the place of.

        Args:
            minds_new_files: Whether files that came since are in conflict with it: of a table with
                a key they may have newer versions of the rows.
        """
        actions = [wire.Action(remove=wire.Remove(path=path, table=table)) for path in gone.whole]
        if gone.bitmaps:
            actions += require_actions([form.ROW_DELETES])
            actions += self._objects(gone.bitmaps, actions)
        self._message_size.take(actions)
        self._removed.update(dict.fromkeys((table, path) for path in gone.whole))
        self._intent.counted.update({(table, path): gone.revision for path in gone.whole})
        self._intent.actions.extend(actions)
        came = partial(_all_files, table) if minds_new_files else None
        self._intent.claims.append(Claim(table, gone.revision, "rows of any key", came))


def plan_update(
    state: State, others: Sequence[State], table: str, values: Mapping[str, Any], where: Any
) -> UpdatePlan:
    """Find the files of a log that may hold rows to be updated.

    Raises: As `Updating.update`.
    Requests: those of `Snapshot.files` with a predicate.
    """
    tables = cut_with(state, others)
    schemas = tables.file_schemas(table)
    schema = unify(schemas, table)
    lacking = [name for name in values if name not in schema.names]
    if lacking or not values:
        raise UsageError(
            f"Table {table!r} has no column {lacking[0]!r}" if lacking else "No column is set",
            key=lacking[0] if lacking else table,
            hint=it_has(lacking[0] if lacking else "", schema.names),
        )
    wanted = row_filter("TRUE" if where is None else where, schemas, table)
    whole, partly = judged(tables.facts_of(state, table), wanted, ())
    rows = by_commit(tables.table_of(state, table)[0].table(table, whole=True))
    chosen = pc.is_in(rows.column("path"), column([*whole, *partly], pa.string()))
    names = ["path", "partition", "first_clock", "last_clock"]
    written = columns_as_written(tables, state, table, schema, values)
    return UpdatePlan(tables, state, wanted, schema, written, rows.filter(chosen).select(names))


def columns_as_written(
    tables: CutTables, state: State, table: str, schema: pa.Schema, values: Collection[str]
) -> pa.Schema:
    """The columns of a cut as a log has them; of those that it hasn't such as get values."""
    own = unify(tables.file_schemas(table, state.writer), table)
    fields = []
    for each in schema:
        if each.name in own.names:
            fields.append(own.field(each.name))
        elif each.name in values:
            fields.append(each)
    return pa.schema(fields)


def _groups(store: Any, plan: UpdatePlan, table: str) -> dict[str, _Group]:
    """The files by partition, each with all that hides rows of it."""
    found = parts_by_path(
        plan.tables, plan.state, table, set(plan.paths.column("path").to_pylist())
    )
    parts = plan.tables.resolved(store, table, [(plan.state, list(found.values()))])
    by_path = dict(zip(found, parts, strict=True))
    groups: dict[str, _Group] = {}
    for path, partition, low, high in zip(
        *(plan.paths.column(n).to_pylist() for n in plan.paths.schema.names), strict=True
    ):
        group = groups.setdefault(partition, _Group((low, high)))
        group.clock = (min(group.clock[0], low), max(group.clock[1], high))
        group.parts[path] = by_path[path]
    return groups


def _moved(partition: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """How rows are written whose partition's name tells of columns that get other values."""
    if not partition:
        return {"partition_by": ()}
    by = columns_of(partition)
    return {} if set(by).isdisjoint(values) else {"partition": "", "partition_by": by}


def _clock_above(plan: UpdatePlan, table: str, now: tuple[int, int]) -> tuple[int, int] | None:
    """A clock above those of all rows of a table with a key, whoever wrote them; None: it has no
    key."""
    if plan.tables.keys_of(table) is None:
        return None
    return newer_than(newest_clock(plan.tables.states, table), now)


def _all_files(table: str, _: State, files: Files) -> list[str]:
    found: list[str] = files.table(table).column("path").to_pylist()
    return found


class Assigned:
    """The new values of columns. Raises `InvalidSchema` if a constant doesn't fit its column.

    Args:
        values: By column a constant, or a pyarrow expression.
        schema: The columns of the table.
    """

    def __init__(self, values: Mapping[str, Any], schema: pa.Schema) -> None:
        self._constants: dict[str, pa.Scalar] = {}
        self._expressions: dict[str, Any] = {}
        for name, value in values.items():
            if _is_expression(value):
                self._expressions[name] = value
                continue
            kind = schema.field(name).type
            try:
                given = value if isinstance(value, pa.Scalar) else column([value], kind)[0]
                self._constants[name] = given.cast(kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise _misfit(name, kind, error) from error

    def of(self, batch: pa.RecordBatch, written: pa.Schema) -> pa.RecordBatch:
        """Returns changed rows, with the columns that are written. Raises `InvalidSchema` if a
        value doesn't fit its column."""
        computed = self._computed(batch)
        columns = []
        for each in written:
            if each.name in self._constants:
                values = pa.repeat(self._constants[each.name], batch.num_rows)
            elif each.name in computed:
                values = computed[each.name]
            else:
                values = batch.column(batch.schema.get_field_index(each.name))
            try:
                columns.append(values if values.type == each.type else values.cast(each.type))
            except pa.ArrowException as error:
                raise _misfit(each.name, each.type, error) from error
        return pa.RecordBatch.from_arrays(columns, schema=written)

    def _computed(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        if not self._expressions:
            return {}
        import pyarrow.dataset as ds

        try:
            rows = ds.dataset(pa.Table.from_batches([batch]))
            found = rows.to_table(columns=self._expressions).combine_chunks()
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise UsageError(
                f"pyarrow can't compute new values: {error}",
                hint="Nothing becomes visible. Use columns of the table, and functions of their "
                "types",
            ) from error
        return {name: one_chunk(found.column(name)) for name in found.schema.names}


class _Found:
    """The rows of a group of files that are updated, with their new values; afterwards `numbers`
    has the numbers of the rows of each file."""

    def __init__(self, store: Any, plan: UpdatePlan, group: _Group, assigned: Assigned) -> None:
        self._store = store
        self._plan = plan
        self._group = group
        self._assigned = assigned
        self.numbers: list[np.ndarray] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        plan, bitmaps = self._plan, Bitmaps(self._store)
        columns = Projection(plan.schema)
        for part in self._group.parts.values():
            found = [np.zeros(0, np.int64)]
            for batch, places in read_projected(self._store, part, columns, bitmaps):
                met = meets(plan.wanted, batch)
                found.append(places[met])
                if met.any():
                    yield self._assigned.of(batch.filter(array(met)), plan.written)
            self.numbers.append(np.concatenate(found))


def _is_expression(value: Any) -> bool:
    if type(value).__module__.split(".")[0] != "pyarrow":
        return False
    import pyarrow.compute

    return isinstance(value, pyarrow.compute.Expression)


def _misfit(name: str, kind: pa.DataType, error: Exception) -> LakelogError:
    return InvalidSchema(
        f"Column {name!r} is {kind}, and can't be set so: {error}",
        key=name,
        hint="Nothing becomes visible. Give a value of its type, or widen the column "
        "(catalog.evolve)",
    )
