"""What data declares is kept or refused: columns that are not null, metadata, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import InvalidSchema, SchemaConflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STRICT = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
PLAIN = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int | None, schema: pa.Schema = PLAIN) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["x"] * len(ids)}, schema=schema)


@pytest.fixture
def lake(tmp_path: Path) -> lakelog.Catalog:
    return lakelog.open_catalog(str(tmp_path / "lake"))


def done(lake: lakelog.Catalog, act: Callable[[Any], Any]) -> Any:
    with lake.writer("w", "db", shared=True) as writer, writer.transaction() as tx:
        return act(tx)


def fields(lake: lakelog.Catalog, table: str = "t") -> list[bool]:
    """Whether column `id` is nullable in each file."""
    parts = lake.snapshot("db").plain_parts(table)
    return [part.schema.field("id").nullable for part in parts]


@pytest.mark.parametrize(
    "act",
    [
        lambda tx: tx.write("t", rows(2, None)),
        lambda tx: tx.write("t", rows(2, None).to_reader()),
        lambda tx: tx.write("t", pa.table({"v": ["x"]})),
        lambda tx: tx.upsert("t", rows(2), key=["id"]) and tx.write("t", rows(None)),
        lambda tx: tx.overwrite("t", rows(None), "id = 1", validate=False),
        lambda tx: tx.update("t", {"id": None}, None),
    ],
)
def test_a_column_that_was_declared_not_null_takes_no_null(lake, act):
    done(lake, lambda tx: tx.write("t", rows(1, schema=STRICT)))
    with pytest.raises((SchemaConflict, InvalidSchema), match="'id' of table 't' is declared not"):
        done(lake, act)
    assert lake.snapshot("db").to_arrow("t")["id"].to_pylist() == [1]


def test_it_stays_so_through_writes_without_the_word_and_through_other_columns(lake):
    done(lake, lambda tx: tx.write("t", rows(1, schema=STRICT)))
    done(lake, lambda tx: tx.write("t", rows(2)))
    done(lake, lambda tx: tx.evolve("t", add={"n": pa.int64()}, rename={"v": "text"}))
    done(lake, lambda tx: tx.update("t", {"id": 3}, "id = 2"))
    paths = lake.snapshot("db").files("t")["path"].to_pylist()
    done(lake, lambda tx: tx.rewrite("t", paths))
    assert not any(fields(lake))
    with pytest.raises(SchemaConflict, match="declared not null"):
        done(lake, lambda tx: tx.write("t", pa.table({"id": pa.array([None], pa.int64())})))


def test_allow_ends_it(lake):
    done(lake, lambda tx: tx.write("t", rows(1, schema=STRICT)))
    done(lake, lambda tx: tx.write("t", rows(None), on_conflict="allow"))
    done(lake, lambda tx: tx.write("t", rows(None)))
    assert lake.snapshot("db").to_arrow("t")["id"].to_pylist() == [1, None, None]


def test_data_can_not_be_other_than_it_declares(lake):
    for data in (rows(1, None, schema=STRICT), rows(1, None, schema=STRICT).to_reader()):
        with pytest.raises(InvalidSchema, match=r"null in it \(1 of 2 rows\)"):
            done(lake, lambda tx, data=data: tx.write("t", data, on_conflict="allow"))
    inner = pa.schema([("a", pa.list_(pa.field("element", pa.int64(), nullable=False)))])
    with pytest.raises(InvalidSchema, match="null"):
        done(lake, lambda tx: tx.write("u", pa.table({"a": [[1, None]]}, schema=inner)))


def test_files_of_others_declare_nothing_and_are_held_to_what_is_declared(lake, tmp_path):
    strict, plain = str(tmp_path / "strict.parquet"), str(tmp_path / "plain.parquet")
    pq.write_table(rows(1, schema=STRICT), strict)
    pq.write_table(rows(1), plain)
    done(lake, lambda tx: tx.add("new", strict))
    done(lake, lambda tx: tx.write("new", rows(None)))
    done(lake, lambda tx: tx.write("t", rows(1, schema=STRICT)))
    with pytest.raises(SchemaConflict, match=r"plain.parquet can't be added: .* not null"):
        done(lake, lambda tx: tx.add("t", plain))
    done(lake, lambda tx: tx.remove(strict))
    done(lake, lambda tx: tx.add("t", strict))
    assert fields(lake) == [False, False]
    done(lake, lambda tx: tx.add("t", plain, on_conflict="allow"))
    done(lake, lambda tx: tx.write("t", rows(None)))


def test_metadata_of_data_is_in_its_files(lake, tmp_path):
    field = pa.field("id", pa.int64(), metadata={"unit": "m", "lakelog.key": "once"})
    notes = {"owner": "me", "pandas": "{}", "lakelog.version": "9", "org.apache.spark.version": "4"}
    (path,) = done(lake, lambda tx: tx.write("t", pa.table([[1]], pa.schema([field], notes))))
    found = pq.read_schema(tmp_path / "lake" / "w" / "db" / path)
    own = {key for key in found.metadata if not key.startswith(b"lakelog.")}
    assert own == {b"owner"}
    assert found.field("id").metadata == {b"unit": b"m", b"PARQUET:field_id": b"1"}
    assert lake.snapshot("db").to_arrow("t").schema.metadata is None
    long = pa.schema([field], {"x": "x" * (1 << 20)})
    with pytest.raises(InvalidSchema, match="bytes of metadata"):
        done(lake, lambda tx: tx.write("t", pa.table([[1]], long)))


def test_rows_go_where_the_table_has_its_partitions(lake):
    days = pa.table({"d": ["1", "2"], "v": [1, 2]})

    def partitions() -> list[str]:
        return sorted(lake.snapshot("db").files("t")["partition"].to_pylist())

    def one(day: str) -> pa.Table:
        return pa.table({"d": [day], "v": [9]})

    done(lake, lambda tx: tx.write("t", days, partition_by=["d"]))
    done(lake, lambda tx: tx.overwrite("t", one("1"), "d = '1'"))
    assert partitions() == ["d=1", "d=2"]
    done(lake, lambda tx: tx.write("t", one("3")))
    done(lake, lambda tx: tx.upsert("t", one("4"), key=["d"]))
    assert partitions() == ["d=1", "d=2", "d=3", "d=4"]
    done(lake, lambda tx: tx.write("t", one("5"), partition_by=[]))
    done(lake, lambda tx: tx.write("t", pa.table({"v": [1]})))
    assert partitions() == ["", "", "d=1", "d=2", "d=3", "d=4"]
    done(lake, lambda tx: tx.evolve("t", rename={"d": "day"}))
    done(lake, lambda tx: tx.write("t", pa.table({"day": ["6"], "v": [1]})))
    assert "day=6" in partitions()
    rest = lake.snapshot("db").files("t", partition="")["path"].to_pylist()
    done(lake, lambda tx: tx.rewrite("t", rest))
    assert partitions().count("") == 2  # by their schemas; a rewrite leaves rows where they are


def test_partitions_are_known_from_a_checkpoint_and_after_a_drop_no_more(lake):
    done(lake, lambda tx: tx.write("t", pa.table({"d": ["1"]}), partition_by=["d"]))
    done(lake, lambda tx: tx.write("other", pa.table({"v": [1]})))
    with lake.writer("w", "db") as writer:
        writer.checkpoint()
    done(lake, lambda tx: tx.write("t", pa.table({"d": ["2"]})))
    done(lake, lambda tx: tx.write("other", pa.table({"d": ["2"]})))
    files = lake.snapshot("db").files("t")["partition"].to_pylist()
    assert sorted(files) == ["d=1", "d=2"]
    assert lake.snapshot("db").files("other")["partition"].to_pylist() == ["", ""]
    lake.drop("db", "t", execute=True)
    done(lake, lambda tx: tx.write("t", pa.table({"d": ["3"]})))
    assert lake.snapshot("db").files("t")["partition"].to_pylist() == [""]


def doubles(*values: float | None) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.float64())})


def test_doubles_that_are_whole_fit_a_column_of_int64(lake):
    done(lake, lambda tx: tx.write("t", pa.table({"n": [1, 2]})))
    done(lake, lambda tx: tx.write("t", doubles(3, None)))
    done(lake, lambda tx: tx.write("t", doubles(4).to_reader()))
    done(lake, lambda tx: tx.overwrite("t", doubles(4, 4), "n = 4"))
    done(lake, lambda tx: tx.upsert("t", doubles(5), key=["n"]))
    done(lake, lambda tx: tx.evolve("t", key=["n"]))
    done(lake, lambda tx: tx.upsert("t", doubles(6)))
    found = lake.snapshot("db").to_arrow("t")["n"]
    assert found.type == pa.int64()
    assert sorted(found.drop_null().to_pylist()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("value", [1.5, float("nan"), 1e300])
def test_other_doubles_are_refused_with_the_ways_out(lake, value):
    done(lake, lambda tx: tx.write("t", pa.table({"n": [1, 2]})))
    for data in (doubles(3, value), doubles(3, value).to_reader()):
        with pytest.raises(SchemaConflict, match="Round the values, or write them under another"):
            done(lake, lambda tx, data=data: tx.write("t", data))
    done(lake, lambda tx: tx.overwrite("t", doubles(value)))  # of all rows: the column is double
    assert lake.snapshot("db").schema("t").field("n").type == pa.float64()
