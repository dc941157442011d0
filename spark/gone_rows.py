"""Rows that Spark says go, and the predicate that is true of exactly these.

Other writers' files have no numbers of rows by which one could delete, so rows go by what is true
of them. Whatever predicate is tried is true of each row that goes, by how it is made; and before it
is used, the rows for which it is true in the cut are read, and held against those that go, by a
digest of their values. So nothing is deleted that Spark didn't name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.data.row_digest import row_hashes
from ..catalog.data.unify import conform
from ..catalog.format import compute as pc
from ..errors import InvalidPredicate, SparkUnsupported
from .arrow_types import storage
from .exact_filters import comparable, joined, literal, quote
from .filters import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..catalog.snapshot import Snapshot

MOST_ROWS: Final = 100_000
"""Rows that go and whose values are looked at: more go by the statement's own condition alone."""
_MOST_BYTES: Final = 64 << 20
MOST_VALUES: Final = 10_000  # of one column, in a predicate
_MOST_TERMS: Final = 10_000  # rows by columns, where each row is named
_COLUMNS_TRIED: Final = 2
_WORDS: Final = 1 << 64


def watched_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a table by which its rows are told apart, in the types that Spark has for
    them: those whose values are the same in both."""
    found = []
    for each in schema:
        kind = comparable(each.type)
        if kind is not None and storage(each.type) != pa.uint64():
            found.append(pa.field(each.name, KINDS.get(kind) or _decimal(kind)))
    return pa.schema(found)


def _decimal(kind: str) -> pa.DataType:
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    return pa.decimal128(int(precision), int(scale))


@dataclass(slots=True)
class Gone:
    """Rows that go, as one task or all of them have seen them.

    Attributes:
        watched: See `watched_columns`.
        most: Of more rows than that no values are held.
        count: How many there are.
        batches: Their values; None: there are too many.
    """

    watched: pa.Schema
    most: int = MOST_ROWS
    count: int = 0
    batches: list[pa.RecordBatch] | None = field(default_factory=list)
    _sum: int = 0
    _squares: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows, of the watched columns.

        Raises:
            pyarrow.ArrowInvalid: A value doesn't fit.
        """
        rows = conform(batch, self.watched)
        hashes = row_hashes(rows) if self.watched.names else np.zeros(batch.num_rows, np.uint64)
        self.count += batch.num_rows
        self._sum = (self._sum + int(hashes.sum(dtype=np.uint64))) % _WORDS
        self._squares = (self._squares + int((hashes * hashes).sum(dtype=np.uint64))) % _WORDS
        self._hold([rows])

    def merge(self, other: Gone) -> None:
        """Take in what another one has seen."""
        self.count += other.count
        self._sum = (self._sum + other._sum) % _WORDS
        self._squares = (self._squares + other._squares) % _WORDS
        self._hold(other.batches)

    def _hold(self, batches: list[pa.RecordBatch] | None) -> None:
        if batches is None or self.batches is None or self.count > self.most:
            self.batches = None
            return
        self.batches += batches
        if sum(batch.nbytes for batch in self.batches) > _MOST_BYTES:
            self.batches = None

    @property
    def digest(self) -> tuple[int, int, int]:
        """Equal for the same rows, each as often, in any order."""
        return self.count, self._sum, self._squares


def predicate_of(
    snapshot: Snapshot, table: str, gone: Gone, own: str | None, key: Sequence[str]
) -> str:
    """A predicate that is true in a cut of exactly the rows that go.

    Args:
        own: The statement's condition, if it is known to mean the same.
        key: The table's.
    Raises:
        SparkUnsupported: None was found.
        As `Snapshot.scan`.
    Requests: Those of `Snapshot.scan` for each that is tried, most often one.
    """
    for text in dict.fromkeys(_tried(gone, own, key)):
        if _rows_of(snapshot, table, text, gone) == gone.digest:
            return text
    if own is not None:  # and so no values were held
        why = f"they aren't the rows of which lakelog finds {own} true"
    elif gone.batches is None:
        why = "they are too many to look for a predicate by their values"
    else:
        why = "no columns' values tell them from the other rows"
    raise SparkUnsupported(
        f"{gone.count:,} rows of table {table!r} would go, and {why}",
        key=table,
        hint="Nothing was committed. Delete by comparisons of columns with constants, or upsert "
        "by a key: catalog.evolve(database, table, key=[...]), or tx.upsert "
        "(docs/changing.md, Keys). In a MERGE that deletes, let each row of the source be distinct",
    )


def _rows_of(snapshot: Snapshot, table: str, text: str, gone: Gone) -> tuple[int, int, int] | None:
    """The digest of the rows of which a predicate is true; None if they are more, or can't be
    compared."""
    found = Gone(gone.watched, most=0)
    try:
        for batch in snapshot.scan(table, gone.watched.names or None, where=text):
            found.add(batch)
            if found.count > gone.count:
                return None
    except (InvalidPredicate, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return found.digest


def _tried(gone: Gone, own: str | None, key: Sequence[str]) -> Iterator[str]:
    """Predicates that are true of all rows that go, the likeliest first."""
    if own is not None:
        yield own
    if gone.batches is None:
        return
    rows = pa.Table.from_batches(gone.batches, gone.watched)
    texts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for each in gone.watched:
        values = pc.unique(rows.column(each.name))
        text = _among(each, values)
        if text is not None:
            texts[each.name], counts[each.name] = text, len(values)
    if key and all(name in texts for name in key):
        yield joined([texts[name] for name in key], "AND")
    best = sorted(texts, key=lambda name: -counts[name])
    yield from (texts[name] for name in best[:_COLUMNS_TRIED])
    if len(best) > 1:
        yield joined([texts[name] for name in best[:_COLUMNS_TRIED]], "AND")
    yield from _each_named(rows, best)


def _among(each: pa.Field, values: pa.ChunkedArray | pa.Array) -> str | None:
    """That a column is one of some values; None if that can't be said."""
    if kinds.is_floating(each.type):
        return None
    name, filled = quote(each.name), values.drop_null()
    if not len(filled):
        return f"{name} IS NULL"
    text = _range(each, filled)
    if text is None:
        known = _literals(each.type, filled) if len(filled) <= MOST_VALUES else None
        if known is None:
            return None
        text = f"{name} IN ({', '.join(known)})"
    return text if len(filled) == len(values) else f"{text} OR {name} IS NULL"


def _range(each: pa.Field, values: Any) -> str | None:
    """The same for integers that lie close, and for too many values."""
    if not (kinds.is_integer(each.type) or len(values) > MOST_VALUES):
        return None
    if kinds.is_boolean(each.type) or kinds.is_binary(each.type):
        return None
    ends = pc.min_max(values)
    low, high = ends["min"], ends["max"]
    if len(values) <= MOST_VALUES and (
        len(values) < 3 or high.as_py() - low.as_py() + 1 != len(values)
    ):
        return None
    known = _literals(each.type, pa.array([low.as_py(), high.as_py()], each.type))
    return None if known is None else f"{quote(each.name)} BETWEEN {known[0]} AND {known[1]}"


def _each_named(rows: pa.Table, names: Sequence[str]) -> Iterator[str]:
    """Every row by its values, for few rows."""
    some = rows.select(list(names))
    if not names or some.num_rows * len(names) > _MOST_TERMS:
        return
    distinct = some.group_by(list(names)).aggregate([])
    columns = [
        [_is(field, value) for value in distinct.column(field.name)] for field in distinct.schema
    ]
    texts = [joined(row, "AND") for row in zip(*columns, strict=True)]
    yield joined(texts, "OR")


def _is(each: pa.Field, value: pa.Scalar) -> str:
    name = quote(each.name)
    if not value.is_valid:
        return f"{name} IS NULL"
    known = _literals(each.type, pa.array([value.as_py()], each.type))
    assert known is not None, "the column's values were told before"
    return f"{name} = {known[0]}"


def _literals(kind: pa.DataType, values: Any) -> list[str] | None:
    name = comparable(kind)
    if name is None:
        return None
    if kinds.is_date(kind):
        values = values.cast(pa.int32())
    elif kinds.is_timestamp(kind):
        values = values.cast(pa.int64())
    found = [literal(name, value) for value in values.to_pylist()]
    known = [text for text in found if text is not None]
    return known if len(known) == len(found) else None


def all_gone(watched: pa.Schema, tasks: Iterable[Gone]) -> Gone:
    """What all tasks have seen."""
    found = Gone(watched)
    for task in tasks:
        found.merge(task)
    return found
