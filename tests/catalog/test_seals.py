"""Seals and new incarnations: every committer of the old one is fenced for good, at any point."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import LogObject
from lakelog.catalog.log.build import Intent, build_transaction, identity_action
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import BrokenChain, CommitOutcomeUnknown, CorruptError, FencedError
from lakelog.testing.doubles import FaultyStore, PassingStore, PlainStore
from lakelog.testing.keys import log_keys
from lakelog.testing.rebuilt import rebuild, seal
from table_cases import values, write

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


class Meanwhile(PassingStore):
    """Calls back once, before or after the next request on a transaction."""

    def __init__(self, store):
        super().__init__(store)
        self.at, self.call = "", None

    def _on(self, at):
        if self.call is not None and self.at == at:
            call, self.call = self.call, None
            call()

    def put(self, key, body, *, if_absent=False):
        named = "/transactions/" in key and "/mirror/" not in key
        if named:
            self._on("before the put")
        super().put(key, body, if_absent=if_absent)
        if named:
            self._on("after the put")

    def get(self, key, **options):
        self._on("before a read")
        return super().get(key, **options)

    def list(self, prefix, **options):
        found = list(super().list(prefix, **options))
        self._on("after a listing")
        return found


def refused_for_good(writer, store):
    """No more commits, and nothing is written for one."""
    before = [info.key for info in store.list("w/")]
    seen = []
    for _ in range(3):
        with pytest.raises(FencedError) as caught:
            writer.transaction()
        assert all(caught.value is not error for error in seen)
        seen.append(caught.value)
        depth, trace = 0, caught.value.__traceback__
        while trace is not None:
            depth, trace = depth + 1, trace.tb_next
        assert depth < 6, "an error of its own each time gathers no traceback"
    assert [info.key for info in store.list("w/")] == before


SHARED = pytest.mark.parametrize("shared", [False, True], ids=["owner", "guest"])
END = pytest.mark.parametrize("rebuilt", [False, True], ids=["sealed", "rebuilt"])


def shows(store, rebuilt, *rows, maybe=()):
    """A sealed log is refused; a rebuilt one has these rows, and maybe those of an attempt."""
    if not rebuilt:
        with pytest.raises(CorruptError, match="sealed for a rebuild"):
            values(store)
        return
    assert set(rows) <= set(values(store)) <= {*rows, *maybe}


def end(store, rebuilt):
    """What a rebuild does to a log, up to its seal or to its end."""
    seal(store)
    if rebuilt:
        rebuild(store)


@SHARED
@END
def test_who_was_idle_is_fenced_at_its_next_commit(catalog, store, shared, rebuilt):
    writer = catalog.writer("w", "db", shared=shared)
    write(writer, 1)
    end(store, rebuilt)
    with pytest.raises(FencedError, match=r"seal|incarnation 2"):
        write(writer, 2)
    refused_for_good(writer, store)
    shows(store, rebuilt, 1, maybe=[2])


@SHARED
@END
def test_who_slept_for_long_is_fenced_without_a_put(catalog, store, fake, shared, rebuilt):
    writer = catalog.writer("w", "db", shared=shared)
    write(writer, 1)
    end(store, rebuilt)
    fake.move(LIMIT_S + 1)
    keys = log_keys(store)
    with pytest.raises(FencedError):
        write(writer, 2)
    assert log_keys(store) == keys
    refused_for_good(writer, store)


@SHARED
@END
@pytest.mark.parametrize("at", ["before the put", "after the put", "before a read"])
def test_at_any_point_of_a_commit(store, fake, shared, rebuilt, at):
    """What stands before the seal is told as a success, all else is refused."""
    race = Meanwhile(store)
    writer = Catalog(race, ambient=fake.ambient).writer("w", "db", shared=shared)
    write(writer, 1)
    tx = writer.transaction()
    tx.write("t", pa.table({"a": [2]}))
    if at == "before a read":  # it has lost a race, and reads back whose it is
        write(Catalog(store).writer("w", "db", shared=True), 3)
    race.at, race.call = at, lambda: end(store, rebuilt)
    if at == "after the put":
        stood = tx.commit().revision
        assert LogReader(store, "w", "db").names_at(1, 99).transactions[stood]
    else:
        with pytest.raises(FencedError):
            tx.commit()
    with pytest.raises(FencedError):
        write(writer, 4)
    refused_for_good(writer, store)
    expected = {"before the put": [1], "after the put": [1, 2], "before a read": [1, 3]}[at]
    shows(store, rebuilt, *expected, maybe=[2, 4])


@SHARED
@END
@pytest.mark.parametrize("lost", ["lost request", "lost response"])
def test_a_commit_in_doubt_is_told_by_what_stands_before_the_seal(
    store, fake, shared, rebuilt, lost
):
    write(Catalog(store).writer("w", "db"), 0)
    faulty = FaultyStore(store)
    writer = Catalog(faulty, ambient=fake.ambient).writer("w", "db", shared=shared)
    write(writer, 1)
    tx = writer.transaction()
    tx.write("t", pa.table({"a": [2]}))
    faulty.script.faults, faulty.fail_reads = [lost] * 4, True
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    faulty.script.faults, faulty.fail_reads = [], False
    end(store, rebuilt)
    if lost == "lost response":  # a rebuild keeps the history of what it can read
        assert tx.commit().revision == 2
    else:
        with pytest.raises(FencedError):
            tx.commit()
    with pytest.raises(FencedError):
        write(writer, 3)
    shows(store, rebuilt, *([0, 1, 2] if lost == "lost response" else [0, 1]), maybe=[2, 3])


@SHARED
def test_a_sealed_log_opens_and_takes_no_transaction(catalog, store, shared):
    write(catalog.writer("w", "db"), 1)
    seal(store)
    writer = catalog.writer("w", "db", shared=shared)
    refused_for_good(writer, store)
    assert writer.checkpoint() is None, "a checkpoint can't say that the log is sealed"
    assert not log_keys(store, "checkpoint")
    shows(store, rebuilt=False)


@SHARED
def test_after_the_rebuild_the_writer_can_be_opened_again(catalog, store, shared):
    old = catalog.writer("w", "db", shared=shared)
    write(old, 1)
    end(store, rebuilt=True)
    again = catalog.writer("w", "db", shared=shared)
    assert write(again, 2).revision > 2
    assert LogReader(store, "w", "db").load().log.incarnation == 2
    with pytest.raises(FencedError):
        write(old, 3)
    assert values(store) == [1, 2]


def test_a_plain_store_fences_likewise(store, fake):
    plain = PlainStore(store)
    race = Meanwhile(plain)
    for rebuilt in (False, True):
        writer = Catalog(race, ambient=fake.ambient).writer("w", "db")
        head = write(writer, 1).revision
        end(plain, rebuilt)
        with pytest.raises(FencedError):
            write(writer, 2)
        refused_for_good(writer, plain)
        if not rebuilt:
            plain.delete([log_keys(plain)[-1]])
    assert set(values(plain)) == {1}
    assert head >= 0


def test_a_transaction_after_a_seal_is_refused_by_readers(catalog, store):
    write(catalog.writer("w", "db"), 1)
    seal(store)
    state = LogReader(store, "w", "db").load(sealed=True)
    state.sealed_for = 0
    intent = Intent(b"t" * 16, state.epoch, [identity_action("w", "db")])
    body, _ = build_transaction(
        state, [intent], log=state.log, uuid=state.next_uuid, slot_seed=b"s" * 16,
        epoch=state.epoch, guest=False, now_us=0,
    )  # fmt: skip
    item = LogObject(1, 2, state.next_uuid[:4].hex(), "transaction")
    store.put(f"w/db/transactions/{item.name}", body)
    with pytest.raises(BrokenChain, match="follows the seal"):
        values(store)
    with pytest.raises(CorruptError, match="sealed for a rebuild"):
        values(store, {"w": 1})
    assert values(store, {"w": 0}) == [1]


# --- Readers --------------------------------------------------------------------------------------


def test_a_refresh_goes_over_to_the_new_incarnation(catalog, store):
    write(catalog.writer("w", "db"), 1)
    writer = catalog.writer("w", "db")
    for value in (2, 3):
        write(writer, value)
    snapshot = catalog.snapshot("db")
    seal(store)
    sealed = snapshot.refresh()
    assert sealed.cut.revisions == {"w": 3}
    rebuild(store)
    newer = sealed.refresh()
    assert newer.cut.writers["w"].log.incarnation == 2
    assert newer.cut.revisions["w"] > 3
    assert sorted(newer.to_arrow("t").column("a").to_pylist()) == [1, 2, 3]
    assert newer.refresh() is newer
    assert values(store, snapshot.token) == [1, 2, 3], "a token names its incarnation"


def test_an_older_view_of_the_log_does_not_bring_the_old_incarnation_back(catalog, store):
    write(catalog.writer("w", "db"), 1)
    old = log_keys(store)

    class Stale(PassingStore):
        def list(self, prefix, **options):
            return [i for i in self.inner.list(prefix, **options) if i.key in old]

    end(store, rebuilt=True)
    snapshot = catalog.snapshot("db")
    snapshot._store = Stale(store)
    assert snapshot.refresh() is snapshot
