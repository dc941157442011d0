"""Rebuilding beside an old log that can be read, wholly or in part."""

from __future__ import annotations

import pytest
from lakelog.catalog.format.names import rebuilt_slot_uuid
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    ForeignLog,
    NotFoundError,
    UnsupportedFeature,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.base import PAGE_KEYS
from lakelog.testing.doubles import PassingStore
from rebuild_cases import BASE, LOG, commit, kinds, lose_the_log, parquet, reasons, replacing, rows


def live_in(catalog, table="hourly") -> set[str]:
    return set(catalog.snapshot("weather").files(table)["path"].to_pylist())


class LosesItsLog(PassingStore):
    """All of the log goes right after it was listed first."""

    def list(self, prefix, *, after=None, first_page=PAGE_KEYS):
        found = list(self.inner.list(prefix, after=after, first_page=first_page))
        if prefix == LOG and found:
            self.inner.delete([info.key for info in found])
        return iter(found)


@pytest.mark.parametrize("back_to", [None, 1])
def test_a_log_that_goes_while_it_is_read_is_a_lost_one(catalog, store, fake, back_to):
    with catalog.writer("EWR", "weather", checkpoint_every=2) as writer:
        paths = {commit(writer, number)[0] for number in range(3)}
    losing = LosesItsLog(store)
    if back_to is not None:
        with pytest.raises(NotFoundError, match="no incarnation 1"):
            plan_rebuild(losing, "EWR", "weather", back_to=back_to, ambient=fake.ambient)
        return
    plan = plan_rebuild(losing, "EWR", "weather", ambient=fake.ambient)
    assert not plan.is_whole
    assert plan.live.keys() == paths


def test_a_healthy_log_becomes_its_next_incarnation_with_the_same_files(catalog, store, fake):
    store.put(f"{BASE}data/_/x/part-0.parquet", parquet(rows(5, 6)))
    store.put(f"{BASE}data/_/hourly/never-added.parquet", parquet(rows(7)))
    with catalog.writer("EWR", "weather", checkpoint_every=2) as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/x/part-0.parquet", "q", clock=(3, 4))
        with writer.transaction() as tx:
            tx.remove(gone)
        lost, _ = replacing(writer, first, 9, done=False)
        commit(writer, 3, app_id="job", app_version=4)
    before = catalog.snapshot("weather").files("hourly", details=True).drop_columns("revision")
    old = catalog.snapshot("weather")
    data = old.to_arrow("hourly").sort_by("n")
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.unproven
    assert kinds(plan) == {lost: "undecided", "data/_/hourly/never-added.parquet": "foreign"}
    assert "doesn't hold it" in reasons(plan)[lost]
    info = execute_rebuild(store, plan, ambient=fake.ambient)
    assert info.incarnation == 2
    after = catalog.snapshot("weather").files("hourly", details=True).drop_columns("revision")
    assert after.sort_by("path").equals(before.sort_by("path"))
    assert catalog.snapshot("weather").to_arrow("hourly").sort_by("n").equals(data)
    assert catalog.snapshot("weather", old.token).to_arrow("hourly").sort_by("n").equals(data)
    (state,) = catalog.snapshot("weather")._states
    assert state.log.log_id == old._states[0].log.log_id
    assert state.applications.version("job") == 4
    times = catalog.history("weather")["committed_at"].to_pylist()
    assert times == sorted(times)
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 4)


def test_a_rebuild_of_a_rebuilt_log(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        paths = {commit(writer, n)[0] for n in range(3)}
    for incarnation in (2, 3, 4):
        plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
        assert execute_rebuild(store, plan, ambient=fake.ambient).incarnation == incarnation
        with catalog.writer("EWR", "weather") as writer:
            paths.add(commit(writer, incarnation)[0])
        assert live_in(catalog) == paths
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert plan.incarnation == 5  # above all that footers tell of
    assert plan.seal.log.incarnation == 4
    assert set(plan.live) == paths
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == paths


def test_the_way_back_after_a_rebuild(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.remove(gone)
    at_first = catalog.snapshot("weather").token
    execute_rebuild(store, plan_rebuild(store, "EWR", "weather", ambient=fake.ambient))
    with catalog.writer("EWR", "weather") as writer:
        late, _ = replacing(writer, first, 9)
    rebuilt = catalog.snapshot("weather").token
    assert live_in(catalog) == {late}
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=1)
    assert set(plan.live) == {first}
    assert kinds(plan)[late] == "undecided"
    assert "incarnation 1 ended with" in plan.notes[0]
    assert execute_rebuild(store, plan, ambient=fake.ambient).incarnation == 3
    assert live_in(catalog) == {first}
    for token, paths in ((at_first, {first}), (rebuilt, {late})):
        found = catalog.snapshot("weather", token).files("hourly")["path"].to_pylist()
        assert set(found) == paths
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 4)


def test_no_way_back_to_what_is_not_there(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    with pytest.raises(NotFoundError, match="EWR/weather has no incarnation 7") as caught:
        plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=7)
    assert "lakelog doctor" in caught.value.hint
    for bad in (0, 1000, True, "1"):
        with pytest.raises(UsageError, match="incarnation"):
            plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=bad)


def test_a_pruned_log_keeps_its_live_files_and_nothing_else(catalog, store, fake):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.remove(gone)
        writer.checkpoint()
        kept, _ = commit(writer, 3)
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    store.delete([log.folder + item.name for item in names if item.revision < 3])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert set(plan.live) == {first, kept}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == {first, kept}


def test_a_log_whose_end_is_lost_and_what_footers_say_of_it(catalog, store, fake):
    store.put(f"{BASE}data/_/x/part-0.parquet", parquet(rows(5, 6)))
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        gone, _ = commit(writer, 1)
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/x/part-0.parquet")
            tx.remove(gone)
        later, _ = commit(writer, 2)
        last, _ = commit(writer, 3)
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    store.delete([log.folder + item.name for item in names if item.revision > 1])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert plan.seal.others  # names beyond the end that is left
    assert set(plan.live) == {"data/_/x/part-0.parquet", later, last}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == set(plan.live)


def test_a_foreign_log_is_refused_until_it_has_its_name(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    for info in list(store.list("EWR/")):
        store.put("JFK" + info.key.removeprefix("EWR"), store.get(info.key))
    with pytest.raises(ForeignLog):
        plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    catalog.writer("JFK", "weather").adopt_name()
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    info = execute_rebuild(store, plan, ambient=fake.ambient)
    assert info.files == 1  # a copy by its footer, and what a log says of a file counts


def test_a_log_of_a_later_version_is_refused(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    upgrade = wire.Upgrade(required_writer_features=["of-tomorrow"])
    with catalog.writer("EWR", "weather") as writer:
        tx = writer.transaction()
        tx._intent.actions.append(wire.Action(upgrade=upgrade))
        tx.commit()
    with pytest.raises(UnsupportedFeature, match="of-tomorrow"):
        plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)


def test_of_a_lost_log_the_id_is_that_of_the_newest_footers(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        commit(writer, 2)
    (state,) = catalog.snapshot("weather")._states
    plan = plan_of()
    assert (plan.log.log_id, plan.log.incarnation) == (state.log.log_id, 2)
    execute_rebuild(store, plan)
    assert catalog.snapshot("weather")._states[0].log == plan.log


def test_names_of_the_new_incarnation_follow_from_the_rebuild_id(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        for number in range(3):
            commit(writer, number)
    plan = plan_of()
    execute_rebuild(store, plan)
    log, rebuild_id = LogReader(store, "EWR", "weather"), bytes.fromhex(plan.rebuild_id)
    found = log.names().transactions
    assert sorted(found) == [0, 1, 2]
    for revision, (item,) in found.items():
        message = log.transaction(item).message
        assert message.uuid == rebuilt_slot_uuid(rebuild_id, revision)
        assert message.commit.successor_uuid == rebuilt_slot_uuid(rebuild_id, revision + 1)
        assert message.commit.slot_seed == rebuild_id
        assert (message.epoch, message.guest) == (plan.epoch, False)
    first = log.transaction(found[0][0]).message.actions[0]
    assert (first.identity.writer, first.identity.database) == ("EWR", "weather")
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 9)
    assert log.names().transactions[3][0].uuid8 == rebuilt_slot_uuid(rebuild_id, 3)[:4].hex()
