"""kill -9 at random times, with real processes on a real folder.

After each death: acknowledged ⊆ visible ⊆ attempted, and the log opens and commits as if nothing
had happened.
"""

from __future__ import annotations

import os
import random
import time
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.store import open_store
from sample import rounds
from seeds import base_seed

W, D = "w", "db"
LONGEST_S = 0.15  # from a child's first commit, or from its fork, to its death
FRESH_EVERY = 10  # rounds on one log: long enough for checkpoints on checkpoints


def visible(store):
    """What stands on each revision, to a reader of its own that trusts every checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = LogReader(store, W, D).load()
    return state.history.table().select(["revision", "operation", "transaction_ids"]).to_pylist()


class Rounds:
    """One log, and what all processes so far did to it."""

    def __init__(self, root, chance):
        self.root, self.chance = root, chance
        self.root.mkdir()
        self.acknowledged: dict[str, int] = {}
        self.attempted: set[str] = set()
        self.deaths_in_a_commit = 0
        self.begun_by_guests = None

    def run(self, nursery, number):
        guests = self.chance.random() < 0.3
        if self.begun_by_guests is None:
            self.begun_by_guests = guests
        children = [
            nursery.fork(
                str(self.root / "lake"),
                self.root / f"report-{number}-{one}",
                shared=guests,
                every=self.chance.choice([1, 3, 100]),
            )
            for one in range(2 if guests else 1)
        ]
        if self.chance.random() < 0.8:
            for child in children:
                child.await_line("attempt")
        time.sleep(self.chance.uniform(0, LONGEST_S))
        for child in children:
            child.kill()
            self.learn(child)
        self.check()
        self.go_on()

    def learn(self, child):
        assert not child.told("error"), child.told("error")
        attempted = [line["id"] for line in child.told("attempt")]
        done = {line["id"]: line["revision"] for line in child.told("done")}
        self.deaths_in_a_commit += len(attempted) > len(done)
        self.attempted |= set(attempted)
        self.acknowledged |= done

    def check(self):
        stands: dict[str, int] = {}
        rows = visible(open_store(self.root / "lake"))
        assert [row["revision"] for row in rows] == list(range(len(rows)))
        if rows and self.begun_by_guests and rows[0]["operation"] == "maintenance":
            rows = rows[1:]  # the birth, which a guest commits before anything of its own
        for row in rows:
            for transaction_id in row["transaction_ids"]:
                assert transaction_id.hex() not in stands, "a transaction stands twice"
                stands[transaction_id.hex()] = row["revision"]
        assert stands.items() >= self.acknowledged.items()
        assert stands.keys() <= self.attempted
        self.stands = stands

    def go_on(self):
        """This process is the next owner: no repair by hand."""
        with Catalog(open_store(self.root / "lake")).writer(W, D) as writer:
            tx = writer.transaction()
            tx.write("t", pa.table({"id": [tx.transaction_id]}))
            self.attempted.add(tx.transaction_id)
            self.acknowledged[tx.transaction_id] = tx.commit().revision

    def check_data(self):
        """Each transaction wrote one row with its own id: the data are what the log says."""
        self.check()
        found = Catalog(open_store(self.root / "lake")).snapshot(D).to_arrow("t")
        assert sorted(found.column("id").to_pylist()) == sorted(self.stands)
        left = [
            name
            for folder, _, names in os.walk(self.root / "lake" / W)
            for name in names
            if not name.endswith((".transaction", ".checkpoint", ".segment", ".parquet"))
            and "_probe" not in folder
        ]
        assert not left, "half-written files under final names"


def run_rounds(nursery, tmp_path, number, seed, *, longest_s):
    chance = random.Random(seed)
    deadline_s = time.monotonic() + longest_s
    deaths = done = 0
    while done < number and time.monotonic() < deadline_s:
        rounds = Rounds(tmp_path / f"lake-{done}", chance)
        for _ in range(min(FRESH_EVERY, number - done)):
            rounds.run(nursery, done)
            done += 1
            if time.monotonic() > deadline_s:
                break
        rounds.check_data()
        deaths += rounds.deaths_in_a_commit
    return done, deaths


@pytest.mark.slow("12 rounds of real processes that are killed at random times")
@pytest.mark.timeout(300)
def test_kill_9_at_random_times(nursery, tmp_path):
    done, deaths = run_rounds(nursery, tmp_path, 12, base_seed(), longest_s=250)
    assert done == 12
    assert deaths >= done // 5, "hardly any death came while a commit was under way"


@pytest.mark.long
@pytest.mark.timeout(0)
def test_kill_9_many_times(nursery, tmp_path):
    wanted = rounds(500)
    done, deaths = run_rounds(nursery, tmp_path, wanted, base_seed(), longest_s=6 * 3600)
    assert done == wanted
    assert deaths > wanted // 5
