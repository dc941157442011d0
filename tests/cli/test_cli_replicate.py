"""`lakelog replicate` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.cli.main import main
from pyarrow import csv

D = "weather"


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalog = lakelog.open_catalog("lake")
    for name in ("bergen", "oslo"):
        with catalog.writer(name, D) as writer:
            for number in range(3):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [number]}))
    return catalog


def test_a_plan_then_a_copy_then_nothing(lake, capsys):
    assert main(["replicate", "lake", "copy", "--plan"]) == 0
    shown = capsys.readouterr()
    assert "PLAN: nothing was copied" in shown.err
    assert shown.out.splitlines()[1].split()[:6] == [D, "bergen", "-", "2", "3", "3"]
    assert not os.path.exists("copy/oslo")
    assert main(["replicate", "lake", "copy"]) == 0
    shown = capsys.readouterr()
    token = lake.snapshot(D).token
    assert token in shown.out
    assert lakelog.open_catalog("copy").snapshot(D, token).to_arrow("t").num_rows == 6
    assert main(["replicate", "lake", "copy", "-o", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["commits"] for one in records] == [0, 0]
    assert {one["token"] for one in records} == {token}


def test_some_writers_only(lake, capsys):
    assert main(["replicate", "lake", "copy", "--database", D, "--writer", "oslo"]) == 0
    assert lakelog.open_catalog("copy").writers(D) == ["oslo"]
    assert main(["replicate", "lake", "copy", "--writer", "nobody"]) == 3
    assert "nobody" in capsys.readouterr().err


def test_some_rows_of_a_table(lake, capsys):
    words = ["replicate", "lake", "part", "--table", "t", "--where", "n > 0", "-c", "n"]
    assert main([*words, "--plan"]) == 0
    assert "PLAN" in capsys.readouterr().err
    assert main(words) == 0
    part = lakelog.open_catalog("part")
    assert sorted(part.snapshot(D).to_arrow("t")["n"].to_pylist()) == [1, 1, 2, 2]
    assert part.snapshot(D).token in capsys.readouterr().out
    assert main(["replicate", "lake", "part", "--where", "n > 0"]) == 2
    assert "--table NAME" in capsys.readouterr().err
    assert main(["replicate", "lake", "part", "--table", "nothing"]) == 3


def test_what_fails_for_one_log_keeps_no_other_from_its_turn(lake, capsys):
    with lakelog.open_catalog("copy").writer("bergen", D) as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    assert main(["replicate", "lake", "copy"]) == 4
    told = capsys.readouterr()
    assert "another commit at the destination" in told.err
    assert lakelog.open_catalog("copy").snapshot(D, {"oslo": 2}).to_arrow("t").num_rows == 3


def test_where_every_log_fails_there_was_something_to_replicate(lake, capsys):
    for name in ("bergen", "oslo"):
        with lakelog.open_catalog("copy").writer(name, D) as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1]}))
    assert main(["replicate", "lake", "copy"]) == 4
    assert capsys.readouterr().out == "nothing was replicated\n"


READERS = {
    "json": json.loads,
    "jsonl": lambda body: [json.loads(line) for line in body.splitlines()],
    "csv": lambda body: csv.read_csv(pa.BufferReader(body)).to_pylist(),
    "parquet": lambda body: pq.read_table(pa.BufferReader(body)).to_pylist(),
    "arrow": lambda body: pa.ipc.open_stream(body).read_all().to_pylist(),
}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("failing", [("bergen",), ("bergen", "oslo")])
def test_what_follows_and_fails_has_printed_something_whole(lake, capfdbinary, form, failing):
    for name in failing:
        with lakelog.open_catalog("copy").writer(name, D) as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1]}))
    assert main(["replicate", "lake", "copy", "--follow", "--every", "0.01", "-o", form]) == 4
    told = capfdbinary.readouterr()
    assert [one["writer"] for one in READERS[form](told.out)] == ["oslo"][: 2 - len(failing)]
    assert b"another commit at the destination" in told.err


@pytest.mark.parametrize(
    "words", [["lake", "lake"], ["lake", "lake/copy"], ["lake", "copy", "--plan", "--follow"]]
)
def test_what_makes_no_sense_is_a_usage_error(lake, capsys, words):
    assert main(["replicate", *words]) == 2
    assert "error" in capsys.readouterr().err


def test_secrets_of_the_destination_are_not_told(lake, capsys, monkeypatch):
    monkeypatch.setenv("LAKELOG_DESTINATION_OPTIONS", "[1]")
    assert main(["replicate", "lake", "copy"]) == 2
    assert "LAKELOG_DESTINATION_OPTIONS" in capsys.readouterr().err
    monkeypatch.setenv("LAKELOG_DESTINATION_OPTIONS", '{"secret": "very-secret-indeed"}')
    words = ["replicate", "lake", "s3://b/very-secret-indeed?"]
    assert main(words) == 6
    assert "very-secret-indeed" not in capsys.readouterr().err


def await_rows(url, wanted, child):
    for _ in range(600):
        assert child.poll() is None
        try:
            if lakelog.open_catalog(url).snapshot(D).to_arrow("t").num_rows == wanted:
                return
        except lakelog.LakelogError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{wanted} rows never came")


@pytest.mark.slow("a process that follows")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_follows_until_it_is_told_to_end(lake, number):
    words = ["replicate", "lake", "copy", "--follow", "--every", "0.1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "lakelog", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        await_rows("copy", 6, child)
        with lake.writer("oslo", D) as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"n": [8, 9]}))
        with lake.writer("voss", D) as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"n": [10]}))
        await_rows("copy", 9, child)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, err
    assert "Traceback" not in err
    assert "oslo/weather: 2 to 3, 1 commit, 1 file" in out
    assert "voss/weather: 0, 1 commit, 1 file" in out


def test_a_replica_is_written_to_once_it_is_promoted(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a\n1\n")
    write = ("d", "t", "a.csv", "--writer", "w")
    assert cli("write", "lake", *write).code == 0
    assert cli("replicate", "lake", "copy").code == 0
    refused = cli("write", "copy", *write)
    assert refused.code == 4
    assert "`lakelog promote` it" in refused.err
    assert cli("check", "copy").code == 0  # the mark is no stranger
    shown = cli("promote", "copy", "-o", "jsonl")
    assert (shown.code, shown.out) == (0, '{"database": "d", "writer": "w"}\n')
    assert "DRY RUN" in shown.err
    assert cli("write", "copy", *write).code == 4
    assert cli("promote", "copy", "d", "--execute").code == 0
    assert cli("write", "copy", *write).code == 0
    assert cli("promote", "copy").code == 3
    assert cli("write", "lake", *write).code == 0
    assert cli("replicate", "lake", "copy").code == 4
