"""Which log it is: ids that don't mix, logs that were copied, renamed, or replaced by others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import BrokenChain, CorruptError, FencedError, ForeignLog, SameLogTwice
from lakelog.store.memory import MemoryStore
from lakelog.testing.keys import drop_mirror, log_keys
from table_cases import values, write

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


def fill(store, fake, count, first=0, writer="w", database="db"):
    opened = Catalog(store, ambient=fake.ambient).writer(writer, database)
    for value in range(first, first + count):
        write(opened, value)
    return opened


def copy(source, target, prefix="", to=""):
    """All objects below a prefix, to another one."""
    for info in list(source.list("")):
        if info.key.startswith(prefix):
            target.put(to + info.key[len(prefix) :], source.get(info.key))


def replace(store, other):
    """Another root's objects instead of those that are there."""
    store.delete([info.key for info in store.list("")])
    copy(other, store)


# --- Ids that mix ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_transaction_of_another_log_in_a_folder_is_refused_by_name(store, fake, place):
    """Both logs are sound; only the objects of one place are exchanged."""
    fill(store, fake, 4)
    other = MemoryStore("other")
    fill(other, fake, 4)
    mine, theirs = log_keys(store)[place], log_keys(other)[place]
    store.delete([mine])
    store.put(theirs, other.get(theirs))
    drop_mirror(store)
    with pytest.raises(BrokenChain, match="belongs to the log") as caught:
        values(store)
    assert caught.value.key == theirs
    assert f"up to {place - 1}" in caught.value.hint
    with pytest.raises(BrokenChain):
        Catalog(store, ambient=fake.ambient).writer("w", "db")
    assert values(store, {"w": place - 1}) == list(range(place))


def test_a_checkpoint_of_another_log_is_passed_over(store, fake):
    fill(store, fake, 3)
    other = MemoryStore("other")
    opened = fill(other, fake, 1)
    foreign = opened.checkpoint().key
    store.put(foreign, other.get(foreign))  # revision 0 has the same name in both
    with pytest.warns(UserWarning, match="reading an older checkpoint"):
        assert values(store) == [0, 1, 2]


def test_a_segment_of_another_log_is_refused(store, fake):
    """Its name is its digest, so the bytes under the name must be another log's own."""
    opened = fill(store, fake, 2)
    opened.checkpoint()
    state = LogReader(store, "w", "db").load()
    state.log = type(state.log)(b"another log's id", 1)
    spilled = [piece for piece in state.pieces if piece.inline is None]
    for piece in spilled:
        with pytest.raises(CorruptError, match="another log"):
            state.bytes_of([piece])


# --- Logs that were replaced ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("more", [0, 1])
def test_a_refresh_notices_another_log_in_the_place(store, fake, count, more):
    """Of as many revisions as the one before, or one more: its numbers say nothing."""
    fill(store, fake, count)
    snapshot = Catalog(store, ambient=fake.ambient).snapshot("db")
    other = MemoryStore("other")
    fill(other, fake, count + more, first=10)
    replace(store, other)
    newer = snapshot.refresh()
    assert newer is not snapshot
    assert newer.cut.writers["w"].log != snapshot.cut.writers["w"].log
    found = newer.to_arrow("t").column("a").to_pylist()
    assert sorted(found) == list(range(10, 10 + count + more))
    assert newer.refresh() is newer


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_a_committer_notices_another_log_in_the_place(store, fake, count, shared):
    """At the latest when it lists again; it never writes to a log that is not its own after."""
    fill(store, fake, count)
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db", shared=shared)
    other = MemoryStore("other")
    fill(other, fake, count, first=10)
    replace(store, other)
    fake.move(LIMIT_S + 1)
    with pytest.raises(FencedError, match="another log stands there"):
        write(writer, 99)
    with pytest.raises(FencedError):
        writer.transaction()
    assert values(store) == list(range(10, 10 + count))


def test_an_owner_that_loses_a_race_to_another_log_is_fenced(store, fake):
    """Revision 0 has one name in all logs of a folder, so they race for it."""
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db")
    fill(store, fake, 2, first=10)
    with pytest.raises(FencedError):
        write(writer, 99)
    assert values(store) == [10, 11]


def test_a_log_put_back_that_went_on_otherwise_is_no_older_view(store, fake):
    """The same log and revision count, and another head."""
    fill(store, fake, 3)
    backup = MemoryStore("backup")
    copy(store, backup)
    write(Catalog(store, ambient=fake.ambient).writer("w", "db"), 3)
    snapshot = Catalog(store, ambient=fake.ambient).snapshot("db")
    fake.move(1)
    write(Catalog(backup, ambient=fake.ambient).writer("w", "db"), 30)
    last = log_keys(store)[-1]
    store.delete([last])
    store.put(last, backup.get(last))  # the slot was agreed before: the name is the same
    copy(backup, store, "w/db/data/", "w/db/data/")
    write(Catalog(store, ambient=fake.ambient).writer("w", "db"), 31)
    with pytest.raises(BrokenChain, match="rebuilt or restored"):
        snapshot.refresh()
    assert values(store) == [0, 1, 2, 30, 31]


# --- Copies and renamed logs ----------------------------------------------------------------------


@pytest.fixture(params=[("v", "db"), ("w", "other")], ids=["writer", "database"])
def renamed(request, store, fake):
    """A log of 3 revisions and a checkpoint, moved to another writer or database; its folder."""
    with fill(store, fake, 3) as opened:
        opened.checkpoint()
    writer, database = request.param
    copy(store, store, "w/db/", f"{writer}/{database}/")
    store.delete([info.key for info in store.list("w/db/")])
    return writer, database


def test_a_renamed_log_can_be_read(store, renamed):
    writer, database = renamed
    assert values(store, database=database) == [0, 1, 2]
    assert values(store, {writer: 1}, database) == [0, 1]
    assert Catalog(store).history(database).num_rows == 3
    assert LogReader(store, writer, database).load().is_foreign


@pytest.mark.parametrize("shared", [False, True])
def test_a_renamed_log_takes_no_commit_and_no_checkpoint(catalog, store, renamed, shared):
    before = [info.key for info in store.list("")]
    with catalog.writer(*renamed, shared=shared) as writer:
        for refused in (writer.transaction, writer.checkpoint):
            with pytest.raises(ForeignLog, match="w/db") as caught:
                refused()
            assert "adopt-name" in caught.value.hint
            assert caught.value.exit_code == 4
    assert [info.key for info in store.list("")] == before


@pytest.mark.parametrize("shared", [False, True])
def test_once_it_has_its_new_name_all_is_allowed(catalog, store, renamed, shared):
    with catalog.writer(*renamed, shared=shared) as writer:
        writer.adopt_name()
        assert writer.revision == 3
        writer.adopt_name()
        assert writer.revision == 3, "nothing happens if it is its own already"
        write(writer, 3)
        assert writer.checkpoint().revision == 4
    state = LogReader(store, *renamed).load()
    assert not state.is_foreign
    assert state.named == renamed
    assert values(store, database=renamed[1]) == [0, 1, 2, 3]
    again = catalog.writer(*renamed)
    assert again._session.log == writer._session.log, "it keeps its id"
    write(again, 4)


def test_the_adoption_is_one_identity_and_nothing_else(catalog, store, renamed):
    with catalog.writer(*renamed) as writer:
        writer.adopt_name()
    log = LogReader(store, *renamed)
    (item,) = log.names().transactions[3]
    found = log.transaction(item).message
    assert [action.WhichOneof("kind") for action in found.actions] == ["identity"]
    assert found.commit.members[0].operation == "maintenance"


def test_two_that_adopt_the_name_at_once(catalog, store, renamed):
    """The second one finds the name given, and both go on."""
    guests = [catalog.writer(*renamed, shared=True) for _ in range(2)]
    for guest in guests:
        guest.adopt_name()
    for number, guest in enumerate(guests):
        write(guest, 10 + number)
    assert values(store, database=renamed[1]) == [0, 1, 2, 10, 11]


def test_a_transaction_begun_before_the_log_was_seen_as_foreign_is_refused(store, fake):
    """Its writer learns at the commit that the log was given to another folder."""
    opened = fill(store, fake, 2)
    other = MemoryStore("moved")
    copy(store, other, "w/db/", "v/db/")
    with Catalog(other, ambient=fake.ambient).writer("v", "db") as writer:
        writer.adopt_name()
    copy(other, store, "v/db/", "w/db/")
    with pytest.raises((FencedError, ForeignLog)):
        write(opened, 9)


def test_a_guest_that_meets_the_new_name_of_another_folder_is_refused(store, fake):
    fill(store, fake, 2)
    guest = Catalog(store, ambient=fake.ambient).writer("w", "db", shared=True)
    tx = guest.transaction()
    tx.write("t", pa.table({"a": [9]}))
    other = MemoryStore("moved")
    copy(store, other, "w/db/", "v/db/")
    Catalog(other, ambient=fake.ambient).writer("v", "db", shared=True).adopt_name()
    copy(other, store, "v/db/", "w/db/")
    with pytest.raises(ForeignLog):
        tx.commit()
    with pytest.raises(ForeignLog):
        guest.transaction()


# --- One log in two folders -----------------------------------------------------------------------


def test_one_log_under_two_writers_is_not_counted_twice(store, fake):
    fill(store, fake, 2)
    fill(store, fake, 1, first=5, writer="x")
    copy(store, store, "w/db/", "v/db/")
    catalog = Catalog(store, ambient=fake.ambient)
    with pytest.raises(SameLogTwice) as caught:
        catalog.snapshot("db")
    assert "v/db" in str(caught.value)
    assert "w/db" in str(caught.value)
    assert values(store, {"w": 1, "x": 0}) == [0, 1, 5]
    both = catalog.snapshot("db", {"v": 1, "w": 1})
    assert sorted(both.to_arrow("t").column("a").to_pylist()) == [0, 0, 1, 1]
    assert values(store, both.token) == [0, 0, 1, 1], "who names both gets both"


def test_a_log_that_became_a_copy_of_another_is_noticed_by_a_refresh(store, fake):
    fill(store, fake, 1)
    fill(store, fake, 1, first=5, writer="v")
    catalog = Catalog(store, ambient=fake.ambient)
    snapshot = catalog.snapshot("db")
    store.delete([info.key for info in list(store.list("v/"))])
    copy(store, store, "w/db/", "v/db/")
    with pytest.raises(SameLogTwice):
        snapshot.refresh()
    both = catalog.snapshot("db", {"v": 0, "w": 0})
    write(catalog.writer("w", "db"), 1)
    assert both.refresh().cut.revisions == {"v": 0, "w": 1}, "who named both gets both"


def test_one_log_twice_at_a_time(store, fake):
    import datetime as dt

    fill(store, fake, 2)
    copy(store, store, "w/db/", "v/db/")
    with pytest.raises(SameLogTwice):
        values(store, dt.datetime(2100, 1, 1, tzinfo=dt.UTC))
