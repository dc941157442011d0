"""checkpoint, prune, gc and rebuild: nothing is deleted or written unless it is asked for."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import time
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest

BANNER = "\nDRY RUN: nothing was deleted; add --execute\n"


@pytest.fixture
def old_weather(own_weather, monkeypatch) -> str:
    """The catalog as it is ten days after it was made, by the store's clock, which a test can set
    only where a file's time of arrival does not count."""
    monkeypatch.setattr("lakelog.store.local.arrived_s", lambda status: status.st_mtime)
    at = time.time() - 10 * 86_400
    for path in Path(own_weather).rglob("*"):
        os.utime(path, (at, at))
    return own_weather


def names(url: str) -> set[str]:
    return {str(path.relative_to(url)) for path in Path(url).rglob("*") if path.is_file()}


def test_checkpoint(cli, own_weather):
    plan = ("checkpoint", own_weather, "weather", "--writer", "EWR")
    before = names(own_weather)
    shown = cli(*plan)
    assert shown.out == "would write the checkpoint of revision 3; the newest is 2\n"
    assert shown.err == "\nDRY RUN: nothing was written; add --execute\n"
    assert names(own_weather) == before
    args = (*plan, "--execute")
    result = cli(*args)
    first, key = result.text.splitlines()
    assert first == "wrote the checkpoint of revision 3, SIZE"
    assert (Path(own_weather) / key).exists()
    found = cli(*args, "-o", "json").json
    assert found.pop("token").startswith("ll1-")
    assert found == {
        "writer": "EWR",
        "database": "weather",
        "revision": 3,
        "newest_checkpoint": 3,
        "due": False,
        "as_of": {"EWR": 3},
        "key": key,
        "size_bytes": 0,
        "segments": 0,
        "written": False,
    }
    assert cli(*args).out.startswith("there already: the checkpoint of revision 3")
    assert cli(*args, "-o", "csv").out.count("\n") == 2


def test_a_misspelt_writer_is_not_probed(cli, own_weather):
    for command in ("checkpoint", "gc", "prune"):
        keep = ("--keep-days", "1") if command == "prune" else ()
        result = cli(command, own_weather, "weather", "--writer", "EWE", *keep)
        assert result.code == 3
        assert "hint: Did you mean 'EWR'? It has: EWR, JFK" in result.err
    assert not (Path(own_weather) / "EWE").exists()


def test_prune_shows_and_deletes_nothing(cli, old_weather):
    before = names(old_weather)
    result = cli("prune", old_weather, "weather", "--writer", "EWR", "--keep-revisions", "1")
    assert result.code == 0
    assert result.err == BANNER
    assert result.text.startswith("prune of EWR/weather would delete 4 objects, SIZE\n")
    assert "998-999999999999-0.64802503.transaction" in result.out
    assert names(old_weather) == before


def test_prune_executes_what_it_showed(cli, old_weather):
    args = ("prune", old_weather, "weather", "--writer", "EWR", "--keep-revisions", "1")
    plan = cli(*args, "-o", "json").json
    before = names(old_weather)
    result = cli(*args, "--execute", "-o", "json")
    assert result.err == ""
    assert result.json["dry_run"] is False
    assert result.json["actions"] == plan["actions"]
    assert result.json["report"]["deleted_objects"] == plan["objects"] == 4
    assert before - names(old_weather) == {action["key"] for action in plan["actions"]}
    assert cli("tables", old_weather, "weather").code == 0
    gone = cli("tables", old_weather, "weather", "--as-of", "EWR=1")
    assert gone.code == 3
    assert "was pruned" in gone.err


def test_a_saved_plan(cli, old_weather, tmp_path):
    args = ("prune", old_weather, "weather", "--writer", "EWR")
    saved = tmp_path / "plan.json"
    shown = cli(*args, "--keep-days", "1", "--plan-out", saved)
    assert f"saved as {saved}; --execute {saved} executes it" in shown.out
    assert json.loads(saved.read_text())["kind"] == "prune"
    done = cli(*args, "--execute", saved)
    assert done.code == 0
    assert done.text.startswith("prune of EWR/weather: deleted 4 objects, SIZE\n")
    again = cli(*args, "--execute", saved)
    assert again.code == 0
    assert "4 objects of the plan no longer existed" in again.out


def test_a_saved_plan_of_something_else_is_refused(cli, old_weather, tmp_path):
    saved = tmp_path / "plan.json"
    prune = ("prune", old_weather, "weather", "--keep-days", "1")
    cli(*prune, "--writer", "EWR", "--plan-out", saved)
    before = names(old_weather)
    copy = tmp_path / "copy"
    shutil.copytree(old_weather, copy)
    for args in (
        ("gc", old_weather, "weather"),
        ("prune", old_weather, "weather", "--writer", "JFK"),
        ("prune", old_weather, "other"),
        ("prune", copy, "weather"),
    ):
        assert cli(*args, "--execute", saved).code == 2
    assert cli(*prune, "--execute", tmp_path / "none.json").code == 3
    assert cli(*prune, "--execute", saved, "--plan-out", tmp_path / "x").code == 2
    text = saved.read_text()
    changed = text.replace("998-999999999999-0.64802503.transaction", "../../../JFK/x", 1)
    assert changed != text
    saved.write_text(changed)
    refused = cli(*prune, "--execute", saved)
    assert refused.code == 2
    assert "../../../JFK/x" in refused.err
    saved.write_text("not a plan")
    assert cli(*prune, "--execute", saved).code == 2
    assert names(old_weather) == before


def test_prune_needs_to_know_what_to_keep(cli, old_weather):
    result = cli("prune", old_weather, "weather", "--writer", "EWR")
    assert result.code == 2
    assert "--keep-days" in result.err
    assert (
        cli("prune", old_weather, "weather", "--writer", "EWR", "--keep-revisions", "0").code == 2
    )


def test_nothing_to_prune_is_calm(cli, own_weather):
    result = cli("prune", own_weather, "weather", "--writer", "EWR", "--keep-days", "3")
    assert result.code == 0
    assert result.err == ""
    assert result.out.startswith("prune of EWR/weather: nothing to delete\n")


def test_gc_after_prune(cli, old_weather):
    at = ("--writer", "EWR")
    cli("checkpoint", old_weather, "weather", *at, "--execute")
    for path in Path(old_weather, "EWR/weather/transactions").iterdir():
        os.utime(path, (time.time() - 864_000,) * 2)
    kept = cli("gc", old_weather, "weather", *at)
    assert kept.out.startswith("gc of EWR/weather: nothing to delete\n")
    cli("prune", old_weather, "weather", *at, "--keep-revisions", "1", "--execute")
    before = names(old_weather)
    plan = cli("gc", old_weather, "weather", *at, "-o", "csv")
    assert plan.err == BANNER
    (row,) = csv.DictReader(io.StringIO(plan.out))
    assert row["key"].startswith("EWR/weather/data/day 3/hourly/1-d8509909")
    assert names(old_weather) == before
    done = cli("gc", old_weather, "weather", *at, "--execute")
    assert done.text.startswith("gc of EWR/weather: deleted 1 object, SIZE\n")
    assert before - names(old_weather) == {row["key"]}
    assert cli("scan", old_weather, "weather", "hourly", "-o", "csv").out.count("\n") == 13


def lose_log(url: str) -> None:
    """Deletes both copies of EWR's log."""
    for folder in ("transactions", "mirror"):
        shutil.rmtree(Path(url, "EWR/weather", folder))


def test_rebuild_of_a_lost_log(cli, own_weather):
    """The rows that revision 3 had removed come back."""
    before = cli("files", own_weather, "weather", "hourly", "--writer", "EWR", "-o", "csv").out
    rows = cli("scan", own_weather, "weather", "hourly", "-o", "csv").out
    lose_log(own_weather)
    args = ("rebuild", own_weather, "weather", "--writer", "EWR")
    plan = cli(*args)
    assert plan.code == 0
    assert plan.err == "\nDRY RUN: nothing was written; add --execute\n"
    assert plan.text.startswith("rebuild of EWR/weather would write 1 checkpoint, SIZE\n")
    assert "Of 1 transaction with 2 rows nothing says whether it was committed" in plan.out
    assert not Path(own_weather, "EWR/weather/transactions").exists()
    done = cli(*args, "--execute")
    assert done.code == 0
    assert done.err == ""
    assert "rebuilt EWR/weather to revision 20: 4 files, 11 rows, " in done.out
    found = cli("scan", own_weather, "weather", "hourly", "-o", "csv").out
    assert set(rows.splitlines()) < set(found.splitlines())
    assert found.count("\n") == rows.count("\n") + 3
    after = cli("files", own_weather, "weather", "hourly", "--writer", "EWR", "-o", "csv").out
    paths = [{row["path"] for row in csv.DictReader(io.StringIO(text))} for text in (before, after)]
    assert paths[0] < paths[1]


def test_rebuild_forms_and_left_out_files(cli, own_weather):
    path = f"data/_/hourly/1-{'ab' * 16}-0.parquet"
    broken = Path(own_weather, "EWR/weather", path)
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"PAR1 is all that is right")
    lose_log(own_weather)
    args = ("rebuild", own_weather, "weather", "--writer", "EWR")
    plan = cli(*args, "-o", "json").json
    assert plan["dry_run"] is True
    assert plan["report"] is None
    assert [item["operation"] for item in plan["transactions"]] == ["append"] * 3 + ["overwrite"]
    (left_out,) = plan["left_out"]
    assert (left_out["path"], left_out["kind"]) == (path, "damaged")
    assert path in cli(*args).out
    rows = list(csv.DictReader(io.StringIO(cli(*args, "-o", "csv").out)))
    assert [row["revision"] for row in rows] == ["0", "1", "2", ""]
    last = plan["transactions"][-1]["transaction_id"]
    fewer = cli(*args, "--exclude", last, "-o", "json").json
    assert len(fewer["transactions"]) == 3
    assert broken.exists()


def test_a_log_that_is_there_becomes_the_next_incarnation(cli, own_weather):
    before = names(own_weather)
    rows = cli("scan", own_weather, "weather", "hourly", "-o", "csv").out
    assert cli("rebuild", own_weather, "weather", "--writer", "NONE").code == 3
    args = ("rebuild", own_weather, "weather", "--writer", "EWR")
    assert cli(*args).code == 0
    assert names(own_weather) == before
    done = cli(*args, "--execute")
    assert done.code == 0
    assert "incarnation 1 is sealed" in done.out
    assert before < names(own_weather)
    assert cli("scan", own_weather, "weather", "hourly", "-o", "csv").out == rows


def test_an_option_that_may_stand_alone_takes_no_argument_away(cli, own_weather):
    for command in ("gc", "prune"):
        keep = ["--keep-days", "1"] if command == "prune" else []
        before = cli(command, own_weather, "weather", "--writer", "EWR", *keep, "--execute")
        after = cli(command, "--execute", own_weather, "weather", "--writer", "EWR", *keep)
        assert (before.code, after.code, after.out) == (0, 0, before.out), after.err


def test_a_writer_is_fenced_by_a_rebuild(cli, own_weather):
    catalog = lakelog.open_catalog(own_weather)
    with catalog.writer("EWR", "weather") as owner:
        cli("rebuild", own_weather, "weather", "--writer", "EWR", "--execute")
        with pytest.raises(lakelog.LakelogError), owner.transaction() as tx:
            tx.write("hourly", pa.table({"origin": ["EWR"]}))
    assert cli("doctor", own_weather).code == 0


def test_every_writer_of_a_database_in_one_call(cli, old_weather, tmp_path):
    done = cli("checkpoint", old_weather, "weather", "--execute", "-o", "json").json
    assert [(item["writer"], item["revision"], item["written"]) for item in done] == [
        ("EWR", 3, True),
        ("JFK", 2, True),
    ]
    text = cli("checkpoint", old_weather, "weather", "--execute").out
    assert "EWR/weather: there already: the checkpoint of revision 3" in text
    assert "JFK/weather: there already: the checkpoint of revision 2" in text
    for path in Path(old_weather).glob("*/weather/transactions/*"):
        os.utime(path, (time.time() - 864_000,) * 2)
    saved = tmp_path / "plans.json"
    prune = ("prune", old_weather, "weather", "--keep-revisions", "1")
    plans = cli(*prune, "-o", "json", "--plan-out", saved).json
    assert [plan["writer"] for plan in plans] == ["EWR", "JFK"]
    assert all(plan["objects"] and plan["dry_run"] for plan in plans)
    shown = cli(*prune)
    assert "prune of EWR/weather would delete" in shown.out
    assert "prune of JFK/weather would delete" in shown.out
    assert shown.err == BANNER
    before = names(old_weather)
    done = cli("prune", old_weather, "weather", "--execute", saved, "-o", "json").json
    assert [item["report"]["deleted_objects"] for item in done] == [p["objects"] for p in plans]
    planned = {action["key"] for plan in plans for action in plan["actions"]}
    assert before - names(old_weather) == planned
    found = cli("gc", old_weather, "weather", "--execute", "-o", "csv")
    assert (found.code, found.out.count("\n")) == (0, 1 + 1)


def test_what_fails_for_one_writer_keeps_no_other_from_its_turn(cli, old_weather, log_object):
    for path in (log_object("EWR", 1), log_object("EWR", 2, "checkpoint")):
        path.unlink()
        (path.parents[1] / "mirror/transactions" / path.name).unlink(missing_ok=True)
    result = cli("gc", old_weather, "weather")
    assert result.code == 5
    assert "gc of JFK/weather: nothing to delete" in result.out
    assert result.err.count("EWR/weather is missing") == 1
    assert result.err.endswith("lakelog: error: Not everything was done: see above\n")
    result = cli("checkpoint", old_weather, "weather", "--execute", "-o", "json")
    assert result.code == 5
    assert [item["writer"] for item in result.json] == ["JFK"]


def test_gc_tells_removed_files_from_leftovers(cli, old_weather):
    at = ("--writer", "EWR")
    cli("checkpoint", old_weather, "weather", *at, "--execute")
    with lakelog.open_catalog(old_weather).writer("EWR", "weather") as writer:
        writer.transaction().write("hourly", pa.table({"origin": ["EWR"]}))
    for path in Path(old_weather, "EWR/weather").rglob("*"):
        os.utime(path, (time.time() - 864_000,) * 2)
    cli("prune", old_weather, "weather", *at, "--keep-revisions", "1", "--execute")
    found = cli("gc", old_weather, "weather", *at, "-o", "json").json["actions"]
    reasons = sorted(action["reason"] for action in found)
    assert len(reasons) == 2
    assert reasons[0].startswith("left over: of no commit in the history; written ")
    assert reasons[1].startswith("removed: committed in revision 2, named by no retained one; ")


def test_a_saved_rebuild_plan(cli, own_weather, tmp_path):
    lose_log(own_weather)
    saved = tmp_path / "plan.json"
    args = ("rebuild", own_weather, "weather", "--writer", "EWR")
    assert cli(*args, "--plan-out", saved).code == 0
    assert cli("gc", own_weather, "weather", "--writer", "EWR", "--execute", saved).code == 2
    done = cli(*args, "--execute", saved)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("rebuilt EWR/weather to revision 20: 4 files, 11 rows, ")
    written = names(own_weather)
    assert cli(*args, "--execute", saved) == done, "once more: all of it is there"
    assert names(own_weather) == written
