"""Checkpoints that a hostile or broken writer made, in a store: every digest and length is right,
and the content is not. What is said of a part is the truth, or is refused naming the object;
statistics that lie by their form are unknown; no live file is ever planned to be deleted.

With each change a sample of the lies is told, another with each commit; `make soak` tells all."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from asking import LOOSE, TRUTH, judge
from lakelog.catalog.format import segments
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    COLUMNS,
    FILES,
    HISTORY,
    REFERENCES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
)
from lakelog.catalog.wire import lakelog_segment_pb2 as wire
from loose import SAID
from sample import EVERY, some

OF_A_PART = (ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS)
# The log that is lied about has no deletes and no definitions.
KINDS = set(COLUMNS) - {segments.ROW_DELETES, segments.DEFINITIONS, segments.TOMBSTONES}


def test_the_checkpoint_put_together_again_is_as_good_as_it_was():
    for spill in (False, True):
        for pruned in (False, True):
            refused, found = judge(pruned=pruned, spill=spill)
            assert (refused, found.warned) == (set(), {})
            assert found.parts == TRUTH


# --- Segments -------------------------------------------------------------------------------------


def replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def with_null(table: pa.Table, name: str) -> pa.Table:
    column = table.column(name).combine_chunks()
    return replaced(table, name, pa.concat_arrays([column[:-1], pa.nulls(1, column.type)]))


def of_another_type(table: pa.Table, name: str) -> pa.Table:
    kind = table.schema.field(name).type
    other = pa.large_string() if pa.types.is_string(kind) else pa.string()
    return replaced(table, name, pa.array(["x"] * table.num_rows, other))


def with_number(value: int) -> Any:
    def change(table: pa.Table, name: str) -> pa.Table:
        values = [*table.column(name).to_pylist()[:-1], value]
        return replaced(table, name, pa.array(values, table.schema.field(name).type))

    return change


def spoiled_columns() -> dict[str, tuple[int, Any]]:
    """Every column of every kind: missing, twice, of another type, null, or of an absurd number."""
    found: dict[str, tuple[int, Any]] = {}
    for kind, columns in COLUMNS.items():
        if kind not in KINDS - {REFERENCES}:
            continue
        for one in columns:
            name, what = one.name, f"{segments.NAMES[kind]}.{one.name}"
            found[f"{what} missing"] = kind, lambda t, n=name: t.drop_columns([n])
            found[f"{what} twice"] = kind, lambda t, n=name: t.append_column(n, t.column(n))
            found[f"{what} of another type"] = kind, lambda t, n=name: of_another_type(t, n)
            if not one.nullable:
                found[f"{what} null"] = kind, lambda t, n=name: with_null(t, n)
        found[f"{segments.NAMES[kind]} with a row less"] = kind, lambda t: t.slice(0, len(t) - 1)
        found[f"{segments.NAMES[kind]} without its first row"] = kind, lambda t: t.slice(1)
        found[f"{segments.NAMES[kind]} with a row twice"] = (
            kind,
            lambda t: pa.concat_tables([t, t.slice(len(t) - 1)]),
        )
        found[f"{segments.NAMES[kind]} the other way round"] = (
            kind,
            lambda t: t.take(list(reversed(range(len(t))))),
        )
    for kind, name in (
        (FILES, "size_bytes"), (FILES, "row_count"), (FILES, "revision"), (FILES, "row_groups"),
        (ROW_GROUPS, "row"), (SCHEMAS, "revision"), (APPLICATIONS, "app_version"),
        (APPLICATIONS, "committed_at_us"), (HISTORY, "epoch"), (STATISTICS, "row_delta"),
    ):  # fmt: skip
        found[f"{segments.NAMES[kind]}.{name} negative"] = (
            kind,
            lambda t, n=name: with_number(-1)(t, n),
        )
    return found


COLUMN_LIES = spoiled_columns()
# Fewer rows, where the reference says so, are no lie: they say less. Nor is the last row of
# STATISTICS twice: rows are told by their distance, so that it is of a file that is not there.
SAY_LESS = {
    f"{segments.NAMES[kind]} {what}"
    for kind in (*OF_A_PART, APPLICATIONS)
    for what in ("with a row less", "without its first row")
} | {
    "SCHEMAS with a row less",
    "HISTORY without its first row",
    "STATISTICS with a row twice",
}


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("count", [6, EVERY])
@pytest.mark.parametrize("kind", sorted({kind for kind, _ in COLUMN_LIES.values()}))
def test_a_segment_of_other_columns_or_rows_is_refused(kind, count, told):
    """In the largest segment of its kind; by reference and inline in turn."""
    lies = [
        (what, change)
        for what, (of, change) in COLUMN_LIES.items()
        if of == kind and not (told and what in SAY_LESS)
    ]
    for number, (what, change) in some(f"columns {kind} {told}", enumerate(lies), count):
        loose = LOOSE.copy()
        piece = max(loose.of_kind(kind), key=lambda piece: piece.row["row_count"])
        table = change(piece.table())
        piece.put(table, tell=False)
        if told:
            piece.row["row_count"] = table.num_rows
        refused, found = judge(pruned=True, spill=bool(number % 2), loose=loose)
        if kind in OF_A_PART:
            assert refused == set(), what
            assert found.warned, what
        else:
            assert refused, what
            assert "head" not in refused, what


GARBAGE = (b"", b"ARROW1", b"ARROW1\0\0" + bytes(100) + b"ARROW1", b"PAR1" * 9)


@pytest.mark.parametrize("count", [2, EVERY])
@pytest.mark.parametrize("kind", sorted(KINDS - {REFERENCES}))
def test_a_segment_of_garbage_is_refused_where_it_is_used(kind, count):
    for data, spill in some(f"garbage {kind}", itertools.product(GARBAGE, (False, True)), count):
        loose = LOOSE.copy()
        loose.of_kind(kind)[0].data = data
        refused, _ = judge(pruned=True, spill=spill, loose=loose)
        assert bool(refused) == (kind not in OF_A_PART)
        assert judge(pruned=False, spill=spill, loose=loose)[1].warned


@pytest.mark.parametrize("count", [3, EVERY])
@pytest.mark.parametrize("kind", sorted(KINDS - {REFERENCES}))
def test_a_segment_object_that_says_something_else_of_itself_is_refused(kind, count):
    lies = {
        "kind": kind % 7 + 1, "row_count": 3_000, "first_table": "a", "last_table": "zz",
        "first_path": "data/", "last_path": "zz", "first_revision": 1, "last_revision": 99,
        "total_rows": 7, "total_bytes": 7, "min_partition": "z", "max_partition": "zz",
    }  # fmt: skip
    for name, value in some(f"says of itself {kind}", lies.items(), count):
        loose = LOOSE.copy()
        piece = loose.of_kind(kind)[0]
        piece.said = wire.Segment(**{field: piece.row[field] for field in SAID})
        setattr(piece.said, name, value)
        refused, found = judge(pruned=True, spill=True, loose=loose)
        assert found.warned if kind in OF_A_PART else refused, name
        assert not (refused and kind in OF_A_PART), name
