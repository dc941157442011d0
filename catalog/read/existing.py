"""The rows of a table that are there at a cut, file by file, in an order that doesn't change.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ..data.unify import FileSchema, distinct
from ..format import compute as pc
from ..format.columns import text_scalar
from ..log.steps import INSERT
from .commits_between import Found, told_columns
from .delete_plan import parts_by_path
from .step_rows import RowStep, Seen, Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.state import State
    from .cut_tables import CutTables

_GONE: Final = Seen(is_live=False)
_ORDER: Final = ("first_clock", "writer", "path", "partition")


class Existing:
    """The files of a table at a cut.

    Args:
        store: A `WideStore`.
        tables: Of the cut.
    """

    def __init__(self, store: Store, tables: CutTables, table: str) -> None:
        self._store = store
        self._tables = tables
        self._table = table

    @cached_property
    def files(self) -> pa.Table:
        """Its files, with `writer`, `path` and `size_bytes`; the oldest rows first.

        Raises:
            CorruptObject: They can't be told.
        """
        found = []
        for state in self._states:
            rows = self._tables.table_of(state, self._table)[0].table(self._table, whole=True)
            names = ["path", "partition", "size_bytes", "first_clock"]
            writers = pa.repeat(text_scalar(state.writer), rows.num_rows)
            found.append(rows.select(names).append_column("writer", writers))
        if not found:
            names = ["path", "partition", "size_bytes", "first_clock", "writer"]
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        keys = [(name, "ascending") for name in _ORDER]
        rows = pa.concat_tables(found)
        return rows.take(pc.sort_indices(rows, sort_keys=keys))

    @property
    def _states(self) -> list[State]:
        return [s for s in self._tables.states if self._tables.schemas_of(s, self._table)]

    def steps(self, start: int, end: int, told: CutTables) -> tuple[Found, list[FileSchema]]:
        """Some of these files, as if they were inserted, by no commit; and their schemas.

        Args:
            start, end: Which of `files`.
            told: The tables of the cut by whose columns rows are told: this one or a later one.
        Raises, Requests: As for `Snapshot.file_parts`.
        """
        chosen = self.files.slice(start, end - start)
        asked: list[tuple[State, Sequence[FilePart]]] = []
        for state in self._states:
            own = chosen.filter(pc.equal(chosen.column("writer"), text_scalar(state.writer)))
            paths = own.column("path").to_pylist()
            there = parts_by_path(self._tables, state, self._table, set(paths))
            asked.append((state, [there[path] for path in paths]))
        resolved = iter(self._tables.resolved(self._store, self._table, asked))
        steps: list[RowStep] = []
        schemas: list[FileSchema] = []
        for state, parts in asked:
            columns = told_columns(told, state, self._table)
            for _ in parts:
                part = next(resolved)
                form = columns.shown(part.schema)
                schemas.append(FileSchema(form.schema, state.writer, partial(str, part.key)))
                seen = Seen(is_live=True, hidden=part.hidden)
                file = (state.writer, part.key, part.partition)
                part = replace(part, shown=form, hidden=None)
                stamp = Stamp(state.writer, None, None)
                steps.append(RowStep(state.writer, file, part, INSERT, _GONE, seen, stamp))
        return Found(steps, lambda _: (), {}), distinct(schemas)
