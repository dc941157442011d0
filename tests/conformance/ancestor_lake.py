"""The lake of the ancestor's tests: a log that can be damaged in every way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.format.objects import decode_transaction, encode_transaction
from lakelog.testing.keys import log_keys, revision_in

W, D, T = "EWR", "weather", "hourly"


def rows(number):
    return pa.table({"n": pa.array([number], pa.int64())})


class Lake:
    """A catalog with a log of one writer, and ways to break it."""

    def __init__(self, store):
        self.store = store
        self.catalog = Catalog(store)

    def writer(self, **options):
        return self.catalog.writer(W, D, checkpoint_every=0, **options)

    def commit(self, number, *remove):
        with self.writer() as writer, writer.transaction() as tx:
            for path in remove:
                tx.remove(path)
            return tx.write(T, rows(number))[0]

    def build(self, count=4, checkpoint_at=()):
        paths = []
        for number in range(count):
            paths.append(self.commit(number))
            if number in checkpoint_at:
                self.checkpoint()
        return paths

    def checkpoint(self):
        with self.writer() as writer:
            writer.checkpoint()

    def live(self, as_of=None):
        snapshot = self.catalog.snapshot(D, as_of)
        if T not in snapshot.tables():
            return []
        return sorted(snapshot.files(T).column("path").to_pylist())

    def log(self):
        """Keys of the log, oldest first."""
        return log_keys(self.store, writer=W, database=D)

    def key(self, revision, kind="transaction"):
        named = log_keys(self.store, kind, writer=W, database=D)
        (found,) = [key for key in named if revision_in(key) == revision]
        return found

    def put(self, key, body):
        """Stores an object of the log in both copies."""
        self.store.put(key, body)
        self.store.put(mirror_key(key), body)

    def lose(self, keys):
        """Deletes objects of the log from both copies."""
        self.store.delete([*keys, *map(mirror_key, keys)], ordered=False)

    def rewrite(self, revision, change):
        """Changes a transaction's message and frames it anew, digest and all, in both copies."""
        key = self.key(revision)
        decoded = decode_transaction(self.store.get(key), key)
        change(decoded.message)
        self.put(key, encode_transaction(decoded.log, decoded.message)[0])
        return key

    def refused(self, kind, key):
        with pytest.raises(kind) as caught:
            self.catalog.snapshot(D)
        assert type(caught.value) is kind
        assert caught.value.key == key
