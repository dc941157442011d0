"""The token in the json of what tells of commits, of two cuts, of one revision, and of what makes a
new state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from cli_cases import both_copies

EVOLVE = ("schema", "--evolve", "--rename", "temp=celsius")


def told(url: str, as_of: object = None) -> dict[str, object]:
    cut = lakelog.open_catalog(url).snapshot("weather", as_of)
    return {"as_of": cut.cut.revisions, "token": cut.token}


def of_cut(found: dict[str, object]) -> dict[str, object]:
    return {name: found[name] for name in ("as_of", "token")}


NONE = {"as_of": None, "token": None}


@pytest.mark.parametrize("command", [("log", "weather"), ("schema", "weather", "hourly")])
def test_what_commits_did_is_told_up_to_a_token(cli, own_weather, command):
    name, *arguments = command
    line = (name, own_weather, *arguments, *(["--history"] if name == "schema" else []))
    rows = "history" if name == "schema" else "commits"
    found = cli(*line, "-o", "json").json
    assert of_cut(found) == told(own_weather)
    assert found[rows] == [json.loads(text) for text in cli(*line, "-o", "jsonl").out.splitlines()]
    alone = cli(*line, "--writer", "EWR", "-o", "json").json
    assert of_cut(alone) == told(own_weather, {"EWR": 3})
    assert {row["writer"] for row in alone[rows]} == {"EWR"}


def test_the_token_of_a_log_is_had_without_its_commits(cli, weather):
    found = cli("log", weather, "weather", "--limit", "0", "-o", "json").json
    assert found == {**told(weather), "commits": []}


@pytest.mark.parametrize("command", ["log", "schema"])
def test_commits_that_came_after_the_cut_was_looked_up_are_left_out(
    cli, own_weather, monkeypatch, command
):
    from lakelog.cli import opening
    from lakelog.cli.commands import history, schema

    looked_up = opening.cut_of_history

    def slow(args, catalog):
        cut = looked_up(args, catalog)
        with catalog.writer("JFK", "weather") as writer, writer.transaction() as tx:
            tx.write("hourly", pa.table({"more": [1]}))
        with catalog.writer("new", "weather") as writer, writer.transaction() as tx:
            tx.write("hourly", pa.table({"more": [1]}))
        return cut

    monkeypatch.setattr(history, "cut_of_history", slow)
    monkeypatch.setattr(schema, "cut_of_history", slow)
    before = told(own_weather)
    more = ("hourly", "--history") if command == "schema" else ()
    found = cli(command, own_weather, "weather", *more, "-o", "json").json
    assert of_cut(found) == before != told(own_weather)
    rows = found["history" if command == "schema" else "commits"]
    newest = max(row["revision"] for row in rows if row["writer"] == "JFK")
    assert newest == (2 if command == "log" else 1)
    assert {row["writer"] for row in rows} == {"EWR", "JFK"}


def test_the_history_of_a_broken_log_is_told_without_a_token(cli, own_weather, log_object):
    for path in both_copies(log_object("JFK", 1)):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    result = cli("log", own_weather, "weather", "-o", "json")
    assert result.code == 5
    assert of_cut(result.json) == NONE
    commits = [(row["writer"], row["revision"]) for row in result.json["commits"]]
    assert ("EWR", 3) in commits
    assert ("JFK", 2) in commits


@pytest.mark.parametrize("since", ["EWR=2,JFK=2", "2013-06-30T03:30:00Z", "token", "1999-01-01Z"])
def test_changes_name_both_points_in_time(cli, own_weather, since):
    words = ("changes", own_weather, "weather", "hourly", "--since")
    early = None
    if since == "token":
        since = early = told(own_weather, {"EWR": 1, "JFK": 0})["token"]
    elif "=" in since:
        early = told(own_weather, {"EWR": 2, "JFK": 2})["token"]
    elif since.startswith("2013"):
        early = told(own_weather, {"EWR": 2})["token"]
    since = since.replace("1999-01-01Z", "1999-01-01T00:00Z")
    found = cli(*words, since, "-o", "json").json
    assert (found["since"], of_cut(found)) == (early, told(own_weather))
    lines = cli(*words, since, "-o", "jsonl").out.splitlines()
    assert found["rows"] == [json.loads(text) for text in lines] != []
    with (
        lakelog.open_catalog(own_weather).writer("JFK", "weather") as writer,
        writer.transaction() as tx,
    ):
        tx.write("hourly", pa.table({"hour": [99]}))
    more = cli(*words, found["token"], "-o", "json").json
    assert [row["hour"] for row in more["rows"]] == [99]
    assert more["since"] == found["token"]
    upto = cli(*words, since, "--until", found["token"], "-o", "jsonl").out
    assert upto.splitlines() == lines


def test_columns_that_are_changed_make_a_token(cli, own_weather):
    name, *words = EVOLVE
    line = (name, own_weather, "weather", "hourly", *words)
    plan = cli(*line, "-o", "json").json
    assert (plan["dry_run"], plan["table"], of_cut(plan)) == (True, "hourly", NONE)
    assert [json.loads(text)["token"] for text in cli(*line, "-o", "jsonl").out.splitlines()] == [
        None, None
    ]  # fmt: skip
    before = told(own_weather)
    done = cli(*line, "--execute", "-o", "json").json
    assert done["dry_run"] is False
    assert of_cut(done) == told(own_weather) != before
    again = cli(*line[:4], "--evolve", "--add", "note string", "--execute", "-o", "jsonl")
    (token,) = {json.loads(text)["token"] for text in again.out.splitlines()}
    assert token == told(own_weather)["token"] != done["token"]
    shown = cli(*line[:4], "--evolve", "--drop", "note", "--execute")
    assert shown.out.split()[-1] == told(own_weather)["token"]


@pytest.mark.parametrize("what", [("-r", "1"), ("--checkpoint",)])
def test_one_revision_has_the_token_that_reads_it(cli, weather, what):
    found = cli("show", weather, "weather", "--writer", "EWR", *what, "-o", "json").json
    assert of_cut(found) == told(weather, {"EWR": found["revision"]})
    rows = cli("scan", weather, "weather", "hourly", "--as-of", found["token"], "-o", "json").json
    assert len(rows["rows"]) == 3 * (found["revision"] + 1)


def test_a_checkpoint_has_the_token_of_its_revision(cli, own_weather):
    every = cli("checkpoint", own_weather, "weather", "--execute", "-o", "json").json
    assert [of_cut(one) for one in every] == [
        told(own_weather, {"EWR": 3}), told(own_weather, {"JFK": 2})
    ]  # fmt: skip


def test_a_rebuilt_log_has_the_token_of_the_database(cli, own_weather):
    shutil.rmtree(Path(own_weather) / "JFK" / "weather" / "transactions")
    line = ("rebuild", own_weather, "weather", "--writer", "JFK", "-o", "json")
    assert of_cut(cli(*line).json) == NONE
    done = cli(*line, "--execute").json
    assert of_cut(done) == told(own_weather)
    assert set(done["as_of"]) == {"EWR", "JFK"}


def test_a_name_that_is_adopted_makes_a_token(cli, own_weather):
    lake = Path(own_weather)
    (lake / "JFK").rename(lake / "LGA")
    line = ("adopt-name", own_weather, "weather", "--writer", "LGA", "-o", "json")
    assert of_cut(cli(*line).json) == NONE
    done = cli(*line, "--execute").json
    assert of_cut(done) == told(own_weather)
    assert done["as_of"] == {"EWR": 3, "LGA": done["revision"]}


def test_a_diff_names_both_points_in_time(cli, weather):
    found = cli("diff", weather, "weather", "EWR=1,JFK=0", "now", "-o", "json").json
    assert found["before"] == told(weather, {"EWR": 1, "JFK": 0})["token"]
    assert found["after"] == told(weather)["token"]
