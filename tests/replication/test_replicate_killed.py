"""kill -9 at random times: what is there then is a replica of an earlier cut, and the next run goes
on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import DatabaseNotFound, NotACatalog
from lakelog.replication import replicate

sys.path.append(str(Path(__file__).parents[1] / "running"))
from seeds import base_seed

D = "weather"


def history(url, commits, chance):
    """Two writers; by revision of both the rows that must be read."""
    catalog = lakelog.open_catalog(url)
    wanted = {name: [] for name in ("oslo", "bergen")}
    for name, rows in wanted.items():
        now: list[int] = []
        with catalog.writer(name, D, checkpoint_every=5) as writer:
            for number in range(commits):
                with writer.transaction() as tx:
                    if number % 4 == 3:
                        gone = chance.choice(now)
                        tx.delete("t", f"n = {gone}", mode=chance.choice(["rows", "predicate"]))
                        now = [one for one in now if one != gone]
                    else:
                        tx.write("t", pa.table({"n": [number * 10, number * 10 + 1]}))
                        now = [*now, number * 10, number * 10 + 1]
                rows.append(sorted(now))
    return wanted


def check(url, wanted):
    """How far each log is; each readable revision has the rows that it had."""
    catalog = lakelog.open_catalog(url)
    heads = {}
    try:
        names = catalog.writers(D)
    except (DatabaseNotFound, NotACatalog):
        return heads
    for name in names:
        head = catalog.snapshot(D, {name: 0}).cut and catalog.history(D, name).num_rows - 1
        for revision in {0, head // 2, head}:
            found = catalog.snapshot(D, {name: revision}).to_arrow("t")["n"].to_pylist()
            assert sorted(found) == wanted[name][revision]
        heads[name] = head
    return heads


def run_rounds(tmp_path, rounds, commits, seed):
    chance = random.Random(seed)
    source, copy = str(tmp_path / "source"), str(tmp_path / "copy")
    wanted = history(source, commits, chance)
    deaths, before = 0, {}
    for _ in range(rounds):
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "child.py"), source, copy, "0.01"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.05, 0.6))
        child.kill()
        told = child.stdout.read()
        child.wait()
        deaths += not told
        heads = check(copy, wanted)
        assert all(heads[name] >= head for name, head in before.items()), "it never goes back"
        before = heads
    report = replicate(source, copy)
    assert not report.errors
    assert check(copy, wanted) == {"oslo": commits - 1, "bergen": commits - 1}
    assert report.tokens == {D: lakelog.open_catalog(source).snapshot(D).token}
    left = {f.name for f in (tmp_path / "copy").rglob("*.parquet")}
    assert left == {f.name for f in (tmp_path / "source").rglob("*.parquet")}, "nothing else"
    return deaths


@pytest.mark.slow("real processes that are killed at random times")
def test_kill_9_at_random_times(tmp_path):
    assert run_rounds(tmp_path, 6, 120, base_seed())


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(40))
def test_kill_9_often(tmp_path, number):
    assert run_rounds(tmp_path, 25, 400, f"{base_seed()} {number}") > 5
