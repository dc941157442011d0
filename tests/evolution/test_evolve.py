"""What `tx.evolve` takes, what it refuses, and what it leaves of data that is written after it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evolution_cases import DOUBLE, INT, LONG, TEXT, Lake, evolve, same_in_every_engine, write
from lakelog.catalog.format.schema import column_id
from lakelog.errors import (
    ColumnsChanged,
    InvalidSchema,
    SchemaConflict,
    TableNotFound,
    UsageError,
)


@pytest.fixture
def lake() -> Lake:
    found = Lake()
    found.do(write(a=(TEXT, ["x", None]), b=(INT, [1, 2])))
    return found


def test_a_renamed_column_keeps_its_values_and_its_statistics(lake: Lake) -> None:
    lake.do(evolve(rename={"b": "c"}))
    lake.do(write(c=(INT, [9])))
    rows = [{"a": "x", "c": 1}, {"a": None, "c": 2}, {"a": None, "c": 9}]
    same_in_every_engine(lake.now, rows)
    assert lake.now.files("t", where="c > 5").num_rows == 1
    assert lake.rows(where="c < 2") == [{"a": "x", "c": 1}]
    lake.do(evolve(rename={"c": "d"}))
    same_in_every_engine(lake.now, [{"a": r["a"], "d": r["c"]} for r in rows])


def test_columns_can_swap_their_names(lake: Lake) -> None:
    lake.do(evolve(rename={"a": "b", "b": "a"}))
    assert lake.now.schema("t").names == ["b", "a"]
    same_in_every_engine(lake.now, [{"b": "x", "a": 1}, {"b": None, "a": 2}])
    assert lake.rows(where="a = 2") == [{"b": None, "a": 2}]
    lake.do(write(a=(INT, [3]), b=(TEXT, ["new"])))
    assert lake.rows(where="a = 3") == [{"b": "new", "a": 3}]


def test_statistics_go_with_their_columns_when_names_are_swapped() -> None:
    lake = Lake()
    lake.do(write(low=(INT, [1, 2]), high=(INT, [100, 200])))
    lake.do(evolve(rename={"low": "high", "high": "low"}), checkpoint=True)
    assert lake.rows(where="high = 2") == [{"high": 2, "low": 200}]
    assert lake.rows(where="low > 150") == [{"high": 2, "low": 200}]
    assert lake.now.files("t", where="high > 50").num_rows == 0


def test_a_name_that_a_column_had_once_is_another_column_when_it_comes_back(lake: Lake) -> None:
    lake.do(evolve(rename={"b": "c"}))
    lake.do(evolve(add={"b": TEXT}, default={"b": "new"}))
    same_in_every_engine(
        lake.now, [{"a": "x", "c": 1, "b": "new"}, {"a": None, "c": 2, "b": "new"}]
    )
    lake.do(evolve(drop=["c"]))
    lake.do(evolve(add={"c": INT}))
    assert lake.rows(columns=["c"]) == [{"c": None}, {"c": None}]


@pytest.mark.parametrize(
    ("old", "values", "new"),
    [
        (pa.int8(), [1, -128], LONG),
        (pa.uint8(), [1, 255], pa.int16()),
        (pa.float32(), [1.5, None], DOUBLE),
        (INT, [1, -(1 << 31)], DOUBLE),
        (pa.decimal128(5, 2), [Decimal("1.25"), None], pa.decimal128(10, 4)),
        (pa.timestamp("ms"), [dt.datetime(2024, 1, 1), None], pa.timestamp("us")),
        (pa.date32(), [dt.date(2024, 1, 1), None], pa.timestamp("us")),
        (pa.list_(INT), [[1, 2], None], pa.list_(LONG)),
        (
            pa.struct([("x", INT)]),
            [{"x": 1}, None],
            pa.struct([("x", LONG), ("y", TEXT)]),
        ),
    ],
    ids=str,
)
def test_a_wider_type_holds_what_was_there_and_what_comes(old, values, new) -> None:
    lake = Lake()
    lake.do(write(v=(old, values)))
    before = lake.rows()
    lake.do(evolve(widen={"v": new}), checkpoint=True)
    assert lake.now.schema("t").field("v").type == new
    found = [row["v"] for row in lake.rows()]
    if pa.types.is_struct(new):
        assert found == [{"x": 1, "y": None}, None]
    elif pa.types.is_date(old):
        assert found == [dt.datetime(2024, 1, 1), None]
    else:
        assert found == [row["v"] for row in before]
    lake.do(write(v=(new, [None])), write(v=(old, values[:1])))  # the narrower one still fits
    assert len(lake.rows()) == 4
    assert lake.now.schema("t").field("v").type == new


def test_a_dictionary_is_its_values() -> None:
    lake = Lake()
    held = pa.table({"v": pa.array(["a", "b", "a"]).dictionary_encode()})
    lake.do(lambda tx: tx.write("t", held))
    lake.do(evolve(widen={"v": TEXT}))
    assert [row["v"] for row in lake.rows()] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({}, UsageError, "Nothing of the columns"),
        ({"drop": ["nope"]}, UsageError, "no column 'nope'"),
        ({"drop": "a"}, UsageError, "list of names"),
        ({"drop": ["a", "a"]}, UsageError, "twice"),
        ({"drop": ["a", "b"]}, InvalidSchema, "no columns"),
        ({"rename": {"nope": "c"}}, UsageError, "no column 'nope'"),
        ({"rename": {"a": "b"}}, SchemaConflict, "has a column 'b'"),
        ({"rename": {"a": "c", "b": "c"}}, SchemaConflict, "has a column 'c'"),
        ({"rename": {"a": ""}}, UsageError, "isn't empty"),
        ({"add": {"a": INT}}, SchemaConflict, "has a column 'a'"),
        ({"add": {"c": "int"}}, UsageError, "no type"),
        ({"add": {"c": pa.field("c", INT, nullable=False)}}, InvalidSchema, "forbid null"),
        ({"add": {"c": pa.month_day_nano_interval()}}, InvalidSchema, "Parquet"),
        ({"add": {"c": INT}, "default": {"c": "x"}}, InvalidSchema, "can't be the default"),
        ({"add": {"c": pa.int8()}, "default": {"c": 300}}, InvalidSchema, "can't be the default"),
        ({"add": {"c": INT}, "default": {"c": 1.5}}, InvalidSchema, "can't be the default"),
        ({"add": {"c": DOUBLE}, "default": {"c": float("nan")}}, InvalidSchema, "NaN"),
        ({"add": {"c": pa.list_(INT)}, "default": {"c": [1]}}, InvalidSchema, "default"),
        ({"add": {"c": TEXT}, "default": {"c": "x" * 70_000}}, InvalidSchema, "70000 bytes"),
        ({"default": {"a": "x"}}, UsageError, "not added here"),
        ({"widen": {"b": pa.int16()}}, SchemaConflict, "doesn't hold all"),
        ({"widen": {"b": TEXT}}, SchemaConflict, "doesn't hold all"),
        ({"widen": {"b": pa.float32()}}, SchemaConflict, "such as double"),
        ({"order": ["nope"]}, UsageError, "no column 'nope'"),
        ({"add": {"c": pa.timestamp("us", "Nowhere/Else")}}, InvalidSchema, "time zone"),
    ],
)  # fmt: skip
def test_what_can_t_be_is_refused_and_changes_nothing(lake: Lake, change, error, said) -> None:
    before = lake.rows()
    with pytest.raises(error, match=said):
        lake.do(evolve(**change))
    assert lake.rows() == before
    assert lake.now.cut.revisions == {"w": 0}


def test_a_table_that_the_log_doesn_t_know_has_no_columns(lake: Lake) -> None:
    with pytest.raises(TableNotFound, match="knows no table 'other'"):
        lake.do(lambda tx: tx.evolve("other", drop=["a"]))


def test_data_with_a_dropped_or_renamed_column_is_refused(lake: Lake) -> None:
    lake.do(evolve(drop=["b"], rename={"a": "c"}))
    with pytest.raises(SchemaConflict, match=r"'b' of table 't' was dropped.*tx\.evolve"):
        lake.do(write(c=(TEXT, ["y"]), b=(INT, [1])))
    with pytest.raises(SchemaConflict, match="'a' of table 't' was renamed to 'c'"):
        lake.do(write(a=(TEXT, ["y"])))
    assert lake.rows() == [{"c": "x"}, {"c": None}]


def test_data_of_a_type_that_the_column_doesn_t_hold_is_refused_and_nothing_is_cast(lake) -> None:
    lake.do(evolve(order=["b"]))
    with pytest.raises(SchemaConflict, match=r"'b' of table 't' is int32, and int64.*widen"):
        lake.do(write(b=(LONG, [1])))
    lake.do(write(b=(pa.int16(), [3])))
    assert [row["b"] for row in lake.rows()] == [1, 2, 3]
    lake.do(lambda tx: tx.write("t", pa.table({"b": pa.array([1 << 40])}), on_conflict="allow"))
    assert lake.now.schema("t").field("b").type == LONG  # as files without definitions unite
    assert [row["b"] for row in lake.rows()] == [1, 2, 3, 1 << 40]


def test_further_columns_still_come_by_writing(lake: Lake) -> None:
    lake.do(evolve(drop=["b"]))
    lake.do(write(a=(TEXT, ["y"]), extra=(INT, [7])))
    assert lake.rows() == [
        {"a": "x", "extra": None}, {"a": None, "extra": None}, {"a": "y", "extra": 7},
    ]  # fmt: skip
    lake.do(evolve(rename={"extra": "more"}))
    assert lake.rows()[2] == {"a": "y", "more": 7}


def test_a_transaction_may_write_evolve_and_write() -> None:
    lake = Lake()
    lake.do(
        write(a=(TEXT, ["x"]), b=(INT, [1])),
        evolve(drop=["b"], add={"b": TEXT}),
        write(a=(TEXT, ["y"]), b=(TEXT, ["two"])),
        evolve(rename={"b": "c"}),
        write(a=(TEXT, ["z"]), c=(TEXT, ["three"])),
    )
    same_in_every_engine(
        lake.now, [{"a": "x", "c": None}, {"a": "y", "c": "two"}, {"a": "z", "c": "three"}]
    )


def test_a_failed_evolve_leaves_the_transaction_as_it_was(lake: Lake) -> None:
    def steps(tx):
        with pytest.raises(UsageError):
            tx.evolve("t", drop=["nope"])
        tx.write("t", pa.table({"a": ["y"], "b": pa.array([3], INT)}))

    lake.do(steps)
    assert len(lake.rows()) == 3


def test_who_wrote_for_columns_that_changed_meanwhile_is_told(lake: Lake) -> None:
    with lake.catalog.writer("w", "db") as writer:
        late, evolving = writer.transaction(), writer.transaction()
        late.write("t", pa.table({"a": ["y"], "b": pa.array([3], INT)}))
        evolving.evolve("t", drop=["b"])
        evolving.commit()
        with pytest.raises(ColumnsChanged, match=r"columns of table 't'.*changed"):
            late.commit()
        first, second = writer.transaction(), writer.transaction()
        first.evolve("t", add={"c": INT})
        second.evolve("t", add={"d": INT})
        first.commit()
        with pytest.raises(ColumnsChanged):
            second.commit()
    assert lake.rows() == [{"a": "x", "c": None}, {"a": None, "c": None}]


def test_guests_are_told_too(lake: Lake) -> None:
    with (
        lake.catalog.writer("w", "db", shared=True) as one,
        lake.catalog.writer("w", "db", shared=True) as other,
    ):
        late, evolving = one.transaction(), other.transaction()
        late.write("t", pa.table({"b": pa.array([3], INT)}))
        evolving.evolve("t", rename={"b": "c"})
        evolving.commit()
        with pytest.raises(ColumnsChanged):
            late.commit()


def test_columns_of_a_table_that_was_dropped_meanwhile_are_not_changed(lake: Lake) -> None:
    """Nobody would see them, and data of its first columns would be refused."""
    with lake.catalog.writer("w", "db", shared=True) as writer:
        late = writer.transaction()
        late.evolve("t", rename={"b": "c"})
        lake.catalog.drop("db", "t", execute=True)
        with pytest.raises(ColumnsChanged, match="'t' of w/db were changed"):
            late.commit()
    assert lake.now.tables() == []
    lake.do(write(a=(TEXT, ["y"]), b=(INT, [3])), evolve(rename={"b": "c"}))
    assert lake.rows() == [{"a": "y", "c": 3}]


def test_columns_of_a_table_that_was_written_anew_meanwhile_are_not_changed(lake: Lake) -> None:
    """It has other columns, of which the change knows nothing."""
    with lake.catalog.writer("w", "db", shared=True) as writer:
        late = writer.transaction()
        late.evolve("t", drop=["b"])
        lake.catalog.drop("db", "t", execute=True)
        with (
            lake.catalog.writer("w", "db", shared=True) as other,
            other.transaction() as tx,
        ):
            tx.write("t", pa.table({"z": ["y"]}))
        with pytest.raises(ColumnsChanged, match="'t' of w/db were changed"):
            late.commit()
    assert lake.rows() == [{"z": "y"}]
    lake.do(write(b=(INT, [3])))
    assert lake.rows(columns=["b"]) == [{"b": None}, {"b": 3}]


def test_a_conflict_ends_where_its_column_is_dropped() -> None:
    lake = Lake()
    lake.do(write(a=(INT, [1]), b=(INT, [1])))
    lake.do(
        lambda tx: tx.write(
            "t", pa.table({"a": pa.array([2], INT), "b": ["x"]}), on_conflict="allow"
        )
    )
    with pytest.raises(SchemaConflict):
        lake.rows()
    with pytest.raises(SchemaConflict, match="'b'"):
        lake.do(evolve(rename={"a": "c"}))
    lake.do(evolve(drop=["b"]))
    same_in_every_engine(lake.now, [{"a": 1}, {"a": 2}])


def test_a_conflict_with_a_default_ends_so_too(lake: Lake) -> None:
    lake.do(evolve(add={"u": pa.uint64()}, default={"u": 1 << 63}))
    signed = pa.table({"u": pa.array([-1], LONG)})
    lake.do(lambda tx: tx.write("t", signed, on_conflict="allow"))
    with pytest.raises(SchemaConflict):
        lake.rows()
    (first, *_) = lake.now.files("t").column("path").to_pylist()
    lake.do(lambda tx: tx.remove(first), evolve(drop=["u"]))
    assert lake.rows() == [{"a": None, "b": None}]


def test_files_of_another_origin_have_the_columns_of_today(tmp_path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.do(write(a=(TEXT, ["x"]), b=(INT, [1])))
    lake.do(evolve(drop=["b"], add={"b": INT}, default={"b": 50}))
    pq.write_table(pa.table({"a": ["f"], "b": pa.array([5], INT)}), tmp_path / "f.parquet")
    lake.do(lambda tx: tx.add("t", tmp_path / "f.parquet"))
    same_in_every_engine(lake.now, [{"a": "x", "b": 50}, {"a": "f", "b": 5}])
    assert lake.rows(where="b = 5") == [{"a": "f", "b": 5}]
    lake.do(evolve(drop=["b"]))
    pq.write_table(pa.table({"a": ["g"], "b": pa.array([5], INT)}), tmp_path / "g.parquet")
    with pytest.raises(SchemaConflict, match="dropped"):
        lake.do(lambda tx: tx.add("t", tmp_path / "g.parquet"))


def test_columns_told_by_partitions_can_be_renamed_and_dropped(tmp_path) -> None:
    lake = Lake(tmp_path / "lake")
    file = tmp_path / "month=11" / "f.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"a": ["f"]}), file)
    lake.do(lambda tx: tx.add("t", file, "month=11", partition_by={"month": INT}))
    lake.do(evolve(rename={"month": "m"}))
    same_in_every_engine(lake.now, [{"a": "f", "m": 11}])
    assert lake.rows(where="m = 12") == []
    assert lake.now.files("t", where="m = 12").num_rows == 0
    lake.do(evolve(drop=["m"]))
    same_in_every_engine(lake.now, [{"a": "f"}])


def test_a_forgotten_table_begins_anew(lake: Lake) -> None:
    lake.do(evolve(drop=["b"]))
    (path,) = lake.now.files("t").column("path").to_pylist()
    lake.do(lambda tx: tx.remove(path))
    with lake.catalog.writer("w", "db") as writer:
        writer.forget(tables=["t"])
        writer.checkpoint()
    lake.do(write(b=(TEXT, ["again"])))
    assert lake.rows() == [{"b": "again"}]
    # The ids that it has given stay given: a restore may bring the old files back.
    known = lake.now._states[0].definitions.of("t")
    assert known is not None
    assert (known.schema.names, known.last_id) == ([], 2)
    (entry,) = lake.now._states[0].schemas.of_table("t")
    assert column_id(entry.schema.field("b")) == 3


@pytest.mark.parametrize(
    ("kind", "value", "where"),
    [
        (pa.bool_(), True, "c = true"),
        (pa.int8(), -5, "c = -5"),
        (pa.uint64(), (1 << 64) - 1, "c = 18446744073709551615"),
        (pa.float32(), 0.5, "c = 0.5"),
        (DOUBLE, 0.0, "c = -0.0"),
        (DOUBLE, float("inf"), "c > 5"),
        (TEXT, "é" * 100, "c > 'é'"),
        (TEXT, "", "c = ''"),
        (pa.binary(), b"\x00\xff", "c IS NOT NULL"),
        (pa.decimal128(9, 2), Decimal("-1.25"), "c = -1.25"),
        (pa.date32(), dt.date(2024, 2, 29), "c = DATE '2024-02-29'"),
        (pa.timestamp("us"), dt.datetime(2024, 2, 29, 1), "c = TIMESTAMP '2024-02-29 01:00:00'"),
        (
            pa.timestamp("ms", "UTC"),
            dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC),
            "c = TIMESTAMP '2024-02-29 01:00:00Z'",
        ),
        (pa.time64("us"), dt.time(5, 6, 7), "c IS NOT NULL"),
    ],
    ids=str,
)
def test_a_default_is_a_value_like_any_other(lake: Lake, kind, value, where) -> None:
    lake.do(evolve(add={"c": kind}, default={"c": value}), checkpoint=True)
    assert [row["c"] for row in lake.rows()] == [value, value]
    assert len(lake.rows(where=where)) == 2
    assert lake.rows(where="c IS NULL") == []
    assert lake.now.files("t", where="c IS NULL").num_rows == 0
    wider = {pa.int8(): LONG, pa.float32(): DOUBLE}.get(kind)
    if wider is not None:
        lake.do(evolve(widen={"c": wider}))
        assert [row["c"] for row in lake.rows()] == [value, value]


def test_a_default_that_no_file_s_type_holds_is_told(lake: Lake) -> None:
    lake.do(evolve(add={"day": pa.date32()}, default={"day": dt.date(2024, 2, 29)}))
    texts = pa.table({"day": ["a text"]})
    paths = lake.now.files("t").column("path").to_pylist()

    def only_texts(tx):
        for path in paths:
            tx.remove(path)
        tx.write("t", texts, on_conflict="allow")

    lake.do(only_texts)
    with pytest.raises(SchemaConflict, match=r"'day'.*default of type date32.*have string"):
        lake.do(evolve(order=["day"]))
    lake.do(evolve(drop=["day"]))
    assert lake.rows() == [{"a": None, "b": None}]
