"""Why files are skipped: for each the part of the predicate that no row of it can meet, and what
the log knows of the columns in it.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ..format import compute as pc
from ..format.columns import array, column, empty_table
from ..format.schema import partition_columns
from ..format.statistics import bound_type, byte_forms, decode_bounds
from ..log.part import in_partition
from ..where.outcomes import equalities, outcomes
from ..where.tree import And, Compare, Constant, In, IsNull, Not, Or, StartsWith, all_of, columns_of
from .blooms import sifted, to_be_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from ...store import Store
    from ..data.file_part import FilePart
    from ..where.outcomes import Bounds, Facts
    from ..where.tree import Predicate, Value
    from .row_filter import RowFilter
    from .scan_request import Asked
    from .table_facts import TableFacts

_SHOWN = 5  # of the values of an IN, and of the parts of an OR
EXPLAINED: Final = pa.schema(
    [
        pa.field("writer", pa.string()),
        pa.field("path", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("row_count", pa.int64()),
        pa.field("kept", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("bloom_filters", pa.int64()),
        pa.field("deletes", pa.string()),
        pa.field("key_files", pa.int64()),
    ]
)
_OF_FILES: Final = ("path", "partition", "size_bytes", "row_count")
_UNKNOWN: Final = "?"


def explained(facts: TableFacts | None, asked: Asked) -> pa.Table:
    """The live files of a table in one log, which of them a predicate leaves, and why.

    Args:
        facts: What is known of them.
        asked: With a filter; of one partition or of all.
    Returns:
        Columns of `EXPLAINED`, in the order of `Files.table`.
    Requests: as `skipping.kept_files`.
    """
    wanted, partition = asked.found, asked.partition
    if facts is None or wanted is None:
        raise UsageError(
            "explain needs a condition: where= is None", hint='Give something like "temp > 30"'
        )
    parts = [empty_table(EXPLAINED)]
    for source in facts.of_files(wanted.target.names):
        files = source.files
        reasons = np.full(files.num_rows, "", object)
        for members, facts_of in source.units.by_schema(wanted.target):
            schema = source.units.schemas[source.units.schema_numbers[members[0]]]
            own = set(partition_columns(schema.own))
            told = {name for name, stored in schema.stored.items() if stored in own}
            reasons[members] = _reasons(facts_of, len(members), wanted, told)
        said = column(reasons.tolist(), pa.string())
        kept = pc.equal(said, column([""], pa.string())[0])
        writers = column([facts.state.writer] * files.num_rows, pa.string())
        none = column([0] * files.num_rows, pa.int64())
        nothing = column([""] * files.num_rows, pa.string())
        core = [files.column(name) for name in _OF_FILES]
        columns = [writers, *core, kept, said, none, nothing, none]
        parts.append(pa.Table.from_arrays(columns, schema=EXPLAINED).filter(array(source.live)))
    rows = pa.concat_tables(parts)
    return rows if partition is None else pc.filter(rows, in_partition(rows, partition))


def with_filters(
    found: pa.Table,
    store: Store,
    keys: Sequence[str],
    parts: Iterable[FilePart],
    asked: Asked,
    *,
    read: bool,
) -> pa.Table:
    """What bloom filters add to `explained`.

    Args:
        found: Columns of `EXPLAINED`, of the files of one log.
        keys: Of these files in the store.
        parts: What is left of these.
        read: Ask the filters, instead of counting them.
    Requests: with `read` those of `blooms.sifted`.
    """
    wanted = asked.found
    if wanted is None or not any(equalities(wanted.predicate)):
        return found
    kept_parts = list(parts)
    counts = to_be_asked(kept_parts, wanted)
    numbers = column([counts.get(key, 0) for key in keys], pa.int64())
    found = _with(found, bloom_filters=numbers)
    if not read:
        return found
    left = {part.key for part in sifted(store, kept_parts, wanted)}
    ruled_out = counts.keys() - left
    reason = f"not {in_words(all_of(equalities(wanted.predicate)))}: bloom filter"
    rows = zip(keys, found.column("reason").to_pylist(), strict=True)
    reasons = [reason if key in ruled_out else was for key, was in rows]
    kept = column([was == "" for was in reasons], pa.bool_())
    return _with(found, kept=kept, reason=column(reasons, pa.string()))


def with_hidden_rows(
    found: pa.Table, keys: Sequence[str], parts: Sequence[FilePart], key_files: Sequence[int]
) -> pa.Table:
    """What hides rows of the files that are kept, added to `explained`.

    Args:
        keys: Of these files in the store.
        parts: What is left of these.
        key_files: Per file among how many its keys are resolved; 0: they are known.
    """
    left = {part.key for part in parts}
    words = {part.key: str(part.hidden) for part in parts if part.hidden is not None}
    said = column([words.get(key, "") for key in keys], pa.string())
    numbers = [n if key in left else 0 for key, n in zip(keys, key_files, strict=True)]
    return _with(found, deletes=said, key_files=column(numbers, pa.int64()))


def _with(found: pa.Table, **values: pa.ChunkedArray) -> pa.Table:
    for name, one in values.items():
        at = EXPLAINED.get_field_index(name)
        found = found.set_column(at, EXPLAINED.field(at), one)
    return found


def _reasons(
    facts_of: Callable[[str], Facts], count: int, wanted: RowFilter, told: Set[str]
) -> np.ndarray:
    """Per file why it is skipped, or nothing."""
    found = np.full(count, "", object)
    predicate = wanted.predicate
    for part in predicate.items if isinstance(predicate, And) else (predicate,):
        true = outcomes(part, facts_of).true
        skipped = np.flatnonzero(~true & (found == ""))
        if len(skipped):
            found[skipped] = _said(part, facts_of, skipped, told)
    return found


def _said(
    part: Predicate, facts_of: Callable[[str], Facts], at: np.ndarray, told: Set[str]
) -> list[str]:
    known = [(name, _ranges(facts_of(name), at)) for name in columns_of(part)]
    if not known:
        return [f"never {in_words(part)}"] * len(at)
    return [
        f"not {in_words(part)}: "
        + ", ".join(
            f"{name} is {ranges[number]}" + " by its partition" * (name in told)
            for name, ranges in known
        )
        for number in range(len(at))
    ]


def _ranges(facts: Facts, at: np.ndarray) -> list[str]:
    """What is known of a column in some files, in words."""
    if facts.kind is None:
        return ["not there"] * len(at)
    rows, nulls = facts.rows[at].tolist(), facts.nulls[at].tolist()
    lows, highs = (_texts(bounds, facts.kind, at) for bounds in (facts.low, facts.high))
    found = []
    for low, high, count, null in zip(lows, highs, rows, nulls, strict=True):
        if not count:
            found.append("without rows")
        elif null == count:
            found.append("null")
        elif low == high == _UNKNOWN:
            found.append("never null" if null == 0 else "unknown")
        else:
            said = low if low == high else f"{low} to {high}"
            found.append(said if null == 0 else f"{said} or null")
    return found


def _texts(bounds: Bounds | None, kind: pa.DataType, at: np.ndarray) -> list[str]:
    """Bounds as values."""
    of_type = bound_type(kind)
    if bounds is None or of_type is None:
        return [_UNKNOWN] * len(at)
    if isinstance(bounds.values, np.ndarray):
        keys = array(np.ascontiguousarray(bounds.values[at]))
        forms = byte_forms(keys, column([None] * len(at), pa.binary()), of_type)
    else:
        forms = bounds.values.take(array(at)).to_pylist()
    if pa.types.is_binary(of_type):
        texts = [None if form is None else f"0x{form.hex()}" for form in forms]
    else:
        texts = decode_bounds(forms, of_type).cast(pa.string()).to_pylist()
        if pa.types.is_string(of_type):
            texts = [None if text is None else repr(text) for text in texts]
    known = zip(texts, bounds.known[at].tolist(), strict=True)
    return [text if is_known and text is not None else _UNKNOWN for text, is_known in known]


def in_words(predicate: Predicate) -> str:
    """A predicate in SQL for people."""
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(_some([in_words(item) for item in predicate.items])) + ")"
    if isinstance(predicate, Not):
        return f"NOT ({in_words(predicate.item)})"
    if isinstance(predicate, Constant):
        return {True: "TRUE", False: "FALSE", None: "NULL"}[predicate.value]
    name, kind = predicate.column.name, predicate.column.kind
    if isinstance(predicate, Compare):
        return f"{name} {predicate.operator} {_value(predicate.value, kind)}"
    if isinstance(predicate, In):
        shown = _some([_value(value, kind) for value in predicate.values[: _SHOWN + 1]])
        return f"{name} IN ({', '.join(shown)})"
    if isinstance(predicate, StartsWith):
        return f"{name} LIKE {predicate.prefix + '%'!r}"
    assert isinstance(predicate, IsNull)
    return f"{name} IS NULL"


def _some(texts: list[str]) -> list[str]:
    return texts if len(texts) <= _SHOWN else [*texts[:_SHOWN], "…"]


def _value(value: Value, kind: pa.DataType) -> str:
    from ..where.emit import scalar

    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return str(scalar(kind, value).cast(pa.string()).as_py())
    return str(value)
