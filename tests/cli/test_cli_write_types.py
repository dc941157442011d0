"""`lakelog write`: which types csv and JSON have, over all files together and beside the log's."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from write_cases import nothing_written, put, read, wrote

UTC = dt.UTC
BIG = 2**53


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


FOUND = {
    "integers": (["1", "-5", ""], pa.int64(), [1, -5, None]),
    "spaces around numbers": ([" 1", "2 "], pa.int64(), [1, 2]),
    "int and double": (["1", "1.5"], pa.float64(), [1.0, 1.5]),
    "an integer that a double holds": ([str(BIG), "1.5"], pa.float64(), [float(BIG), 1.5]),
    "large integers": ([str(BIG + 1), "1"], pa.int64(), [BIG + 1, 1]),
    "huge integers": ([str(2**63), "1"], pa.string(), [str(2**63), "1"]),
    "thousands of digits": (["9" * 5000, "1.5"], pa.string(), ["9" * 5000, "1.5"]),
    "exponents": (["1e5", "2"], pa.float64(), [1e5, 2.0]),
    "too large": (["1e400", "2"], pa.string(), ["1e400", "2"]),
    "hexadecimal": (["0x10", "2"], pa.string(), ["0x10", "2"]),
    "signs": (["+5", "2"], pa.string(), ["+5", "2"]),
    "minus zero": (["-0", "2"], pa.float64(), [-0.0, 2.0]),
    "not a number": (["NaN", "-Infinity", "1"], pa.float64(), ["nan", "-inf", "1.0"]),
    "a name": (["Nan", "1"], pa.string(), ["Nan", "1"]),
    "leading zeros": (["8", "007"], pa.string(), ["8", "007"]),
    "leading zeros of a fraction": (["00.5", "1"], pa.string(), ["00.5", "1"]),
    "a fraction": (["0.5", ".5"], pa.float64(), [0.5, 0.5]),
    "booleans": (["true", "False", "", "TRUE"], pa.bool_(), [True, False, None, True]),
    "booleans and numbers": (["true", "1"], pa.string(), ["true", "1"]),
    "dates": (["2024-02-29", "0001-01-01"], pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1)]),
    "a day that isn't": (["2024-02-30", "2024-01-01"], pa.string(), ["2024-02-30", "2024-01-01"]),
    "dates and times": (
        ["2024-02-29", "2024-01-01T10:00"],
        pa.timestamp("us"),
        [dt.datetime(2024, 2, 29), dt.datetime(2024, 1, 1, 10)],
    ),
    "zones": (
        ["2024-01-01T00:00:00+02:00", "2024-01-01 00:00:00.5Z"],
        pa.timestamp("us", "UTC"),
        [dt.datetime(2023, 12, 31, 22, tzinfo=UTC),
         dt.datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)],
    ),
    "times of day": (["12:30", "12:30:01.5"], pa.time32("ms"),
                     [dt.time(12, 30), dt.time(12, 30, 1, 500_000)]),
    "empty texts": (['""', "x"], pa.string(), ["", "x"]),
    "an empty text among numbers": (['""', "1"], pa.string(), ["", "1"]),
    "other digits": (["٣"], pa.string(), ["٣"]),
    "nothing": (["", ""], pa.null(), [None, None]),
}  # fmt: skip


@pytest.mark.parametrize("spread", ["one file", "a file a row", "the other way round"])
@pytest.mark.parametrize("name", FOUND)
def test_types_are_found_over_all_files(cli, name, spread):
    texts, kind, values = FOUND[name]
    if spread == "one file":
        files = {"a.csv": "k,v\n" + "".join(f"{n},{t}\n" for n, t in enumerate(texts))}
    else:
        files = {f"{n}.csv": f"k,v\n{n},{text}\n" for n, text in enumerate(texts)}
    if spread == "the other way round":
        files = dict(reversed(files.items()))
    result = wrote(cli, files)
    assert result.code == 0, result.err
    found = read().sort_by("k")
    assert found.schema.field("v").type == kind
    got = found["v"].to_pylist()
    assert ([str(v) for v in got] if "nan" in values else got) == values
    assert [str(v) for v in got] == [str(v) for v in values]  # -0.0 is no 0.0


CONFLICTS = {
    "zones": ("2024-01-01T10:00", "2024-01-01T10:00Z", "timestamp[us]", "timestamp[us, tz=UTC]"),
    "dates beside zones": ("2024-01-01", "2024-01-01T10:00Z", "timestamp[us]",
                           "timestamp[us, tz=UTC]"),
    "large integers": ("1.5", str(BIG + 1), "double", "int64"),
    "the largest integer": ("1.5", str(2**63 - 1), "double", "int64"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("name", CONFLICTS)
def test_what_has_no_common_type_names_files_lines_and_types(cli, name, form):
    one, other, kind, other_kind = CONFLICTS[name]
    if form == "csv":
        files = {"a.csv": f'n,v\n"x\ny",\n1,{one}\n', "b.csv": f"n,v\n\nz,{other}\n"}
    else:
        quote = "" if kind == "double" else '"'
        files = {
            "a.jsonl": f'{{"v": null}}\n\n\n{{"v": {quote}{one}{quote}}}\n',
            "b.jsonl": f'{{}}\n{{}}\n{{"v": {quote}{other}{quote}}}\n',
        }
    result = wrote(cli, files)
    assert result.code == 4
    assert f"is {kind} in a.{form}, line 4 ({one!r}) and {other_kind} in b.{form}, line 3" in (
        result.err
    )
    assert "--type v=string" in result.err
    assert nothing_written()
    assert wrote(cli, files, "--type", "v=string").code == 0
    assert {one, other} <= set(read()["v"].to_pylist())


LOG = {
    "int64": (pa.int64(), [5], {"6": 6}, {"1.5": "double", "x": "string", "007": "string"}),
    "int8": (pa.int8(), [5], {"6": 6, "300": 300}, {"x": "string"}),
    "double": (pa.float64(), [1.5], {"6": 6.0, "NaN": "nan"}, {str(BIG + 1): "int64"}),
    "float": (pa.float32(), [1.5], {"0.5": 0.5, str(2**24 + 1): float(2**24 + 1)}, {"x": "string"}),
    "string": (pa.string(), ["a"], {"6": "6", "007": "007"}, {}),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.50")],
                {"2.5": decimal.Decimal("2.50"), "7": decimal.Decimal("7.00")},
                {"1.505": "double"}),
    "date": (pa.date32(), [dt.date(2024, 1, 1)],
             {"2024-01-02": dt.date(2024, 1, 2)}, {"2024-02-30": "string"}),
    "zoned": (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=UTC)],
              {"2024-01-01T02:00+02:00": dt.datetime(2024, 1, 1, tzinfo=UTC),
               "2024-01-01T00:00:00.000001Z": dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
              {"2024-01-01T00:00": "timestamp[us]", "2024-01-01": "date32[day]"}),
    "naive": (pa.timestamp("us"), [dt.datetime(2024, 1, 1)],
              {"2024-01-02": dt.datetime(2024, 1, 2)},
             {"2024-01-01T00:00Z": "timestamp[us, tz=UTC]"}),
    "binary": (pa.binary(), [b"x"], {"AP8=": b"\x00\xff"}, {"=": "string"}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOG)
def test_the_table_in_the_log_decides(cli, name):
    kind, first, fits, conflicts = LOG[name]
    with lakelog.open_catalog("cat").writer("other", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"v": pa.array(first, kind), "more": [1]}))
    before = set(Path("cat").rglob("*"))
    for text, found_kind in conflicts.items():
        result = wrote(cli, {"a.csv": f"v\n\n{text}\n"})
        assert result.code == 4
        assert (
            f"Column 'v' of table 't' is {kind} in the log and {found_kind} in a.csv, line 3 ("
            in (result.err)
        )
        assert set(Path("cat").rglob("*")) == before
    for text, value in fits.items():
        assert wrote(cli, {"a.csv": f"v\n{text}\n"}).err == ""
        found = read()
        assert str(value) in [str(v) for v in found["v"].to_pylist()]
    assert read().column_names == ["v", "more"]


def test_a_column_that_was_empty_takes_the_type_of_a_later_commit(cli):
    assert wrote(cli, {"a.csv": "a,b\n,x\n"}).code == 0
    assert wrote(cli, {"b.csv": "a,b\n5,y\n"}).code == 0
    assert sorted(read()["a"].to_pylist(), key=str) == [5, None]


def test_files_that_know_their_types_beside_those_that_do_not(cli):
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), "a.parquet")
    with pa.ipc.new_file("b.arrow", pa.schema([("a", pa.float32())])) as sink:
        sink.write_table(pa.table({"a": pa.array([0.5], pa.float32())}))
    with pa.ipc.new_stream("c.arrows", pa.schema([("a", pa.null())])) as sink:
        sink.write_table(pa.table({"a": pa.nulls(1)}))
    put({"d.csv": "a,z\n7,x\n", "e.jsonl": '{"a": 8.5}\n'})
    files = ("a.parquet", "b.arrow", "c.arrows", "d.csv", "e.jsonl")
    result = cli("write", "cat", "db", "t", *files, "--writer", "W")
    assert result.code == 0, result.err
    assert read().schema == pa.schema([("a", pa.float64()), ("z", pa.string())])
    assert sorted(read()["a"].drop_null().to_pylist()) == [0.5, 1.0, 2.0, 7.0, 8.5]


@pytest.mark.parametrize("order", [("a.parquet", "b.parquet"), ("b.parquet", "a.parquet")])
def test_parquet_integers_that_no_double_holds(cli, order):
    pq.write_table(pa.table({"a": [1, BIG + 1]}), "a.parquet")
    pq.write_table(pa.table({"a": [0.5]}), "b.parquet")
    result = cli("write", "cat", "db", "t", *order, "--writer", "W")
    assert result.code == 4
    assert "a.parquet, rows 1 to 2" in result.err
    assert nothing_written()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1], pa.uint64()), pa.array([-1], pa.int64())),
        (
            pa.array([dt.datetime(1500, 1, 1)], pa.timestamp("us")),
            pa.array([1], pa.timestamp("ns")),
        ),
        (pa.array(["x"]), pa.array([1])),
    ],
    ids=["signs", "years", "texts"],
)
def test_parquet_that_has_no_common_type(cli, one, other):
    pq.write_table(pa.table({"a": one}), "a.parquet")
    pq.write_table(pa.table({"a": other}), "b.parquet")
    result = cli("write", "cat", "db", "t", "b.parquet", "a.parquet", "--writer", "W")
    assert result.code == 4
    assert "a.parquet" in result.err
    assert "b.parquet" in result.err
    assert nothing_written()


def test_json_says_of_what_types_its_values_are(cli):
    rows = (
        '{"i": 1, "r": 1, "t": "5", "d": "2024-01-01", "n": {"x": [1, 2.5]}, "b": true}\n'
        '{"i": 2, "r": 1.0, "t": "x", "d": null, "n": {"y": "NaN"}, "b": null}\n'
        '{"i": 3, "r": "NaN", "t": "y"}\n'
    )
    assert wrote(cli, {"a.jsonl": rows}).code == 0
    nested = pa.struct([("x", pa.list_(pa.float64())), ("y", pa.string())])
    assert read().schema == pa.schema(
        [("i", pa.int64()), ("r", pa.float64()), ("t", pa.string()), ("d", pa.date32()),
         ("n", nested), ("b", pa.bool_())]
    )  # fmt: skip
    assert str(read()["r"].to_pylist()) == "[1.0, 1.0, nan]"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ('{"a": 1}\n{"a": "x"}\n', "int64 in a.jsonl, line 1 ('1') and string in a.jsonl, line 2"),
        ('{"a": [1]}\n{"a": [[]]}\n', "int64 in a.jsonl, line 1 ('1') and list<item: null>"),
        ('{"a": 12345678901234567890}\n', "that neither int64 nor double holds"),
        ('{"a": 1e400}\n', "that neither int64 nor double holds"),
        ('{"a": %s}\n{"a": 1.5}\n' % ("9" * 5000), "that neither int64 nor double holds"),
        ('{"a": [%s]}\n{"a": {}}\n' % ("9" * 5000), "list<item: null> in a.jsonl, line 1"),
        ('{"a": 1e%s}\n' % ("9" * 20), "a.jsonl, line 1 ('1e99999999999999999999') that neither"),
        ('{"a": 9007199254740993}\n{"a": "NaN"}\n', "double in a.jsonl, line 2 ('NaN') and int64"),
    ],
)
def test_json_that_has_no_type(cli, rows, said):
    result = wrote(cli, {"a.jsonl": rows})
    assert result.code == (2 if "neither" in said else 4)  # by two types of one column
    assert said in result.err
    assert nothing_written()


def test_a_column_that_cannot_be_read_stops_no_other(cli):
    catalog = lakelog.open_catalog("cat")
    for name, values in (("EWR", ["x"]), ("JFK", [1])):
        with catalog.writer(name, "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"v": values, "w": pa.array([1], pa.int8())}))
    assert wrote(cli, {"a.csv": "w\n5\n"}).err == ""
    assert catalog.snapshot("db").to_arrow("t", ["w"]).schema.field("w").type == pa.int8()
