"""Checkpoints that a hostile or broken writer made, in a store: every digest and length is right,
and the content is not. What is said of a part is the truth, or is refused naming the object;
statistics that lie by their form are unknown; no live file is ever planned to be deleted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from asking import CHECKPOINT, LOG, TRUTH, ask, damaged_answers, small_log
from corpus import SEGMENTS
from lakelog.catalog.format import wire_kinds
from lakelog.catalog.format.segments import COLUMNS
from lakelog.catalog.format.wire_kinds import (
    APPLICATIONS,
    FILES,
    HISTORY,
    REFERENCES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
)
from lakelog.catalog.wire import lakelog_segment_pb2 as wire
from loose import SAID, Loose

LOOSE = Loose.of_checkpoint(LOG.checkpoints[-1][1], CHECKPOINT, LOG.segments)
OF_A_PART = (ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS)


def put(store, body, objects):
    """Write a checkpoint in the place of the last one; returns the keys that may be named."""
    store.put(CHECKPOINT, body)
    for name, one in objects.items():
        store.put(SEGMENTS + name, one)
    return {CHECKPOINT, *(SEGMENTS + name for name in objects)}


def judge(*, pruned, spill, lie=lambda rows: None, table=lambda rows: rows, loose=None):
    """What is refused of the log with such a checkpoint."""
    body, objects = (loose or LOOSE.copy()).build(spill=spill, lie=lie, table=table)
    store = small_log(pruned=pruned)
    keys = put(store, body, objects)
    found = ask(store)
    refused = damaged_answers(found, keys)
    if not pruned:  # the transactions and a checkpoint below give all that this one doesn't
        assert refused <= {"gc"}
    return refused, found


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
        if kind == REFERENCES:
            continue
        for one in columns:
            name, what = one.name, f"{wire_kinds.NAMES[kind]}.{one.name}"
            found[f"{what} missing"] = kind, lambda t, n=name: t.drop_columns([n])
            found[f"{what} twice"] = kind, lambda t, n=name: t.append_column(n, t.column(n))
            found[f"{what} of another type"] = kind, lambda t, n=name: of_another_type(t, n)
            if not one.nullable:
                found[f"{what} null"] = kind, lambda t, n=name: with_null(t, n)
        found[f"{wire_kinds.NAMES[kind]} with a row less"] = kind, lambda t: t.slice(0, len(t) - 1)
        found[f"{wire_kinds.NAMES[kind]} with a row twice"] = (
            kind,
            lambda t: pa.concat_tables([t, t.slice(len(t) - 1)]),
        )
        found[f"{wire_kinds.NAMES[kind]} the other way round"] = (
            kind,
            lambda t: t.take(list(reversed(range(len(t))))),
        )
    for kind, name in (
        (FILES, "size_bytes"), (FILES, "row_count"), (FILES, "revision"), (FILES, "row_groups"),
        (ROW_GROUPS, "row"), (SCHEMAS, "revision"), (APPLICATIONS, "app_version"),
        (APPLICATIONS, "committed_at_us"), (HISTORY, "epoch"), (STATISTICS, "row_delta"),
    ):  # fmt: skip
        found[f"{wire_kinds.NAMES[kind]}.{name} negative"] = (
            kind,
            lambda t, n=name: with_number(-1)(t, n),
        )
    return found


COLUMN_LIES = spoiled_columns()
# Fewer rows, where the reference says so, are no lie: they say less.
SAY_LESS = {f"{wire_kinds.NAMES[kind]} with a row less" for kind in (*OF_A_PART, APPLICATIONS)}


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("kind", sorted({kind for kind, _ in COLUMN_LIES.values()}))
def test_a_segment_of_other_columns_or_rows_is_refused(kind, half, told):
    """In the largest segment of its kind; by reference and inline in turn."""
    lies = [(what, change) for what, (of, change) in COLUMN_LIES.items() if of == kind]
    for number, (what, change) in enumerate(lies[half::2]):
        if told and what in SAY_LESS:
            continue
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


@pytest.mark.parametrize("kind", sorted(set(COLUMNS) - {REFERENCES}))
def test_a_segment_of_garbage_is_refused_where_it_is_used(kind):
    for data in (b"", b"ARROW1", b"ARROW1\0\0" + bytes(100) + b"ARROW1", b"PAR1" * 9):
        for spill in (False, True):
            loose = LOOSE.copy()
            loose.of_kind(kind)[0].data = data
            refused, _ = judge(pruned=True, spill=spill, loose=loose)
            assert bool(refused) == (kind not in OF_A_PART)
            assert judge(pruned=False, spill=spill, loose=loose)[1].warned


@pytest.mark.parametrize("kind", sorted(set(COLUMNS) - {REFERENCES}))
def test_a_segment_object_that_says_something_else_of_itself_is_refused(kind):
    for name, value in {
        "kind": kind % 7 + 1, "row_count": 3_000, "first_table": "a", "last_table": "zz",
        "first_path": "data/", "last_path": "zz", "first_revision": 1, "last_revision": 99,
        "total_rows": 7, "total_bytes": 7,
    }.items():  # fmt: skip
        loose = LOOSE.copy()
        piece = loose.of_kind(kind)[0]
        piece.said = wire.Segment(**{field: piece.row[field] for field in SAID})
        setattr(piece.said, name, value)
        refused, found = judge(pruned=True, spill=True, loose=loose)
        assert found.warned if kind in OF_A_PART else refused, name
        assert not (refused and kind in OF_A_PART), name


# --- Single references ----------------------------------------------------------------------------


def first(rows, kind):
    return next(row for row in rows if row["kind"] == kind)


def one_more(kind, name, by=1):
    def lie(rows):
        first(rows, kind)[name] += by

    return lie


def set_to(kind, name, value):
    def lie(rows):
        first(rows, kind)[name] = value

    return lie


def swap_places(kind, other):
    """Two references name each other's pieces."""

    def lie(rows):
        one = first(rows, kind)
        two = [row for row in rows if row["kind"] == other and row is not one][-1]
        for name in ("digest", "offset", "length"):
            one[name], two[name] = two[name], one[name]

    return lie


def without(kind):
    def lie(rows):
        rows.remove(first(rows, kind))

    return lie


LIES = {
    "one row more of files": one_more(FILES, "row_count"),
    "one row less of files": one_more(FILES, "row_count", -1),
    "one row more of schemas": one_more(SCHEMAS, "row_count"),
    "one row more of history": one_more(HISTORY, "row_count"),
    "one row more of applications": one_more(APPLICATIONS, "row_count"),
    "no rows": set_to(FILES, "row_count", 0),
    "two billion rows": set_to(FILES, "row_count", (1 << 31) - 1),
    "too many rows": set_to(SCHEMAS, "row_count", 1 << 31),
    "a byte more": one_more(FILES, "length"),
    "a byte less": one_more(FILES, "length", -1),
    "a byte less of schemas": one_more(SCHEMAS, "length", -1),
    "no bytes": set_to(HISTORY, "length", 0),
    "an exbibyte": set_to(HISTORY, "length", 1 << 60),
    "a negative length": set_to(HISTORY, "length", -1),
    "another sum of rows": one_more(FILES, "total_rows"),
    "another sum of bytes": one_more(FILES, "total_bytes", -1),
    "an absurd sum": set_to(FILES, "total_bytes", 1 << 62),
    "files in each other's place": swap_places(FILES, FILES),
    "files in the place of schemas": swap_places(FILES, SCHEMAS),
    "history in the place of applications": swap_places(HISTORY, APPLICATIONS),
    "history in each other's place": swap_places(HISTORY, HISTORY),
    "no files at all": without(FILES),
    "no schemas at all": without(SCHEMAS),
    "a range that begins lower": set_to(FILES, "first_table", "a"),
    "a range that ends higher": set_to(FILES, "last_path", "data/zzz"),
    "an inverted range": set_to(FILES, "first_table", "z"),
    "schemas of a wider range": set_to(SCHEMAS, "last_table", "z"),
    "a revision more": one_more(HISTORY, "last_revision"),
    "a revision less": one_more(HISTORY, "first_revision"),
    "a dead row that lives": set_to(FILES, "dead", None),
    "one more dead": set_to(FILES, "dead", b"\x0b\x02\x00"),
    "all dead": set_to(FILES, "dead", b"\xff\xff\x03"),
    "dead beyond the rows": set_to(FILES, "dead", b"\x08\x02\x80"),
    "a bitmap too short": set_to(FILES, "dead", b"\x08\x02"),
    "a bitmap too long": set_to(FILES, "dead", b"\x08\x02\x00\x00"),
    "an empty bitmap": set_to(FILES, "dead", b""),
    "dead schemas": set_to(SCHEMAS, "dead", b"\x01"),
    "another part": set_to(FILES, "part", 1),
    "a negative part": set_to(FILES, "part", -1),
    "another run": set_to(FILES, "run", 1),
    "schemas of a part": set_to(SCHEMAS, "part", 0),
    "columns of files": set_to(FILES, "columns", ["a"]),
    "references within": lambda rows: rows.append(first(rows, SCHEMAS) | {"kind": REFERENCES}),
}
# Those about what describes a part: rows are given, statistics not.
STATISTICS_LIES = {
    "one row more": one_more(STATISTICS, "row_count"),
    "a byte less": one_more(STATISTICS, "length", -1),
    "a column less": set_to(STATISTICS, "columns", ["a", "d"]),
    "statistics in the place of row groups": swap_places(ROW_GROUPS, STATISTICS),
    "a column more": set_to(ROW_GROUP_STATISTICS, "columns", ["a", "d", "s", "z"]),
    "of the other kind": swap_places(STATISTICS, ROW_GROUP_STATISTICS),
}


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "by reference"])
@pytest.mark.parametrize("name", LIES)
def test_a_lie_in_one_reference_is_refused_or_made_up_for(name, spill):
    refused, _ = judge(pruned=True, spill=spill, lie=LIES[name])
    assert refused
    assert "head" not in refused, "the message is enough to append to"
    _, found = judge(pruned=False, spill=spill, lie=LIES[name])
    assert found.warned, "an older base serves, and that is said"


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "by reference"])
@pytest.mark.parametrize("name", STATISTICS_LIES)
def test_a_lie_about_statistics_costs_statistics_alone(name, spill):
    for pruned in (False, True):
        refused, found = judge(pruned=pruned, spill=spill, lie=STATISTICS_LIES[name])
        assert refused == set()
        assert found.warned


@pytest.mark.parametrize("change", [-1, 1, 1 << 40])
def test_another_count_of_files_is_refused(change):
    loose = LOOSE.copy()
    loose.message.counts.files += change
    assert {"files t", "all files", "history"} <= judge(pruned=True, spill=False, loose=loose)[0]


@pytest.mark.parametrize("kind", [0, 9, 200])
def test_a_kind_of_the_future_is_never_fallen_back_from(kind):
    """Though an older base would give all. What to keep is told by the transactions alone."""

    def lie(rows):
        rows.append(first(rows, APPLICATIONS) | {"kind": kind})

    refused, found = judge_too_new(lie)
    assert refused == set(TRUTH) - {"head", "gc"}
    assert {type(found.parts[name]).__name__ for name in refused} == {"UnsupportedFeature"}


def judge_too_new(lie):
    body, objects = LOOSE.copy().build(spill=False, lie=lie)
    store = small_log(pruned=False)
    keys = put(store, body, objects)
    found = ask(store)
    return damaged_answers(found, keys), found
