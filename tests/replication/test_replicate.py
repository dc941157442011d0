"""A replica reads as its source, at every cut that was replicated, and goes on where it was."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.read.mirror import LostLogWarning
from lakelog.errors import (
    CorruptObject,
    DatabaseNotFound,
    IsReplica,
    NotACatalog,
    ObjectNotFound,
    ReplicaDiverged,
    SnapshotPruned,
    UsageError,
    WriterNotFound,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication import plan_replication, promote, replicate
from lakelog.testing.counting import CountingStore
from own_files import add_own
from replica_cases import D, Pair, written


@pytest.fixture
def pair():
    return Pair()


def test_every_cut_reads_the_same_by_its_own_token(pair):
    tokens = written(pair, 3) + written(pair, 2, "bergen")
    report = pair.replicate()
    assert report.tokens == {D: tokens[-1]}
    pair.same(*tokens)
    assert pair.copy.catalog.history(D).equals(pair.source.catalog.history(D))


def test_what_is_there_is_not_copied_again(pair):
    written(pair, 3)
    pair.replicate()
    tokens = written(pair, 2)
    (log,) = pair.replicate().logs
    assert (log.plan.first, log.revision) == (2, 4)
    assert (log.copied.commits, log.copied.files) == (2, 2)
    pair.same(*tokens)
    (log,) = pair.replicate().logs
    assert (log.copied.commits, log.copied.files, log.plan.is_done) == (0, 0, True)


def test_nothing_new_costs_a_look_at_both_ends(pair):
    written(pair, 3)
    pair.replicate()
    ends = [pair.source.catalog, pair.copy.catalog]
    stores = [CountingStore(end.store) for end in ends]
    for end, store in zip(ends, stores, strict=True):
        end.store = store
    assert not replicate(*ends).errors
    for store, lists in zip(stores, (6, 4), strict=True):
        counts = store.counts
        assert counts["put"] == counts["delete"] == counts["head"] == 0
        assert counts["list"] == lists, "at the source 4 find the logs; here 3 open log and mirror"


def test_deletes_columns_keys_and_files_of_others_come_through(pair):
    tokens = []
    catalog = pair.source.catalog
    with pair.source.writer() as writer:

        def commit(act):
            pair.clock.now_s += 1
            with writer.transaction(app_id="job", app_version=len(tokens) + 1) as tx:
                act(tx)
            tokens.append(pair.source.token)

        rows = pa.table({"id": [1, 2, 3, 4], "n": [1.0, 2.0, float("nan"), 4.0]})
        commit(lambda tx: tx.write("t", rows, partition="a=1", bloom=["id"]))
        commit(lambda tx: tx.delete("t", "id = 2", mode="rows"))
        commit(lambda tx: tx.delete("t", "id = 3", mode="predicate"))
        commit(lambda tx: tx.evolve("t", rename={"n": "m"}, add={"b": pa.int64()}, key=["id"]))
        commit(lambda tx: tx.upsert("t", pa.table({"id": [1], "m": [9.0], "b": [7]})))
        body = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [8], "m": [1.5]}), body)
        pair.source.store.put("oslo/weather/data/raw/x.parquet", body.getvalue().to_pybytes())
        commit(lambda tx: add_own(tx, "u", "data/raw/x.parquet"))
    assert [key for key in pair.objects(".deletes", pair.source)]
    pair.replicate()
    pair.same(*tokens)
    for table in ("t", "u"):
        ends = [world.catalog.snapshot(D).to_duckdb() for world in (pair.source, pair.copy)]
        found = [end.sql(f'FROM "{table}" ORDER BY id').fetchall() for end in ends]
        assert found[0] == found[1]
    promote(pair.copy.catalog)
    with catalog.writer("oslo", D, shared=True) as a, pair.copy.writer(shared=True) as b:
        for each in (a, b):
            with each.transaction(app_id="job", app_version=6) as tx:
                tx.write("v", rows)
            assert tx.commit_info.skipped


def test_files_that_lie_elsewhere_stay_there(pair, tmp_path):
    pq.write_table(pa.table({"n": [5]}), tmp_path / "x.parquet")
    with pair.source.writer() as writer, writer.transaction() as tx:
        tx.add("hourly", tmp_path / "x.parquet")
    (log,) = pair.replicate().logs
    assert (log.copied.elsewhere, log.copied.files) == (1, 0)
    pair.same(pair.source.token)


def test_some_databases_and_writers(pair):
    written(pair, 2)
    written(pair, 2, "bergen")
    with pair.source.catalog.writer("oslo", "other") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    pair.replicate(databases=[D], writers=["bergen"])
    assert {key.split("/")[0] for key in pair.objects()} == {"bergen"}
    pair.replicate(databases=["other"])
    assert pair.copy.catalog.databases() == ["other", D]
    assert pair.copy.catalog.writers(D) == ["bergen"]
    with pytest.raises(WriterNotFound):
        pair.replicate(writers=["nobody"])
    with pytest.raises(DatabaseNotFound):
        pair.replicate(databases=["nowhere"])
    with pytest.raises(NotACatalog):
        replicate(pair.world().catalog, pair.copy.catalog)


def test_a_database_whose_first_commit_is_still_to_come_keeps_no_other_waiting(tmp_path):
    """Its folder is there before the transaction is."""
    source = open_catalog(tmp_path / "lake")
    (tmp_path / "lake/oslo/climate/transactions").mkdir(parents=True)
    with pytest.raises(DatabaseNotFound, match="climate"):
        replicate(source, str(tmp_path / "copy"))
    with source.writer("oslo", "weather") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    with pytest.warns(LostLogWarning, match="no database 'climate': it is left out"):
        report = replicate(source, str(tmp_path / "copy"))
    assert report.tokens == {"weather": source.snapshot("weather").token}
    with pytest.raises(DatabaseNotFound, match="climate"):
        replicate(source, str(tmp_path / "copy"), databases=["climate"])


def test_a_plan_tells_and_does_nothing(pair):
    written(pair, 4)
    plan = plan_replication(pair.source.catalog, pair.copy.catalog)
    (log,) = plan.logs
    assert (log.plan.first, log.plan.last, log.plan.commits, log.plan.files) == (-1, 3, 4, 4)
    assert not pair.objects()
    (done,) = pair.replicate().logs
    assert (done.copied.files, done.copied.size_bytes) == (log.plan.files, log.plan.size_bytes)


# --- Where it begins ------------------------------------------------------------------------------


def test_a_pruned_source_begins_with_its_oldest_checkpoint(pair):
    tokens = written(pair, 7)
    pair.source.prune()
    pair.source.gc()
    tokens += written(pair, 2)
    (log,) = pair.replicate().logs
    assert log.plan.base == 6
    pair.same(*tokens[6:])
    with pytest.raises(SnapshotPruned):
        pair.copy.catalog.snapshot(D, tokens[5])


def test_without_history_it_begins_with_the_newest_checkpoint(pair):
    tokens = written(pair, 8)
    (log,) = pair.replicate(history=False).logs
    assert log.plan.base is not None
    assert log.plan.base >= 5
    pair.same(tokens[-1])
    with pytest.raises(SnapshotPruned):
        pair.copy.catalog.snapshot(D, tokens[0])
    tokens += written(pair, 1)
    pair.replicate()
    pair.same(*tokens[-2:])


def test_a_rebuilt_source_is_followed_into_its_next_incarnation(pair):
    old = written(pair, 4)
    pair.replicate()
    pair.clock.now_s += 60
    execute_rebuild(pair.source.catalog, plan_rebuild(pair.source.catalog, "oslo", D))
    tokens = [pair.source.token, *written(pair, 2)]
    pair.replicate()
    pair.same(old[-1], *tokens)
    assert pair.replicate().logs[0].plan.is_done
    fresh = Pair()
    fresh.source = pair.source
    fresh.replicate()
    fresh.same(*tokens)


# --- What is refused ------------------------------------------------------------------------------


def test_a_replica_that_fell_behind_says_so_and_stays_readable(pair):
    tokens = written(pair, 3)
    pair.replicate()
    written(pair, 5)
    pair.source.prune()
    with pytest.raises(SnapshotPruned, match="has pruned revision"):
        pair.replicate()
    assert pair.copy.token == tokens[-1]


@pytest.mark.parametrize("further", [0, 1])
def test_a_destination_that_somebody_wrote_to_is_refused(pair, further):
    """Also when the source has gone as far meanwhile."""
    written(pair, 2)
    pair.replicate()
    promote(pair.copy.catalog)
    pair.copy.write(99)
    written(pair, further)
    before = pair.objects()
    with pytest.raises(ReplicaDiverged):
        pair.replicate()
    assert pair.objects() == before
    assert 99 in pair.copy.rows()


def test_a_replica_takes_no_commit_until_it_is_promoted(pair):
    written(pair, 2)
    pair.replicate()
    for shared in (False, True):
        with pair.copy.writer(shared=shared) as writer:
            writer.checkpoint()
            with pytest.raises(IsReplica, match="oslo/weather is a replica"):
                writer.transaction()
    written(pair, 1)
    pair.replicate()
    assert promote(pair.copy.catalog, "other") == []
    assert promote(pair.copy.catalog, D, writer="oslo") == [("oslo", D)]
    pair.copy.write(99)
    assert 99 in pair.copy.rows()
    assert promote(pair.copy.catalog) == []


def test_another_log_of_the_same_name_is_refused(pair):
    written(pair, 2)
    pair.copy.write(1)
    with pytest.raises(ReplicaDiverged):
        pair.replicate()


def test_a_destination_that_was_rebuilt_is_refused(pair):
    written(pair, 2)
    pair.replicate()
    pair.clock.now_s += 60
    execute_rebuild(pair.copy.catalog, plan_rebuild(pair.copy.catalog, "oslo", D))
    with pytest.raises(ReplicaDiverged, match="rebuilt at the destination"):
        pair.replicate()


def test_what_somebody_wrote_is_not_hidden_by_a_rebuild_of_the_source(pair):
    """A higher incarnation would hide the other commit: its rows would be gone."""
    written(pair, 2)
    pair.replicate()
    promote(pair.copy.catalog)
    pair.copy.write(99)
    pair.clock.now_s += 60
    execute_rebuild(pair.source.catalog, plan_rebuild(pair.source.catalog, "oslo", D))
    with pytest.raises(ReplicaDiverged):
        pair.replicate()
    assert 99 in pair.copy.rows()


def test_one_place_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    for other in ("lake", "lake/inner", "link", "lake/"):
        with pytest.raises(UsageError, match="one place"):
            replicate(str(tmp_path / "lake"), f"{tmp_path}/{other}")


def flipped(store, key, at):
    body = bytearray(store.get(key))
    if at == "page":
        column = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0)
        at = column.data_page_offset + column.total_compressed_size - 1
    body[at] ^= 1
    store.put(key, bytes(body))


@pytest.mark.parametrize("at", ["page", -20], ids=["page", "footer"])
def test_a_damaged_file_is_not_copied_and_what_came_before_is(pair, at):
    written(pair, 1)
    pair.replicate()
    good = pair.source.token
    path = pair.source.write(*range(100))
    flipped(pair.source.store, f"oslo/{D}/{path}", at)
    with pytest.raises(CorruptObject, match="Nothing of it was copied"):
        pair.replicate()
    assert pair.copy.token == good
    assert not [key for key in pair.objects(".parquet") if key.endswith(path)]


def test_a_damaged_transaction_stops_one_log_and_not_the_others(pair):
    written(pair, 2)
    written(pair, 2, "bergen")
    for key in pair.objects(".transaction", pair.source):
        if key.startswith("b") and "-1." in key:
            flipped(pair.source.store, key, 100)  # both copies
    report = replicate(pair.source.catalog, pair.copy.catalog)
    assert [type(log.error) for log in report.logs] == [CorruptObject, type(None)]
    assert report.logs[1].revision == 1
    assert not report.tokens


def test_a_lost_file_is_named(pair):
    path = pair.source.write(1)
    pair.source.store.delete([f"oslo/{D}/{path}"])
    with pytest.raises(ObjectNotFound) as told:
        pair.replicate()
    assert path in told.value.key
