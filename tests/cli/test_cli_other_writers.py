"""Files of other writers, which hold what Arrow reads wrongly, or not at all."""

from __future__ import annotations

import base64
import datetime as dt
import json
import lzma
import struct
from pathlib import Path

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from lakelog.catalog.format.schema import MAX_LEVELS
from lakelog.errors import CorruptObject, InvalidPath, InvalidSchema, UsageError
from write_cases import nothing_written, read, wrote

EPOCH = 2_440_588  # as a Julian day
DAY = dt.datetime(2024, 1, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# --- INT96 ----------------------------------------------------------------------------------------


def int96(name: str, times: list[tuple[int, int]], *, nested: bool = False) -> None:
    """A file with timestamps in INT96: days since 1970, and nanoseconds of the day."""
    kind = pa.list_(pa.timestamp("us")) if nested else pa.timestamp("us")
    rows = pa.array([[DAY] if nested else DAY for _ in times], kind)
    pq.write_table(
        pa.table({"n": range(len(times)), "ends": rows}), name, compression="none",
        use_deprecated_int96_timestamps=True, use_dictionary=False, write_statistics=False,
    )  # fmt: skip
    raw = Path(name).read_bytes()
    held = struct.pack("<qI", 0, EPOCH + (DAY - dt.datetime(1970, 1, 1)).days)
    assert raw.count(held) == len(times)
    for days, nanos in times:
        raw = raw.replace(held, struct.pack("<qI", nanos, EPOCH + days), 1)
    Path(name).write_bytes(raw)


def days(year: int, month: int = 1, day: int = 1) -> int:
    return (dt.date(year, month, day) - dt.date(1970, 1, 1)).days


@pytest.mark.parametrize("nested", [False, True])
def test_years_beyond_nanoseconds_are_as_in_the_file(cli, nested):
    int96("a.parquet", [(days(9999, 12, 31), 5_000), (days(1), 0), (days(1600), 0)], nested=nested)
    assert cli("write", "cat", "db", "t", "a.parquet", "--writer", "W").code == 0
    found = read()["ends"]
    assert str(found.type).replace("element", "item") in (
        "list<item: timestamp[us]>" if nested else "timestamp[us]"
    )
    values = [value[0] if nested else value for value in found.to_pylist()]
    wanted = [dt.datetime(9999, 12, 31, 0, 0, 0, 5), dt.datetime(1, 1, 1), dt.datetime(1600, 1, 1)]
    assert values == wanted


def test_nanoseconds_stay(cli):
    int96("a.parquet", [(days(2024), 1), (days(1960), 86_399_999_999_999)])
    assert cli("write", "cat", "db", "t", "a.parquet", "--writer", "W").code == 0
    found = read()["ends"]
    assert found.type == pa.timestamp("ns")
    day = 86_400 * 10**9
    wanted = [days(2024) * day + 1, (days(1960) + 1) * day - 1]
    assert found.cast(pa.int64()).to_pylist() == wanted


@pytest.mark.parametrize(
    "times",
    [
        [(days(2024), 1), (days(9999), 0)],
        [(days(9999), 1)],
        [(120_000_000, 0)],  # the year 330000, which microseconds don't hold
    ],
)
def test_what_no_unit_holds_is_refused(cli, times):
    int96("a.parquet", times)
    result = cli("write", "cat", "db", "t", "a.parquet", "--writer", "W")
    assert result.code == 2
    assert "a.parquet, column 'ends', rows 1 to " in result.err
    assert "INT96" in result.err
    assert nothing_written()


def test_far_years_beside_a_table_in_nanoseconds_are_a_conflict(cli):
    int96("a.parquet", [(days(2024), 1)])
    assert cli("write", "cat", "db", "t", "a.parquet", "--writer", "W").code == 0
    int96("b.parquet", [(days(9999), 0)])
    assert cli("write", "cat", "db", "t", "b.parquet", "--writer", "W").code == 4


# --- Damaged pages --------------------------------------------------------------------------------


def test_pages_are_verified(cli):
    pq.write_table(
        pa.table({"n": range(100_000, 101_000)}), "a.parquet", compression="none",
        use_dictionary=False, write_page_checksum=True,
    )  # fmt: skip
    raw = bytearray(Path("a.parquet").read_bytes())
    raw[raw.index((100_500).to_bytes(8, "little"))] ^= 1
    Path("a.parquet").write_bytes(raw)
    result = cli("write", "cat", "db", "t", "a.parquet", "--writer", "W")
    assert (result.code, nothing_written()) == (2, True)
    assert "checksum" in result.err


# --- Texts that are not UTF-8 ---------------------------------------------------------------------


def bad_texts() -> pa.Array:
    ends = struct.pack("<4i", 0, 2, 7, 8)
    return pa.StringArray.from_buffers(3, pa.py_buffer(ends), pa.py_buffer(b"okTREL\xc3x"))


COLUMNS = {
    "text": bad_texts(),
    "large": bad_texts().cast(pa.large_string()),
    "categories": bad_texts().dictionary_encode(),
    "list": pa.ListArray.from_arrays([0, 1, 2, 3], bad_texts()),
    "struct": pa.StructArray.from_arrays([bad_texts()], ["x"]),
    "map": pa.MapArray.from_arrays([0, 1, 2, 3], pa.array([1, 2, 3]), bad_texts()),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_such_data_is_refused(kind):
    data = pa.table({"s": COLUMNS[kind]})
    with lakelog.open_catalog("cat").writer("W", "db") as writer:
        for write in ("write", "overwrite", "upsert"):
            tx = writer.transaction()
            options = {"key": ["n"]} if write == "upsert" else {}
            with pytest.raises(InvalidSchema, match="'s' holds a text in row 2 that is not UTF-8"):
                getattr(tx, write)("t", data.append_column("n", pa.array([1, 2, 3])), **options)
            tx.discard()


@pytest.mark.parametrize("kind", COLUMNS)
def test_such_files_are_refused(cli, kind):
    pq.write_table(pa.table({"s": COLUMNS[kind]}), "a.parquet")
    result = cli("write", "cat", "db", "t", "a.parquet", "--writer", "W")
    assert (result.code, nothing_written()) == (2, True)
    assert "a.parquet: Column 's' holds a text in row 2 that is not UTF-8" in result.err


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("engine", ["to_arrow", "to_pandas", "to_polars"])
def test_readers_name_the_row_of_a_file_in_place(tmp_path, kind, engine):
    column = pa.chunked_array([COLUMNS[kind].slice(0, 1), COLUMNS[kind]])
    data = pa.table({"n": range(4), "s": column})
    pq.write_table(data, "a.parquet", row_group_size=1)
    catalog = lakelog.open_catalog("cat")
    with catalog.writer("W", "db") as writer, writer.transaction() as tx:
        tx.add("t", tmp_path / "a.parquet")
    snapshot = catalog.snapshot("db")
    engines = {
        "to_arrow": snapshot.to_arrow,
        "to_pandas": snapshot.to_pandas,
        "to_polars": lambda table: snapshot.to_polars(table).collect(),
    }
    with pytest.raises(CorruptObject, match=r"a\.parquet .*'s', row 3, that is not UTF-8") as found:
        engines[engine]("t")
    assert "columns=" in (found.value.hint or "")
    assert snapshot.to_arrow("t", ["n"]).num_rows == 4
    assert snapshot.to_arrow("t", where="n < 2").num_rows == 2


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv"])
def test_the_command_line_names_it(cli, tmp_path, form):
    pq.write_table(pa.table({"s": bad_texts()}), "a.parquet")
    assert cli("add", "cat", "db", "t", str(tmp_path / "a.parquet"), "--writer", "W").code == 0
    result = cli("scan", "cat", "db", "t", "-o", form)
    assert result.code == 5
    assert "'s', row 2, that is not UTF-8" in result.err


# --- Columns nested too deep ----------------------------------------------------------------------


def nested(kind: str, depth: int) -> pa.DataType:
    found: pa.DataType = pa.int64()
    for _ in range(depth):
        if kind == "struct":
            found = pa.struct([("x", found)])
        else:
            found = pa.list_(found) if kind == "list" else pa.map_(pa.string(), found)
    return found


@pytest.mark.parametrize(("kind", "most"), [("struct", 98), ("list", 49), ("map", 49)])
def test_what_is_written_can_be_read(kind, most):
    assert MAX_LEVELS == 99
    catalog = lakelog.open_catalog("cat")

    def write(depth: int) -> None:
        with catalog.writer("W", "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"c": pa.nulls(1, nested(kind, depth))}))

    for depth in (most + 1, most + 2, 200, 400):
        with pytest.raises(InvalidSchema, match="nested over 99 levels"):
            write(depth)
    write(most)
    assert read().num_rows == 1


@pytest.mark.parametrize("depth", [100, 200, 1_000, 100_000])
@pytest.mark.parametrize("signs", ['{"x":}', "[]"])
def test_json_too_deep_is_refused(cli, depth, signs):
    text = '{"c": ' + signs[:-1] * depth + "1" + signs[-1] * depth + "}\n"
    result = wrote(cli, {"a.jsonl": text})
    assert (result.code, nothing_written()) == (2, True)
    assert "a.jsonl, line 1" in result.err


def test_json_as_deep_as_can_be(cli):
    text = json.dumps({"c": [1]}).replace("[1]", "[" * 49 + "1" + "]" * 49)
    assert wrote(cli, {"a.jsonl": text}).code == 0
    assert read()["c"].type == nested("list", 49) or read().num_rows == 1


# --- The calendar of before 1582 ------------------------------------------------------------------

OLD_SPARK = {"org.apache.spark.version": "2.4.5"}
LEGACY = {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyDateTime": ""}
OLD_HIVE = {"writer.date.proleptic": "false"}
FAR, NEAR = dt.date(1582, 10, 14), dt.date(1582, 10, 15)
BEFORE, AFTER = dt.datetime(1899, 12, 31), dt.datetime(1901, 1, 1)


def dated(value, metadata, *, nested=False, **options) -> None:
    column = pa.array([[value]] if nested else [value, None])
    table = pa.table({"when": column}).replace_schema_metadata(metadata)
    pq.write_table(table, "in.parquet", **options)


def taken(cli, command: str) -> bool:
    done = cli(command, "lake", "db", "t", "--writer", "w", "in.parquet")
    assert done.code in (0, 2), done.err
    if done.code:
        assert "calendar" in done.err
        assert "datetimeRebaseModeInWrite" in done.err
    return not done.code


@pytest.mark.parametrize("command", ["add", "write"])
@pytest.mark.parametrize("metadata", [OLD_SPARK, LEGACY, OLD_HIVE], ids=["old", "legacy", "hive"])
def test_days_of_another_calendar_are_refused(cli, metadata, command):
    """Spark and Hive take them for other days than Arrow, DuckDB and Polars do."""
    dated(FAR, metadata)
    assert not taken(cli, command)
    dated(FAR, metadata, nested=True)
    assert not taken(cli, command)
    dated(BEFORE, metadata, coerce_timestamps="ms")
    assert not taken(cli, command)
    dated(dt.date(2024, 1, 1), metadata, write_statistics=False)  # nothing proves it
    assert not taken(cli, command)


@pytest.mark.parametrize("command", ["add", "write"])
def test_days_on_which_calendars_agree_are_taken(cli, command):
    for value in (NEAR, AFTER):
        for metadata in (OLD_SPARK, LEGACY, OLD_HIVE):
            dated(value, metadata)
            assert taken(cli, command)
    for metadata in ({"org.apache.spark.version": "4.0.0"}, {"writer.date.proleptic": "true"}, {}):
        dated(FAR, metadata)
        assert taken(cli, command)
    pq.write_table(pa.table({"n": [1]}).replace_schema_metadata(OLD_SPARK), "in.parquet")
    assert taken(cli, command)


def test_times_in_int96_of_another_calendar(cli):
    """They have no bounds, and are looked at."""
    for value, code in ((dt.datetime(1500, 1, 1), 2), (dt.datetime(2024, 1, 1), 0)):
        dated(value, OLD_SPARK, use_deprecated_int96_timestamps=True)
        done = cli("write", "lake", "db", "t", "--writer", "w", "in.parquet")
        assert (done.code, "calendar" in done.err or "1901" in done.err) == (code, bool(code))


# --- Encrypted columns, compressions --------------------------------------------------------------


class Keys(encryption.KmsClient):
    """Wraps keys by encoding them."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(master_key_identifier.encode() + key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)[len(master_key_identifier) :]


@pytest.mark.parametrize("plain", [True, False])
def test_encrypted_files_are_called_so(cli, tmp_path, plain):
    properties = encryption.CryptoFactory(lambda _: Keys()).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"k": ["a"]}, plaintext_footer=plain
        ),
    )
    data = pa.table({"a": [1], "b": ["x"]})
    with pq.ParquetWriter("a.parquet", data.schema, encryption_properties=properties) as sink:
        sink.write_table(data)
    done = cli("add", "cat", "db", "t", str(tmp_path / "a.parquet"), "--writer", "W")
    assert done.code == 2
    assert f"its {'columns are' if plain else 'footer is'} encrypted" in done.err
    assert cli("write", "cat", "db", "t", "a.parquet", "--writer", "W").code == 2


@pytest.mark.parametrize("options", [(), ("--format", "csv")])
def test_a_compression_that_is_not_known(cli, options):
    done = wrote(cli, {"a.csv.xz": lzma.compress(b"a\n1\n")}, *options)
    assert (done.code, nothing_written()) == (2, True)
    assert ".xz is a compression that isn't read here" in done.err


# --- Arguments ------------------------------------------------------------------------------------


def test_a_path_in_place_that_the_log_does_not_know():
    with lakelog.open_catalog("cat").writer("W", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(InvalidPath, match="below no place that the log of W/db names"):
            tx.add("t", "at/0123456789abcdef/x.parquet")


def test_a_clock_that_leaves_no_room_for_upserts():
    with lakelog.open_catalog("cat").writer("W", "db") as writer, writer.transaction() as tx:
        for late in (1 << 63) - 1, (1 << 63) - (1 << 32) + 1:
            with pytest.raises(UsageError, match="leaves no room for later ones"):
                tx.write("t", pa.table({"k": [1]}), clock=(0, late))
        tx.write("t", pa.table({"k": [1]}), clock=(0, (1 << 63) - (1 << 32)))
