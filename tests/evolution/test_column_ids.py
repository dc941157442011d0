"""The ids of columns: files carry them, data of others doesn't bring any, and of two commits that
race for one the later is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evolution_cases import INT, TEXT, Lake, evolve, same_in_every_engine, write
from lakelog.catalog.format.schema import COLUMN_ID, column_id
from lakelog.errors import ColumnsChanged, SchemaConflict
from lakelog.rebuild import execute_rebuild, plan_rebuild

if TYPE_CHECKING:
    from pathlib import Path


def ids_of(lake: Lake) -> list[dict[str, int]]:
    """Per file of `w`, in the order of commits, the ids that the log's schema gives its columns."""
    (state,) = (state for state in lake.now._states if state.writer == "w")
    schemas = {entry.fingerprint: entry.schema for entry in state.schemas.of_table("t")}
    rows = state.files.table("t").sort_by("revision")
    names = rows.column("schema_fingerprint").to_pylist()
    return [{each.name: column_id(each) for each in schemas[name]} for name in names]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Files of a table from before and after a rename, a drop and a column that came again."""
    found = Lake(tmp_path / "lake")
    found.do(write(a=(TEXT, ["x"]), b=(INT, [1])))
    found.do(evolve(rename={"a": "c"}, drop=["b"], add={"b": INT}))
    found.do(write(c=(TEXT, ["y"]), b=(INT, [2]), n=(INT, [3])))
    return found


def test_files_carry_the_ids_that_the_log_gives(lake: Lake) -> None:
    assert ids_of(lake) == [{"a": 1, "b": 2}, {"c": 1, "b": 3, "n": 4}]
    files = lake.now.files("t").sort_by("revision").column("url").to_pylist()
    paths = [url.removeprefix("file://") for url in files]
    for path, ids in zip(paths, ids_of(lake), strict=True):
        schema = pq.read_schema(path)
        assert {each.name: int(each.metadata[COLUMN_ID]) for each in schema} == ids
        with duckdb.connect() as engine:
            asked = f"SELECT name, field_id FROM parquet_schema('{path}')"
            told = engine.sql(asked).fetchall()
        assert {name: number for name, number in told if number is not None} == ids
    same_in_every_engine(lake.now, [{"c": "x", "b": None, "n": None}, {"c": "y", "b": 2, "n": 3}])


def test_what_is_read_has_no_ids_and_written_again_keeps_its_names(lake: Lake) -> None:
    rows = lake.now.to_arrow("t")
    assert all(not each.metadata for each in rows.schema)
    paths = lake.now.files("t").column("path").to_pylist()
    lake.do(lambda tx: tx.rewrite("t", paths, rows))
    assert ids_of(lake) == [{"c": 1, "b": 3, "n": 4}]


def test_ids_in_a_file_of_others_count_for_nothing(lake: Lake, tmp_path: Path) -> None:
    """Neither those of its columns nor those inside of them; nor two of one id."""
    inner = pa.struct([pa.field("x", INT, metadata={COLUMN_ID: "1"})])
    schema = pa.schema(
        [
            pa.field("b", INT, metadata={COLUMN_ID: "1"}),
            pa.field("c", TEXT, metadata={COLUMN_ID: "1"}),
            pa.field("s", inner, metadata={COLUMN_ID: "3"}),
        ]
    )
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.table([[7], ["z"], [{"x": 9}]], schema=schema), path)
    lake.do(lambda tx: tx.add("t", path))
    assert ids_of(lake)[-1] == {"b": 3, "c": 1, "s": 5}
    assert lake.rows()[-1] == {"c": "z", "b": 7, "n": None, "s": {"x": 9}}
    again = pq.read_table(path)  # carries their ids in its metadata
    lake.do(lambda tx: tx.write("t", again))
    assert ids_of(lake)[-1] == {"b": 3, "c": 1, "s": 5}
    assert lake.rows()[-2:] == [{"c": "z", "b": 7, "n": None, "s": {"x": 9}}] * 2


def test_a_file_of_another_table_has_the_ids_of_the_one_that_it_comes_to(tmp_path: Path) -> None:
    lake, other = Lake(tmp_path / "lake"), Lake(tmp_path / "other")
    lake.do(write(a=(INT, [1]), b=(INT, [2])))
    other.do(write(b=(INT, [3]), a=(INT, [4])))
    (url,) = other.now.files("t").column("url").to_pylist()
    lake.do(lambda tx: tx.add("t", url))
    assert ids_of(lake) == [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    lake.do(evolve(rename={"a": "z"}))
    same_in_every_engine(lake.now, [{"z": 1, "b": 2}, {"z": 4, "b": 3}])


# --- Races ----------------------------------------------------------------------------------------


def race(lake: Lake, first: Any, second: Any) -> None:
    """Two transactions that were begun on one head; the first commits before the second."""
    with (
        lake.catalog.writer("w", "db", shared=True) as one,
        lake.catalog.writer("w", "db", shared=True) as other,
    ):
        late, early = one.transaction(), other.transaction()
        try:
            second(late)
            first(early)
            early.commit()
            late.commit()
        finally:
            late.discard()


def test_two_new_columns_that_race_for_one_id(lake: Lake) -> None:
    with pytest.raises(ColumnsChanged, match="'t' of w/db were changed"):
        race(lake, write(p=(INT, [1])), write(q=(INT, [2])))
    lake.do(write(q=(INT, [2])))
    assert ids_of(lake)[-2:] == [{"p": 5}, {"q": 6}]
    assert [(row["p"], row["q"]) for row in lake.rows()][-2:] == [(1, None), (None, 2)]


def test_one_new_column_that_two_bring_at_once_is_one(lake: Lake) -> None:
    race(lake, write(p=(INT, [1])), write(c=(TEXT, ["v"]), p=(INT, [2])))
    assert ids_of(lake)[-2:] == [{"p": 5}, {"c": 1, "p": 5}]
    with pytest.raises(ColumnsChanged):  # one name, two ids
        race(lake, write(q=(INT, [1]), r=(INT, [1])), write(r=(INT, [2])))


def test_a_new_table_that_two_begin_at_once() -> None:
    lake = Lake()
    lake.do(lambda tx: tx.write("other", pa.table({"o": [1]})))
    race(lake, write(a=(INT, [1]), b=(INT, [2])), write(a=(INT, [3]), b=(INT, [4])))
    with pytest.raises(ColumnsChanged):
        race(
            lake,
            lambda tx: tx.write("new", pa.table({"a": [1]})),
            lambda tx: tx.write("new", pa.table({"b": [1]})),
        )
    assert lake.rows() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_a_definition_that_did_not_see_a_new_column_is_refused(lake: Lake) -> None:
    """Else the values of `p` would be read as those of `q`."""
    with pytest.raises(ColumnsChanged):
        race(lake, write(p=(INT, [1])), evolve(add={"q": INT}))
    lake.do(evolve(add={"q": INT}))
    assert [row["q"] for row in lake.rows()] == [None] * 3


def test_a_transaction_may_write_new_columns_change_them_and_write_more(lake: Lake) -> None:
    lake.do(
        write(p=(INT, [1])), evolve(rename={"p": "q"}), write(q=(INT, [2]), r=(INT, [3])),
        evolve(drop=["r"], add={"p": INT}), write(p=(INT, [4]), q=(INT, [5])),
    )  # fmt: skip
    found = [{name: row.get(name) for name in "pqr"} for row in lake.rows()][-3:]
    assert found == [
        {"p": None, "q": 1, "r": None}, {"p": None, "q": 2, "r": None}, {"p": 4, "q": 5, "r": None},
    ]  # fmt: skip
    assert ids_of(lake)[-3:] == [{"p": 5}, {"q": 5, "r": 6}, {"p": 7, "q": 5}]


# --- A table that was dropped ---------------------------------------------------------------------


def test_a_table_that_was_dropped_gives_no_id_twice_and_comes_back_as_it_was(lake: Lake) -> None:
    before, rows = lake.now.token, lake.rows()
    lake.catalog.drop("db", "t", execute=True)
    assert lake.now.tables() == []
    lake.do(write(z=(INT, [1]), d=(TEXT, ["other"])), checkpoint=True)
    assert ids_of(lake) == [{"z": 5, "d": 6}]
    between, others = lake.now.token, lake.rows()
    changes = lake.catalog.changes("db", "t", since=before, net=False).read_all().to_pylist()
    gone = [row for row in changes if row["_change"] == "delete"]
    assert [(row["c"], row["n"], row["z"]) for row in gone] == [("x", None, None), ("y", 3, None)]
    lake.catalog.restore("db", to=before, execute=True)
    same_in_every_engine(lake.now, rows)
    with pytest.raises(SchemaConflict, match="'z' of table 't' was dropped"):
        lake.do(write(z=(INT, [1])))
    lake.catalog.restore("db", to=between, execute=True)
    same_in_every_engine(lake.now, others)
    assert lake.catalog.snapshot("db", before).to_arrow("t").to_pylist() == rows


# --- A log that was lost --------------------------------------------------------------------------


def test_of_both_copies_of_a_log_lost_the_newest_column_of_a_name_is_the_tables() -> None:
    """Footers know the ids: no value of the dropped `b` is taken for one of the new."""
    lake = Lake()
    lake.do(write(a=(TEXT, ["x"]), b=(INT, [1])))
    lake.do(evolve(drop=["b"], add={"b": INT}))
    lake.do(write(a=(TEXT, ["y"]), b=(INT, [2])))
    rows = lake.rows()
    store = lake.catalog.store
    lost = [each.key for each in store.list("w/db/") if not each.key.startswith("w/db/data/")]
    store.delete(lost)
    execute_rebuild(store, plan_rebuild(store, "w", "db"))
    assert lake.rows() == rows == [{"a": "x", "b": None}, {"a": "y", "b": 2}]
    lake.do(evolve(rename={"b": "c"}), write(c=(INT, [3])))
    assert lake.rows(columns=["c"]) == [{"c": None}, {"c": 2}, {"c": 3}]
