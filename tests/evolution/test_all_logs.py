"""One change in the logs of all writers, and reading without files that conflict."""

from __future__ import annotations

import datetime as dt
import warnings

import pyarrow as pa
import pytest
from evolution_cases import INT, TEXT, Lake, same_in_every_engine, write
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.cut_tables import ConflictWarning
from lakelog.errors import (
    CapabilityMissing,
    SchemaConflict,
    TableNotFound,
    UsageError,
    WriterNotFound,
)
from lakelog.testing.doubles import PlainStore


@pytest.fixture
def lake() -> Lake:
    found = Lake()
    found.do(write(a=(TEXT, ["x"]), b=(INT, [1])), writer="v")
    found.do(write(a=(TEXT, ["y"])), writer="w")
    found.do(lambda tx: tx.write("other", pa.table({"o": [1]})), writer="u")
    return found


def test_all_logs_that_know_the_table_are_changed_in_one_commit_each(lake: Lake) -> None:
    done = lake.catalog.evolve("db", "t", drop=["b"], rename={"a": "c"})
    assert [(item.writer, item.revision, item.after.names) for item in done] == [
        ("v", 1, ["c"]), ("w", 1, ["c"]),
    ]  # fmt: skip
    same_in_every_engine(lake.now, [{"c": "x"}, {"c": "y"}])
    with pytest.raises(SchemaConflict, match="dropped"):
        lake.do(write(b=(INT, [1])), writer="v")
    done = lake.catalog.evolve("db", "t", add={"b": INT}, default={"b": 50})
    lake.do(write(b=(INT, [2])), writer="w")
    same_in_every_engine(lake.now, [{"c": "x", "b": 50}, {"c": "y", "b": 50}, {"c": None, "b": 2}])


def test_a_change_that_stands_in_some_logs_is_made_in_the_others(lake: Lake) -> None:
    lake.catalog.evolve("db", "t", writers=["v"], add={"n": INT}, default={"n": 3})
    assert lake.rows(columns=["n"]) == [{"n": 3}, {"n": None}]
    done = lake.catalog.evolve("db", "t", add={"n": INT}, default={"n": 3})
    assert [(item.writer, item.changes) for item in done] == [("v", False), ("w", True)]
    assert lake.rows(columns=["n"]) == [{"n": 3}, {"n": 3}]
    assert lake.now.cut.revisions == {"u": 0, "v": 1, "w": 1}


@pytest.mark.parametrize(("stands", "said"), [(3, "default 3"), (None, "no default")])
def test_a_default_beside_another_one_is_refused(lake: Lake, stands: int | None, said: str) -> None:
    """Left out unseen, files of that log would show another value, or null."""
    lake.catalog.evolve("db", "t", writers=["v"], add={"n": INT}, default={"n": stands})
    with pytest.raises(SchemaConflict, match=f"a log already, with.* {said}, not 4") as caught:
        lake.catalog.evolve("db", "t", add={"n": INT}, default={"n": 4})
    assert lake.now.cut.revisions == {"u": 0, "v": 1, "w": 0}
    assert "writers=" in str(caught.value.hint)
    lake.catalog.evolve("db", "t", writers=["w"], add={"n": INT}, default={"n": 4})
    assert lake.rows(columns=["n"]) == [{"n": stands}, {"n": 4}]


def test_no_column_gets_the_name_of_another_one_in_any_log(lake: Lake) -> None:
    """Nor is a column left out for it."""
    before = lake.rows()
    for rename in ({"a": "b"}, {"b": "a"}):
        with pytest.raises(SchemaConflict, match="already"):
            lake.catalog.evolve("db", "t", rename=rename)
    assert lake.rows() == before
    assert lake.now.cut.revisions == {"u": 0, "v": 0, "w": 0}
    lake.catalog.evolve("db", "t", rename={"a": "b", "b": "a"})
    assert lake.rows() == [{"b": "x", "a": 1}, {"b": "y", "a": None}]


def test_logs_are_read_together_by_the_names_that_columns_have_now(lake: Lake) -> None:
    """Whatever ids they have: those are a log's own."""
    lake.do(write(b=(INT, [7])), writer="w")
    lake.do(lambda tx: tx.evolve("t", drop=["b"], add={"b": INT}, default={"b": 50}), writer="v")
    same_in_every_engine(
        lake.now, [{"a": "x", "b": 50}, {"a": "y", "b": None}, {"a": None, "b": 7}]
    )
    lake.catalog.evolve("db", "t", writers=["w"], rename={"b": "b_of_w"})
    assert [row["b_of_w"] for row in lake.rows(columns=["b", "b_of_w"])] == [None, None, 7]


def test_nothing_is_committed_without_execute(lake: Lake) -> None:
    (first, _) = lake.catalog.evolve("db", "t", drop=["a"], add={"z": INT}, execute=False)
    assert (first.before.names, first.after.names) == (["a", "b"], ["b", "z"])
    assert lake.now.cut.revisions == {"u": 0, "v": 0, "w": 0}


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"drop": ["nope"]}, UsageError, "no column 'nope'"),
        ({"drop": ["a"]}, Exception, "no columns"),  # `w` has no other
        ({"add": {"b": TEXT}}, SchemaConflict, "has a column 'b'"),
        ({"drop": ["a"], "writers": ["nobody"]}, WriterNotFound, "nobody"),
        ({"drop": ["a"], "writers": ["u"]}, TableNotFound, "'u' knows table 't'|u knows table"),
        ({"drop": ["a"], "writers": "w"}, UsageError, "list"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_committed(lake, asked, error, said) -> None:
    with pytest.raises(error, match=said):
        lake.catalog.evolve("db", "t", **asked)
    assert lake.now.cut.revisions == {"u": 0, "v": 0, "w": 0}


def test_a_name_that_only_one_log_has_dropped_comes_back_there(lake: Lake) -> None:
    lake.do(lambda tx: tx.evolve("t", drop=["b"]), writer="v")
    lake.do(write(b=(INT, [9])), writer="w")
    done = lake.catalog.evolve("db", "t", add={"b": INT})
    assert [(item.writer, item.changes) for item in done] == [("v", True), ("w", False)]
    assert lake.rows(columns=["b"]) == [{"b": None}, {"b": None}, {"b": 9}]


def test_a_store_without_put_if_absent_takes_no_guests(lake: Lake) -> None:
    plain = Catalog(PlainStore(lake.catalog.store))
    with pytest.raises(CapabilityMissing, match="Guests need put-if-absent"):
        plain.evolve("db", "t", add={"n": INT})
    assert lake.now.cut.revisions == {"u": 0, "v": 0, "w": 0}


def test_files_whose_types_conflict_can_be_left_out(lake: Lake) -> None:
    lake.do(write(a=(TEXT, ["z"]), b=(TEXT, ["one"])), writer="w")
    with pytest.raises(SchemaConflict) as told:
        lake.rows()
    assert told.value.writers == ("v", "w")
    assert "'b' of table 't'" in str(told.value)
    assert str(told.value).count(".parquet") == 2
    agreeing = lake.now.without_conflicts()
    with pytest.warns(ConflictWarning, match="'b'.*left out are 1 rows of data/.*parquet"):
        found = agreeing.to_arrow("t").to_pylist()
    assert found == [{"a": "x", "b": 1}, {"a": "y", "b": None}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        same_in_every_engine(agreeing, found)
        assert agreeing.files("t").num_rows == 2
        assert agreeing.files("t", where="b = 1").num_rows == 1
        assert agreeing.explain("t", "b = 1").num_rows == 2
        assert agreeing.dataset("t").count_rows() == 2
        assert agreeing.to_arrow("t", columns=["a"]).num_rows == 2
    assert lake.now.to_arrow("t", columns=["a"]).num_rows == 3
    with pytest.warns(ConflictWarning, match="left out are 1 rows"):
        assert lake.catalog.snapshot("db", on_conflict="skip").to_arrow("t").to_pylist() == found
    with pytest.raises(UsageError, match="can't be 'allow'"):
        lake.catalog.snapshot("db", on_conflict="allow")


US, NS = pa.timestamp("us"), pa.timestamp("ns")


@pytest.mark.parametrize("kind", [US, pa.timestamp("ms"), pa.date32()])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_files_with_times_beyond_the_unit_are_left_out(
    lake: Lake, kind: pa.DataType, checkpoint: bool
) -> None:
    near, far = dt.date(2026, 1, 2), dt.date(9999, 12, 31)
    fine = pa.array([near], pa.date32()).cast(NS)
    lake.do(lambda tx: tx.write("u", pa.table({"c": fine})), writer="v")
    for days in ([near, None], [near, far], [dt.date(1066, 10, 14)]):
        data = pa.table({"c": pa.array(days, pa.date32()).cast(kind)})
        lake.do(lambda tx, data=data: tx.write("u", data), writer="w")
    if checkpoint:
        with lake.catalog.writer("w", "db") as writer:
            writer.checkpoint()
    with pytest.raises(SchemaConflict, match="beyond its column's type"):
        lake.now.to_arrow("u")
    found = lake.now.without_conflicts()
    with pytest.warns(ConflictWarning, match=r"'w' hold times beyond .*: left out are 3 rows of"):
        rows = found.to_arrow("u")["c"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConflictWarning)
        assert rows.cast(pa.date32()).to_pylist() == [near, near, None]
        assert found.to_duckdb().sql("SELECT count(*) FROM u").fetchall() == [(3,)]
        assert found.to_polars("u").collect().height == 3
        assert found.files("u").num_rows == 2
