"""The changes of a table as a stream: those of `catalog.changes`, each once."""

from __future__ import annotations

import json
from collections import Counter

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import SchemaConflict, UsageError
from newer_spark import STREAMS, needs
from stream_cases import put, stream
from stream_history import History, commit, counted, now, sums

pytestmark = needs(STREAMS)


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path))


def test_inserts_deletes_and_existing_rows(catalog):
    put(catalog, 1, 2)
    query = stream(catalog, readChangeFeed="true")
    first = query.batch()
    assert [(row["_change"], row["_writer"], row["_revision"], row["n"]) for row in first] == [
        ("insert", "w", None, 1),
        ("insert", "w", None, 2),
    ]
    commit(catalog, lambda tx: tx.delete("t", "n = 1"))
    put(catalog, 3)
    rows = query.batch()
    assert [(row["_change"], row["_revision"], row["n"]) for row in rows] == [
        ("delete", 1, 1),
        ("insert", 2, 3),
    ]
    times = catalog.history("db")["committed_at"].to_pylist()[1:]
    assert [row["_committed_at"] for row in rows] == times
    commit(catalog, lambda tx: tx.overwrite("t", pa.table({"n": [9]})))
    went = [(row["_change"], row["n"]) for row in query.batch()]
    assert went == [("delete", 2), ("delete", 3), ("insert", 9)]


def changes_of(catalog, query, net):
    """What `catalog.changes` says of the cuts of the batch that was noted last."""
    ends = [json.loads(end) for end in query.ends[-2:]]
    since = ends[0]["cut"] if len(ends) == 2 else ends[0]["begun"]
    return catalog.changes("db", "t", since, ends[-1]["cut"], net=net).read_all().to_pylist()


CASES = [
    (0, False, False),
    (0, False, True),
    (1, False, True),
    (2, False, True),
    (0, True, False),
    (1, True, True),
]


@pytest.mark.parametrize(("seed", "keyed", "deletes"), CASES)
def test_batches_together_are_the_changes_of_the_whole(catalog, seed, keyed, deletes):
    """Batch by batch the rows are those of `catalog.changes`, and together those of the whole."""
    history = History(catalog, seed, keyed=keyed, deletes=deletes)
    since = catalog.snapshot("db").token
    before = now(catalog)
    every = stream(catalog, readChangeFeed="true", since=since, maxFilesPerTrigger=2)
    net = stream(catalog, readChangeFeed="true", since=since, net="true", maxFilesPerTrigger=3)
    whole = stream(catalog, readChangeFeed="true")
    found, netted, from_start = [], [], []
    for _ in range(5 if keyed else 12):
        for _ in range(history.chance.randrange(3)):
            history.step()
        for query, rows in ((every, found), (net, netted), (whole, from_start)):
            if history.chance.random() < 0.6:
                continue
            if query.plan():
                read = query.read()
                query.restart()
                assert counted(query.read()) == counted(read)
                if query is not whole:
                    assert counted(read) == counted(changes_of(catalog, query, query is net))
                query.commit()
                rows += read
    found += every.rows()
    netted += net.rows()
    from_start += whole.rows()
    # Of a table with a key it depends on which cuts are compared.
    if not keyed:
        wanted = catalog.changes("db", "t", since, net=False).read_all().to_pylist()
        assert counted(found) == counted(wanted)
    assert sums(found) == sums(netted)
    total = Counter(before)
    total.update(sums(found))
    assert +total == now(catalog)
    assert sums(from_start) == now(catalog)


def test_several_steps_of_one_file_in_one_net_batch(catalog):
    """Which of its rows went, and came back, by which commit: tasks are told of all its steps."""
    put(catalog, 1, 2, 3, 4)
    before = catalog.snapshot("db").token
    query = stream(catalog, readChangeFeed="true", since=before, net="true")
    for number in (1, 2, 3):
        commit(catalog, lambda tx, n=number: tx.delete("t", f"n = {n}", mode="rows"))
    catalog.restore("db", to={"w": 2}, execute=True)
    rows = query.batch()
    found = sorted((row["_revision"], row["_change"], row["n"]) for row in rows)
    assert found == [(1, "delete", 1), (2, "delete", 2)]
    wanted = catalog.changes("db", "t", before).read_all().to_pylist()
    assert counted(rows) == counted(wanted)


def test_a_key_that_comes_later(catalog):
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [1, 1, 2], "n": [1, 2, 3]})))
    query = stream(catalog, readChangeFeed="true")
    assert len(query.batch()) == 3
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [7], "n": [7]})), "v")
    commit(catalog, lambda tx: tx.evolve("t", key=["k"]))
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [2], "n": [4]})), "v")
    rows = query.rows()
    total = Counter({(1, 1): 1, (1, 2): 1, (2, 3): 1})
    total.update(sums(rows))
    assert +total == now(catalog)


def renamed(catalog, between=()):
    """The cut before a key, and a column of it is renamed: in the log of `w` at first."""
    put(catalog, 1, 2)
    put(catalog, 1, 3, writer="v")
    before = catalog.snapshot("db").token
    catalog.evolve("db", "t", key=["n"])
    for number in range(5):
        put(catalog, number, writer="v")
    commit(catalog, lambda tx: tx.evolve("t", rename={"n": "number"}))
    for number in between:
        put(catalog, number, writer="v")
    commit(catalog, lambda tx: tx.evolve("t", rename={"n": "number"}), writer="v")
    return before


def led(before, rows):
    found = Counter(before)
    for row in rows:
        found[row["number"]] += 1 if row["_change"] == "insert" else -1
    return {number: count for number, count in found.items() if count}


def test_of_a_log_that_is_long_the_key_is_not_told_by_its_former_name(catalog, monkeypatch):
    """A batch looks at a few commits of each log: of the other these have the new name."""
    before = renamed(catalog)
    query = stream(catalog, readChangeFeed="true", since=before)
    from lakelog.spark import stream_source, stream_table

    for module in (stream_table, stream_source):
        monkeypatch.setattr(module, "COMMITS_AT_ONCE", 2)
    assert led([1, 1, 2, 3], query.rows()) == dict.fromkeys(range(5), 1)


def test_no_batch_ends_where_logs_call_the_key_otherwise(catalog):
    before = renamed(catalog, between=(7, 8))
    query = stream(catalog, readChangeFeed="true", since=before, maxFilesPerTrigger=1)
    batches = list(query.batches())
    assert len(batches) == 5  # the last one goes on behind the limit
    rows = [row for each in batches for row in each]
    assert led([1, 1, 2, 3], rows) == dict.fromkeys([*range(5), 7, 8], 1)


def test_no_stream_begins_where_logs_call_the_key_otherwise(catalog):
    """Where it begins is noted, and Spark would plan that batch again for ever."""
    for writer in ("w", "v"):
        commit(catalog, lambda tx: tx.write("t", pa.table({"n": [1], "m": [1]})), writer=writer)
    catalog.evolve("db", "t", key=["n"])
    query = stream(catalog, readChangeFeed="true", columns='["m"]')
    commit(catalog, lambda tx: tx.evolve("t", rename={"n": "number"}))
    with pytest.raises(SchemaConflict, match="Give all logs the same"):
        query.plan()
    assert not query.ends
    commit(catalog, lambda tx: tx.evolve("t", rename={"n": "number"}), writer="v")
    query.restart()
    assert [row["m"] for row in query.rows()] == [1]


def test_a_table_with_columns_that_changes_have(catalog):
    data = pa.table({"_change": ["insert"], "n": [1]})
    commit(catalog, lambda tx: tx.write("t", data))
    assert stream(catalog).rows() == data.to_pylist()
    with pytest.raises(UsageError, match="'_change', which changes have too"):
        stream(catalog, readChangeFeed="true")
    some = stream(catalog, readChangeFeed="true", columns='["n"]').rows()
    assert [(row["_change"], row["n"]) for row in some] == [("insert", 1)]
