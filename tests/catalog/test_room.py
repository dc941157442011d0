"""What doesn't fit into one transaction object is refused as it is gathered, before anything more
is written for it, and by the same measure as at the commit."""

from __future__ import annotations

import random

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import operation_guard
from lakelog.catalog.commit.operation_guard import MessageSize
from lakelog.catalog.log import build
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import UsageError
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.logs import LogBuilder, remove_action, schema_action
from limit_cases import with_files
from table_cases import table


def test_what_a_transaction_counts_is_never_more_than_its_message_holds():
    """Else it would refuse what fits."""
    draw = random.Random(1)
    for _ in range(20):
        log, found = LogBuilder(), MessageSize(wire.Member())
        actions = [schema_action("t" * draw.randint(1, 9)) for _ in range(draw.randint(0, 3))]
        actions += [
            remove_action("data/" + "x" * draw.randint(1, 9), "t" * draw.randint(1, 9))
            for _ in range(draw.randint(1, 40))
        ]
        found.take(actions)
        data = log.decode(*log.encode(*actions)).message.SerializeToString()
        assert len(data) - 150 < found.check([]) <= len(data)


@pytest.fixture
def limits(monkeypatch):
    """`limits(MAX_MESSAGE_BYTES=9)` sets a limit of messages wherever one is written."""

    def limit(**values):
        for name, value in values.items():
            for module in (operation_guard, build):
                monkeypatch.setattr(module, name, value)

    return limit


def until_refused(work, items):
    """Those that were taken, and the refusal of the next one."""
    taken = []
    for item in items:
        try:
            work(item)
        except UsageError as error:
            return taken, error
        taken.append(item)
    raise AssertionError("all were taken")


def test_removes_that_do_not_fit_are_refused_at_once(limits):
    log, paths = with_files(300, name="data/_/t/1-{:032x}-0.parquet")
    limits(MAX_MESSAGE_BYTES=10_000)
    counting = CountingStore(log.store)
    writer = Catalog(counting).writer("w", "db", checkpoint_every=0)
    tx = writer.transaction()
    counting.reset()
    removed, refused = until_refused(tx.remove, paths)
    assert "too large" in str(refused)
    assert "split the removes" in refused.hint
    assert 100 < len(removed) < 250
    assert not any(counting.reset().values())
    # What fitted can be committed still, or nearly: the rest of the message is not known before.
    with pytest.raises(UsageError, match="too large"):
        tx.remove(paths[-1])
    less = writer.transaction()
    for path in removed[:-20]:
        less.remove(path)
    less.commit()
    left = Catalog(log.store).snapshot("db").files("t")["path"].to_pylist()
    assert sorted(left) == sorted(paths[len(removed) - 20 :])


def test_what_is_found_at_the_commit_alone_is_refused_by_the_same_error(limits):
    """Not as a damaged object: there is none."""
    log, paths = with_files(300, name="data/{:07d}")
    counting = CountingStore(log.store)
    writer = Catalog(counting).writer("w", "db", checkpoint_every=0)
    tx = writer.transaction()
    for path in paths:
        tx.remove(path)
    limits(MAX_MESSAGE_BYTES=250)
    counting.reset()
    keys = log.keys()
    with pytest.raises(UsageError, match="too large"):
        tx.commit()
    assert counting.reset()["put"] == 0
    assert log.keys() == keys
    assert writer.revision == 1


def test_a_new_table_that_does_not_fit_writes_no_file(limits, monkeypatch):
    store = CountingStore(MemoryStore("room"))
    writer = Catalog(store).writer("w", "db")
    limits(MAX_MESSAGE_BYTES=20_000)
    monkeypatch.setattr(build, "BATCH_FROM_BYTES", 2_000)
    tx, names = writer.transaction(), [f"t{number}" for number in range(200)]
    store.reset()
    written, refused = until_refused(lambda name: tx.write(name, table(1)), names)
    assert "the new tables" in refused.hint
    tx._uploads.wait()
    assert store.reset()["put"] == len(written)
    assert 30 < len(written) < 150
    tx.write("t0", table(2))  # its schema is named
    tx.discard()
    with writer.transaction() as less:
        for name in written[:-10]:
            less.write(name, table(1))
    assert len(Catalog(store).snapshot("db").tables()) == len(written) - 10
