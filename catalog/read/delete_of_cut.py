"""What a delete of rows of all writers' files would do: which files it may meet, and the tombstones
that say it.

A predicate means one thing over a whole cut, but logs may call a column by different names: each
tombstone names the logs in which its columns are called the same.

Source: docs/changing.md, "Deletes in the files of all writers"; docs/format.md, section 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import UsageError
from ..format.definitions import encode_definition
from ..format.schema import column_id
from ..format.widening import plain
from ..log.column_ids import ids_in
from ..log.deletes import LogAt, Tombstone
from .delete_plan import judged, parts_by_path, sql_text
from .row_filter import columns_of_text, row_filter

if TYPE_CHECKING:
    from ..data.file_part import FilePart
    from ..log.state import State
    from .cut_tables import CutTables


@dataclass(frozen=True, slots=True)
class CutDelete:
    """What a delete finds in a cut.

    Attributes:
        tombstones: The predicate, as a log would hold it; none if no file may hold such rows.
        touched: By writer the paths of files that may hold such rows.
    """

    tombstones: tuple[Tombstone, ...]
    touched: dict[str, tuple[str, ...]]

    @property
    def files(self) -> int:
        """How many files may hold such rows."""
        return sum(map(len, self.touched.values()))

    def parts(self, tables: CutTables, table: str) -> list[tuple[Tombstone, list[FilePart]]]:
        """What reading these files takes, by tombstone.

        Args:
            tables: Of the cut that it was planned for.
        """
        found = []
        for item in self.tombstones:
            ids = {at.log_id for at in item.logs}
            states = [state for state in tables.states if state.log and state.log.log_id in ids]
            parts = [
                part
                for state in states
                for part in parts_by_path(
                    tables, state, table, self.touched.get(state.writer, ())
                ).values()
            ]
            found.append((item, parts))
        return found


def plan_delete_of_cut(tables: CutTables, table: str, where: str) -> CutDelete:
    """Judge the live files that a table has in a cut by a predicate.

    Raises:
        TableNotFound: The cut doesn't know the table.
        InvalidPredicate: No predicate over it.
        SchemaConflict: Files disagree about the type of a column that it looks at.
        UsageError: No text.
    Requests: those of `Snapshot.files` with a predicate.
    """
    schemas = tables.file_schemas(table)
    found = row_filter(sql_text(where), schemas, table)
    target = columns_of_text(where, schemas, table)
    touched: dict[str, tuple[str, ...]] = {}
    logs: dict[bytes, list[LogAt]] = {}
    for state in tables.states:
        if not tables.table_of(state, table)[0].table(table).num_rows:
            continue
        whole, partly = judged(tables.facts_of(state, table), found, ())
        if whole or partly:
            touched[state.writer] = whole + partly
        logs.setdefault(_columns(tables, state, table, target), []).append(_log_at(state))
    if not touched:
        return CutDelete((), {})
    tombstones = []
    for columns, places in logs.items():
        named = tuple(sorted(places, key=lambda at: at.log_id))
        if len({at.log_id for at in named}) < len(named):
            raise UsageError(
                "The cut names two copies of one log: a delete can't tell them apart",
                key=table,
                hint="Give a cut of one of them",
            )
        tombstones.append(Tombstone(table, where, columns, 0, 0, logs=named))
    return CutDelete(tuple(tombstones), touched)


def _log_at(state: State) -> LogAt:
    assert state.log is not None, "the log has a revision"
    return LogAt(
        state.writer,
        state.log.log_id,
        state.log.incarnation,
        state.revision,
        state.transaction_id,
        state.committed_at_us,
    )


def _columns(tables: CutTables, state: State, table: str, target: pa.Schema) -> bytes:
    """The columns of a predicate over a cut, as the files of one log have them."""
    if not len(target):
        return b""
    known = state.definitions.of(table)
    ids = ids_in(state, table, known)
    columns = pa.schema([ids.stamped(field) for field in target])  # no file has one that is new
    defaults = {} if known is None else known.defaults
    cast = {
        field.name: defaults[field.name].cast(plain(field.type))
        for field in target
        if field.name in defaults
    }
    message = encode_definition(table, columns, cast, max(map(column_id, columns)))
    return message.SerializeToString(deterministic=True)
