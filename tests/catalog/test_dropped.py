"""A transaction that is dropped with changes in it warns; one that was told of its end doesn't."""

from __future__ import annotations

import gc
import warnings

import pytest
from table_cases import table


def dropped(call):
    gc.collect()  # what tests before this one have left is theirs
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
        gc.collect()
    return [str(one.message) for one in caught if one.category is ResourceWarning]


def test_unwritten_changes_warn(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))

        def change():
            tx = writer.transaction()
            tx.remove(path)
            tx.write("t", table(2))

        (said,) = dropped(change)
    assert "w/db was dropped with 2 changes that nobody committed" in said
    assert "commit()" in said


def test_it_is_noticed_at_once(catalog):
    """Nothing that a transaction relies on holds it."""
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", table(1, 2, 3))
        tx = writer.transaction()
        tx.row_delta("t", table(4), "a = 2", mode="predicate")
        gc.collect()
        gc.disable()
        try:
            with pytest.warns(ResourceWarning, match="nobody committed"):
                del tx
        finally:
            gc.enable()


@pytest.mark.parametrize("end", ["nothing", "commit", "discard", "block", "exception"])
def test_what_came_to_an_end_is_silent(catalog, end):
    writer = catalog.writer("w", "db")

    def call():
        tx = writer.transaction()
        if end == "nothing":
            return
        if end in ("block", "exception"):
            try:
                with tx:
                    tx.write("t", table(1))
                    if end == "exception":
                        raise KeyError
            except KeyError:
                pass
            return
        tx.write("t", table(1))
        getattr(tx, end)()

    assert dropped(call) == []
    writer.close()
