"""A process that replicates until it is done or killed: `child.py SOURCE DESTINATION DELAY_S`.
Each put waits a little, so that a death finds something under way."""

from __future__ import annotations

import sys
import time

from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.replication import replicate
from lakelog.store import open_store
from lakelog.testing.doubles import PassingStore


class Slow(PassingStore):
    def __init__(self, store, delay_s):
        super().__init__(store)
        self.delay_s = delay_s

    def put(self, key, body, *, if_absent=False):
        time.sleep(self.delay_s)
        super().put(key, body, if_absent=if_absent)

    def server_time(self):
        return self.inner.server_time()


if __name__ == "__main__":
    source, destination, delay_s = sys.argv[1:]
    print("ready", flush=True)
    replicated = replicate(
        open_catalog(source), Catalog(Slow(open_store(destination), float(delay_s)))
    )
    print("errors", len(replicated.errors), flush=True)
