"""Damage in the store and races with writers and prune: what a reader says, what stays readable."""

from __future__ import annotations

import re

import pytest
from damaged_logs import COUNT, at, refused
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    BrokenChain,
    CorruptObject,
    MissingTransaction,
    RevisionNotFound,
)
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import drop_mirror, revision_in
from table_cases import table, values


def test_one_junk_checkpoint_a_trillion_above_costs_a_few_requests(store, six_commits, fake):
    """Whoever looks downwards steps over names, not over numbers."""
    store.put("w/db/transactions/998-000000000000-999999999999.0badcafe.checkpoint", b"junk")
    counting = CountingStore(store)
    catalog = Catalog(counting, ambient=fake.ambient)
    assert catalog.snapshot("db", at(2)).cut.revisions == {"w": 2}
    assert counting.reset()["list"] < 15
    with pytest.raises(CorruptObject, match="999999999999"):
        catalog.snapshot("db", at(COUNT))
    assert counting.reset()["list"] < 15


# --- Lost and broken transactions -----------------------------------------------------------------


def test_a_lost_transaction_is_named_and_the_rest_stays_readable(store, six_commits):
    store.delete([six_commits[3]])
    found = refused(store, MissingTransaction, "w/db/transactions/998-999999999996-3", "0-2")
    assert found.readable == "0-2"
    assert values(store, {"w": 2}) == [0, 1, 2]
    with pytest.raises(MissingTransaction):
        values(store, {"w": 4})


BREAK = {
    "flipped bit": lambda body: body[:70] + bytes([body[70] ^ 4]) + body[71:],
    "cut": lambda body: body[:-1],
    "empty": lambda body: b"",
    "longer": lambda body: body + b"\0",
    "zeros": lambda body: bytes(len(body)),
    "text": lambda body: b"<html>404</html>",
}


@pytest.mark.parametrize("how", BREAK)
def test_a_broken_transaction_is_named_and_the_rest_stays_readable(store, six_commits, how):
    store.put(six_commits[3], BREAK[how](store.get(six_commits[3])))
    refused(store, CorruptObject, six_commits[3], "up to 2")
    for revision in range(3):
        assert values(store, {"w": revision}) == list(range(revision + 1))
        assert values(store, at(revision, plus_s=0)) == list(range(revision + 1))


def test_earlier_points_in_time_still_read_by_revision_token_and_time(store, six_commits):
    token = Catalog(store).snapshot("db", {"w": 2}).token
    store.put(six_commits[3], b"damage")
    expected = [0, 1, 2]
    assert values(store, {"w": 2}) == expected
    assert values(store, token) == expected
    assert values(store, at(2, plus_s=0)) == expected
    assert values(store, at(1)) == [0, 1]


def test_a_time_after_the_damage_is_not_guessed(store, six_commits):
    """The broken transaction's own commit time is unknown: it may have been before."""
    store.put(six_commits[3], b"damage")
    for moment in (at(2), at(3), at(4), at(100)):
        with pytest.raises(CorruptObject) as caught:
            values(store, moment)
        assert caught.value.key == six_commits[3]


def test_a_checkpoint_behind_the_damage_heals_it(catalog, store, six_commits):
    with catalog.writer("w", "db") as writer:
        writer.checkpoint()
    drop_mirror(store)
    store.put(six_commits[3], b"damage")
    assert values(store) == list(range(COUNT))
    assert values(store, at(1)) == [0, 1]
    with pytest.raises(CorruptObject):
        values(store, {"w": 4})


def test_the_last_transaction_lost_is_the_past(store, six_commits):
    """Nothing in the log knows of it any more; a token does."""
    token = Catalog(store).snapshot("db").token
    store.delete([six_commits[-1]])
    assert values(store) == list(range(COUNT - 1))
    with pytest.raises(RevisionNotFound):
        values(store, token)


def test_history_of_a_damaged_log_shows_the_rest_with_a_warning(store, six_commits):
    store.put(six_commits[3], b"damage")
    with pytest.warns(UserWarning, match=re.escape(six_commits[3])):
        history = Catalog(store).history("db")
    assert history.column("revision").to_pylist() == [0, 1, 2, 4, 5]
    assert history.column("files_added").to_pylist() == [1] * 5
    assert history.column("rows_added").to_pylist() == [1] * 5


def test_history_of_a_damaged_log_counts_the_files_of_large_commits(catalog, store, six_commits):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for value in range(300):
            tx.write("t", table(value))
    drop_mirror(store)
    store.put(six_commits[3], b"damage")
    with pytest.warns(UserWarning, match="fewer than a header"):
        history = Catalog(store).history("db")
    row = history.to_pylist()[-1]
    assert (row["revision"], row["files_added"], row["rows_added"]) == (6, 300, 300)
    assert row["bytes_added"] > 0


# --- Races with writers and with prune ------------------------------------------------------------


class Racing(PassingStore):
    """Hides a key from the first listings, or loses it between listing and reading."""

    hidden = ""
    hide_lists = 0
    before_read = None

    def list(self, prefix, **options):
        found = list(self.inner.list(prefix, **options))
        if self.hide_lists:
            self.hide_lists -= 1
            found = [item for item in found if item.key != self.hidden]
        return found

    def get_many(self, keys):
        if self.before_read is not None:
            call, self.before_read = self.before_read, None
            call()
        return self.inner.get_many(keys)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_gap_in_a_listing_means_list_again(store, six_commits, times):
    racing = Racing(store)
    racing.hidden, racing.hide_lists = six_commits[2], times
    assert LogReader(racing, "w", "db").load().revision == COUNT - 1


def test_a_gap_that_stays_is_an_error(store, six_commits):
    racing = Racing(store)
    racing.hidden, racing.hide_lists = six_commits[2], 99
    with pytest.raises(MissingTransaction):
        LogReader(racing, "w", "db").load()


def test_a_log_pruned_between_listing_and_reading_is_listed_again(catalog, store, six_commits):
    racing = Racing(store)

    def prune():
        with catalog.writer("w", "db") as writer:
            writer.checkpoint()
        store.delete(six_commits[:-1])

    racing.before_read = prune
    assert values(racing) == list(range(COUNT))


def test_a_refresh_that_finds_the_log_pruned_past_it_starts_from_the_checkpoint(
    catalog, store, six_commits
):
    snapshot = catalog.snapshot("db", {"w": 1})
    with catalog.writer("w", "db") as writer:
        writer.checkpoint()
    store.delete(six_commits[:-1])
    newer = snapshot.refresh()
    assert newer.cut.revisions == {"w": COUNT - 1}
    assert sorted(newer.to_arrow("t").column("a").to_pylist()) == list(range(COUNT))


def test_a_readers_head_never_goes_back(catalog, store, six_commits):
    """Even when the store shows it an older listing."""
    racing = Racing(store)
    snapshot = Catalog(racing).snapshot("db")
    racing.hidden, racing.hide_lists = six_commits[-1], 99
    assert snapshot.refresh() is snapshot


def test_a_readers_head_does_not_go_back_by_listing_again_either(catalog, store, six_commits):
    """The tail is listed with a gap; the whole log, listed anew, is shown as it was long ago."""

    class Stale(PassingStore):
        lists = 0

        def list(self, prefix, **options):
            self.lists += 1
            shown = {COUNT - 1, COUNT + 1} if self.lists == 1 else set(range(COUNT - 1))
            return [
                item
                for item in self.inner.list(prefix, **options)
                if revision_in(item.key) in shown
            ]

    stale = Stale(store)
    snapshot = catalog.snapshot("db")
    with catalog.writer("w", "db") as writer:
        for value in range(2):
            with writer.transaction() as tx:
                tx.write("t", table(value))
    snapshot._store = stale
    assert snapshot.refresh() is snapshot
    assert stale.lists == 2


def test_a_writer_open_while_its_log_was_replaced_is_told_to_open_it_again(
    catalog, store, six_commits
):
    log = LogReader(store, "w", "db")
    before = log.load(COUNT - 2)
    store.delete(six_commits[-2:])
    with Catalog(store).writer("w", "db") as writer:  # as a rebuild would: other objects
        for _ in range(3):
            with writer.transaction() as tx:
                tx.write("t", table(9))
    with pytest.raises(BrokenChain, match=r"rebuilt or restored since .* open it again") as caught:
        log.advance(before)
    assert "its plan shows that first" in str(caught.value)
