"""Many guests that read a value and write it back at once: no step of any of them is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.errors import OperationConflict

GUESTS, STEPS = 4, 4


def rows(who, value):
    return pa.table({"who": [who], "value": [value]})


def count(store, own):
    """Add one to the common counter, and to this guest's own, so often."""
    catalog, refused = Catalog(store), 0
    writer = catalog.writer("w", "db", shared=True, checkpoint_every=3)
    for _ in range(STEPS):
        while True:
            tx = writer.transaction()
            found = dict(
                zip(*catalog.snapshot("db").to_arrow("t").to_pydict().values(), strict=True)
            )
            try:
                tx.overwrite("t", rows("all", found["all"] + 1), "who = 'all'")
                tx.overwrite("t", rows(own, found[own] + 1), f"who = '{own}'")
                tx.commit()
                break
            except OperationConflict:
                tx.discard()
                refused += 1
    writer.close()
    return refused


def test_no_step_of_a_counter_is_lost(store):
    owner = Catalog(store).writer("w", "db", checkpoint_every=0)
    names = [f"guest {number}" for number in range(GUESTS)]
    with owner.transaction() as tx:
        for name in ("all", *names):
            tx.append("t", rows(name, 0))
    with ThreadPoolExecutor(GUESTS) as pool:
        refused = list(pool.map(lambda own: count(store, own), names))
    found = Catalog(store).snapshot("db").to_arrow("t").to_pylist()
    values = sorted((row["who"], row["value"]) for row in found)
    assert values == [("all", GUESTS * STEPS), *((name, STEPS) for name in names)]
    assert sum(refused), "nobody met anybody: the test proves nothing"
