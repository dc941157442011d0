"""What changed row by row, across deletes, keys and changed columns."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing_cases import World
from lakelog.catalog.data import scan
from own_files import add_own


@pytest.fixture
def world():
    return World()


def commit(world, act, writer="oslo", **options):
    world.clock.now_s += 1
    with world.writer(writer, **options) as opened, opened.transaction() as tx:
        return act(tx)


def delete(world, where, mode="predicate"):
    return commit(world, lambda tx: tx.delete("hourly", where, mode=mode))


def changes(world, since, until=None, **options):
    rows = world.catalog.changes("weather", "hourly", since, until, **options).read_all()
    return [(row["_change"], row["_revision"], row["n"]) for row in rows.to_pylist()]


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_deleted_rows_with_their_commits(world, mode):
    world.write(1, 2, 3, 4)
    before = world.token
    delete(world, "n = 1", mode)
    world.write(5, 6)
    delete(world, "n = 2 OR n = 6", mode)
    wanted = [("delete", 1, 1), ("insert", 2, 5), ("delete", 3, 2)]
    assert changes(world, before) == wanted
    assert changes(world, before, net=False) == [
        ("delete", 1, 1),
        ("insert", 2, 5),
        ("insert", 2, 6),
        ("delete", 3, 2),
        ("delete", 3, 6),
    ]
    assert changes(world, {"oslo": 1}, {"oslo": 2}) == [("insert", 2, 5), ("insert", 2, 6)]


def test_a_file_with_deleted_rows_comes_and_goes_without_them(world):
    path = world.write(1, 2, 3)
    delete(world, "n = 1")
    before = world.token
    delete(world, "n = 2", "rows")
    world.take_out(path)
    assert changes(world, before) == [("delete", 2, 2), ("delete", 3, 3)]
    until = world.token
    world.catalog.restore("weather", to=before, execute=True)
    assert changes(world, before) == []
    assert changes(world, until) == [("insert", 4, 2), ("insert", 4, 3)]
    assert changes(world, before, net=False) == [
        ("delete", 2, 2),
        ("delete", 3, 3),
        ("insert", 4, 2),
        ("insert", 4, 3),
    ]


def test_rows_that_a_restore_gives_back_in_a_file_that_stays(world):
    world.write(1, 2, 3)
    before = world.token
    delete(world, "n = 1")
    middle = world.token
    delete(world, "n = 3")
    world.catalog.restore("weather", to=before, execute=True)
    assert changes(world, before) == []
    assert changes(world, middle) == [("insert", 3, 1)]
    every = [("delete", 1, 1), ("delete", 2, 3), ("insert", 3, 1), ("insert", 3, 3)]
    assert changes(world, before, net=False) == every


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_a_rewrite_without_deleted_rows_gives_none(world, mode):
    paths = [world.write(1, 2), world.write(3, 4)]
    before = world.token
    delete(world, "n = 2", mode)
    middle = world.token
    commit(world, lambda tx: tx.rewrite("hourly", paths))
    assert changes(world, before) == [("delete", 2, 2)]
    assert changes(world, middle) == changes(world, middle, net=False) == []
    delete(world, "n = 3", mode)
    assert changes(world, before) == [("delete", 2, 2), ("delete", 4, 3)]


def test_other_rows_than_were_left_are_no_rewrite(world):
    """The numbers say that it puts in one that was deleted."""
    path = world.write(1, 2)
    delete(world, "n = 2", "rows")
    before = world.token

    def replaced(tx):
        tx.remove(path)
        tx.write("hourly", pa.table({"n": [1, 2]}))

    world.clock.now_s += 1
    with world.writer() as writer, writer.transaction(operation="maintenance") as tx:
        replaced(tx)
    assert changes(world, before) == [("delete", 2, 1), ("insert", 2, 1), ("insert", 2, 2)]


def test_a_column_alone_is_no_change_and_rows_are_told_by_the_later_ones(world):
    data = pa.table({"n": [1, 2], "gone": ["x", "y"], "b": [5, 6]})
    commit(world, lambda tx: tx.write("hourly", data))
    before = world.token
    commit(world, lambda tx: tx.evolve("hourly", drop=["gone", "b"]))
    commit(world, lambda tx: tx.evolve("hourly", add={"b": pa.int64()}, default={"b": 50}))
    commit(world, lambda tx: tx.evolve("hourly", rename={"n": "m"}))
    assert world.catalog.changes("weather", "hourly", before).read_all().num_rows == 0
    commit(world, lambda tx: tx.delete("hourly", "m = 1"))
    commit(world, lambda tx: tx.write("hourly", pa.table({"m": [3], "b": [7]})))
    found = world.catalog.changes("weather", "hourly", before).read_all()
    assert found.drop_columns(["_writer", "_revision", "_committed_at"]).to_pylist() == [
        {"_change": "delete", "m": 1, "b": 50},
        {"_change": "insert", "m": 3, "b": 7},
    ]
    after = world.token
    world.catalog.restore("weather", to=before, execute=True)
    found = world.catalog.changes("weather", "hourly", after).read_all()
    assert found.drop_columns(["_writer", "_revision", "_committed_at"]).to_pylist() == [
        {"_change": "delete", "n": 3, "gone": None, "b": None},  # its b is another one
        {"_change": "insert", "n": 1, "gone": "x", "b": 5},
    ]


def test_a_table_made_again_has_other_columns_of_the_same_names(world):
    """Rows that went with the table are told by the columns that it had then."""
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [1], "b": [5]})))
    commit(world, lambda tx: tx.evolve("hourly", drop=["b"]))
    commit(world, lambda tx: tx.evolve("hourly", add={"b": pa.int64()}))
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [2], "b": [6]})))
    before = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [3], "b": [7]})))
    found = world.catalog.changes("weather", "hourly", before).read_all().to_pylist()
    assert [(row["_change"], row["n"], row["b"]) for row in found] == [
        ("delete", 1, None),
        ("delete", 2, 6),
        ("insert", 3, 7),
    ]


@pytest.mark.parametrize("declared", [True, False])
def test_rows_whose_columns_were_all_dropped_are_told_by_those_of_today(world, declared):
    old = commit(world, lambda tx: tx.write("hourly", pa.table({"a": [1]})))
    if declared:
        commit(world, lambda tx: tx.evolve("hourly", order=["a"]))
    first = world.token
    commit(world, lambda tx: tx.write("hourly", pa.table({"b": [2]})))
    added = {"add": {"c": pa.int64()}, "default": {"c": 50}}
    commit(world, lambda tx: tx.evolve("hourly", drop=["a"], **added))
    second = world.token
    shown = world.catalog.snapshot("weather").to_arrow("hourly").to_pylist()
    assert shown == [{"b": None, "c": 50}, {"b": 2, "c": 50}]
    world.take_out(*old)
    went = {"_change": "delete", "b": None, "c": 50}
    for since, came in ((first, [{"_change": "insert", "b": 2, "c": 50}]), (second, [])):
        found = world.catalog.changes("weather", "hourly", since).read_all()
        found = found.drop_columns(["_writer", "_revision", "_committed_at"])
        assert found.to_pylist() == [*came, went]


def test_rows_of_a_dropped_table_are_told_as_they_were_read_last(world):
    """Also those that had lost every column by then."""
    commit(world, lambda tx: tx.write("hourly", pa.table({"a": [1]})))
    added = {"add": {"c": pa.int64()}, "default": {"c": 50}}
    commit(world, lambda tx: tx.evolve("hourly", drop=["a"], **added))
    before = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    commit(world, lambda tx: tx.write("hourly", pa.table({"a": [2]})))
    found = world.catalog.changes("weather", "hourly", before).read_all()
    assert found.drop_columns(["_writer", "_revision", "_committed_at"]).to_pylist() == [
        {"_change": "delete", "a": None, "c": 50},
        {"_change": "insert", "a": 2, "c": None},
    ]


def test_rows_of_a_table_that_a_restore_takes_back_behind_a_drop_keep_their_columns(world):
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [1]})))
    then = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [2]})))
    commit(world, lambda tx: tx.evolve("hourly", rename={"n": "m"}))
    before = world.token
    world.catalog.restore("weather", to=then, execute=True)
    found = world.catalog.changes("weather", "hourly", before).read_all()
    assert found.drop_columns(["_writer", "_revision", "_committed_at"]).to_pylist() == [
        {"_change": "delete", "n": None, "m": 2},
        {"_change": "insert", "n": 1, "m": None},
    ]


def test_a_file_that_comes_back_elsewhere_reads_otherwise(world):
    """In another partition, which tells a column of it."""
    path, body = "data/own.parquet", pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1]}), body)
    world.store.put(f"oslo/weather/{path}", body.getvalue().to_pybytes())

    def put_in(tx, year):
        add_own(tx, "hourly", path, f"year={year}", partition_by={"year": pa.int64()})

    commit(world, lambda tx: put_in(tx, 2025))
    before = world.token
    world.take_out(path)
    commit(world, lambda tx: put_in(tx, 2026))
    wanted = [("delete", 2025), ("insert", 2026)]
    found = world.catalog.changes("weather", "hourly", before).read_all().to_pylist()
    assert [(row["_change"], row["year"]) for row in found] == wanted
    after = world.token
    world.catalog.restore("weather", to=before, execute=True)  # both in one commit
    found = world.catalog.changes("weather", "hourly", after).read_all().to_pylist()
    assert [(row["_change"], row["year"]) for row in found] == [("delete", 2026), ("insert", 2025)]


# --- Keys -----------------------------------------------------------------------------------------


def stock(world, items, left, writer="oslo", **options):
    data = pa.table({"n": pa.array(items, pa.int64()), "left": pa.array(left, pa.int64())})
    return commit(world, lambda tx: tx.write("hourly", data, **options), writer)


def told(world, since, until=None, **options):
    rows = world.catalog.changes("weather", "hourly", since, until, **options).read_all()
    names = ("_change", "_writer", "_revision", "n", "left")
    return [tuple(row[name] for name in names) for row in rows.to_pylist()]


def test_newer_rows_take_the_place_of_older_ones(world):
    stock(world, [1, 2], [10, 20])
    stock(world, [9], [90], writer="rome")
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    stock(world, [2, 3], [19, 30], writer="rome")
    assert told(world, before) == [
        ("delete", "oslo", None, 2, 20),
        ("insert", "rome", 2, 2, 19),
        ("insert", "rome", 2, 3, 30),
    ]
    assert told(world, before, net=False) == [
        ("delete", "rome", 2, 2, 20),
        ("insert", "rome", 2, 2, 19),
        ("insert", "rome", 2, 3, 30),
    ]


def test_an_older_row_that_comes_late_changes_nothing(world):
    stock(world, [1], [10], clock=(9, 9))
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    (path,) = stock(world, [1], [5], clock=(3, 3))
    assert told(world, before) == []
    world.take_out(path)
    assert told(world, before, net=False) == []


def test_rows_come_back_with_the_file_of_the_newer_ones(world):
    stock(world, [1], [10])
    world.catalog.evolve("weather", "hourly", key=["n"])
    (path,) = stock(world, [1], [11])
    before = world.token
    world.take_out(path)
    assert told(world, before) == [("insert", "oslo", None, 1, 10), ("delete", "oslo", 3, 1, 11)]


def test_a_key_that_comes_or_goes_is_a_change_of_rows(world):
    stock(world, [1, 1, 2], [10, 11, 20])
    before = world.token
    world.catalog.evolve("weather", "hourly", key=["n"])
    keyed = world.token
    assert told(world, before) == [("delete", "oslo", None, 1, 10)]
    assert told(world, before, net=False) == [("delete", "oslo", 1, 1, 10)]
    world.catalog.evolve("weather", "hourly", key=[])
    assert told(world, keyed) == [("insert", "oslo", None, 1, 10)]
    assert told(world, before) == []
    every = [("delete", "oslo", 1, 1, 10), ("insert", "oslo", 2, 1, 10)]
    assert told(world, before, net=False) == every


def leads(world, since, until, **options):
    """What is told between two cuts leads from the rows of one to those of the other."""
    before, after = (
        Counter(world.catalog.snapshot("weather", cut).to_arrow("hourly")["left"].to_pylist())
        for cut in (since, until)
    )
    for change, *_, left in told(world, since, until, **options):
        before[left] += 1 if change == "insert" else -1
    return {left: n for left, n in before.items() if n} == after


@pytest.mark.parametrize("net", [True, False])
def test_files_that_were_rewritten_before_there_was_a_key(world, net):
    """The other log already gives the key where the rewrite is come to."""
    stock(world, [9], [90])
    for item, left in ((1, 10), (1, 11), (5, 50)):
        stock(world, [item], [left], writer="rome")
    paths = world.catalog.snapshot("weather").files("hourly", writer="rome")["path"].to_pylist()
    before = world.token
    commit(world, lambda tx: tx.rewrite("hourly", [paths[0], paths[2]]), "rome")
    assert told(world, before, net=net) == []
    world.catalog.evolve("weather", "hourly", key=["n"])
    assert leads(world, before, world.token, net=net)
    assert leads(world, before, {"oslo": 1, "rome": 3}, net=net)
    assert leads(world, {"oslo": 1, "rome": 2}, world.token, net=net)


@pytest.mark.parametrize("net", [True, False])
def test_files_that_were_rewritten_once_there_was_no_key_any_more(world, net):
    """The other log still gives the key where the rewrite is come to."""
    for item, left in ((1, 10), (1, 11), (5, 50)):
        stock(world, [item], [left])
    stock(world, [9], [90], writer="rome")
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    world.catalog.evolve("weather", "hourly", key=[])
    paths = world.catalog.snapshot("weather").files("hourly", writer="oslo")["path"].to_pylist()
    commit(world, lambda tx: tx.rewrite("hourly", [paths[0], paths[2]]))
    assert leads(world, before, world.token, net=net)


def test_a_column_of_the_key_that_is_renamed_in_all_logs(world):
    stock(world, [1, 2], [10, 20])
    stock(world, [1], [11], writer="rome")
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    world.catalog.evolve("weather", "hourly", rename={"n": "item"})
    world.catalog.evolve("weather", "hourly", rename={"item": "n", "left": "item"})
    world.catalog.evolve("weather", "hourly", rename={"item": "left"})
    assert told(world, before) == []
    assert told(world, before, net=False) == []


def test_what_was_committed_while_logs_called_the_key_otherwise(world):
    """No commit of then is named for rows of files that stay; before and after each is."""
    stock(world, [1, 2, 3], [10, 20, 30])
    stock(world, [4], [40], writer="rome")
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    stock(world, [1], [11])
    commit(world, lambda tx: tx.evolve("hourly", rename={"n": "item"}))
    data = pa.table({"item": [5, 4], "left": [50, 41]})
    commit(world, lambda tx: tx.write("hourly", data))
    stock(world, [2], [21], writer="rome")
    commit(world, lambda tx: tx.evolve("hourly", rename={"n": "item"}), "rome")
    commit(world, lambda tx: tx.delete("hourly", "item = 2"), "rome")
    after = world.token
    every = world.catalog.changes("weather", "hourly", before, net=False).read_all().to_pylist()
    names = ("_change", "_writer", "_revision", "item", "left")
    assert [tuple(row[name] for name in names) for row in every] == [
        ("delete", "oslo", 2, 1, 10),
        ("insert", "oslo", 2, 1, 11),
        ("delete", "oslo", None, 2, 20),
        ("insert", "oslo", 4, 5, 50),
        ("insert", "oslo", 4, 4, 41),
        ("delete", "rome", None, 4, 40),
        ("insert", "rome", 2, 2, 21),
        ("delete", "rome", 4, 2, 21),
    ]
    rows = world.catalog.changes("weather", "hourly", before, after).read_all().to_pylist()
    assert sorted((row["_change"], row["left"]) for row in rows) == [
        ("delete", 10), ("delete", 20), ("delete", 40),
        ("insert", 11), ("insert", 41), ("insert", 50),
    ]  # fmt: skip


def test_files_that_share_no_keys_with_others_are_not_read(world, monkeypatch):
    """Of a hundred files one meets the one that came."""
    for start in range(0, 200, 20):
        stock(world, list(range(start, start + 20)), [0] * 20)
    world.catalog.evolve("weather", "hourly", key=["n"])
    before = world.token
    stock(world, [45], [1])
    read = set()
    real = scan.read_file

    def seen(store, part, *args, **options):
        read.add(part.key)
        return real(store, part, *args, **options)

    monkeypatch.setattr(scan, "read_file", seen)
    assert sorted(row[3:] for row in told(world, before)) == [(45, 0), (45, 1)]
    assert len(read) == 2
