"""A catalog that loses revisions and is rebuilt, again and again."""

from __future__ import annotations

import pyarrow as pa
from lakelog.rebuild import execute_rebuild, plan_rebuild


def table(*numbers):
    return pa.table({"n": [*numbers]})


class Lake:
    """A catalog of one writer, on a clock that moves with each commit."""

    def __init__(self, catalog, fake):
        self.catalog, self.fake = catalog, fake
        self.owner = self.open()

    def open(self):
        return self.catalog.writer("w", "db", checkpoint_every=0)

    def do(self, does):
        tx = self.owner.transaction()
        found = does(tx)
        self.commit(tx)
        return found

    def write(self, *numbers):
        return self.do(lambda tx: tx.write("t", table(*numbers)))

    def commit(self, *several):
        for tx in several:
            self.fake.move(1)
            tx.commit()

    def rebuild(self, **options):
        self.fake.move(1)
        self.owner.close()
        plan = plan_rebuild(self.catalog, "w", "db", ambient=self.fake.ambient, **options)
        execute_rebuild(self.catalog, plan, ambient=self.fake.ambient)
        self.owner = self.open()
        return plan

    def rows(self):
        return sorted(self.catalog.snapshot("db").to_arrow("t").column("n").to_pylist())

    def names(self):
        return [info.key for info in self.catalog.store.list("w/db/transactions/")]

    def lose(self, *revisions):
        """Transactions of the log in use, and its checkpoints; all of it for none."""
        names = self.names()
        top = names[0].rsplit("/", 1)[-1][:3]
        ours = [name for name in names if f"/{top}-" in name]
        lost = tuple(f"-{revision}." for revision in revisions)
        gone = [
            n
            for n in ours
            if n.endswith("checkpoint") or not lost or any(one in n[20:] for one in lost)
        ]
        self.catalog.store.delete(gone)
