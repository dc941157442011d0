"""`lakelog write`: odd files, and the options that say how files are to be read."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.cli.inputs import csv_files, json_files
from lakelog.cli.inputs.read import open_rows
from lakelog.cli.inputs.sources import open_sources
from lakelog.errors import UsageError
from write_cases import nothing_written, read, wrote


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


READ = {
    "quotes and line ends in them": ('a,b\n1,"x\ny"\n2,"z ""q"""\n', [(1, "x\ny"), (2, 'z "q"')]),
    "a last field that ends with a line": ('a,b\n1,"x\n"\n', [(1, "x\n")]),
    "byte order mark and CRLF": (b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n", [(1, "x"), (2, "y")]),
    "CR alone": ("a,b\r1,x\r2,y\r", [(1, "x"), (2, "y")]),
    "blank lines": ("a,b\n\n1,x\n\n", [(1, "x")]),
    "no line end": ("a,b\n1,x", [(1, "x")]),
    "null and empty": ('a,b\n1,\n2,""\n', [(1, None), (2, "")]),
}


@pytest.mark.parametrize("name", READ)
def test_csv_as_it_comes(cli, name):
    text, rows = READ[name]
    result = wrote(cli, {"a.csv": text})
    assert result.code == 0, result.err
    assert [tuple(row.values()) for row in read().to_pylist()] == rows


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\r\n"])
def test_a_header_alone(cli, text):
    assert "no rows, only the columns" in wrote(cli, {"a.csv": text}).out
    assert read().column_names == ["a", "b"]


def test_one_column_has_nulls_as_empty_lines(cli):
    assert wrote(cli, {"a.csv": "a\n1\n\n3\n"}).code == 0
    assert read()["a"].to_pylist() == [1, None, 3]


REFUSED = {
    "empty": ({"a.csv": ""}, "a.csv can't be read as csv: it is empty"),
    "blank": ({"a.csv": "\n \n"}, "a.csv can't be read as csv: it is empty"),
    "too short": ({"a.csv": 'a,b\n"1\n2",x\n\n3\n'}, "a.csv, line 5, can't be read as csv"),
    "too long": ({"a.csv": "a,b\n1,2\n3,4,5\n"}, "Expected 2 columns, got 3"),
    "open quotes": ({"a.csv": 'a,b\n1,x\n2,"y\n3,z\n'}, "a.csv, line 3: quotes are opened"),
    "open quotes, no line end": (
        {"a.csv": "a,b\n" + "1,x\n" * 20_000 + '2,"y\n3,z\n4,z'},
        "a.csv, line 20002: quotes are opened",
    ),
    "a name twice": ({"a.csv": "a,a\n1,2\n"}, "a.csv has two columns named 'a'"),
    "no name": ({"a.csv": ",a\n1,2\n"}, "a.csv has a column without a name"),
    "not UTF-8": ({"a.csv": b"a,b\n1,x\n2,\xe9\n"}, "a.csv, line 3: byte 0xe9 is not utf-8 text"),
    "cut in a character": ({"a.csv": b"a\nx\n\xe2\x82"}, "a.csv, line 3: byte 0xe2"),
    "a header not UTF-8": ({"a.csv": b"a\xe9,b\n1,2\n"}, "a.csv, line 1: byte 0xe9"),
    "json not UTF-8": ({"a.jsonl": b'{"a":"x"}\n{"a":"\xe9"}\n'}, "a.jsonl, line 2: byte 0xe9"),
    "json cut short": ({"a.jsonl": '{"a":1}\n\n{"a":'}, "a.jsonl, line 3, can't be read as json"),
    "json two on a line": ({"a.jsonl": '{"a":1} {"a":2}\n'}, "line 1, can't be read as json"),
    "a key twice": ({"a.jsonl": '{"a":1,"a":2}\n'}, "a key is there twice: 'a'"),
    "array without end": ({"a.json": '[{"a":1},\n{"a":2}\n'}, "a.json, line 3"),
    "array without comma": ({"a.json": '[{"a":1}\n{"a":2}]'}, "there is '{' where ',' should be"),
    "array and more": ({"a.json": '[{"a":1}]\n x'}, "the array is followed by something else"),
    "half a character": ({"a.jsonl": '{"a":"\\ud800"}\n'}, "line 1, can't be read as json"),
    "half a character in an array": ({"a.json": '[{"a":"\\udc00"}]'}, "half of a surrogate pair"),
    "arrow": ({"a.arrow": "nothing of it"}, "a.arrow can't be read as Arrow IPC"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_an_error_that_names_it(cli, name):
    files, said = REFUSED[name]
    result = wrote(cli, {"good.csv": "a\n1\n", **files})
    assert result.code == 2
    assert said in result.err
    assert "hint: " in result.err
    assert nothing_written()


def test_rows_that_are_longer_than_what_is_read_at_a_time(cli, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 64)
    rows = [(n, "x" * (n * 7 % 500)) for n in range(300)]
    result = wrote(cli, {"a.csv": "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)})
    assert result.code == 0, result.err
    assert [(r["a"], r["b"] or "") for r in read().to_pylist()] == rows


@pytest.mark.parametrize("form", ["lines", "array"])
def test_json_in_many_batches(cli, monkeypatch, form):
    monkeypatch.setattr(json_files, "_BATCH_ROWS", 7)
    monkeypatch.setattr(json_files, "_CHUNK", 16)
    rows = [{"a": n, "b": {"c": ["x" * n]}} for n in range(50)]
    text = json.dumps(rows) if form == "array" else "\n\n".join(map(json.dumps, rows))
    assert wrote(cli, {"a.json": text}).code == 0
    assert read().to_pylist() == rows


OPTIONS = [
    ({"a.csv": "a;b\n1,5;x\n"}, ["--delimiter", ";"], [{"a": "1,5", "b": "x"}]),
    ({"a.csv": "a\tb\n1\tx\n"}, ["--delimiter", "tab"], [{"a": 1, "b": "x"}]),
    ({"a.tsv": "a\tb\n1\tx,y\n"}, [], [{"a": 1, "b": "x,y"}]),
    ({"a.csv": "1,x\n2,y\n"}, ["--no-header", "--columns", "p,q"],
     [{"p": 1, "q": "x"}, {"p": 2, "q": "y"}]),
    ({"a.csv": "a,a\n1,x\n"}, ["--columns", "p", "--columns", "q,r"], [{"p": 1, "q,r": "x"}]),
    ({"a.csv": 'a,b\nNA,x\n5,-\n6,"NA"\n'}, ["--null", "NA", "--null", "-"],
     [{"a": None, "b": "x"}, {"a": 5, "b": None}, {"a": 6, "b": "NA"}]),
    ({"a.csv": b"a\n\xe9\n"}, ["--encoding", "latin-1"], [{"a": "é"}]),
    ({"a.csv": "a\né\n".encode("utf-16")}, ["--encoding", "UTF-16"], [{"a": "é"}]),
    ({"a.jsonl": '{"a": "\\ud83d\\ude00"}'}, [], [{"a": "\U0001f600"}]),
    ({"a.jsonl": b'{"a": "\xe9"}'}, ["--encoding", "latin-1"], [{"a": "é"}]),
    ({"a.csv.gz": gzip.compress(b"a\n\xe9\n")}, ["--encoding", "latin-1"], [{"a": "é"}]),
    ({"a.txt": "a\n1\n"}, ["--format", "csv"], [{"a": 1}]),
    ({"a.txt": '{"a": 1}\n'}, ["--format", "json"], [{"a": 1}]),
    ({"a.csv": "a\n1\n"}, ["--type", "a=string"], [{"a": "1"}]),
    ({"a.csv": "a\n007\n"}, ["--type", "a=int16"], [{"a": 7}]),
    ({"a.csv": "a\n007.5\n"}, ["--type", "a=double"], [{"a": 7.5}]),
    ({"a.jsonl": '{"a": 1}\n{"a": "x"}\n{"a": true}'}, ["--type", "a=text"],
     [{"a": "1"}, {"a": "x"}, {"a": "true"}]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "options", "rows"), OPTIONS)
def test_options_say_how_files_are_read(cli, files, options, rows):
    result = wrote(cli, files, *options)
    assert result.code == 0, result.err
    assert read().to_pylist() == rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-header"], "--columns a,b,c"),
        (["--columns", "p"], "a.csv has 2 columns, --columns names 1"),
        (["--columns", "p,p"], "'p' is given twice"),
        (["--no-header", "--columns", "p,q,r"], "a.csv, line 1, can't be read"),
        (["--delimiter", ";;"], "is not one ASCII character"),
        (["--delimiter", '"'], "is not one ASCII character"),
        (["--encoding", "base64"], "There is no text encoding 'base64'"),
        (["--encoding", "klingon"], "There is no text encoding 'klingon'"),
        (["--type", "a"], "is not COLUMN=TYPE"),
        (["--type", "a=number"], "There is no type 'number'"),
        (["--type", "a=decimal(99,2)"], "There is no type 'decimal(99,2)'"),
        (["--type", "a=date", "--type", "a=date"], "names column 'a' twice"),
        (["--type", "c=date"], "No file has a column 'c'"),
        (["--format", "jsonl", "--null", "NA"], "--null is for csv"),
        (["--format", "docx"], "docx"),
    ],
)
def test_options_that_cannot_be(cli, options, said):
    result = wrote(cli, {"a.csv": "a,b\n1,x\n"}, *options)
    assert result.code == 2
    assert said in result.err
    assert nothing_written()


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int8", "7", "300"), ("uint8", "255", "-1"), ("bool", "TRUE", "1"), ("date", "2024-02-29",
        "2024-02-30"), ("time", "10:00:01", "25:00"), ("timestamp", "2024-01-01 10:00", "10:00"),
        ("timestamptz", "2024-01-01T10:00+02:00", "2024-01-01T10:00"), ("double", "1e5", "1,5"),
        ("timestamp[ns]", "2024-01-01T00:00:00.123456789", "x"), ("binary", "AP8=", "?"),
        ("decimal(10,2)", "1.5", "1.505"), ("decimal(4)", "12", "123456"), ("string", "", ""),
    ],
)  # fmt: skip
def test_types_that_are_named(cli, kind, good, bad):
    assert wrote(cli, {"a.csv": f"k,a\n1,{good}\n"}, "--type", f"a={kind}").code == 0
    if bad:
        result = wrote(cli, {"b.csv": f'k,a\n1,{good}\n2,"{bad}"\n'}, "--type", f"a={kind}")
        assert result.code == 2
        assert "by --type, and b.csv, line 3" in result.err
    assert read().num_rows == 1


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("float", "3.4e38", "1e39"), ("decimal(5)", '"10"', '"1_0"'), ("decimal(3)", "1", '" 2"')],
)
def test_types_that_are_named_of_json(cli, kind, good, bad):
    assert wrote(cli, {"a.jsonl": f'{{"a":{good}}}\n'}, "--type", f"a={kind}").code == 0
    result = wrote(cli, {"b.jsonl": f'{{"a":{good}}}\n{{"a":{bad}}}\n'}, "--type", f"a={kind}")
    assert result.code == 2
    assert "by --type, and b.jsonl, line 2" in result.err
    assert read().num_rows == 1


def test_a_named_float_makes_no_infinity_of_a_number_in_parquet(cli):
    pq.write_table(pa.table({"a": [0.5, 1e39]}), "a.parquet")
    result = cli("write", "cat", "db", "t", "a.parquet", "--writer", "W", "--type", "a=float")
    assert result.code == 4
    assert "a number is beyond its range" in result.err
    assert nothing_written()
    pq.write_table(pa.table({"a": [0.5, float("inf"), None]}), "b.parquet")
    result = cli("write", "cat", "db", "t", "b.parquet", "--writer", "W", "--type", "a=float")
    assert result.code == 0
    assert read()["a"].to_pylist() == [0.5, float("inf"), None]


def test_a_text_of_several_lines_may_stand_at_the_end(cli):
    assert wrote(cli, {"a.csv": "a,b\n" + "1,x\n" * 20_000 + '2,"y\nz"'}).code == 0
    assert read()["b"].to_pylist()[-1] == "y\nz"


def test_a_named_type_is_held_against_the_log_before_any_file_is_read(cli):
    assert wrote(cli, {"a.csv": "a\n1\n"}).code == 0
    result = wrote(cli, {"b.csv": "a\nx\n"}, "--type", "a=string")
    assert result.code == 4
    assert "is int64 in the log and string in --type" in result.err


def test_a_file_that_changes_between_its_two_readings_is_refused():
    Path("a.csv").write_text("a\n1\n")
    schema = pa.schema([("a", pa.int64())])
    with open_sources(["a.csv"], None, "utf-8-sig") as (source,):
        options = csv_files.CsvOptions()
        assert open_rows(source, schema, options, set()).read_all()["a"].to_pylist() == [1]
        with Path("a.csv").open("a") as file:
            file.write("2\n")
        with pytest.raises(UsageError, match="changed while it was read"):
            open_rows(source, schema, options, set()).read_all()


def test_texts_are_decoded_by_no_thread_of_arrows(cli):
    """Such a thread may be in Python when Python ends: the process aborts, or hangs."""
    threads = set()

    class Decoder(codecs.IncrementalDecoder):
        def decode(self, data, final=False):
            threads.add(threading.current_thread())
            return bytes(data).decode("latin-1")

    latin = codecs.lookup("latin-1")
    watched = codecs.CodecInfo(
        latin.encode,
        latin.decode,
        incrementalencoder=latin.incrementalencoder,
        incrementaldecoder=Decoder,
        name="watched_latin",
    )

    def find(name):
        return watched if name == watched.name else None

    codecs.register(find)
    try:
        text = ("id,town\n" + "1,K\u00f8benhavn\n" * 20_000).encode("latin-1")
        result = wrote(cli, {"a.csv": text}, "--encoding", "watched-latin")
    finally:
        codecs.unregister(find)
    assert result.code == 0, result.err
    assert read()["town"].to_pylist() == ["K\u00f8benhavn"] * 20_000
    assert threads == {threading.main_thread()}


def test_stdin_is_read_once(cli):
    result = cli("write", "cat", "db", "t", "-", "-", "--format", "csv", "--writer", "W")
    assert (result.code, "stdin can be read once" in result.err) == (2, True)


def test_parquet_with_a_column_twice(cli):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, "a.parquet")
    result = cli("write", "cat", "db", "t", "a.parquet", "--writer", "W")
    assert (result.code, "a.parquet has two columns named 'a'" in result.err) == (2, True)


def test_many_files_of_another_encoding_hold_no_descriptors(cli, monkeypatch):
    """And what is copied of them is gone at the end."""
    resource = pytest.importorskip("resource")
    held = len(os.listdir("/dev/fd"))
    files = {f"{n:03}.csv": "id,town\n1,K\u00f8ge\n".encode("latin-1") for n in range(120)}
    monkeypatch.setattr(tempfile, "tempdir", os.getcwd())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 90, hard))
    try:
        result = wrote(cli, files, "--encoding", "latin-1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.code == 0, result.err
    assert read()["town"].to_pylist() == ["K\u00f8ge"] * 120
    assert not list(Path().glob("lakelog-*"))


def test_no_room_for_a_copy_is_told_as_that(cli, monkeypatch):
    from lakelog.cli.inputs import sources

    opened = sources.Path.open

    def full(self, *given, **named):
        if self.suffix == ".part":
            raise OSError(28, "No space left on device")
        return opened(self, *given, **named)

    monkeypatch.setattr(sources.Path, "open", full)
    text = "id,town\n1,K\u00f8ge\n".encode("latin-1")
    result = wrote(cli, {"a.csv": text}, "--encoding", "latin-1")
    assert result.code == 2
    assert "can't be copied in UTF-8" in result.err
    assert "TMPDIR" in result.err
