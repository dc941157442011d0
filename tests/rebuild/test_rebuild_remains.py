"""What is left of an old log counts: application versions, schemas, keys and sort orders that no
file tells of, and, where its end can't be read, whatever part of it can."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import ForeignLog
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import numbered
from rebuild_cases import lose_objects

LOG = "EWR/weather/transactions/"


def commit(writer, value, *, gone=(), app=(None, None)):
    """One file, in place of others or none; its path."""
    with writer.transaction(*app) as tx:
        (path,) = tx.write("hourly", pa.table({"n": [value]}))
        for other in gone:
            tx.remove(other)
    return path


def remove(writer, *paths, app=(None, None)):
    with writer.transaction(*app) as tx:
        for path in paths:
            tx.remove(path)


def name_schema(writer, table, *, key=(), sort_order=(), app=(None, None), column="a"):
    """A transaction of a schema alone."""
    found = encode_schema(numbered(pa.schema([(column, pa.int32())])))
    tx = writer.transaction(*app)
    item = wire.Schema(
        table=table, fingerprint=found.fingerprint, arrow_schema=found.message, key=key,
        sort_order=sort_order,
    )  # fmt: skip
    tx._intent.actions.append(wire.Action(schema=item))
    tx.commit()
    return found.fingerprint


def spoil(store, *revisions, kinds=("transaction", "checkpoint")):
    for info in list(store.list(LOG)):
        item = parse_log_object(info.key.removeprefix(LOG))
        if item.revision in revisions and item.kind in kinds:
            store.put(info.key, store.get(info.key)[:-1])


def state_of(store):
    return LogReader(store, "EWR", "weather").load()


def live(store):
    return {path for paths in state_of(store).files.paths() for path in paths.to_pylist()}


def rebuild(store, fake):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan


@pytest.fixture
def writer(catalog):
    return catalog.writer("EWR", "weather", checkpoint_every=0)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_no_file_tells_is_carried_over(writer, store, fake, checkpointed):
    first = commit(writer, 1, app=("loader", 4))
    commit(writer, 2)
    name_schema(writer, "empty", key=["a"], sort_order=["a"])
    remove(writer, first, app=("cleaner", 7))
    name_schema(writer, "hourly", key=["n"], column="n")
    if checkpointed:
        writer.checkpoint()
    before = state_of(store)
    versions, schemas = before.applications.versions(), before.schemas.entries
    assert versions == {"loader": 4, "cleaner": 7}
    rebuild(store, fake)
    after = state_of(store)
    assert after.log.incarnation == 2
    assert after.applications.versions() == versions
    assert after.schemas.entries.keys() == schemas.keys()
    for name, entry in schemas.items():
        found = after.schemas.entries[name]
        assert (found.message, found.key, found.sort_order) == (
            entry.message, entry.key, entry.sort_order,
        )  # fmt: skip
    assert after.schemas.tables() == {"hourly", "empty"}


def test_a_batch_that_only_removed_is_not_run_again_after_a_rebuild(catalog, writer, store, fake):
    first = commit(writer, 1)
    remove(writer, first, app=("cleaner", 7))
    keep = commit(writer, 2)
    rebuild(store, fake)
    with catalog.writer("EWR", "weather") as owner:
        remove(owner, keep, app=("cleaner", 7))  # the same batch, told to run again
    assert live(store) == {keep}


def test_many_applications_and_schemas_take_several_transactions(writer, store, fake, monkeypatch):
    monkeypatch.setattr("lakelog.rebuild.carried._IN_ONE", 2)
    path = commit(writer, 1)
    for number in range(5):
        name_schema(writer, f"t{number}", app=(f"app {number}", number), column=f"c{number}")
    lose_objects(store)
    plan = rebuild(store, fake)
    assert [(len(t.schemas), len(t.applications)) for t in plan.transactions] == [
        (0, 0), (2, 0), (2, 0), (1, 0), (0, 2), (0, 2), (0, 1),
    ]  # fmt: skip
    assert state_of(store).applications.versions() == {f"app {n}": n for n in range(5)}
    assert len(state_of(store).schemas.entries) == 6
    assert live(store) == {path}


def test_a_second_rebuild_carries_the_same_and_no_more(writer, store, fake):
    commit(writer, 1)
    name_schema(writer, "empty", app=("a", 3))
    rebuild(store, fake)
    once = state_of(store)
    rebuild(store, fake)
    twice = state_of(store)
    assert twice.log.incarnation == 3
    assert twice.applications.versions() == once.applications.versions() == {"a": 3}
    assert twice.schemas.entries.keys() == once.schemas.entries.keys()


# --- The end can't be read ------------------------------------------------------------------------


def test_up_to_the_damage_the_old_log_counts(writer, store, fake):
    """A removal that no file tells of, and a foreign name: both stand below the damaged head."""
    first, second = commit(writer, 1), commit(writer, 2)
    remove(writer, first, app=("cleaner", 1))
    third = commit(writer, 3)
    spoil(store, 3)
    plan = rebuild(store, fake)
    assert live(store) == {second, third}, "what was removed came back"
    assert state_of(store).applications.versions() == {"cleaner": 1}
    assert any("up to revision 2" in note for note in plan.notes)
    assert any("the old log's end can't be read" in note for note in plan.notes)


def test_above_the_damage_each_transaction_counts_for_itself(writer, store, fake):
    first, second = commit(writer, 1), commit(writer, 2)
    third = commit(writer, 3)
    remove(writer, first, app=("cleaner", 1))
    name_schema(writer, "empty", key=["a"])
    times = {n: row["committed_at"] for n, row in enumerate(history(store))}
    spoil(store, 1)  # all from here on can't be replayed
    plan = rebuild(store, fake)
    assert live(store) == {second, third}
    assert state_of(store).applications.versions() == {"cleaner": 1}
    assert "empty" in state_of(store).schemas.tables()
    by_id = {t.transaction_id: t for t in plan.transactions}
    assert [t.proof for t in plan.transactions[:3]] == ["proven"] * 3
    transaction_id = third.split("-")[-2]
    assert by_id[transaction_id].original_revision == 2
    assert by_id[transaction_id].committed_at_us == int(times[2].timestamp() * 1_000_000)


def history(store):
    return state_of(store).history.table().to_pylist()


def test_of_a_log_without_its_beginning_the_rest_counts(writer, store, fake):
    first, second = commit(writer, 1), commit(writer, 2)
    writer.checkpoint()
    remove(writer, first)
    third = commit(writer, 3)
    spoil(store, 1, kinds=["checkpoint"])
    gone = [i.key for i in store.list(LOG) if i.key.endswith(".transaction")]
    gone = [key for key in gone if parse_log_object(key.removeprefix(LOG)).revision == 1]
    store.delete(gone)
    rebuild(store, fake)
    assert live(store) == {second, third}


def test_a_batch_of_files_above_the_damage(writer, store, fake, monkeypatch):
    monkeypatch.setattr("lakelog.catalog.log.build.BATCH_FROM_FILES", 2)
    commit(writer, 0)
    lost = commit(writer, 1)
    with writer.transaction() as tx:
        paths = [tx.write("hourly", pa.table({"n": [n]}))[0] for n in range(4)]
    remove(writer, paths[0], lost)
    spoil(store, 1)
    plan = rebuild(store, fake)
    assert not {paths[0], lost} & live(store)
    assert set(paths[1:]) <= live(store)
    assert not plan.unproven or lost.split("-")[-2] in {t.transaction_id for t in plan.unproven}


def test_a_foreign_file_above_the_damage_is_taken_over(catalog, writer, store, fake):
    commit(writer, 0)
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [5]}), sink)
    path = "data/_/hourly/theirs.parquet"
    store.put(f"EWR/weather/{path}", sink.getvalue())
    with writer.transaction() as tx:
        tx.add("hourly", path)
    commit(writer, 7)
    spoil(store, 0)
    rebuild(store, fake)
    assert path in live(store)
    rows = catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()
    assert sorted(rows) == [0, 5, 7]


@pytest.mark.parametrize("branched", [False, True])
def test_transactions_that_contradict_each_other_end_what_counts(store, fake, branched):
    """Revision 1 was put back from elsewhere: whether revision 2 was committed, nobody knows."""
    catalog, other = (Catalog(each, ambient=fake.ambient) for each in (store, MemoryStore()))
    first = commit(catalog.writer("EWR", "weather", checkpoint_every=0), 1)
    fill(other.store, store)
    writer = catalog.writer("EWR", "weather", checkpoint_every=0)
    commit(writer, 2)
    remove(writer, first)
    if branched:
        commit(other.writer("EWR", "weather", checkpoint_every=0), 9)
        fill(store, other.store)
    spoil(store, 0)
    lose_objects(store)
    rebuild(store, fake)
    assert (first in live(store)) == branched


def fill(store, source):
    for info in list(source.list("")):
        store.put(info.key, source.get(info.key))


def test_of_what_single_transactions_say_nothing_counts_where_nobody_knows_whose_they_are(
    writer, store, fake
):
    """No identity can be read, and no file's footer names one of them."""
    first = commit(writer, 1)
    remove(writer, first)
    spoil(store, 0)
    lose_objects(store)
    rebuild(store, fake)
    assert live(store) == {first}


def test_a_file_that_was_written_on_top_of_a_transaction_says_whose_it_is(writer, store, fake):
    first = commit(writer, 1)
    remove(writer, first)
    second = commit(writer, 2)
    spoil(store, 0, 2)
    rebuild(store, fake)
    assert live(store) == {second}


def test_a_damaged_log_of_another_name_is_refused(writer, store, fake):
    for value in range(3):
        commit(writer, value)
    for info in list(store.list("EWR/")):
        store.put(info.key.replace("EWR/", "JFK/", 1), store.get(info.key))
    for info in list(store.list("JFK/weather/transactions/")):
        if "-2." in info.key:
            store.put(info.key, store.get(info.key)[:-1])
    with pytest.raises(ForeignLog):
        plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)


def lose_the_checkpoint_of_a_rebuilt_log(catalog, what):
    """Paths that were live before."""
    store = catalog.store
    with catalog.writer("EWR", "weather") as writer:
        paths = [commit(writer, value) for value in range(3)]
    execute_rebuild(catalog, plan_rebuild(catalog, "EWR", "weather"))
    with catalog.writer("EWR", "weather") as writer:
        if what == "adopt":
            sink = io.BytesIO()
            pq.write_table(pa.table({"n": [7]}), sink)
            store.put("EWR/weather/data/in/landed.parquet", sink.getvalue())
            with writer.transaction() as tx:
                tx.add("hourly", "data/in/landed.parquet")
            paths.append("data/in/landed.parquet")
        else:
            remove(writer, paths.pop())
    keys = [info.key for info in store.list(LOG)]
    store.delete([key for key in keys if key.endswith("checkpoint")])
    return set(paths)


@pytest.mark.parametrize("what", ["adopt", "remove"])
@pytest.mark.parametrize("lower_too", [False, True])
def test_commits_that_left_no_file_count_where_the_checkpoint_is_lost(what, lower_too):
    catalog = Catalog(MemoryStore("remains"))
    paths = lose_the_checkpoint_of_a_rebuilt_log(catalog, what)
    if lower_too:
        keys = [info.key for info in catalog.store.list(LOG)]
        items = {key: parse_log_object(key.removeprefix(LOG)) for key in keys}
        catalog.store.delete([key for key in keys if items[key].incarnation == 1])
    plan = plan_rebuild(catalog, "EWR", "weather")
    assert plan.live.keys() == paths
    assert plan.incarnation == 3
    execute_rebuild(catalog, plan)
    assert set(catalog.snapshot("weather").files("hourly")["path"].to_pylist()) == paths
