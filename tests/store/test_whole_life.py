"""A catalog's whole life on each of the servers that are built (`tests/servers/`)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import lakelog
import pyarrow as pa
from lakelog.gc.collect import execute_gc, plan_gc


def test_a_whole_life(ways, capsys, monkeypatch):
    """Written by an owner and by guests at once, changed, read, examined, pruned and collected."""
    from lakelog.cli.main import main

    (url, options), (_, others) = ways[0], ways[-1]
    lake, same = lakelog.open_catalog(url, options), lakelog.open_catalog(url, others)
    with lake.writer("w", "db") as owner, owner.transaction() as tx:
        tx.write("t", pa.table({"n": [0]}))
    guests, commits = 4, 3

    def commit(guest: int) -> None:
        with (lake, same)[guest % 2].writer("w", "db", shared=True) as writer:
            for number in range(commits):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [100 * guest + number]}))

    with ThreadPoolExecutor(guests) as pool:
        list(pool.map(commit, range(1, guests + 1)))
    rows = sorted(same.snapshot("db").to_arrow("t")["n"].to_pylist())
    assert rows == sorted([0, *(100 * g + n for g in range(1, guests + 1) for n in range(commits))])
    with same.writer("w", "db") as owner:
        with owner.transaction() as tx:
            tx.delete("t", "n < 200")
        with owner.transaction() as tx:
            tx.overwrite("t", pa.table({"n": [7]}))
    assert lake.snapshot("db").to_arrow("t")["n"].to_pylist() == [7]
    assert lake.snapshot("db", {"w": 0}).to_arrow("t")["n"].to_pylist() == [0]
    monkeypatch.setenv("LAKELOG_STORAGE_OPTIONS", json.dumps(options))
    assert main(["doctor", url, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["put_if_absent"] is True
    assert found["problems"] == []
    assert main(["check", url]) == 0
    assert execute_gc(lake.store, plan_gc(lake.store, "w", "db")).deleted_objects == 0
    assert lake.snapshot("db").to_arrow("t")["n"].to_pylist() == [7]
