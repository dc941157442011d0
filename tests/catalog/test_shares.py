"""One transaction whose files several processes write: one attempt of each task is committed, and
nothing else ever becomes visible. How tasks run here is in
`share_cases`."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import distributed_write
from lakelog.catalog.commit.distributed_write import (
    ATTEMPTS,
    FILES_OF_AN_ATTEMPT,
    OWN_FILES,
    Sharing,
)
from lakelog.catalog.format.names import parse_data_file
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    InvalidSchema,
    LakelogError,
    ObjectExists,
    OperationInvalid,
    SchemaConflict,
    UsageError,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, PassingStore
from share_cases import described, numbers, rebuilt, rows, task, written


@pytest.fixture
def ambient():
    return FakeAmbient().ambient


@pytest.fixture
def catalog(ambient):
    return Catalog(MemoryStore("shares"), ambient=ambient)


def test_files_of_all_tasks_come_with_one_commit(catalog):
    tx, done = written(catalog, rows(1, 2), rows(), rows(3))
    assert numbers(catalog) == [1, 2, 3]
    assert (done.rows_added, len(done.paths)) == (3, 2)
    assert catalog.history("db")["operation"].to_pylist() == ["append"]
    assert tx.commit_info.revision == 0


def test_files_are_as_those_of_a_plain_write(catalog):
    """The same bytes but for ids, number, clock and task: one encoder for all."""
    data = rows(1, 2).append_column("s", pa.array(["a", None]))
    written(catalog, data)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", data)
    files = catalog.snapshot("db").files("t").sort_by("revision").to_pylist()
    own, plain = (pq.read_metadata(pa.BufferReader(catalog.store.get(f"w/db/{one['path']}")))
                  for one in files)  # fmt: skip
    assert own.metadata.keys() - plain.metadata.keys() == {b"lakelog.task", b"lakelog.attempt"}
    same = {b"lakelog.schema", b"lakelog.floats", b"lakelog.operation", b"ARROW:schema"}
    assert all(own.metadata[key] == plain.metadata[key] for key in same)
    assert own.row_group(0).to_dict() == plain.row_group(0).to_dict()


def test_an_attempt_that_does_not_count_is_never_seen(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        sharing = Sharing(tx, "t", rows().schema)
        task(catalog, sharing, rows(1, 2), 0, attempt=0)
        found = [
            task(catalog, sharing, rows(1, 2), 0, attempt=7),
            task(catalog, sharing, rows(3), 1),
        ]
        sharing.finish(found)
    assert numbers(catalog) == [1, 2, 3]
    assert sum("/data/" in info.key for info in catalog.store.list("")) == 3


@pytest.mark.parametrize("wrong", ["twice", "another's"])
def test_only_one_part_of_each_task_of_this_transaction_is_taken(catalog, wrong):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        sharing = Sharing(tx, "t", rows().schema)
        parts = [task(catalog, sharing, rows(1), 0, attempt=at) for at in (0, 1)]
        if wrong == "another's":
            other = writer.transaction()
            parts = [task(catalog, Sharing(other, "t", rows().schema), rows(1), 0)]
            other.discard()
        with pytest.raises(OperationInvalid, match="one part of each task"):
            sharing.finish(parts)
        tx.discard()
        assert writer.revision == -1


def test_each_attempt_has_numbers_of_its_own(catalog, monkeypatch):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        sharing = Sharing(tx, "t", rows().schema, file_bytes=1)
        paths = [task(catalog, sharing, rows(1), 5, attempt=at).adds()[0].path
                 for at in (0, 3, ATTEMPTS - 1)]  # fmt: skip
        tx.discard()
    found = [parse_data_file(path).number for path in paths]
    assert found == [0, 3 * FILES_OF_AN_ATTEMPT, OWN_FILES - FILES_OF_AN_ATTEMPT]
    assert OWN_FILES + FILES_OF_AN_ATTEMPT == 10**9  # nine digits


def test_an_attempt_takes_no_number_of_the_next_one(catalog, monkeypatch):
    monkeypatch.setattr(distributed_write, "FILES_OF_AN_ATTEMPT", 2)
    data = pa.table({"p": [1, 2, 3]})
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        sharing = Sharing(tx, "t", data.schema, partition_by=["p"])
        with pytest.raises(UsageError, match="more than 2 files"):
            task(catalog, sharing, data, 0)
        tx.discard()


@pytest.mark.parametrize("exclusive", [True, False])
def test_an_attempt_overwrites_nothing(ambient, exclusive):
    """Where ids come again after all: another's file under the very name stays."""

    class Plain(PassingStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=if_absent and exclusive)

    catalog = Catalog(Plain(MemoryStore("plain")), ambient=ambient)
    with catalog.writer("w", "db") as writer:
        assert writer.capabilities.put_if_absent == exclusive
        tx = writer.transaction()
        sharing = Sharing(tx, "t", rows().schema)
        path = task(catalog, sharing, rows(1), 0).adds()[0].path
        body = catalog.store.get(f"w/db/{path}")
        for attempt, words in ((0, "drawn at random|is there"), (ATTEMPTS, "repeat after 99,999")):
            with pytest.raises(ObjectExists, match=words):
                task(catalog, sharing, rows(2), 1, attempt=attempt)
        assert catalog.store.get(f"w/db/{path}") == body
        tx.discard()


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"partition_by": ["missing"]}, UsageError),
        ({"partition_by": ["x"]}, InvalidSchema),
        ({"bloom": ["missing"]}, UsageError),
        ({"overwrite": True, "where": "missing = 1"}, LakelogError),
    ],
)
def test_what_cannot_be_is_refused_before_any_task(catalog, options, error):
    written(catalog, rows(1))
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(error):
            Sharing(tx, "t", rows().schema, **options)
        tx.discard()


def test_columns_in_conflict_with_the_table_are_refused_before_any_task(catalog):
    written(catalog, rows(1))
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(SchemaConflict):
            Sharing(tx, "t", pa.schema({"n": pa.string()}))
        tx.discard()
        whole = Sharing(writer.transaction(), "t", pa.schema({"n": pa.string()}), overwrite=True)
        whole._tx.discard()  # no file with the old type would be left


def test_times_that_readers_could_not_read_are_refused(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"at": pa.array([1], pa.timestamp("ns"))}))
        far = pa.table({"at": pa.array([dt.datetime(2300, 1, 1)], pa.timestamp("us"))})
        tx = writer.transaction()
        with pytest.raises(SchemaConflict, match="read as timestamp"):
            task(catalog, Sharing(tx, "t", far.schema), far, 0)
        tx.discard()


def test_rows_beside_what_is_replaced_are_refused(catalog):
    written(catalog, rows(1, 5))
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        sharing = Sharing(tx, "t", rows().schema, overwrite=True, where="n < 3")
        with pytest.raises(OperationInvalid, match="don't meet n < 3"):
            task(catalog, sharing, rows(2, 4), 0)
        tx.discard()
    assert numbers(catalog) == [1, 5]


# --- Overwrites -----------------------------------------------------------------------------------


def test_an_overwrite_takes_all_out(catalog):
    written(catalog, rows(1, 2), rows(3))
    _, done = written(catalog, rows(7), rows(8, 9), overwrite=True)
    assert numbers(catalog) == [7, 8, 9]
    assert (done.rows_added, done.rows_removed) == (3, 3)
    assert len(done.removed) == 2
    live = {row["path"] for row in catalog.snapshot("db").files("t").to_pylist()}
    assert live == set(done.paths)
    last = catalog.history("db").to_pylist()[-1]
    assert (last["operation"], last["rows_added"], last["rows_removed"]) == ("overwrite", 3, 3)


def test_an_overwrite_by_predicate_keeps_the_other_rows(catalog):
    written(catalog, rows(1, 2, 10), rows(20))
    _, done = written(catalog, rows(3, 4), overwrite=True, where="n < 5")
    assert numbers(catalog) == [3, 4, 10, 20]
    assert (done.rows_removed, done.rows_rewritten, len(done.rewritten)) == (2, 1, 1)


def test_an_overwrite_without_rows_only_takes_out(catalog):
    written(catalog, rows(1, 2, 10))
    written(catalog, rows(), overwrite=True, where="n < 5")
    assert numbers(catalog) == [10]


def test_nothing_of_an_overwrite_that_broke_off_is_committed(catalog):
    written(catalog, rows(1))
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        sharing = Sharing(tx, "t", rows().schema, overwrite=True)
        parts = [task(catalog, sharing, rows(7), 0, attempt=at) for at in (0, 1)]
        with pytest.raises(OperationInvalid):
            sharing.finish(parts)
        with pytest.raises(UsageError, match="broke off"):
            tx.commit()
        tx.discard()
    assert numbers(catalog) == [1]


# --- A lost log -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        [],
        [{"overwrite": True}],
        [{"overwrite": True, "where": "n < 3"}],
        [{"overwrite": True, "where": "n < 3"}, {"overwrite": True}, {}],
    ],
)
def test_the_log_that_footers_give_says_the_same(catalog, ambient, more):
    first = pa.table({"n": [1, 2, 9], "x": [math.nan, 0.0, None], "s": ["a", "b", None]})
    written(catalog, first, first.slice(1), partition_by=["s"], app=("job", 1))
    for at, options in enumerate(more):
        data = first.slice(0, 2)
        written(catalog, data.slice(0, 1), data.slice(1), app=("job", at + 2), **options)
    written(catalog, first.slice(2))  # what it was begun on is proven by that
    assert described(rebuilt(catalog, ambient)) == described(catalog)


def test_of_a_lost_log_one_attempt_of_each_task_comes_back(catalog, ambient):
    """Those that were cut short, and whole ones that didn't count, would double the rows."""
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            sharing = Sharing(tx, "t", rows().schema)
            task(catalog, sharing, rows(1), 0, attempt=9)
            task(catalog, sharing, rows(1, 2), 0, attempt=2)
            good = [task(catalog, sharing, rows(1, 2), 0, attempt=3)]
            sharing.finish([*good, task(catalog, sharing, rows(3), 1)])
        assert numbers(rebuilt(catalog, ambient)) == [1, 2, 3]
        # What replaced the files of one attempt proves that one: the others don't come back.
        with writer.transaction() as tx:
            tx.overwrite("t", rows(0), where="n < 3")
        with writer.transaction() as tx:
            tx.write("t", rows(4))
    again = rebuilt(catalog, ambient)
    assert numbers(again) == [0, 3, 4]
    assert described(again) == described(catalog)


def test_what_the_old_log_names_stands(catalog, ambient):
    """Though another attempt is fuller: an old log that can be read decides."""
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        sharing = Sharing(tx, "t", rows().schema)
        task(catalog, sharing, rows(1, 2, 3), 0, attempt=5)
        sharing.finish([task(catalog, sharing, rows(1, 2), 0, attempt=1)])
    plan = plan_rebuild(catalog.store, "w", "db", ambient=ambient)
    execute_rebuild(catalog.store, plan, ambient=ambient)
    assert numbers(Catalog(catalog.store, ambient=ambient)) == [1, 2]


def test_gc_takes_the_files_of_attempts_that_do_not_count(catalog, ambient):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        sharing = Sharing(tx, "t", rows().schema)
        lost = task(catalog, sharing, rows(1, 2), 0, attempt=4)
        sharing.finish([task(catalog, sharing, rows(1, 2), 0, attempt=1)])
    written(catalog, rows(3))
    assert not plan_gc(catalog, "w", "db").actions  # it is young
    at_once = Margins(gc_grace_s=0.0)
    plan = plan_gc(catalog.store, "w", "db", margins=at_once)
    assert [one.key for one in plan.actions] == [f"w/db/{lost.adds()[0].path}"]
    execute_gc(catalog.store, plan, margins=at_once)
    assert numbers(catalog) == [1, 2, 3]
