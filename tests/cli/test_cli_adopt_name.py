"""`lakelog adopt-name`: whose log it says it is, and its new name."""

from __future__ import annotations

import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from cli_cases import objects
from lakelog import errors


@pytest.fixture
def renamed(own_weather):
    """A catalog whose writer EWR is now called LGA."""
    Path(own_weather, "EWR").rename(Path(own_weather, "LGA"))
    return own_weather


SHOWN = """\
folder       LGA/weather
stated name  EWR/weather
log id       38b4e652e44da7f2370d9e260e271365
incarnation  1
revision     3

nothing was changed; --execute commits the name LGA/weather
"""


def test_the_dry_run_shows_whose_log_it_says_it_is_and_writes_nothing(cli, renamed):
    before = objects(renamed)
    result = cli("adopt-name", renamed, "weather", "--writer", "LGA")
    assert (result.code, result.out, result.err) == (0, SHOWN, "")
    assert objects(renamed) == before


def test_a_renamed_log_is_read_not_written_until_its_name_is_adopted(cli, renamed, tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    write = ("write", renamed, "weather", "t", tmp_path / "a.csv", "--writer", "LGA")
    assert cli("tables", renamed, "weather").code == 0
    refused = cli(*write)
    assert refused.code == 4
    assert "it was copied or renamed" in refused.err
    assert "lakelog adopt-name URL weather --writer LGA --execute" in refused.err
    done = cli("adopt-name", renamed, "weather", "--writer", "LGA", "--execute")
    assert done.code == 0
    assert "\nfrom revision 4 on its name is LGA/weather\n\nas of  JFK=2,LGA=4\n" in done.out
    newest = cli("show", renamed, "weather", "--writer", "LGA", "-o", "json").json
    assert [action["kind"] for action in newest["actions"]] == ["identity"]
    fields = {"writer": "LGA", "database": "weather", "begun_at": None}
    assert newest["actions"][0]["fields"] == fields
    assert newest["members"][0]["operation"] == "maintenance"
    assert cli(*write).code == 0


def test_a_log_of_its_own_name_needs_nothing(cli, own_weather):
    before = objects(own_weather)
    result = cli("adopt-name", own_weather, "weather", "--writer", "EWR", "--execute")
    assert result.code == 0
    assert result.out.endswith("\nit has this name already; nothing to do\n")
    assert objects(own_weather) == before


def test_a_copy_beside_the_original_is_told(cli, own_weather):
    shutil.copytree(Path(own_weather, "EWR"), Path(own_weather, "LGA"))
    args = ("adopt-name", own_weather, "weather", "--writer", "LGA")
    assert "The same log also exists in EWR/weather" in cli(*args).out
    found = cli(*args, "-o", "json").json
    assert found == {
        "writer": "LGA",
        "database": "weather",
        "named_writer": "EWR",
        "named_database": "weather",
        "log_id": "38b4e652e44da7f2370d9e260e271365",
        "incarnation": 1,
        "revision": 3,
        "foreign": True,
        "twin": True,
        "adopted": False,
        "as_of": None,
        "token": None,
    }
    done = cli(*args, "--execute", "-o", "json").json
    assert done == {**found, "revision": 4, "adopted": True}  # and no cut: the two can't be read
    names = [name for name in found if name != "as_of"]
    assert cli(*args, "-o", "csv").out.splitlines()[0] == ",".join(names)
    refused = cli("tables", own_weather, "weather")
    assert refused.code == 4
    assert "its rows would count twice" in refused.err


def test_what_is_not_there(cli, weather):
    assert cli("adopt-name", weather, "weather", "--writer", "LGA").code == 3
    assert cli("adopt-name", weather, "whether", "--writer", "EWR").code == 3
    assert cli("adopt-name", weather, "weather").code == 2, "whose log must be said"


def test_help_has_examples(cli):
    assert "lakelog adopt-name ./catalog weather --writer EWR --execute" in (
        cli("adopt-name", "--help").out
    )


@pytest.mark.parametrize("kind", [errors.ForeignLog, errors.SameLogTwice, errors.ClockError])
def test_the_state_forbids_it(kind):
    assert kind.exit_code == 4


def test_a_clock_far_ahead_is_a_conflict(cli, tmp_path, monkeypatch):
    import datetime as dt

    from lakelog.catalog.commit import clocks
    from lakelog.store.local import LocalStore

    with (
        lakelog.open_catalog(str(tmp_path)).writer("W", "db") as writer,
        writer.transaction() as tx,
    ):
        tx.write("t", pa.table({"a": [1]}))
    long_ago = dt.datetime.fromtimestamp(0, dt.UTC)
    monkeypatch.setattr(LocalStore, "server_time", lambda self: long_ago)
    monkeypatch.setattr(clocks, "store_time", lambda *_: long_ago)
    (tmp_path / "a.csv").write_text("a\n1\n")
    result = cli("write", tmp_path, "db", "t", tmp_path / "a.csv", "--writer", "W")
    assert result.code == 4
    assert "ahead of the store's" in result.err
