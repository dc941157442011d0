"""Checkpoints beside prune, at each request of either."""

from __future__ import annotations

import contextlib

import pytest
from lakelog.errors import (
    StorageError,
)
from lakelog.gc.prune import execute_prune, plan_prune
from race_cases import before_request
from sample import EVERY, some

# No reader may take maintenance for damage.
pytestmark = [
    pytest.mark.filterwarnings("error::lakelog.catalog.read.log_reader.CheckpointWarning"),
    pytest.mark.usefixtures("parts_decoded_once"),
]

DAY_S = 86_400.0

W, D = "EWR", "weather"

NEVER = 10_000


def with_segments(make_memory_lake):
    """Checkpoints 1 and 3, of segments in objects; a writer whose base is 1, and one with 3."""
    lake = make_memory_lake()
    with lake.writer() as writer:
        for value in range(2):
            lake.commit(writer, value)
        writer.checkpoint()
    old = lake.writer(shared=True)
    lake.pass_time(30 * DAY_S)
    with lake.writer() as writer:
        for value in range(2, 4):
            lake.commit(writer, value)
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    new = lake.writer(shared=True)
    with lake.writer() as writer:
        for value in range(4, 6):
            lake.commit(writer, value)
    return lake, {"old": old, "new": new}


def prune_all(lake, store):
    ambient = lake.clock.ambient()
    return execute_prune(
        store, plan_prune(store, W, D, keep_revisions=1, ambient=ambient), ambient=ambient
    )


def check_checkpoints(lake):
    for short in lake.log_names().split():
        if short.startswith("c"):
            assert lake.needed(short) <= lake.segments(), short
    assert lake.read() == list(range(6))
    fresh = lake.log().load()
    assert len(fresh.history.table())
    assert fresh.schemas.tables() == {"hourly"}


def checkpoint_beside_prune(make_memory_lake, hooked, who, number):
    """A whole checkpoint before one of prune's requests; gives how many prune made."""
    lake, writers = with_segments(make_memory_lake)
    hook = before_request(number, writers[who].checkpoint)
    assert prune_all(lake, hooked(lake.store, hook)).deleted_objects > 4
    hook.finish()
    assert lake.log_names().split()[0] == "t3"
    check_checkpoints(lake)
    return len(hook.requests)


@pytest.mark.parametrize("count", [10, EVERY])
@pytest.mark.parametrize("who", ["old", "new"])
def test_a_checkpoint_at_each_boundary_of_a_prune(
    make_memory_lake, hooked, monkeypatch, who, count
):
    """A writer of long ago, or of now, writes one while prune takes segments of checkpoint 1."""
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)
    requests = checkpoint_beside_prune(make_memory_lake, hooked, who, NEVER)
    assert requests > 30
    for number in some(who, range(requests), count):
        checkpoint_beside_prune(make_memory_lake, hooked, who, number)


def prune_beside_checkpoint(make_memory_lake, hooked, who, number):
    """The whole prune before one of a checkpoint's requests; gives how many that made."""
    lake, writers = with_segments(make_memory_lake)
    inner = lake.store
    hook = before_request(number, lambda: prune_all(lake, inner))
    writer = writers[who]
    object.__setattr__(writer._session._log, "store", hooked(inner, hook))
    with contextlib.suppress(StorageError):
        writer.checkpoint()
    requests = len(hook.requests)
    hook.finish()
    check_checkpoints(lake)
    return requests


@pytest.mark.parametrize("who", ["old", "new"])
def test_a_prune_at_each_boundary_of_a_checkpoint(make_memory_lake, hooked, monkeypatch, who):
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)
    requests = prune_beside_checkpoint(make_memory_lake, hooked, who, NEVER)
    assert requests >= 2
    for number in range(requests):
        prune_beside_checkpoint(make_memory_lake, hooked, who, number)
