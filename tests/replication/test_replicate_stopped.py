"""A replication that stops at each of its writing requests in turn, before or after that takes
effect, and then goes on: at each stop the replica reads the same rows at every point in time, or
has no such point; at the end it is the same byte for byte, and its mirror alone reads the same.

`make test` stops at every second one, from the first or the second on; with LAKELOG_TURNS=every at
all of them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter

import pyarrow as pa
import pytest
from lakelog.errors import (
    DatabaseNotFound,
    NotACatalog,
    RevisionNotFound,
    StorageError,
    WriterNotFound,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication import replicate
from lakelog.testing.doubles import PassingStore
from replica_cases import D, Pair, written
from seeds import base_seed

WRITERS = ("oslo", "rome")
STEP = 1 if os.environ.get("LAKELOG_TURNS") == "every" else 2


class Gone(StorageError):
    """Nothing gets through any more, as if the process had ended."""


class StoppingStore(PassingStore):
    """Lets so many writing requests through, then nothing; the last one may still take effect."""

    def __init__(self, store, requests, *, after):
        super().__init__(store)
        self.left, self.after, self._lock = requests, after, threading.Lock()

    def _pass(self, act):
        with self._lock:
            self.left -= 1
            if self.left > 0 or (self.left == 0 and self.after):
                act()
        self.alive()

    def alive(self):
        if self.left <= 0:
            raise Gone("the connection is gone")

    def put(self, key, body, *, if_absent=False):
        self._pass(lambda: self.inner.put(key, body, if_absent=if_absent))

    def delete(self, keys, *, ordered=True):
        for key in keys:
            self._pass(lambda key=key: self.inner.delete([key]))

    def get(self, key, *, start=None, end=None):
        self.alive()
        return self.inner.get(key, start=start, end=end)

    def get_many(self, keys):
        self.alive()
        return self.inner.get_many(keys)

    def head(self, key):
        self.alive()
        return self.inner.head(key)

    def list(self, prefix, **options):
        self.alive()
        return self.inner.list(prefix, **options)

    def server_time(self):
        return self.inner.server_time()


def changed(pair):
    """Rows that are deleted, replaced and moved, a column more, in two logs; the tokens."""
    tokens = written(pair, 2)
    tokens += written(pair, 2, "rome")
    for change in (
        lambda tx: tx.delete("hourly", "n = 1", mode="rows"),
        lambda tx: tx.evolve("hourly", add={"more": pa.int64()}),
        lambda tx: tx.overwrite("hourly", pa.table({"n": [0], "more": [8]}), where="n = 0"),
        lambda tx: tx.write("daily", pa.table({"n": [5, 6]})),
        lambda tx: tx.delete("daily", "n = 5", mode="predicate"),
    ):
        pair.clock.now_s += 1
        with pair.source.writer() as writer, writer.transaction() as tx:
            change(tx)
        tokens.append(pair.source.token)
    return tokens


def rebuilt(pair):
    """The source gets another incarnation."""
    pair.clock.now_s += 60
    store = pair.source.store
    lost = [i.key for i in store.list("oslo/") if i.key.endswith(".transaction")][:4]
    store.delete(lost)
    execute_rebuild(pair.source.catalog, plan_rebuild(pair.source.catalog, "oslo", D))


def whole(pair):
    return changed(pair), {}


def pruned(pair):
    """The source's log begins with a checkpoint."""
    changed(pair)
    pair.source.prune()
    return [pair.source.token, *written(pair, 2)], {}


def newest(pair):
    """What is past isn't wanted."""
    changed(pair)
    with pair.source.writer() as writer:
        writer.checkpoint()
    return [pair.source.token, *written(pair, 2)], {"history": False}


def later(pair):
    """The replica is there, and the source has gone on."""
    tokens = written(pair, 1) + written(pair, 1, "rome")
    pair.replicate()
    return tokens + changed(pair), {}


def rebuilt_later(pair):
    """The source was rebuilt since the replica was made."""
    changed(pair)
    pair.replicate()
    rebuilt(pair)
    return [pair.source.token, *written(pair, 2)], {}


def rebuilt_before(pair):
    changed(pair)
    rebuilt(pair)
    return [pair.source.token, *written(pair, 2)], {}


def objects(store):
    """Of the logs; not what a probe of the store left behind."""
    keys = [info.key for writer in WRITERS for info in store.list(f"{writer}/{D}/")]
    return dict(zip(keys, store.get_many(keys), strict=True))


def rows(world, token):
    """By table the rows at a point in time; None: the catalog has no such point."""
    try:
        snapshot = world.catalog.snapshot(D, token)
    except (NotACatalog, DatabaseNotFound, WriterNotFound, RevisionNotFound):
        return None
    tables = {table: snapshot.to_arrow(table).to_pylist() for table in snapshot.tables()}
    return {table: Counter(map(repr, found)) for table, found in tables.items()}


def check_mirror(store, *, missing):
    """Copies have the bytes of the log, and no more than so many of a log's are missing."""
    there = objects(store)
    lacking = Counter()
    for key, body in there.items():
        writer, database, name = key.split("/", 2)
        if not name.startswith("mirror/"):
            copy = there.get(f"{writer}/{database}/mirror/{name}")
            assert copy is None or copy == body
            lacking[writer] += copy is None and name.endswith(".transaction")
    assert max(lacking.values(), default=0) <= missing


def check_whole(pair, points):
    """What the replica has of the source's is the same, and all of it; its checkpoints are its own.
    What it has in its mirror suffices."""
    pair.same(pair.source.token)
    source, replica = objects(pair.source.store), objects(pair.copy.store)
    own = {key for key in replica if key.endswith((".transaction", ".parquet", ".deletes"))}
    assert {key: replica[key] for key in own} == {key: source[key] for key in own}
    check_mirror(pair.copy.store, missing=0)
    mirror = pair.world()
    for key, body in replica.items():
        if key.split("/")[2] not in ("transactions", "segments"):
            mirror.store.put(key, body)
    assert {token: rows(pair.copy, token) for token in points} == points
    assert {token: rows(mirror, token) for token in points} == points


@pytest.mark.slow("a replication for each of its requests that write")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "begin", [whole, pruned, newest, later, rebuilt_later, rebuilt_before], ids=lambda f: f.__name__
)
def test_stopped_at_each_request_that_writes(begin, after):
    pair = Pair()
    tokens, options = begin(pair)
    points = {token: rows(pair.source, token) for token in tokens}
    before = objects(pair.copy.store)
    stopped, requests = True, -(base_seed() % STEP)
    while stopped:
        requests += STEP
        pair.copy = pair.world()
        for key, body in before.items():
            pair.copy.store.put(key, body)
        catalog = pair.copy.catalog
        catalog.store = StoppingStore(pair.copy.store, requests, after=after)
        with contextlib.suppress(StorageError):  # of the probe
            replicate(pair.source.catalog, catalog, **options)
        stopped = catalog.store.left <= 0
        assert all(rows(pair.copy, token) in (None, points[token]) for token in tokens)
        check_mirror(pair.copy.store, missing=2)
        pair.replicate(**options)
        check_whole(pair, points)
    assert requests > 10
