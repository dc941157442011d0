"""A store without put-if-absent: forks are detected, in writers and readers, and named."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    CommitOutcomeUnknown,
    FencedError,
    ForkError,
    LakelogError,
    StorageError,
)
from lakelog.store import probe
from lakelog.testing import keys
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FaultyStore, PassingStore, PlainStore
from table_cases import table, values, write


def log_keys(store):
    return keys.log_keys(store, "transaction")


class Meanwhile(PassingStore):
    """Calls back once, after the first listing or put of the log that follows."""

    def __init__(self, store):
        super().__init__(store)
        self.after_list = None
        self.after_put = None

    def list(self, prefix, **options):
        found = list(super().list(prefix, **options))
        self._call("after_list")
        return found

    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if key.endswith(".transaction"):
            self._call("after_put")

    def _call(self, which):
        call = getattr(self, which)
        setattr(self, which, None)
        if call is not None:
            call()


@pytest.fixture
def plain(store):
    return PlainStore(store)


def test_the_probe_finds_it_out(plain):
    found = probe(plain, "w/")
    assert not found.put_if_absent
    assert "ignored" in found.detail


def test_commits_and_reloads(plain):
    with Catalog(plain).writer("w", "db", checkpoint_every=2) as writer:
        assert not writer.capabilities.put_if_absent
        for value in range(5):
            assert write(writer, value).revision == value
    assert values(plain) == list(range(5))
    with Catalog(plain).writer("w", "db") as writer:
        write(writer, 5)
    assert values(plain) == list(range(6))


def test_names_are_not_agreed_in_advance(plain):
    with Catalog(plain).writer("w", "db") as writer:
        write(writer, 1)
        expected = writer._session._committer.state.next_uuid[:4].hex()
        write(writer, 2)
    assert expected not in log_keys(plain)[1]


def test_guests_are_refused(plain):
    with pytest.raises(CapabilityMissing) as caught:
        Catalog(plain).writer("w", "db", shared=True)
    assert caught.value.exit_code == 6
    assert "owner" in caught.value.hint


def test_a_new_owner_fences_its_predecessor(plain):
    """As long as they don't commit at the very same time."""
    old = Catalog(plain).writer("w", "db")
    write(old, 1)
    new = Catalog(plain).writer("w", "db")
    write(new, 2)
    with pytest.raises(FencedError):
        write(old, 3)
    assert values(plain) == [1, 2]


def test_a_predecessors_last_commit_is_absorbed(plain):
    old = Catalog(plain).writer("w", "db")
    write(old, 1)
    new = Catalog(plain).writer("w", "db")
    write(old, 2)
    assert write(new, 3).revision == 2
    assert values(plain) == [1, 2, 3]


def fork(plain):
    """Two owners put the same revision at the same time. What each of them is told."""
    race = Meanwhile(plain)
    one = Catalog(race).writer("w", "db")
    write(one, 1)
    two = Catalog(plain).writer("w", "db")
    told = {}

    def meanwhile():
        told["two"] = write(two, 2)

    tx = one.transaction()
    tx.write("t", table(3))
    race.after_list = meanwhile
    with pytest.raises(ForkError) as caught:
        tx.commit()
    told["one"] = caught.value
    return one, two, told


def test_a_fork_is_detected_by_the_writer_that_comes_second(plain):
    _, _, told = fork(plain)
    error = told["one"]
    assert sorted(error.keys) == sorted(log_keys(plain)[1:])
    assert all(key in str(error) for key in error.keys)
    assert error.exit_code == 4


def test_a_fork_is_detected_by_readers_and_names_both_keys(plain):
    fork(plain)
    for read in (
        lambda: values(plain),
        lambda: LogReader(plain, "w", "db").load(),
        lambda: Catalog(plain).writer("w", "db"),
        lambda: values(plain, {"w": 1}),
    ):
        with pytest.raises(ForkError) as caught:
            read()
        assert sorted(caught.value.keys) == sorted(log_keys(plain)[1:])
    assert values(plain, {"w": 0}) == [1], "what lies before the fork can be read"


def test_a_fork_is_detected_by_the_other_writer_at_its_next_commit(plain):
    """It was told success before its rival's put landed. It doesn't go on as if nothing was."""
    _, two, told = fork(plain)
    assert told["two"].revision == 1
    before = log_keys(plain)
    for _ in range(2):
        with pytest.raises(ForkError) as caught:
            write(two, 4)
        assert sorted(caught.value.keys) == sorted(log_keys(plain)[1:])
    assert log_keys(plain) == before


def test_a_fork_is_detected_by_the_one_that_made_it_when_it_goes_on(plain):
    one, _, _ = fork(plain)
    before = log_keys(plain)
    with pytest.raises(ForkError):
        write(one, 5)
    assert log_keys(plain) == before


@pytest.mark.parametrize("read_first", [True, False])
def test_a_fork_is_detected_by_a_reader_that_had_read_one_branch(plain, read_first):
    race = Meanwhile(plain)
    one = Catalog(race).writer("w", "db")
    write(one, 1)
    two = Catalog(plain).writer("w", "db")
    snapshots = []

    def meanwhile():
        write(two, 2)
        if read_first:
            snapshots.append(Catalog(plain).snapshot("db"))

    if not read_first:
        snapshots.append(Catalog(plain).snapshot("db"))
    tx = one.transaction()
    tx.write("t", table(3))
    race.after_list = meanwhile
    with pytest.raises(ForkError):
        tx.commit()
    (snapshot,) = snapshots
    with pytest.raises(ForkError) as caught:
        snapshot.refresh()
    assert sorted(caught.value.keys) == sorted(log_keys(plain)[1:])


def test_history_shows_both_sides_of_a_fork_with_a_warning(plain):
    fork(plain)
    with pytest.warns(UserWarning, match="Two commits stand"):
        history = Catalog(plain).history("db")
    assert history.column("revision").to_pylist() == [0, 1, 1]


@pytest.mark.parametrize("fault", ["lost response", "lost request"])
def test_a_lost_answer_leaves_one_object(plain, fake, fault):
    lossy = FaultyStore(plain, ["ok", fault])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    assert write(writer, 2).revision == 1
    assert values(plain) == [1, 2]
    assert len(log_keys(plain)) == 2


@pytest.mark.parametrize("fault", ["lost response", "lost request"])
def test_an_unknown_commit_can_be_called_again(plain, fake, fault):
    lossy = FaultyStore(plain, ["ok", *[fault] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    tx = writer.transaction()
    tx.write("t", table(2))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        tx.commit()
    assert caught.value.transaction_id == tx.transaction_id
    assert tx.commit().revision == 1
    assert values(plain) == [1, 2]
    assert len(log_keys(plain)) == 2


def test_a_listing_that_cannot_be_had_after_the_put_is_unknown(plain, fake):
    class Away(PassingStore):
        away = False

        def list(self, prefix, **options):
            if self.away:
                raise StorageError("away", key=prefix)
            return list(super().list(prefix, **options))

        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=if_absent)
            self.away = key.endswith(".transaction")

    away = Away(plain)
    writer = Catalog(away, ambient=fake.ambient).writer("w", "db")
    tx = writer.transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    away.away = False
    assert tx.commit().revision == 0
    assert values(plain) == [1]
    assert len(log_keys(plain)) == 1


@pytest.mark.parametrize("rival", [True, False])
def test_a_listing_that_does_not_show_the_own_object_is_no_success(plain, fake, rival):
    """The only name there may be somebody else's."""

    class Stale(PassingStore):
        hidden = None

        def list(self, prefix, **options):
            return [i for i in super().list(prefix, **options) if i.key != self.hidden]

        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                self.hidden = key
                if rival:
                    write(two, 2)
            super().put(key, body, if_absent=if_absent)

    two = Catalog(plain).writer("w", "db")
    stale = Stale(plain)
    writer = Catalog(stale, ambient=fake.ambient).writer("w", "db")
    tx = writer.transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    stale.hidden = None
    if rival:
        with pytest.raises(ForkError):
            tx.commit()
    else:
        assert tx.commit().revision == 0
        assert values(plain) == [1]


def test_somebody_went_on_from_the_own_commit_before_it_was_listed(plain, fake):
    race = Meanwhile(plain)
    one = Catalog(race, ambient=fake.ambient).writer("w", "db")

    def meanwhile():
        write(Catalog(plain).writer("w", "db"), 2)

    race.after_put = meanwhile
    assert write(one, 1).revision == 0
    assert values(plain) == [1, 2]
    with pytest.raises(FencedError):
        write(one, 3)


def test_a_refusal_is_no_doubt(plain, fake):
    class Refusing(PassingStore):
        puts = 0

        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                self.puts += 1
                raise AccessDenied("no", key=key)
            super().put(key, body, if_absent=if_absent)

    refusing = Refusing(plain)
    writer = Catalog(refusing, ambient=fake.ambient).writer("w", "db")
    with pytest.raises(AccessDenied):
        write(writer, 1)
    assert refusing.puts == 1


def test_a_commit_costs_two_lists_and_two_puts(plain, fake):
    """Its own, and that of an earlier one's copy."""
    counting = CountingStore(plain)
    writer = Catalog(counting, ambient=fake.ambient).writer("w", "db")
    for value in range(2):
        write(writer, value)
    for value in range(2, 5):
        tx = writer.transaction()
        tx.write("t", table(value))
        counting.reset()
        tx.commit()
        assert counting.reset() == {"put": 2, "get": 0, "list": 2, "head": 0, "delete": 0}


def test_a_checkpoint_is_written_over_by_the_same_bytes(plain):
    with Catalog(plain).writer("w", "db") as writer:
        write(writer, 1)
        first = writer.checkpoint()
        body = plain.get(first.key)
        again = writer.checkpoint()
        assert (again.key, plain.get(first.key)) == (first.key, body)


def test_real_threads_never_lose_a_commit_silently(plain):
    """Owners race on a store that protects nobody: whoever was told success stands in the log,
    or the log says that it is forked."""
    from concurrent.futures import ThreadPoolExecutor

    def run(number):
        writer = Catalog(plain).writer("w", "db")
        done = []
        for value in range(5):
            try:
                info = write(writer, number * 100 + value)
            except LakelogError:
                break
            done.append((info.revision, info.transaction_id))
        return done

    with ThreadPoolExecutor(4) as pool:
        done = [item for found in pool.map(run, range(4)) for item in found]
    log = LogReader(plain, "w", "db")
    if log.names().forks():
        with pytest.raises(ForkError):
            log.load()
        return
    state = log.load()
    rows = state.history.table().to_pylist()
    stands = {
        (row["revision"], transaction_id.hex())
        for row in rows
        for transaction_id in row["transaction_ids"]
    }
    assert set(done) <= stands


def test_no_checkpoint_is_put_over_another(plain, store, spilling):
    """It may be all that prune has left of the log, and what it refers to all the segments."""
    first = Catalog(plain).writer("w", "db", checkpoint_every=0)
    for value in range(3):
        write(first, value)
    second = Catalog(plain).writer("w", "db", checkpoint_every=0)
    made = first.checkpoint()
    body = store.get(made.key)
    assert made.written
    again = second.checkpoint()
    assert (again.key, again.written) == (made.key, False)
    assert store.get(made.key) == body
    write(second, 3)
    assert second.checkpoint().written
    assert values(store) == [0, 1, 2, 3]


def test_a_checkpoint_looks_first(plain):
    counting = CountingStore(plain)
    writer = Catalog(counting).writer("w", "db", checkpoint_every=0)
    write(writer, 1)
    counting.reset()
    assert writer.checkpoint().written
    spent = counting.reset()
    assert (spent["put"], spent["head"], spent["list"]) == (1, 1, 1)
