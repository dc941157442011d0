"""Lies in single references of a checkpoint, in a store: counts, sums, lengths, digests, ranges,
dead rows, columns, and schemas that are left out. Each is refused where it is used, or made up for
by an older base; none changes what is said.

With each change a sample of the lies is told, another with each commit; `make soak` tells all."""

from __future__ import annotations

import pyarrow as pa
import pytest
from asking import LOOSE, TRUTH, ask, damaged_answers, judge, put, small_log
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    FILES,
    HISTORY,
    REFERENCES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
)
from lakelog.errors import CorruptObject
from sample import EVERY, some

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
    "a range that begins lower": set_to(FILES, "first_table", "a"),
    "a range that ends higher": set_to(FILES, "last_path", "data/zzz"),
    "partitions from a lower one": set_to(FILES, "min_partition", ""),
    "partitions up to a higher one": set_to(FILES, "max_partition", "z"),
    "inverted partitions": set_to(FILES, "min_partition", "z"),
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
    "a column less": set_to(STATISTICS, "columns", ["a", "d", "f"]),
    "statistics in the place of row groups": swap_places(ROW_GROUPS, STATISTICS),
    "a column more": set_to(ROW_GROUP_STATISTICS, "columns", ["a", "d", "f", "s", "z"]),
    "of the other kind": swap_places(STATISTICS, ROW_GROUP_STATISTICS),
}


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "by reference"])
@pytest.mark.parametrize("count", [12, EVERY])
def test_a_lie_in_one_reference_is_refused_or_made_up_for(count, spill):
    for name, lie in some(f"references {spill}", LIES.items(), count):
        refused, _ = judge(pruned=True, spill=spill, lie=lie)
        assert refused, name
        assert "head" not in refused, f"{name}: the message is enough to append to"
        _, found = judge(pruned=False, spill=spill, lie=lie)
        assert found.warned, f"{name}: an older base serves, and that is said"


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


@pytest.mark.parametrize("kind", [0, 99, 200])
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


# --- Schemas that a checkpoint leaves out ---------------------------------------------------------


def without_schemas(rows):
    """The checkpoint's schemas, but for those of a table or of some files."""
    loose = LOOSE.copy()
    (piece,) = loose.of_kind(SCHEMAS)
    left = piece.table().filter(pa.array(rows))
    if left.num_rows:
        piece.put(left)
    else:
        loose.pieces.remove(piece)
    return loose


# The rows are two schemas of t and one of u.
@pytest.mark.parametrize(
    "rows",
    [
        [True, False, True],
        [False, True, True],
        [False, False, True],
        [True, True, False],
        [False] * 3,
    ],
    ids=str,
)
@pytest.mark.parametrize("pruned", [True, False])
def test_files_of_a_schema_that_is_not_known_are_refused_or_had_from_an_older_base(rows, pruned):
    """Also where no schema of the table is left: it has files, so it is there. Its files and their
    schemas are those of one base."""
    body, objects = without_schemas(rows).build(spill=False)
    store = small_log(pruned=pruned)
    keys = put(store, body, objects)
    found = ask(store)
    short = {table for table, known in (("t", all(rows[:2])), ("u", rows[2])) if not known}
    about = {name for name in TRUTH if name.split()[-1] in short}
    for name in set(TRUTH) - {"tables", "gc"}:
        answer = found.parts[name]
        if pruned and name in about:
            assert (type(answer), answer.key in keys) == (CorruptObject, True), (name, answer)
        else:
            assert answer == TRUTH[name], name
    assert bool(found.warned) != pruned
    assert ("gc" in found.refused) == pruned
