"""A column is dropped, and another one of its name comes with a default: the rows of the first must
never be taken for rows of the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from evolution_cases import INT, TEXT, Lake, evolve, same_in_every_engine, write

if TYPE_CHECKING:
    from pathlib import Path

OLD = {"a": "hello", "b": 50}


@pytest.fixture(params=["memory", "folder"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    found = Lake(tmp_path / "lake" if request.param == "folder" else None)
    found.do(write(a=(TEXT, ["hello"]), b=(INT, [5])))
    return found


@pytest.mark.parametrize("at_once", [True, False], ids=["one commit", "two commits"])
@pytest.mark.parametrize("checkpoint", [True, False], ids=["checkpoint", "tail"])
def test_the_old_row_has_the_default_and_not_its_old_value(
    lake: Lake, at_once: bool, checkpoint: bool
) -> None:
    if at_once:
        lake.do(evolve(drop=["b"], add={"b": INT}, default={"b": 50}), checkpoint=checkpoint)
    else:
        lake.do(evolve(drop=["b"]))
        same_in_every_engine(lake.now, [{"a": "hello"}])
        lake.do(evolve(add={"b": INT}, default={"b": 50}), checkpoint=checkpoint)
    same_in_every_engine(lake.now, [OLD])
    assert lake.rows(where="b = 5") == []
    assert lake.rows(where="b = 50") == [OLD]
    lake.do(write(a=(TEXT, ["new"]), b=(INT, [5])))
    assert lake.rows(where="b = 5") == [{"a": "new", "b": 5}]
    assert lake.rows(where="b = 50") == [OLD]
    assert lake.rows(where="b <> 5") == [OLD]
    assert lake.rows(where="b IS NULL") == []
    connection = lake.now.to_duckdb()
    assert connection.sql("SELECT a FROM t WHERE b = 5").fetchall() == [("new",)]
    assert lake.now.files("t", where="b = 5").num_rows == 1
    told = lake.now.explain("t", "b = 5").to_pylist()
    assert [row["reason"] for row in told if not row["kept"]] == ["not b = 5: b is 50"]


def test_without_a_default_the_old_row_is_null(lake: Lake) -> None:
    lake.do(evolve(drop=["b"], add={"b": INT}))
    assert lake.rows() == [{"a": "hello", "b": None}]
    assert lake.rows(where="b IS NULL") == [{"a": "hello", "b": None}]
    assert lake.rows(where="b = 5") == []


def test_earlier_revisions_read_as_they_did(lake: Lake) -> None:
    before = lake.now.token
    lake.do(evolve(drop=["b"], add={"b": TEXT}, default={"b": "x"}), checkpoint=True)
    assert lake.rows() == [{"a": "hello", "b": "x"}]
    assert lake.catalog.snapshot("db", before).to_arrow("t").to_pylist() == [{"a": "hello", "b": 5}]


def test_files_of_the_old_form_rewritten_in_the_new_read_the_same_during_the_change(
    lake: Lake,
) -> None:
    lake.do(write(a=(TEXT, ["more"]), b=(INT, [6])))
    lake.do(
        evolve(drop=["b"], add={"b": INT}, default={"b": 50}, rename={"a": "text"}),
        write(text=(TEXT, ["third"]), b=(INT, [7])),
    )
    rows = sorted(lake.rows(), key=lambda row: row["text"])
    paths = lake.now.files("t").column("path").to_pylist()
    for path in paths:  # one file after the other, each removed and written anew in one transaction
        (own,) = [p for p in lake.now.file_parts("t") if p.key.endswith(path)]
        data = lake.now.to_arrow("t")
        held = {row["text"] for row in data.to_pylist()}
        assert held == {"hello", "more", "third"}
        keep = _rows_of(lake, own.key)

        def rewrite(tx, path=path, keep=keep):
            tx.remove(path)
            tx.write("t", keep)

        lake.do(rewrite)
        same_in_every_engine(lake.now, rows)
        assert lake.rows(where="b = 50") == [row for row in lake.rows() if row["b"] == 50]


def _rows_of(lake: Lake, key: str):
    from lakelog.catalog.data.scan import Projection, scan_files

    parts = [part for part in lake.now.file_parts("t") if part.key == key]
    return scan_files(lake.catalog.store, parts, Projection(lake.now.schema("t"))).read_all()
