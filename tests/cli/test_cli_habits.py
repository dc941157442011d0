"""LAKELOG_URL in the place of the URL, and --quiet."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest


@pytest.fixture
def at_weather(weather, monkeypatch, cli):
    """LAKELOG_URL names the catalog, for `cli`."""
    monkeypatch.setenv("LAKELOG_URL", weather)
    return weather


@pytest.mark.parametrize(
    "line",
    [
        "databases",
        "tables weather",
        "files weather hourly --writer EWR -n 2",
        "files -n 2 weather hourly",
        "scan weather hourly -o csv",
        "explain weather hourly --where hour>2",
        "show weather --writer EWR",
        "doctor --no-probe -o csv",
        "gc weather -o csv",
    ],
)
def test_the_url_may_be_left_out(cli, at_weather, monkeypatch, line):
    name, *rest = line.split()
    short = cli(name, *rest)
    assert short.code == 0
    assert cli(name, at_weather, *rest).out == short.out, "and may be given all the same"
    monkeypatch.delenv("LAKELOG_URL")
    assert cli(name, at_weather, *rest).out == short.out
    alone = cli(name, *rest)
    assert alone.code in (2, 3), "without the variable it is missing"


def test_a_key_of_an_object_is_not_taken_for_a_url(cli, at_weather):
    key = cli("show", "weather", "--writer", "EWR", "-o", "json").json["key"]
    assert cli("show", key).code == 0


def test_two_readings_are_an_error_that_tells_both(cli, at_weather):
    result = cli("doctor", "weather", "--no-probe")
    assert (result.code, result.out) == (2, "")
    assert "URL is 'weather'; or URL is that of LAKELOG_URL and DATABASE is 'weather'" in result.err
    assert "./weather" in result.err
    assert cli("doctor", at_weather, "weather", "--no-probe").code == 0
    assert cli("doctor", "./weather", "--no-probe").code != 2


def test_a_plan_file_and_a_url_are_not_mixed_up(cli, at_weather):
    """`--execute` may take a file: the first word is that, or the URL."""
    result = cli("gc", "--execute", "lake", "weather")
    assert (result.code, "two ways" in result.err) == (2, True)


def test_files_to_write_and_a_url_are_not_mixed_up(cli, at_weather, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli("write", "weather", "hourly", "a.csv", "b.csv", "--writer", "W")
    assert (result.code, "two ways" in result.err) == (2, True)
    assert list(tmp_path.iterdir()) == [], "nothing was written anywhere"


@pytest.mark.parametrize("line", ["files weather nope", "tables nope", "files weather"])
def test_errors_say_which_catalog_was_understood(cli, at_weather, line):
    result = cli(*line.split())
    assert result.code in (2, 3)
    assert f"it is that of LAKELOG_URL, {at_weather}" in result.err


def test_a_path_is_never_taken_for_a_database(cli, at_weather):
    result = cli("files", "./lake", "weather")
    assert result.code == 2
    assert "required: TABLE" in result.err
    assert "that of LAKELOG_URL" not in result.err


def test_an_empty_variable_is_none(cli, monkeypatch):
    monkeypatch.setenv("LAKELOG_URL", " ")
    assert "required: URL" in cli("databases").err


def test_every_command_with_a_url_says_so(cli):
    for name in ("files", "write", "gc"):
        assert "LAKELOG_URL" in cli(name, "--help").out
    assert "LAKELOG_URL" in cli("--help").out


def test_quiet_leaves_out_warnings_and_progress_but_no_errors(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("LAKELOG_PROGRESS", "1")
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as writer:
        for y in ("text", 1):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"x": [1], "y": [y]}), on_conflict="allow")
    warned = cli("tables", tmp_path, "db")
    assert "warning" in warned.err
    quiet = cli("tables", tmp_path, "db", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, warned.out, "")
    assert "warning" in cli("tables", tmp_path, "db").err, "only as long as the command runs"
    told = cli("scan", tmp_path, "db", "t", "-c", "x")
    assert "rows read" in told.err
    assert cli("scan", tmp_path, "db", "t", "-c", "x", "-q").err == ""
    assert cli("scan", tmp_path, "db", "t", "-q").err.startswith("lakelog: error: ")
