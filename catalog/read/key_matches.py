"""Rows of one log whose key is among given ones: which files may hold them, and where they are.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InvalidPredicate, SchemaConflict, TableNotFound
from ..data.hidden import Bitmaps
from ..data.key_rows import in_pieces
from ..data.key_types import check_key
from ..data.scan import Projection, read_projected
from ..data.unify import FileSchema, column_names
from ..format import compute as pc
from ..format.columns import array, is_null, numbers
from ..parallel import parallel
from .cut_tables import CutTables
from .delete_plan import parts_by_path
from .file_parts import projected
from .row_filter import row_filter
from .skipping import kept_files

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.state import State

_AT_ONCE: Final = 4
_WHOLE_BYTES: Final = 32 << 20
_PIECE: Final = 1 << 20
_MOST_VALUES: Final = 10_000  # that files are judged by one by one; else by the least and greatest


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """What may hold rows of some keys.

    Attributes:
        parts: By path what reading each file takes.
        target: The columns of the key, with types that hold the values of the files and of the
            keys; None: no file has all of them.
        revision: Of the state that was looked at.
    """

    parts: dict[str, FilePart]
    target: pa.Schema | None
    revision: int


def key_matches(state: State, table: str, keys: pa.Table, gone: Collection[str]) -> KeyMatches:
    """The live files of a table in one log that may hold some keys, by what it knows of them.

    Args:
        keys: Without nulls; its columns are the key.
        gone: Paths that are left out.
    Raises:
        SchemaConflict: Files and keys have no common type of a column.
        InvalidSchema: Nor can it be of a key.
    Requests: 1 GET for each piece of files, and of statistics of the columns.
    """
    tables = CutTables(state.database, [state])
    names = keys.schema.names
    try:
        schemas = tables.file_schemas(table)
    except TableNotFound:
        return KeyMatches({}, None, state.revision)
    if not set(names).issubset(column_names(schemas)) or not keys.num_rows:
        return KeyMatches({}, None, state.revision)
    given = FileSchema(keys.schema.remove_metadata(), state.writer, words="the data")
    own = projected(schemas, table, names, None).read
    target = pa.schema([_united(field, given, table) for field in own])
    check_key(target, table)
    facts = tables.facts_of(state, table)
    kept = np.ones(facts.files.table(table).num_rows, np.bool_)
    for name in names:
        kept &= _judged(facts, schemas, table, name, keys.column(name))
    paths = pc.filter(facts.files.table(table).column("path"), array(kept)).to_pylist()
    parts = parts_by_path(tables, state, table, set(paths).difference(gone))
    return KeyMatches(parts, target, state.revision)


def _united(field: pa.Field, given: FileSchema, table: str) -> pa.Field:
    from ..format.schema import widen

    kind = given.schema.field(field.name).type
    wider = widen(field.type, kind)
    if wider is None:
        raise SchemaConflict(
            f"Column {field.name!r} of table {table!r} is {field.type}, and {kind} in the data",
            key=field.name,
            hint="Nothing was written. Cast the data",
        )
    return field.with_type(wider)


def _judged(
    facts: Any, schemas: Sequence[FileSchema], table: str, name: str, values: pa.ChunkedArray
) -> np.ndarray:
    """Which live files may hold one of some values."""
    import pyarrow.compute

    distinct, field = pc.unique(values), pyarrow.compute.field(name)
    if len(distinct) <= _MOST_VALUES:
        wanted = field.isin(distinct)
    else:
        ends = pc.min_max(distinct)
        wanted = (field >= ends["min"]) & (field <= ends["max"])
    everyone: np.ndarray = np.ones(facts.files.table(table).num_rows, np.bool_)
    try:
        found = row_filter(wanted, schemas, table, decides=False)
    except InvalidPredicate:  # of a type that predicates don't have
        return everyone
    return kept_files(facts, found)


def rows_with_keys(store: Store, found: KeyMatches, keys: pa.Table) -> list[np.ndarray]:
    """Per file the numbers of its rows that have one of some keys and that nothing hides yet,
    ascending.

    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for reading.
    Requests: 1 or more GET a file.
    """
    if found.target is None:
        return []
    target, bitmaps = found.target, Bitmaps(store)
    wanted = _Keys(keys.select(target.names).cast(target.remove_metadata()))

    def of_file(part: FilePart) -> np.ndarray:
        small = part.size_bytes <= _WHOLE_BYTES
        read = read_projected(store, part, Projection(target), bitmaps, whole=small)
        met = [np.zeros(0, np.int64)]
        for rows, places in in_pieces(read, target, max(_PIECE, keys.num_rows)):
            met.append(places[wanted.among(rows)])
        return np.concatenate(met)

    return parallel(of_file, list(found.parts.values()), at_once=_AT_ONCE)


class _Keys:
    """Some keys, to be found among others: column by column those that begin so have a number.

    Args:
        keys: Without nulls.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._values = [pc.unique(values) for values in keys.columns]
        self._begun: list[np.ndarray] = []  # numbers of what is begun and the next value, sorted
        numbered = np.zeros(keys.num_rows, np.int64)
        for values, distinct in zip(keys.columns, self._values, strict=True):
            pairs = numbered * len(distinct) + numbers(pc.index_in(values, distinct))
            self._begun.append(np.unique(pairs))
            numbered = np.searchsorted(self._begun[-1], pairs)

    def among(self, rows: pa.Table) -> np.ndarray:
        """Which rows have one of these keys."""
        found = np.ones(rows.num_rows, np.bool_)
        numbered = np.zeros(rows.num_rows, np.int64)
        for values, distinct, begun in zip(rows.columns, self._values, self._begun, strict=True):
            at = pc.index_in(values, distinct)
            missing = [is_null(chunk) for chunk in at.chunks]
            found &= ~np.concatenate(missing) if missing else found
            pairs = numbered * len(distinct) + np.where(found, numbers(at), 0)
            numbered = np.minimum(np.searchsorted(begun, pairs), len(begun) - 1)
            found &= begun[numbered] == pairs
        return found
