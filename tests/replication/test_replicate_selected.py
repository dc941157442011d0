"""Some tables, columns and rows: the destination reads as a scan of the source's cut does."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from followed import BreakingStore
from lakelog.errors import (
    InvalidPredicate,
    ReplicaDiverged,
    TableNotFound,
    UsageError,
)
from lakelog.replication import plan_replication, replicate
from lakelog.store import probe
from replica_cases import D, Pair


@pytest.fixture
def pair():
    return Pair()


def commit(pair, act, writer="oslo"):
    pair.clock.now_s += 1
    with pair.source.writer(writer) as opened, opened.transaction() as tx:
        act(tx)


def rows(low, high, **more):
    numbers = range(low, high)
    return pa.table({"id": numbers, "n": [None if n % 5 == 4 else n * 0.5 for n in numbers],
                     **{k: [v] * len(numbers) for k, v in more.items()}})  # fmt: skip


def counted(table):
    return Counter(map(repr, table.to_pylist()))


def check(pair, **options):
    """Replicate, and compare with the source, now and at each cut that a commit stands for."""
    wanted = {name: options[name] for name in ("columns", "where") if name in options}
    report = pair.replicate(tables=["t"], **options)
    copy = pair.copy.catalog
    source = pair.source.catalog.snapshot(D)
    assert report.source_tokens == {D: source.token}
    now = copy.snapshot(D, report.tokens[D])
    assert counted(now.to_arrow("t")) == counted(source.to_arrow("t", **wanted))
    found = now.to_duckdb().sql("FROM t").to_arrow_table()
    assert counted(found) == counted(source.to_arrow("t", **wanted))
    again = pair.replicate(tables=["t"], **options)
    assert not any(log.copied.commits for log in again.logs)
    return report


OPTIONS = [
    {},
    {"columns": ["n", "id"]},
    {"where": "n > 2 OR n IS NULL"},
    {"columns": ["n"], "where": "id < 7"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_reads_as_a_scan_of_the_source(pair, options):
    with pair.source.writer() as writer, writer.transaction() as tx:
        first = tx.write("t", rows(0, 6), partition="a/b")[0]
        tx.write("other", rows(0, 3))
    check(pair, **options)
    commit(pair, lambda tx: tx.write("t", rows(6, 12)), "bergen")
    (log, _) = check(pair, **options).logs
    assert (log.plan.writer, log.copied.files) == ("bergen", 1)
    commit(pair, lambda tx: tx.delete("t", "id = 2", mode="rows"))
    commit(pair, lambda tx: tx.delete("t", "id = 4", mode="predicate"))
    check(pair, **options)
    commit(pair, lambda tx: tx.write("t", rows(12, 15, x="new")))
    check(pair, **options)
    commit(pair, lambda tx: tx.remove(first))
    commit(pair, lambda tx: tx.overwrite("t", rows(20, 22), "id = 12", validate=False))
    check(pair, **options)
    assert pair.copy.catalog.snapshot(D).tables() == ["t"]


def test_columns_that_change_and_keys(pair):
    for writer in ("oslo", "bergen"):
        commit(pair, lambda tx: tx.write("t", rows(0, 4)), writer)
    check(pair)
    catalog = pair.source.catalog
    pair.clock.now_s += 1
    catalog.evolve(D, "t", rename={"n": "m"}, add={"b": pa.int64()}, default={"b": 7})
    check(pair, columns=["m", "b"], where="b = 7")
    pair = Pair()
    for writer in ("oslo", "bergen"):
        commit(pair, lambda tx: tx.write("t", rows(0, 4)), writer)
    pair.clock.now_s += 1
    pair.source.catalog.evolve(D, "t", key=["id"])
    check(pair)
    commit(pair, lambda tx: tx.upsert("t", pa.table({"id": [1], "n": [9.0]})))
    report = check(pair)
    assert pair.copy.catalog.snapshot(D).to_arrow("t").num_rows == 4
    assert all(log.copied.commits for log in report.logs), "a row of bergen's was superseded too"
    pair.clock.now_s += 1
    pair.source.catalog.evolve(D, "t", drop=["n"], add={"n": pa.string()})
    check(pair)


@pytest.mark.parametrize("options", [{}, {"columns": ["id"], "where": "n = 1"}])
def test_a_column_that_another_log_begins_anew_is_read_anew(pair, options):
    for writer in ("oslo", "bergen"):
        commit(pair, lambda tx: tx.write("t", rows(0, 4)), writer)
    check(pair, **options)
    for change in ({"drop": ["n"]}, {"add": {"n": pa.float64()}}):
        commit(pair, lambda tx, change=change: tx.evolve("t", **change), "bergen")
    assert pair.source.catalog.snapshot(D).to_arrow("t")["n"].null_count == 4
    check(pair, **options)


def test_each_commit_tells_the_cut_that_it_stands_for(pair):
    wanted = []
    for low in (0, 5, 10):
        commit(pair, lambda tx, low=low: tx.write("t", rows(low, low + 5)))
        pair.replicate(tables=["t"], where="id > 2")
        wanted.append(pair.source.token)
    history = pair.copy.catalog.history(D)
    assert [json.loads(text)["source"] for text in history["summary"].to_pylist()] == wanted
    for revision, token in enumerate(wanted):
        source = pair.source.catalog.snapshot(D, token).to_arrow("t", where="id > 2")
        found = pair.copy.catalog.snapshot(D, {"oslo": revision}).to_arrow("t")
        assert counted(found) == counted(source)


def test_a_plan_tells_and_does_nothing(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    (log,) = plan_replication(pair.source.catalog, pair.copy.catalog, tables=["t"]).logs
    assert (log.plan.commits, log.plan.files) == (1, 1)
    assert not pair.objects()


def test_a_run_that_was_broken_off_goes_on(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    commit(pair, lambda tx: tx.write("t", rows(5, 9)))
    made = Pair()
    made.source = pair.source
    made.replicate(tables=["t"])
    (key, _) = made.objects(".parquet")
    pair.copy.store.put(key, made.copy.store.get(key))
    (log,) = check(pair).logs
    assert (log.copied.files, log.copied.files_there) == (1, 1)
    assert pair.objects(".parquet") == made.objects(".parquet")


def test_broken_off_after_any_put_each_log_is_as_before_or_done_and_it_goes_on():
    """Files come and go in one commit a log: never are rows there twice, or not at all."""
    for puts in range(40):
        pair = Pair()
        for writer in ("oslo", "bergen"):
            commit(pair, lambda tx: tx.write("t", rows(0, 5)), writer)
        pair.replicate(tables=["t"])
        before = by_writer(pair.copy)
        for writer in ("oslo", "bergen"):
            commit(pair, lambda tx: tx.delete("t", "id = 2"), writer)
            commit(pair, lambda tx: tx.write("t", rows(5, 9)), writer)
        after = by_writer(pair.source)
        destination = pair.copy.catalog
        probe(destination.store, "oslo/")
        destination.store = BreakingStore(pair.copy.store, puts)
        destination.store.probed = pair.copy.store.probed
        report = replicate(pair.source.catalog, destination, tables=["t"])
        for writer, found in by_writer(pair.copy).items():
            assert found in (before[writer], after[writer])
        if not report.errors:
            break
        assert not report.tokens
        check(pair)
        assert by_writer(pair.copy) == after
    assert 4 < puts < 39


def by_writer(world):
    """The rows of each writer's log."""
    found = world.catalog.snapshot(D)
    return {w: counted(found.to_arrow("t", writer=w)) for w in ("oslo", "bergen")}


def test_what_cannot_be_chosen_is_refused(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    ends = pair.source.catalog, pair.copy.catalog
    for options in (
        {"tables": []}, {"tables": "t"}, {"tables": ["t"], "columns": "id"},
        {"tables": ["t"], "columns": []}, {"databases": D}, {"writers": "oslo"},
        {"databases": D, "tables": ["t"]}, {"writers": "oslo", "tables": ["t"]},
        {"tables": ["t", "t"]}, {"tables": ["t", "u"], "where": "id = 1"},
        {"tables": ["t"], "columns": ["nothing"]},
    ):  # fmt: skip
        for call in (replicate, plan_replication):
            with pytest.raises(UsageError):
                call(*ends, **options)
    for options in ({"columns": ["id"]}, {"where": "id = 1"}):
        with pytest.raises(UsageError, match="--table"):
            replicate(*ends, **options)
    # An expression's text is shortened, so that two of them would name one file.
    with pytest.raises(UsageError, match="as text"):
        replicate(*ends, tables=["t"], where=pc.field("id").isin(list(range(100))))
    with pytest.raises(InvalidPredicate):
        replicate(*ends, tables=["t"], where="nothing = 1")
    with pytest.raises(TableNotFound):
        replicate(*ends, tables=["nothing"])
    with pair.source.catalog.writer("oslo", "more") as writer, writer.transaction() as tx:
        tx.write("t", rows(0, 1))
    with pytest.raises(UsageError, match="one database"):
        replicate(*ends, tables=["t"])
    assert not pair.objects()


def test_a_table_that_is_dropped_at_the_source_is_emptied(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    commit(pair, lambda tx: tx.write("u", rows(0, 5)))
    pair.replicate(tables=["t", "u"])
    pair.source.catalog.drop(D, "t", execute=True)
    commit(pair, lambda tx: tx.write("u", rows(5, 9)))
    for _ in range(2):  # it goes on like this, and may come again
        report = pair.replicate(tables=["t", "u"])
        now = pair.copy.catalog.snapshot(D, report.tokens[D])
        assert (now.to_arrow("t").num_rows, now.to_arrow("u").num_rows) == (0, 9)
    commit(pair, lambda tx: tx.write("t", rows(0, 3)))
    check(pair)
    with pytest.raises(TableNotFound):
        pair.replicate(tables=["t", "nothing"])


def test_another_source_that_lacks_the_table_empties_nothing(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    pair.replicate(tables=["t"])
    there = pair.objects()
    pair.source = pair.world()
    commit(pair, lambda tx: tx.write("u", rows(0, 5)))
    with pytest.raises(TableNotFound):
        pair.replicate(tables=["t"])
    assert pair.objects() == there


def test_a_source_that_was_begun_anew_replaces_nothing(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    pair.replicate(tables=["t"])
    there = pair.objects()
    first = pair.source
    pair.source = pair.world()  # lost, and another log under the same name
    commit(pair, lambda tx: tx.write("t", rows(5, 6)))
    with pytest.raises(ReplicaDiverged, match="made from another log"):
        pair.replicate(tables=["t"])
    assert pair.objects() == there
    commit(pair, lambda tx: tx.write("u", rows(5, 6)))
    pair.replicate(tables=["u"])  # tables of several sources may stand side by side
    pair.source = first
    commit(pair, lambda tx: tx.write("t", rows(5, 6)))
    check(pair)


def test_what_somebody_else_wrote_is_left_alone(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    pair.copy.write(1, table="t")
    with pytest.raises(ReplicaDiverged):
        pair.replicate(tables=["t"])
    pair.copy = pair.world()
    pair.replicate()
    with pytest.raises(ReplicaDiverged):
        pair.replicate(tables=["t"])
    pair.copy = pair.world()
    pair.replicate(tables=["t"])
    with pytest.raises(ReplicaDiverged):
        pair.replicate()
    (path,) = pair.copy.catalog.snapshot(D).files("t")["path"].to_pylist()
    pair.copy.take_out(path)
    check(pair)


def test_another_choice_takes_the_place_of_the_one_before(pair):
    commit(pair, lambda tx: tx.write("t", rows(0, 5)))
    check(pair, where="id > 1")
    check(pair, where="id > 2")
    check(pair, where="id > 1")
