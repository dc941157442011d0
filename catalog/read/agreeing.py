"""The tables of a cut without the files whose types conflict with those of others.

Source: docs/changing.md, "Schemas".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import SchemaConflict
from ..data.unify import FileSchema, unify
from ..format import compute as pc
from ..format.columns import column, numbers
from .cut_tables import CutTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.state import State
    from .keys import TableKeys

_NAMED: Final = 5  # files of one writer: there may be very many


class ConflictWarning(UserWarning):
    """Files of a table are left out, as their types conflict with those of others."""


class AgreeingTables(CutTables):
    """Tables of which each file can be read together with the others: of two that can't the one
    stays that comes first in the order of docs/format.md, section 5.3. A file is left out as a
    whole, whichever columns are asked for; of a table with a key its rows still supersede others.

    Warns:
        ConflictWarning: Once a table: why, and which files.
    """

    def __init__(self, database: str, states: Sequence[State]) -> None:
        super().__init__(database, states)
        self._lost: dict[str, dict[str, set[bytes]]] = {}
        self._of_key: dict[str, CutTables] = {}
        self._whole = CutTables(database, states)

    def leaves_out(self, table: str) -> bool:
        """Whether some live files of a table are left out."""
        return bool(self._left_out(table))

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
        lost = self._left_out(table).get(state.writer)
        return (_without(files, table, lost), known) if lost else (files, known)

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
                self._lost[table] = {}  # while this is found out nothing is left out
                self._lost[table] = self._conflicting(table)
            return self._lost[table]

    def _conflicting(self, table: str) -> dict[str, set[bytes]]:
        kept: list[FileSchema] = []
        lost: dict[str, set[bytes]] = {}
        for writer, fingerprint, item in self._used(table):
            try:
                unify([*kept, item], table)
                kept.append(item)
            except SchemaConflict as error:
                lost.setdefault(writer, set()).add(fingerprint)
                state = next(one for one in self.states if one.writer == writer)
                _warn(error, super().table_of(state, table)[0], table, fingerprint)
        return lost


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


def _warn(error: SchemaConflict, files: Files, table: str, fingerprint: bytes) -> None:
    rows = files.table(table)
    rows = rows.filter(_are_of(rows.column("schema_fingerprint"), {fingerprint}))
    paths = sorted(rows.column("path").to_pylist())
    count = int(numbers(rows.column("row_count")).sum())
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    warnings.warn(
        f"{error.message}: left out are {count:,} rows of {', '.join(paths[:_NAMED])}{more}",
        ConflictWarning,
        stacklevel=2,
    )


def _are_of(fingerprints: pa.ChunkedArray, wanted: Set[bytes]) -> pa.ChunkedArray:
    return pc.is_in(fingerprints, column(sorted(wanted), pa.binary(16)))


def _without(files: Files, table: str, lost: Set[bytes]) -> Files:
    """Files of a table without those of some schemas."""
    found = files.copy()
    for part in found.parts:
        if table in part.run.ranges:
            start, end = part.run.ranges[table]
            names = part.run.core.column("schema_fingerprint").slice(start, end - start)
            dead = np.zeros(part.run.rows, np.bool_) if part.dead is None else part.dead.copy()
            dead[start:end] |= numbers(_are_of(names, lost))
            part.dead = dead
    added = found.added.get(table, {})
    found.added[table] = {
        path: held for path, held in added.items() if held[0].schema_fingerprint not in lost
    }
    return found
