"""A log that has lost its end looks whole, but for what lies below `data/`: what objects say of the
head, and what two lost transactions have to do with each other. Found by an adversary's programs.
"""

from __future__ import annotations

import pytest
from moving_lake import Lake, table


@pytest.fixture
def lake(catalog, fake):
    return Lake(catalog, fake)


def begun_before(does):
    """A transaction that was begun on a revision that stays, and what is lost with it."""

    def happen(lake, path):
        late = lake.owner.transaction()
        (lost,) = lake.write(3, 33)
        does(late, path, lost)
        lake.commit(late)

    return happen


HISTORIES = {
    "delete": begun_before(lambda tx, path, _: tx.delete("t", "n = 1", mode="predicate")),
    "removal": begun_before(lambda tx, path, _: tx.remove(path)),
    "rows of a lost file": begun_before(
        lambda tx, _, lost: tx.delete("t", "n = 3", mode="rows"),
    ),
    "replaced lost file": begun_before(
        lambda tx, _, lost: (tx.remove(lost), tx.write("t", table(3, 34))),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_an_end_that_is_lost_is_seen(lake, name):
    (path,) = lake.write(1, 10)
    lake.write(2)
    HISTORIES[name](lake, path)
    before = lake.rows()
    lake.lose(2, 3)
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before
