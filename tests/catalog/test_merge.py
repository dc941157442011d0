"""Runs of files: few, mostly alive, and rewritten seldom, whatever is committed."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import data_path
from lakelog.catalog.format.run import Run, files_rows
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segments import (
    FILES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    ROWS_PER_SEGMENT,
    STATISTICS,
)
from lakelog.catalog.format.statistics_rows import statistics_rows
from lakelog.catalog.log.merge import DESCRIBING, Rows, RunSize, first_to_merge, merged, pieces_of
from lakelog.catalog.log.part import Part
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import SCHEMA, LogBuilder, add_action, schema_action

RUNS = st.lists(
    st.integers(1, 1000).flatmap(
        lambda rows: st.integers(0, rows).map(lambda dead: RunSize(rows, dead))
    ),
    max_size=12,
)


@given(RUNS, st.integers(0, 2000))
def test_what_is_merged_leaves_runs_that_grow_and_live(runs, fresh):
    start = first_to_merge(runs, fresh)
    assert 0 <= start <= len(runs)
    kept = runs[:start]
    assert all(run.dead * 5 <= run.rows for run in kept), "no run with more than a fifth dead"
    size = fresh + sum(run.rows - run.dead for run in runs[start:])
    if kept and size:
        live = kept[-1].rows - kept[-1].dead
        untouched = first_to_merge(kept, size) == len(kept)
        assert live >= 3 * size or not untouched or start < len(runs)


def test_nothing_to_merge_is_nothing_to_do():
    assert first_to_merge([], 0) == 0
    assert first_to_merge([RunSize(100, 0), RunSize(5, 0)], 0) == 2
    assert first_to_merge([RunSize(100, 0), RunSize(5, 5)], 0) == 1, "a dead run goes"
    assert first_to_merge([RunSize(100, 21), RunSize(30, 0)], 0) == 0


def test_over_2000_commits_runs_stay_few_and_files_are_seldom_rewritten():
    """The sizes alone: adds and removes at random, a checkpoint after every one or few."""
    random_ = random.Random(7)
    runs, fresh, written, added = [], 0, 0, 0
    for _ in range(2_000):
        count = random_.choice([1, 1, 2, 10, 300])
        fresh, added = fresh + count, added + count
        if random_.random() < 0.5 and runs:  # removes are of old files as well as new ones
            place = random_.randrange(len(runs))
            run = runs[place]
            dead = min(run.rows, run.dead + random_.randrange(200))
            runs[place] = RunSize(run.rows, dead)
        if random_.random() < 0.8:
            continue
        start = first_to_merge(runs, fresh)
        size = fresh + sum(run.rows - run.dead for run in runs[start:])
        written, fresh = written + size, 0
        runs = runs[:start] + ([RunSize(size, 0)] if size else [])
        rows, dead = sum(r.rows for r in runs), sum(r.dead for r in runs)
        assert len(runs) <= 2 + math.log(max(rows, 3), 2)
        assert dead * 5 <= rows
    assert written < 12 * added, "each file was rewritten a logarithmic number of times"


# --- Contents -------------------------------------------------------------------------------------

FACTS = {("t", encode_schema(SCHEMA).fingerprint): SCHEMA}


def source(numbers, live=None):
    """Files of these numbers, in the order of their paths, each with statistics that name it."""
    adds = []
    for number in sorted(numbers):
        groups = [
            wire.RowGroup(row_count=g, columns=[wire.ColumnStatistics(column=0, null_count=number)])
            for g in range(1 + number % 3)
        ]
        adds.append(add_action(f"data/{number:06d}", row_count=number, row_groups=groups).add)
    found = statistics_rows(adds, FACTS)
    describing = dict(zip(DESCRIBING, (found.row_groups, found.files, found.groups), strict=True))
    files = files_rows(adds, [number for number in sorted(numbers)])
    return Rows(files, describing, None if live is None else np.array(live, np.bool_))


@given(st.lists(st.sets(st.integers(0, 60), max_size=12), max_size=4), st.data())
def test_what_describes_a_file_goes_with_it(sets, data):
    taken, sources, expected = set(), [], set()
    for numbers in sets:
        own = sorted(numbers - taken)
        taken |= numbers
        live = data.draw(st.lists(st.booleans(), min_size=len(own), max_size=len(own)))
        expected |= {number for number, alive in zip(own, live, strict=True) if alive}
        if own:
            sources.append(source(own, live))
    (rows,) = merged(sources) if expected else [None]
    if rows is None:
        return
    numbers = rows.files["row_count"].to_pylist()
    assert numbers == sorted(expected)
    told = dict(zip(*(rows.describing[STATISTICS][n].to_pylist() for n in ("row", "null_count"))))
    for row, number in enumerate(numbers):
        assert told[row] == number * (1 + number % 3)
    groups = rows.describing[ROW_GROUP_STATISTICS].to_pylist()
    assert sorted((numbers[g["row"]], g["row_group"], g["null_count"]) for g in groups) == [
        (n, g, n) for n in numbers if n % 3 for g in range(1 + n % 3)
    ]
    assert rows.describing[ROW_GROUPS].num_rows == len(groups)


def test_what_describes_no_file_of_its_part_describes_none_of_another():
    """Its own rows say nothing; they must not fall to the files that come behind in a merge."""
    one, two = source([1]), source([2])
    stray = one.describing[STATISTICS].set_column(1, "row", pa.array([1], pa.int32()))
    (rows,) = merged([Rows(one.files, {STATISTICS: stray}), two])
    assert rows.describing[STATISTICS]["null_count"].to_pylist() == [6]
    assert rows.describing[STATISTICS]["row"].to_pylist() == [1]


def test_what_is_said_twice_is_unknown_and_breaks_nothing():
    one = source([1, 2])
    twice = pa.concat_tables([one.describing[STATISTICS], one.describing[STATISTICS].slice(0, 1)])
    (rows,) = merged([Rows(one.files, {STATISTICS: twice})])
    assert rows.describing[STATISTICS]["row"].to_pylist() == [1]


def test_statistics_are_cut_where_a_column_ends():
    count = ROWS_PER_SEGMENT // 2 + 1
    columns = ["a"] * count + ["b"] * count
    rows = source([1]).describing[STATISTICS].take(pa.array([0] * 2 * count))
    rows = rows.set_column(0, "column", pa.array(columns)).set_column(
        1, "row", pa.array([*range(count)] * 2, pa.int32())
    )
    pieces = list(pieces_of(STATISTICS, rows))
    assert [(names, table.num_rows) for table, names in pieces] == [(["a"], count), (["b"], count)]


# --- In checkpoints -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_checkpoints_of_a_long_log_keep_their_runs_few_and_alive(seed):
    random_ = random.Random(seed)
    log = LogBuilder(seed=seed)
    log.commit(schema_action())
    live, number = [], 0
    for commit in range(160):
        adds = [f"data/{n:06d}" for n in range(number, number + random_.choice([1, 2, 20]))]
        number += len(adds)
        gone = random_.sample(live, min(len(live), random_.choice([0, 0, 1, 5])))
        log.commit(
            *map(add_action, adds),
            *(wire.Action(remove=wire.Remove(path=path, table="t")) for path in gone),
        )
        live = [path for path in live if path not in gone] + adds
        if commit % 4 == 3:
            log.checkpoint()
            files = [piece for piece in log.state.pieces if piece.kind == FILES]
            rows, dead = sum(p.rows for p in files), sum(p.dead_rows for p in files)
            assert rows - dead == len(live)
            assert dead * 5 <= rows
            assert len({piece.run for piece in files}) <= 2 + math.log(rows + 2, 2)
    assert log.live()["t"] == sorted(live)


def many_files(count):
    """Rows of FILES, all alike but for their paths and sizes."""
    rng = np.random.default_rng(1)
    one = files_rows([add_action("data/x").add], [0])
    names = pc.binary_join_element_wise(
        "data/", pc.utf8_lpad(pa.array(np.arange(count)).cast(pa.string()), 7, "0"), ""
    )
    columns = {"path": names, "size_bytes": pa.array(rng.integers(0, 1 << 30, count))}
    return pa.Table.from_arrays(
        [
            columns.get(name, pa.array([one[name][0].as_py()] * count, one[name].type))
            for name in one.schema.names
        ],
        schema=one.schema,
    )


def test_a_checkpoint_after_100_commits_onto_a_million_files_writes_a_fiftieth():
    """Bytes, not time."""
    log = LogBuilder()
    log.commit(schema_action())
    log.state.files.parts.append(Part(Run.of_table(many_files(1_000_000), "synthetic")))
    whole = log.checkpoint()
    log.state = log.reload(whole)
    size = len(whole.body) + sum(len(body) for _, body in whole.segments)
    written = 0
    for number in range(100):
        transaction_id = log.new_id()
        log.commit(
            add_action(data_path("", "t", 1, transaction_id, 0)), transaction_id=transaction_id
        )
        if number % 16 == 15:
            small = log.checkpoint()
            written = max(written, len(small.body) + sum(len(body) for _, body in small.segments))
            log.fetched.clear()
    last = log.checkpoint()
    written = max(written, len(last.body) + sum(len(body) for _, body in last.segments))
    assert written * 50 <= size
    assert log.fetched == []
    assert last.decoded.message.counts.files == 1_000_100
