"""Changes as a stream where writers delete rows of each other's files: a delete comes behind the
rows that it meets, in whatever order logs are listed and clocks go."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event

import lakelog
import pytest
from lakelog.spark import followed
from lakelog.testing.doubles import PassingStore
from newer_spark import STREAMS, needs
from stream_cases import late, put, stream
from stream_history import commit, counted

pytestmark = needs(STREAMS)


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path / "lake"))


def delete(catalog, where, writer, cut=None):
    cut = catalog.snapshot("db") if cut is None else cut
    commit(catalog, lambda tx: tx.delete("t", where, cut=cut), writer)


def told(rows):
    return sorted((row["_writer"], row["_revision"], row["_change"], row["n"]) for row in rows)


def whole(catalog, since):
    return catalog.changes("db", "t", since, net=False).read_all().to_pylist()


def test_rows_that_another_writer_deletes(catalog):
    put(catalog, 1, 2, 3, writer="v")
    put(catalog, 4, 5)
    query = stream(catalog, readChangeFeed="true")
    assert sorted(row["n"] for row in query.batch()) == [1, 2, 3, 4, 5]
    delete(catalog, "n IN (2, 4)", "x")
    delete(catalog, "n >= 2", "a")
    rows = query.rows()
    assert told(rows) == [
        ("a", 0, "delete", 3),
        ("a", 0, "delete", 5),
        ("x", 0, "delete", 2),
        ("x", 0, "delete", 4),
    ]
    times = {w: catalog.history("db", w)["committed_at"][0].as_py() for w in "ax"}
    assert {row["_writer"]: row["_committed_at"] for row in rows} == times
    put(catalog, 2, writer="v")  # comes later than the delete
    assert told(query.rows()) == [("v", 1, "insert", 2)]


def test_who_deletes_first_is_told_to_have_deleted(catalog):
    """Of two who mean the same row, named in one place of its log; also by `catalog.changes`."""
    put(catalog, 1, 2, writer="v")
    before = catalog.snapshot("db").token
    delete(catalog, "n = 1", "x")
    delete(catalog, "n <= 2", "a")
    wanted = [("a", 0, "delete", 2), ("x", 0, "delete", 1)]
    assert told(whole(catalog, before)) == wanted
    assert told(stream(catalog, readChangeFeed="true", since=before).batch()) == wanted


class Slow(PassingStore):
    """A listing of what begins so (or of the folders there) ends before some commits, and the first
    one of the log of w begins after them."""

    def __init__(self, store, prefix, meanwhile):
        super().__init__(store)
        self.prefix, self.meanwhile, self.done = prefix, meanwhile, Event()

    def _slow(self, prefix, found):
        if self.done.is_set():
            return found()
        if prefix.startswith("w/"):
            assert self.done.wait(30)
        if not prefix.startswith(self.prefix) or prefix.startswith("w/"):
            return found()
        before = found()
        self.meanwhile()
        self.done.set()
        return before

    def list(self, prefix, **options):
        yield from self._slow(prefix, lambda: list(self.inner.list(prefix, **options)))

    def list_folders(self, prefix):
        return self._slow(prefix, lambda: self.inner.list_folders(prefix))


@pytest.mark.parametrize("is_known", [True, False], ids=["known log", "new log"])
def test_a_log_that_was_listed_too_early_is_listed_again(catalog, is_known):
    """Else the delete would be given, and then its rows never: the sum would be right, and not what
    happened."""
    put(catalog, 1)
    if is_known:
        put(catalog, 2, writer="v")
    before = catalog.snapshot("db").token
    query = stream(catalog, readChangeFeed="true", since=before)

    def meanwhile():
        put(catalog, 3, 4, writer="v")
        delete(catalog, "n = 3", "w")

    if is_known:
        assert query.batch() == []
    table = query.reader._followed._catalog
    table.store = Slow(table.store, "v/" if is_known else "", meanwhile)
    rows = query.batch()
    v = int(is_known)
    assert told(rows) == [("v", v, "insert", 3), ("v", v, "insert", 4), ("w", 1, "delete", 3)]
    assert counted(rows) == counted(whole(catalog, before))
    assert query.batch() is None


def test_a_delete_by_a_slow_clock_comes_behind_its_rows(catalog):
    put(catalog, 1)
    before = catalog.snapshot("db").token
    put(catalog, 2, writer="v")
    put(catalog, 3, writer="v")
    slow = lakelog.open_catalog(catalog.url)
    late(slow, 3_600)
    delete(slow, "n = 3", "a")
    put(slow, 4, writer="a")
    query = stream(catalog, readChangeFeed="true", since=before, maxFilesPerTrigger=1)
    assert [told(rows) for rows in query.batches()] == [
        [("v", 0, "insert", 2)],
        [("v", 1, "insert", 3)],
        [("a", 0, "delete", 3)],
        [("a", 1, "insert", 4)],
    ]


def test_a_delete_waits_for_rows_of_later_batches(catalog, monkeypatch):
    """Of each log a few commits are looked at for one batch."""
    put(catalog, 0)
    stream(catalog)  # only where there are streams there is the module
    from lakelog.spark import stream_source

    for module in (followed, stream_source):
        monkeypatch.setattr(module, "COMMITS_AT_ONCE", 2)
    before = catalog.snapshot("db").token
    for number in range(1, 6):
        put(catalog, number, number + 10, writer="v")
    delete(catalog, "n < 10", "w")
    put(catalog, 20)
    query = stream(catalog, readChangeFeed="true", since=before)
    batches = [told(rows) for rows in query.batches()]
    assert [len(rows) for rows in batches] == [4, 4, 2 + 6 + 1]
    rows = stream(catalog, readChangeFeed="true", since=before).rows()
    assert counted(rows) == counted(whole(catalog, before))


def test_files_of_others_count_for_the_limits(catalog):
    for number in range(3):
        put(catalog, number, number + 10, writer="v")
    before = catalog.snapshot("db").token
    put(catalog, 30)
    delete(catalog, "n IN (0, 1, 2, 30)", "a")
    put(catalog, 40)
    query = stream(catalog, readChangeFeed="true", since=before, maxFilesPerTrigger=4)
    assert [len(rows) for rows in query.batches()] == [1, 4, 1]


def test_a_log_that_was_set_back_behind_what_a_delete_names(catalog, tmp_path):
    """It never comes so far again: nothing waits for that."""
    put(catalog, 1, writer="v")
    before = catalog.snapshot("db").token
    shutil.copytree(Path(catalog.url, "v"), tmp_path / "copy")
    put(catalog, 2, writer="v")
    put(catalog, 3, writer="v")
    delete(catalog, "n <> 2", "w")
    put(catalog, 5)
    shutil.rmtree(Path(catalog.url, "v"))
    shutil.copytree(tmp_path / "copy", Path(catalog.url, "v"))
    query = stream(catalog, readChangeFeed="true", since=before)
    rows = query.rows()
    assert told(rows) == [("w", 0, "delete", 1), ("w", 1, "insert", 5)]
    put(catalog, 3, writer="v")
    assert told(query.rows()) == [("v", 1, "insert", 3)]


def test_an_update_over_logs_in_a_net_batch(catalog):
    """A delete of a row that another log's newer commit had put in, and a rewrite that saw it."""
    paths = [put(catalog, 1, 2, writer="v"), put(catalog, 3, writer="v")]
    before = catalog.snapshot("db").token
    every = stream(catalog, readChangeFeed="true", since=before)
    net = stream(catalog, readChangeFeed="true", since=before, net="true")
    put(catalog, 4, writer="v")
    delete(catalog, "n IN (1, 4)", "w")
    commit(catalog, lambda tx: tx.rewrite("t", paths), "v")
    assert told(net.batch()) == [("w", 0, "delete", 1)]
    found = [("v", 2, "insert", 4), ("w", 0, "delete", 1), ("w", 0, "delete", 4)]
    assert told(every.rows()) == found == told(whole(catalog, before))
