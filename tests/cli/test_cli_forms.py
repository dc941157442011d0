"""Every form of every command that reads, and the token of what was read."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.cli import output
from lakelog.cli.main import main

OF_A_CUT = {
    "tables": ("weather",),
    "files": ("weather", "hourly"),
    "files --statistics": ("weather", "hourly"),
    "scan": ("weather", "hourly"),
    "explain --where hour>2": ("weather", "hourly"),
    "schema": ("weather", "hourly"),
}
ROWS = {
    "tables": "tables",
    "files": "files",
    "files --statistics": "statistics",
    "scan": "rows",
    "explain --where hour>2": "files",
    "schema": "columns",
}
OTHERS = {
    "databases": (),
    "log": ("weather",),
    "show --writer EWR": ("weather",),
    "doctor --no-probe": (),
    "gc": ("weather",),
}


def words(command: str, url: str, arguments: tuple[str, ...]) -> list[str]:
    name, *options = command.split()
    return [name, url, *arguments, *options]


@pytest.mark.parametrize("command", OF_A_CUT)
def test_json_has_the_token_that_reads_the_same_again(cli, own_weather, command):
    line = words(command, own_weather, OF_A_CUT[command])
    before = cli(*line, "-o", "json").json
    assert before["as_of"] == {"EWR": 3, "JFK": 2}
    with (
        lakelog.open_catalog(own_weather).writer("JFK", "weather") as writer,
        writer.transaction() as tx,
    ):
        tx.write("hourly", pa.table({"hour": [99], "new": [1]}))
    assert cli(*line, "-o", "json").json != before
    assert cli(*line, "-o", "json", "--as-of", before["token"]).json == before


@pytest.mark.parametrize("command", OF_A_CUT)
def test_jsonl_and_csv_are_the_rows_of_json(cli, weather, command):
    line = words(command, weather, OF_A_CUT[command])
    rows = cli(*line, "-o", "json").json[ROWS[command]]
    printed = cli(*line, "-o", "jsonl").out
    assert [json.loads(text) for text in printed.splitlines()] == rows
    assert len(cli(*line, "-o", "csv").out.splitlines()) == len(rows) + 1


READ = {"parquet": pq.read_table, "arrow": lambda file: pa.ipc.open_stream(file).read_all()}


@pytest.mark.parametrize("form", READ)
@pytest.mark.parametrize("command", [*OF_A_CUT, *OTHERS])
def test_typed_forms_hold_the_rows_of_jsonl(capsysbinary, weather, command, form):
    line = words(command, weather, {**OF_A_CUT, **OTHERS}[command])
    assert main([*line, "-o", "jsonl"]) == 0
    wanted = [json.loads(text) for text in capsysbinary.readouterr().out.splitlines()]
    assert main([*line, "-o", form]) == 0
    found = READ[form](io.BytesIO(capsysbinary.readouterr().out))
    if command == "scan":
        library = lakelog.open_catalog(weather).snapshot("weather").to_arrow("hourly")
        assert found.equals(library)
        return
    assert found.num_rows == len(wanted)
    for field in found.schema:
        values = [row[field.name] for row in wanted]
        if pa.types.is_string(field.type):
            values = [v if v is None or isinstance(v, str) else output.to_json(v) for v in values]
        assert found.column(field.name).to_pylist() == values


def test_numbers_are_numbers_in_parquet_even_where_all_are_null(capsysbinary):
    columns = (output.Column("a", number=True), output.Column("b", style="yes"), output.Column("c"))
    output.rows("parquet", columns, [{"a": None, "b": None, "c": None}])
    found = pq.read_schema(io.BytesIO(capsysbinary.readouterr().out))
    assert found.types == [pa.int64(), pa.bool_(), pa.string()]


@pytest.mark.parametrize("form", READ)
def test_typed_forms_go_through_a_pipe_in_many_batches(tmp_path, form):
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as writer:
        for start in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": range(start * 100_000, (start + 1) * 100_000)}))
    line = [sys.executable, "-m", "lakelog", "scan", str(tmp_path), "db", "t", "-o", form]
    done = subprocess.run(line, capture_output=True, check=True)
    found = READ[form](io.BytesIO(done.stdout))
    assert found.column("a").to_pylist() == list(range(300_000))


@pytest.mark.parametrize("form", READ)
def test_typed_forms_are_not_for_terminals(weather, form):
    parent, child = os.openpty()
    line = [sys.executable, "-m", "lakelog", "tables", weather, "weather", "-o", form]
    done = subprocess.run(line, stdout=child, stderr=subprocess.PIPE, text=True, check=False)
    os.close(child)
    os.close(parent)
    assert done.returncode == 2
    assert "terminal" in done.stderr
    assert "hint: " in done.stderr


def test_a_stdout_that_takes_text_only_is_an_error_that_says_so(capsys, weather):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["databases", weather, "-o", "parquet"]) == 2
    assert printed.getvalue() == ""
    assert "text only" in capsys.readouterr().err


def test_what_parquet_can_not_hold_is_an_error(capsys):
    from lakelog.cli.output import TypedStream
    from lakelog.errors import UsageError

    with pytest.raises(UsageError, match="can't be written as Parquet"):
        TypedStream("parquet", pa.schema([("a", pa.month_day_nano_interval())]))


def test_json_without_rows_is_whole(cli, weather):
    found = cli("scan", weather, "weather", "hourly", "-n", "0", "-o", "json").json
    assert found["rows"] == []
    assert cli("scan", weather, "weather", "hourly", "-n", "0", "-o", "jsonl").out == ""
    assert cli("files", weather, "weather", "hourly", "-n", "0", "-o", "jsonl").out == ""
