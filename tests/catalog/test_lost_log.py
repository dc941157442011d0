"""A writer doesn't begin a new log over the files of a lost one."""

from __future__ import annotations

import shutil

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import LogLost
from lakelog.rebuild import execute_rebuild, plan_rebuild

DATA = pa.table({"a": [1]})


def commit(catalog, times=1):
    with catalog.writer("w", "db") as writer:
        for _ in range(times):
            with writer.transaction() as tx:
                tx.write("t", DATA)


@pytest.mark.parametrize("commits", [[2], [1, 1]], ids=["one owner", "two owners"])
def test_a_lost_log_is_not_begun_anew(tmp_path, commits):
    catalog = lakelog.open_catalog(str(tmp_path))
    for times in commits:
        commit(catalog, times)
    shutil.rmtree(tmp_path / "w" / "db" / "transactions")
    with pytest.raises(LogLost, match="lakelog rebuild") as caught:
        commit(catalog)
    assert caught.value.key.startswith("w/db/data/")
    assert not (tmp_path / "w" / "db" / "transactions").exists()
    execute_rebuild(plan_rebuild(catalog, "w", "db"))
    commit(catalog)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 3


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
