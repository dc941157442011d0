"""Two real processes with one writer id; one is stopped in the middle, the other takes over.

When the stopped one goes on it must find out: `FencedError`, no revision acknowledged twice, and
nothing that was acknowledged lost.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.store import open_store
from sample import rounds as rounds_of
from seeds import base_seed

W, D = "w", "db"
WHERE = ["local", "s3"]
ENOUGH = 300  # commits: a zombie that is never told must not go on for ever


class Lake:
    """Where a round happens."""

    def __init__(self, url, options=None):
        self.url, self.options = str(url), options

    def store(self):
        return open_store(self.url, self.options)


@pytest.fixture
def make_lake(request, tmp_path):
    if "s3" not in request.keywords:
        return lambda: Lake(tmp_path / secrets.token_hex(4))
    moto = request.getfixturevalue("moto")
    bucket = moto.make_bucket()
    return lambda: Lake(f"s3://{bucket}/{secrets.token_hex(4)}", moto.storage_options)


def take_over(lake, commits):
    """This process becomes the owner; what it was acknowledged, by transaction id."""
    done = {}
    with Catalog(lake.store()).writer(W, D, checkpoint_every=2) as writer:
        for _ in range(commits):
            with writer.transaction(app_id=f"take-over-{writer.epoch}", app_version=len(done)) as t:
                pass
            done[t.transaction_id] = t.commit_info.revision
    return done


def check(lake, zombie, ours):
    """After the zombie has ended."""
    assert zombie.wait() == 0
    errors = zombie.told("error")
    assert [line["type"] for line in errors] == ["FencedError"], zombie.told()[-3:]
    theirs = {line["id"]: line["revision"] for line in zombie.told("done")}
    twice = [n for n, times in Counter([*theirs.values(), *ours.values()]).items() if times > 1]
    assert not twice, f"revisions {twice} were acknowledged twice"
    log = LogReader(lake.store(), W, D)
    assert not log.names().forks()
    rows = log.load().history.table().select(["revision", "transaction_ids"]).to_pylist()
    stands = {
        transaction_id.hex(): row["revision"]
        for row in rows
        for transaction_id in row["transaction_ids"]
    }
    assert stands.items() >= (theirs | ours).items()
    attempted = {line["id"] for line in zombie.told("attempt")} | ours.keys()
    assert stands.keys() <= attempted
    assert len(stands) == sum(len(row["transaction_ids"]) for row in rows), "one stands twice"
    # It may have learned it before it attempted another one.
    refused = {line["id"] for line in zombie.told("attempt")} - theirs.keys()
    assert not refused & stands.keys(), "a commit that was told to have failed stands"
    return len(rows)


def random_round(lake, nursery, report, chance):
    """Stopped at any moment of its loop."""
    zombie = nursery.fork(
        lake.url, report, options=lake.options, every=chance.choice([1, 3, 100]), commits=ENOUGH
    )
    zombie.await_line("done", chance.randrange(1, 4))
    time.sleep(chance.uniform(0, 0.05))
    zombie.stop()
    ours = take_over(lake, chance.randrange(1, 4))
    zombie.go_on()
    check(lake, zombie, ours)


def placed_round(lake, nursery, report, chance, where):
    """Stopped right before the request that would create the next revision."""
    stop_at = chance.randrange(1, 4)
    zombie = nursery.fork(
        lake.url,
        report,
        options=lake.options,
        every=2,
        stop_at=stop_at,
        stop_in=where,
        commits=ENOUGH,
    )
    zombie.await_line("stopping")
    zombie.await_stopped()
    ours = take_over(lake, chance.randrange(1, 4))
    assert min(ours.values()) == stop_at - 1, "the new owner took the very revision"
    zombie.go_on()
    assert check(lake, zombie, ours) == stop_at - 1 + len(ours)


def run_rounds(make_lake, nursery, tmp_path, number, seed, longest_s):
    """Rounds of both sorts in turn; how many there was time for."""
    chance = random.Random(seed)
    deadline_s = time.monotonic() + longest_s
    for done in range(number):
        if time.monotonic() > deadline_s:
            return done
        lake, report = make_lake(), tmp_path / f"report-{done}"
        if done % 2 == 0:
            random_round(lake, nursery, report, chance)
        else:
            local = lake.options is None
            where = "link" if local and done % 4 == 1 else "put"
            placed_round(lake, nursery, report, chance, where)
    return number


@pytest.mark.slow("waits for processes that are stopped and woken")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("rounds", [8, pytest.param(2, marks=pytest.mark.s3)], ids=WHERE)
def test_a_stopped_owner_finds_out(make_lake, nursery, tmp_path, rounds):
    """What happens is the same on S3, for ten times the time: there it is one round of a sort."""
    done = run_rounds(make_lake, nursery, tmp_path, rounds, base_seed(), longest_s=150)
    assert done == rounds


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("most", [200, pytest.param(100, marks=pytest.mark.s3)], ids=WHERE)
def test_many_stopped_owners_find_out(make_lake, nursery, tmp_path, most):
    wanted = rounds_of(most)
    done = run_rounds(make_lake, nursery, tmp_path, wanted, base_seed(), longest_s=6 * 3600)
    assert done == wanted


@pytest.mark.parametrize("turns", [1, pytest.param(40, marks=pytest.mark.long)])
def test_a_chain_of_zombies(nursery, tmp_path, turns):
    """Each stopped before its put, each with a later epoch; they wake in any order, in another one
    with each commit."""
    chance = random.Random(base_seed())
    for turn in range(turns):
        lake = Lake(tmp_path / f"lake-{turn}")
        take_over(lake, 1)
        zombies = []
        for number in range(4):
            report = tmp_path / f"report-{turn}-{number}"
            zombie = nursery.fork(
                lake.url, report, stop_at=2, commits=ENOUGH
            )  # one commit each: epochs 2 to 5
            zombie.await_line("stopping")
            zombie.await_stopped()
            zombies.append(zombie)
        ours = take_over(lake, 2)
        chance.shuffle(zombies)
        for zombie in zombies:
            zombie.go_on()
        for zombie in zombies:
            assert zombie.wait() == 0
            assert [line["type"] for line in zombie.told("error")] == ["FencedError"]
            assert len(zombie.told("done")) == 1
        state = LogReader(lake.store(), W, D).load()
        assert state.revision == 4 + 2
        assert state.epoch == 6
        assert max(ours.values()) == 6
