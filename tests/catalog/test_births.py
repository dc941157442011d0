"""How a log begins: once, whoever comes first, and under a name that no other one differs from only
in case."""

from __future__ import annotations

import itertools
import multiprocessing

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.catalog.format.names import first_slot_uuid, successor_uuid
from lakelog.catalog.format.objects import decode_transaction
from lakelog.errors import ClockError, FencedError, InvalidName, StorageError
from lakelog.store import open_store
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import (
    ClockedStore,
    DatedStore,
    FakeAmbient,
    FaultyStore,
    PassingStore,
)
from lakelog.testing.keys import log_keys, revision_in
from table_cases import values, write


def decoded(store):
    return [decode_transaction(store.get(key), key) for key in log_keys(store, "transaction")]


def kinds(found):
    return [action.WhichOneof("kind") for action in found.message.actions]


def test_an_owner_begins_a_log_with_its_identity(catalog, store):
    write(catalog.writer("w", "db"), 1)
    (first,) = decoded(store)
    assert kinds(first) == ["identity", "schema", "add"]
    assert (first.message.actions[0].identity.writer, first.log.incarnation) == ("w", 1)
    assert first.message.uuid == first_slot_uuid("w", "db")
    assert [member.action_count for member in first.message.commit.members] == [3]


def test_a_guest_begins_it_with_nothing_else(catalog, store):
    catalog.writer("w", "db", shared=True)
    (birth,) = decoded(store)
    assert kinds(birth) == ["identity"]
    assert (birth.message.epoch, birth.message.guest) == (1, True)
    assert birth.message.commit.members[0].operation == "maintenance"
    catalog.writer("w", "db", shared=True)
    assert len(decoded(store)) == 1


def begin(url, number, barrier):
    barrier.wait()
    with open_catalog(url).writer("w", "db", shared=True) as writer:
        write(writer, number)


def test_eight_guests_at_once_begin_one_log(tmp_path):
    """Eight processes, of one that has imported what they need."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["lakelog.catalog.commit.writer", "pyarrow.parquet"])
    barrier = server.Barrier(8)
    url = str(tmp_path / "root")
    guests = [server.Process(target=begin, args=(url, number, barrier)) for number in range(8)]
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.join(60)
    assert [guest.exitcode for guest in guests] == [0] * 8
    store = open_store(url)
    found = decoded(store)
    assert len(found) == 1 + 8
    assert len({item.log for item in found}) == 1
    assert [kinds(item).count("identity") for item in found] == [1] + [0] * 8
    assert values(store) == list(range(8))


class BegunMeanwhile(PassingStore):
    """Somebody else begins the log, and commits, right before its folders are listed."""

    def list_folders(self, prefix):
        if prefix == "w/db/" and not log_keys(self.inner):
            write(Catalog(self.inner).writer("w", "db", shared=True), 1)
        return super().list_folders(prefix)


@pytest.mark.parametrize("shared", [False, True])
def test_a_log_that_somebody_else_has_just_begun_was_not_lost(store, fake, shared):
    writer = Catalog(BegunMeanwhile(store), ambient=fake.ambient).writer("w", "db", shared=shared)
    assert write(writer, 2).revision == 2
    assert values(store) == [1, 2]


@pytest.mark.parametrize("lost", [["lost response"], ["lost request"], ["lost response"] * 4])
def test_a_guests_birth_whose_answer_was_lost(store, fake, lost):
    faulty = FaultyStore(store, lost)
    faulty.fail_reads = False
    writer = Catalog(faulty, ambient=fake.ambient).writer("w", "db", shared=True)
    assert write(writer, 1).revision == 1
    assert [revision_in(key) for key in log_keys(store)] == [0, 1]


def test_a_birth_that_never_landed_is_an_error_of_the_opening(store, fake):
    faulty = FaultyStore(store, ["lost request"] * 4)
    with pytest.raises(StorageError, match="could not be begun"):
        Catalog(faulty, ambient=fake.ambient).writer("w", "db", shared=True)
    assert not log_keys(store)


def test_an_owner_that_loses_the_birth_to_a_guest_goes_on_in_its_log(catalog, store):
    owner = catalog.writer("w", "db")
    drawn = owner._session.log
    with owner.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
        guest = catalog.writer("w", "db", shared=True)
    assert tx.commit_info.revision == 1
    assert owner._session.log == guest._session.log != drawn
    write(guest, 2)
    write(owner, 3)
    assert len({item.log for item in decoded(store)}) == 1
    assert values(store) == [1, 2, 3]


def test_an_owner_that_loses_the_birth_to_an_owner_is_fenced(catalog, store):
    one, two = catalog.writer("w", "db"), catalog.writer("w", "db")
    write(two, 2)
    with pytest.raises(FencedError):
        write(one, 1)
    with pytest.raises(FencedError):
        one.transaction()
    assert values(store) == [2]


def test_an_owners_birth_in_doubt_that_another_log_overtook(store, fake):
    """Its request never landed, and a guest has begun the log under another id meanwhile."""
    faulty = FaultyStore(store, ["lost request"] * 4)
    owner = Catalog(faulty, ambient=fake.ambient).writer("w", "db")
    tx = owner.transaction()
    tx.write("t", pa.table({"a": [1]}))
    with pytest.raises(Exception, match="may or may not"):
        tx.commit()
    guest = Catalog(store).writer("w", "db", shared=True)
    write(guest, 2)
    assert tx.commit().revision == 2
    assert len({item.log for item in decoded(store)}) == 1
    assert values(store) == [1, 2]


# --- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("writer", "database"), [("W", "db"), ("w", "Db"), ("w", "DB")])
@pytest.mark.parametrize("shared", [False, True])
def test_a_name_that_differs_only_in_case_is_refused_at_birth(
    catalog, store, writer, database, shared
):
    write(catalog.writer("w", "db"), 1)
    with pytest.raises(InvalidName, match="differs only in case") as caught:
        catalog.writer(writer, database, shared=shared)
    assert caught.value.exit_code == 2
    assert {info.key.split("/")[0] for info in store.list("")} == {"w"}
    catalog.writer("w", "db")
    catalog.writer("w2", "DB")  # another writer's names are its own


def test_logs_that_differ_in_case_and_are_there_can_be_written(catalog, store):
    """As on a store where they were made by an older hand: it is asked at birth alone."""
    write(catalog.writer("w", "db"), 1)
    write(Catalog(store).writer("v", "db"), 2)
    for info in list(store.list("v/")):
        store.put("W" + info.key[1:], store.get(info.key))
    writer = catalog.writer("W", "db")
    writer.adopt_name()
    assert write(writer, 3).revision == 2


# --- Slot uuids -----------------------------------------------------------------------------------


def test_the_names_of_an_opening_follow_from_its_seed(catalog, store):
    one = catalog.writer("w", "db")
    for value in range(3):
        write(one, value)
    guest = catalog.writer("w", "db", shared=True)
    write(guest, 3)
    write(one, 4)
    found = decoded(store)
    seeds = [item.message.commit.slot_seed for item in found]
    assert seeds == [one._session.slot_seed] * 3 + [guest._session.slot_seed] + seeds[:1]
    for item, after in itertools.pairwise(found):
        commit = item.message.commit
        assert commit.successor_uuid == successor_uuid(commit.slot_seed, item.message.revision)
        assert after.message.uuid == commit.successor_uuid


# --- Clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead_s", "refused"), [(299, False), (301, True), (-9_999, False)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_clock_far_ahead_of_the_stores_is_refused(ahead_s, refused, shared):
    fake = FakeAmbient()
    store = ClockedStore(fake.wall_us)
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db", shared=shared)
    write(writer, 1)
    keys = log_keys(store)
    fake.wall_us += int(ahead_s * 1e6)
    if not refused:
        assert write(writer, 2)
        return
    tx = writer.transaction()
    tx.write("t", pa.table({"a": [2]}))
    with pytest.raises(ClockError, match="5 minutes ahead") as caught:
        tx.commit()
    assert caught.value.exit_code == 4
    assert log_keys(store) == keys
    fake.wall_us = store.at_us
    assert tx.commit().revision == len(keys), "once the clock is set, the same commit goes"


class Untold(PassingStore):
    """A store whose answers don't tell its time."""

    def server_time(self):
        return None


def test_a_store_that_tells_no_time_is_asked_for_it_once():
    fake = FakeAmbient()
    clocked = ClockedStore(fake.wall_us)
    counting = CountingStore(Untold(clocked))
    writer = Catalog(counting, ambient=fake.ambient).writer("w", "db")
    assert write(writer, 1)
    counting.reset()
    assert write(writer, 2)
    assert counting.reset()["head"] == 1  # the look at the next name, not the question for the time
    fake.wall_us += 301_000_000
    with pytest.raises(ClockError, match="5 minutes ahead"):
        write(writer, 3)


def test_a_machine_that_stood_still_asks_the_store_before_it_blames_its_clock():
    """The wall clock was set after the pause; what is known of the store's is from before it."""
    fake, store = FakeAmbient(), ClockedStore()
    writer = Catalog(DatedStore(store), ambient=fake.ambient).writer("w", "db")
    tx = writer.transaction()
    tx.write("t", pa.table({"a": [1]}))
    store.move(3_600)
    fake.wall_us += 3_600_000_000
    assert tx.commit().revision == 0


def test_a_guest_with_a_wrong_clock_begins_no_log():
    fake = FakeAmbient()
    store = ClockedStore(fake.wall_us - 400_000_000)
    with pytest.raises(ClockError):
        Catalog(store, ambient=fake.ambient).writer("w", "db", shared=True)
    assert not log_keys(store)
