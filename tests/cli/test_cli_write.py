"""`lakelog write`: local files into a table, in one transaction."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_cases import both_copies
from lakelog.catalog.commit.committer import Committer
from lakelog.errors import CommitOutcomeUnknown, StorageError
from sample import sampled


@pytest.fixture
def inputs(tmp_path, monkeypatch) -> Path:
    """A working directory with a file of each format."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("a.csv").write_text("id,temp\nEWR,1.5\nJFK,\n")
    Path("b.csv.gz").write_bytes(gzip.compress(b"id,temp\nLGA,2.5\n"))
    Path("c.jsonl").write_text('{"id": "ABE", "more": {"x": 1}}\n{"id": "ABQ"}\n')
    pq.write_table(pa.table({"id": ["ACK"], "temp": [3.5]}), "d.parquet")
    Path("noname").write_text("id\nZZZ\n")
    return folder


def test_files_of_every_format_in_one_transaction(cli, inputs):
    files = ("a.csv", "b.csv.gz", "c.jsonl", "d.parquet")
    result = cli(
        "write", "cat", "db", "t", *files, "--writer", "W", "--partition", "p", "-o", "json"
    )
    assert result.code == 0
    found = result.json
    assert list(found) == [
        "writer", "database", "table", "revision", "committed_at", "transaction_id", "skipped",
        "row_count", "size_bytes", "files", "as_of", "token",
    ]  # fmt: skip
    assert (found["revision"], found["row_count"], len(found["files"])) == (0, 6, 4)
    snapshot = lakelog.open_catalog("cat").snapshot("db", found["token"])
    assert sorted(snapshot.to_arrow("t").column("id").to_pylist()) == [
        "ABE", "ABQ", "ACK", "EWR", "JFK", "LGA",
    ]  # fmt: skip
    rows = snapshot.files("t").to_pylist()
    assert sum(row["size_bytes"] for row in rows) == found["size_bytes"]
    assert {row["partition"] for row in rows} == {"p"}


def test_text_says_what_was_done(cli, inputs):
    result = cli("write", "cat", "db", "t", "a.csv", "--writer", "W")
    first, second, path, empty, as_of, token = result.text.splitlines()
    assert first.startswith("committed revision 0 of W/db at 2")
    assert second == "1 file, 2 rows, SIZE"
    assert path.startswith("  data/_/t/1-")
    assert (empty, as_of) == ("", "as of  W=0")
    assert token.startswith("token  ll1-")
    assert result.err == ""


def test_the_same_application_version_commits_once(cli, inputs):
    args = ("write", "cat", "db", "t", "a.csv", "--writer", "W", "--app-id", "load")
    assert cli(*args, "--app-version", "3").code == 0
    for version in ("3", "2"):
        result = cli(*args, "--app-version", version)
        assert result.code == 0
        assert result.out.startswith(
            f"nothing was committed: version {version} of 'load' is in W/db already\n"
        )
    again = cli(*args, "--app-version", "3", "-o", "json").json
    assert (again["skipped"], again["revision"], again["files"]) == (True, None, [])
    assert lakelog.open_catalog("cat").snapshot("db").cut.revisions == {"W": 0}


def test_an_application_id_alone_is_refused(cli, inputs):
    assert cli("write", "cat", "db", "t", "a.csv", "--writer", "W", "--app-id", "x").code == 2
    assert not Path("cat/W/db").exists()


def test_the_format_can_be_given(cli, inputs):
    result = cli("write", "cat", "db", "t", "noname", "--writer", "W")
    assert result.code == 2
    assert "--format" in result.err
    assert cli("write", "cat", "db", "t", "noname", "--writer", "W", "--format", "csv").code == 0


def test_rows_that_do_not_exist(cli, inputs):
    Path("empty.csv").write_text("id,temp\n")
    args = ("write", "cat", "db", "t", "empty.csv", "--writer", "W")
    assert "no rows, only the columns of the table" in cli(*args).out
    assert cli(*args).out.startswith("nothing was committed: the files hold no rows")
    assert "(no files)" in cli("files", "cat", "db", "t").out


def test_a_bad_file_among_good_ones_commits_nothing(cli, inputs):
    Path("bad.parquet").write_bytes(b"PAR1 no such thing PAR1")
    result = cli("write", "cat", "db", "t", "a.csv", "bad.parquet", "--writer", "W")
    assert result.code == 2
    assert "bad.parquet" in result.err
    assert not list(Path("cat").rglob("*.transaction"))


def test_a_parquet_file_that_breaks_off_in_its_pages(cli, inputs):
    body = bytearray(Path("d.parquet").read_bytes())
    body[4:60] = bytes(56)
    Path("d.parquet").write_bytes(body)
    result = cli("write", "cat", "db", "t", "d.parquet", "--writer", "W")
    assert result.code == 2
    assert "d.parquet can't be read as Parquet" in result.err


def test_a_guest_commits_beside_the_owner(cli, inputs):
    catalog = lakelog.open_catalog("cat")
    with catalog.writer("W", "db") as owner:
        with owner.transaction() as tx:
            tx.write("t", pa.table({"id": ["owner"]}))
        assert cli("write", "cat", "db", "t", "a.csv", "--writer", "W", "--shared").code == 0
        with owner.transaction() as tx:
            tx.write("t", pa.table({"id": ["owner"]}))
    assert catalog.snapshot("db").cut.revisions == {"W": 2}
    assert "append (guest)" in cli("log", "cat", "db").out


def test_a_broken_log_of_another_writer_does_not_undo_the_commit(
    cli, own_weather, log_object, inputs
):
    for copy in both_copies(log_object("JFK", 1)):
        copy.write_bytes(b"broken")
    args = ("write", own_weather, "weather", "t", "a.csv", "--writer", "EWR", "-o", "json")
    result = cli(*args)
    assert result.code == 0
    assert (result.json["revision"], result.json["token"]) == (4, None)
    assert result.json["row_count"] > 0
    assert result.json["size_bytes"] > 0
    assert result.err.startswith("lakelog: warning: no token: JFK/weather/transactions/")


@pytest.mark.parametrize(
    ("app", "hint"),
    [
        ((), "hint: First look for transaction 00ff in `lakelog log --output json`"),
        (("--app-id", "x", "--app-version", "1"), "hint: Running the same command again is safe"),
    ],
)
def test_an_unknown_outcome_has_its_own_code_and_advice(cli, inputs, monkeypatch, app, hint):
    def commit(self, intents):
        lost = StorageError("the answer was lost")
        unknown = CommitOutcomeUnknown("Nobody knows", key="W/db/t", transaction_id="00ff")
        unknown.__cause__ = lost
        return [unknown for _ in intents]

    monkeypatch.setattr(Committer, "commit", commit)
    result = cli("write", "cat", "db", "t", "a.csv", "--writer", "W", *app)
    assert result.code == 7
    assert hint in result.err


def test_progress_only_where_it_is_wanted(cli, inputs, monkeypatch):
    monkeypatch.setenv("LAKELOG_PROGRESS", "1")
    result = cli("write", "cat", "db", "t", "a.csv", "d.parquet", "--writer", "W", "-o", "json")
    assert "lakelog: files written: 2 of 2\n" in result.err
    json.loads(result.out)
    monkeypatch.delenv("LAKELOG_PROGRESS")
    assert cli("write", "cat", "db", "t", "a.csv", "--writer", "W").err == ""


def test_a_file_that_may_not_be_read():
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "a.csv").write_text("a\n1\n")
        (folder / "a.csv").chmod(0)
        done = as_no_root(folder, "write", "cat", "db", "t", "a.csv", "--writer", "W")
        assert done.returncode == 6, done.stderr
        assert "a.csv" in done.stderr
        assert "Permission denied" in done.stderr
        assert list(folder.rglob("*.parquet")) == []


@pytest.mark.parametrize("columns", [["id", "temp", "n"], ["id"], ["n"]])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_scan_prints_can_be_written(cli, inputs, form, columns):
    rows = pa.table(
        {
            "id": ["", None, "NaN", 'a "b"\nc', "NA"],
            "temp": [float("nan"), None, 1.5, float("-inf"), 2.0],
            "n": [1, None, None, 4, 5],
        }
    ).select(columns)
    with lakelog.open_catalog("one").writer("W", "db") as writer, writer.transaction() as tx:
        tx.write("t", rows)
    Path(f"x.{form}").write_text(cli("scan", "one", "db", "t", "-o", form).out)
    assert cli("write", "two", "db", "t", f"x.{form}", "--writer", "W").code == 0
    found = lakelog.open_catalog("two").snapshot("db").to_arrow("t")
    assert str(found.to_pydict()) == str(rows.to_pydict())  # nan is not nan
    assert found.schema.types == rows.schema.types


@pytest.mark.parametrize("text", ["[1]", '[{"a": 1}, null]', "[{]", "[]"])
def test_a_json_array_of_other_things_is_refused(cli, inputs, text):
    Path("x.json").write_text(text)
    result = cli("write", "cat", "db", "t", "x.json", "--writer", "W")
    said = "x.json holds no columns" if text in ("[{}]", "[]") else "x.json, line 1, can't be read"
    assert (result.code, said in result.err) == (2, True)


def piped(inputs, source: str, command: str) -> subprocess.CompletedProcess[str]:
    lakelog_ = f"{sys.executable} -m lakelog"
    script = f"cat {source} | {lakelog_} {command}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=inputs, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "<(cat)"])
@pytest.mark.parametrize("source", sampled("pipes", ["a.csv", "noname", "c.jsonl", "d.parquet"], 2))
def test_what_comes_through_a_pipe_is_written(inputs, name, source):
    form = source.partition(".")[2] or "csv"
    if name == "<(cat)":
        name = f"<(cat {source})"
    done = piped(inputs, source, f"write cat db t {name} --format {form} --writer W -o json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["row_count"] in (1, 2)


def test_stdin_has_no_name_that_says_a_format(inputs):
    done = piped(inputs, "a.csv", "write cat db t - --writer W")
    assert done.returncode == 2
    assert "hint: Add --format: parquet, csv, tsv, jsonl, arrow" in done.stderr


def as_no_root(inputs, *args: str) -> subprocess.CompletedProcess[str]:
    """A command with a line of CSV on stdin, by another user where we are root, who may read and
    write anything."""
    script = (
        "import os, sys; from lakelog.cli.main import main; import lakelog.catalog.catalog, "
        "lakelog.rebuild, lakelog.cli.inputs.resolve, "
        "pyarrow.csv, pyarrow.parquet, csv, encodings.utf_8_sig, fractions, zoneinfo; "
        "os.getuid() or os.setuid(65534); "
        "sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", script, *args],
        cwd=inputs, input="a\n1\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_read_only_folder_is_no_matter_of_credentials(inputs):
    (inputs / "lake").mkdir()
    (inputs / "lake").chmod(0o555)
    done = as_no_root(inputs, "write", "lake", "db", "t", "-", "--format", "csv", "--writer", "W")
    assert done.returncode == 6
    assert re.search("not allowed to (list|write): Permission denied", done.stderr)
    assert "hint: check the owner and the permissions" in done.stderr
    assert "credentials" not in done.stderr


def test_bloom_filters_are_written_and_asked(cli, tmp_path):
    """Two files of ids that bounds don't tell apart."""
    for number in range(2):
        ids = "".join(f"key-{n}\n" for n in range(number, 40_000, 2))
        (tmp_path / f"{number}.csv").write_text("id\n" + ids)
    at = (str(tmp_path / "lake"), "db", "t")
    for number in range(2):
        path = str(tmp_path / f"{number}.csv")
        assert cli("write", *at, path, "--writer", "w", "--bloom", "id").code == 0
    asking = ("explain", *at, "--where", "id = 'key-12345'")
    assert "bloom filters of 2 row groups can rule out more" in cli(*asking).out
    asked = cli(*asking, "--read-filters")
    assert "not id = 'key-12345': bloom filter" in asked.out
    assert "kept: 1 of 2 files" in asked.out
    assert cli("scan", *at, "-w", "id = 'key-12345'", "-o", "json").json["rows"] == [
        {"id": "key-12345"}
    ]
    wrong = cli("write", *at, path, "--writer", "w", "--bloom", "ids")
    assert wrong.code == 2
    assert "'ids'" in wrong.err


def test_rows_are_split_by_columns(cli, inputs):
    Path("days.csv").write_text("year,month,n\n2026,11,1\n2026,12,2\n2025,1,3\n")
    args = ("write", "cat", "db", "d", "days.csv", "--writer", "W", "--partition-by", "year,month")
    assert cli(*args, "-o", "json").code == 0
    files = lakelog.open_catalog("cat").snapshot("db").files("d")
    assert sorted(files["partition"].to_pylist()) == [
        "year=2025/month=1", "year=2026/month=11", "year=2026/month=12",
    ]  # fmt: skip
    refused = cli(*args[:-1], "nope")
    assert refused.code == 2
    assert "no column 'nope'" in refused.err
