"""A writer doesn't begin a new log over a lost one, and says what brings that back."""

from __future__ import annotations

import shutil

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import DatabaseNotFound, LogLost, NotACatalog, WriterNotFound
from lakelog.rebuild import execute_rebuild, plan_rebuild

DATA = pa.table({"a": [1]})


def commit(catalog, times=1):
    with catalog.writer("w", "db") as writer:
        for _ in range(times):
            with writer.transaction() as tx:
                tx.write("t", DATA)


def lose(root):
    """Both copies of the log."""
    for copy in ("transactions", "mirror"):
        shutil.rmtree(root / "w" / "db" / copy)


@pytest.mark.parametrize("commits", [[2], [1, 1]], ids=["one owner", "two owners"])
def test_a_lost_log_is_not_begun_anew(tmp_path, commits):
    catalog = lakelog.open_catalog(str(tmp_path))
    for times in commits:
        commit(catalog, times)
    shutil.rmtree(tmp_path / "w" / "db" / "transactions")
    with pytest.raises(LogLost, match="lakelog repair") as caught:
        commit(catalog)
    assert caught.value.key == "w/db/mirror/transactions/"
    assert not (tmp_path / "w" / "db" / "transactions").exists()
    catalog.repair("db", execute=True)
    commit(catalog)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 3


def test_a_log_of_which_both_copies_are_lost_is_not_begun_anew(tmp_path):
    """Segments of its checkpoints show that there was one."""
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer:
        for _ in range(2):
            with writer.transaction() as tx:
                tx.write("t", DATA)
        writer.checkpoint()
    lose(tmp_path)
    (tmp_path / "w" / "db" / "segments").mkdir(exist_ok=True)
    (tmp_path / "w" / "db" / "segments" / f"{'0' * 64}.segment").write_bytes(b"x")
    with pytest.raises(LogLost, match="lakelog rebuild") as caught:
        commit(catalog)
    assert caught.value.key == "w/db/segments/"
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    commit(catalog)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 3


def test_readers_of_a_lost_log_are_sent_to_rebuild(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    commit(catalog, 2)
    with catalog.writer("other", "db") as writer, writer.transaction() as tx:
        tx.write("t", DATA)
    with catalog.writer("other", "sound") as writer, writer.transaction() as tx:
        tx.write("t", DATA)
    hint = "`lakelog rebuild URL db --writer w`"
    lose(tmp_path)
    with pytest.raises(WriterNotFound, match=hint):
        catalog.snapshot("db", {"w": 1})
    with pytest.raises(WriterNotFound, match="It has: other"):
        catalog.snapshot("db", {"nobody": 1})
    shutil.rmtree(tmp_path / "other" / "db")
    with pytest.raises(DatabaseNotFound, match=hint):
        catalog.snapshot("db")
    with pytest.raises(DatabaseNotFound, match="It has: sound"):
        catalog.snapshot("nothing")
    shutil.rmtree(tmp_path / "other")
    for call in (catalog.databases, lambda: catalog.snapshot("db"), lambda: catalog.history("db")):
        with pytest.raises(NotACatalog, match=hint):
            call()


def test_a_first_commit_that_crashed_can_be_made_again(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    for _ in range(2):
        with catalog.writer("w", "db") as writer:
            tx = writer.transaction()
            tx.write("t", DATA)  # and the process dies before the commit
    commit(catalog)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 1


def test_foreign_files_prove_nothing(tmp_path):
    folder = tmp_path / "w" / "db" / "data" / "p" / "t"
    folder.mkdir(parents=True)
    (folder / "9-old.parquet").write_bytes(b"whatever")
    commit(lakelog.open_catalog(str(tmp_path)))
