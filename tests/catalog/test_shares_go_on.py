"""A transaction that one process begins, others write, and another one commits."""

from __future__ import annotations

import pickle

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.distributed_write import Sharing, begun, go_on
from lakelog.errors import EpochChanged, FencedError
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from share_cases import described, numbers, rebuilt, rows, task, written


@pytest.fixture
def ambient():
    return FakeAmbient().ambient


@pytest.fixture
def catalog(ambient):
    return Catalog(MemoryStore("shares"), ambient=ambient)


def begin(catalog, *tables, shared=False, app=(None, None), **options):
    """As in the process that plans: what it sends on."""
    with catalog.writer("w", "db", shared=shared) as writer:
        tx = writer.transaction(*app)
        sharing = Sharing(tx, "t", tables[0].schema, **options)
        parts = [task(catalog, sharing, each, at) for at, each in enumerate(tables)]
        sent = begun(writer, tx)
        tx.discard()
    return pickle.loads(pickle.dumps(sent)), parts


def end(catalog, sent, parts, schema, *, shared=False, app=(None, None), **options):
    with catalog.writer("w", "db", shared=shared) as writer:
        tx = go_on(writer, sent, *app)
        Sharing(tx, "t", schema, **options).finish(parts)
        return tx.commit()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("options", "stay"),
    [({}, [0, 5]), ({"overwrite": True}, []), ({"overwrite": True, "where": "n < 2"}, [5])],
)
def test_a_transaction_goes_on_elsewhere(catalog, ambient, options, stay, shared, first):
    if first:
        written(catalog, rows(0, 5))
    sent, parts = begin(catalog, rows(1), shared=shared, **options)
    info = end(catalog, sent, parts, rows().schema, shared=shared, **options)
    assert info.transaction_id == sent.transaction_id.hex()
    assert numbers(catalog) == sorted([1, *(stay if first else [])])
    written(catalog, rows(8))  # what it was begun on is proven by that
    assert described(rebuilt(catalog, ambient)) == described(catalog)


@pytest.mark.parametrize("before", [0, 1])
def test_an_owner_that_came_between_fences_it(catalog, before):
    for at in range(before):
        written(catalog, rows(at))
    sent, parts = begin(catalog, rows(1))
    written(catalog, rows(7))
    with pytest.raises(FencedError, match="epoch"):
        end(catalog, sent, parts, rows().schema)
    assert numbers(catalog) == [*range(before), 7]


def test_an_owner_that_came_between_turns_a_guest_away(catalog):
    written(catalog, rows(0))
    sent, parts = begin(catalog, rows(1), shared=True)
    written(catalog, rows(7))
    with pytest.raises(EpochChanged):
        end(catalog, sent, parts, rows().schema, shared=True)
    assert numbers(catalog) == [0, 7]


def test_what_a_guest_commits_between_stays(catalog):
    written(catalog, rows(0))
    sent, parts = begin(catalog, rows(1), shared=True)
    with catalog.writer("w", "db", shared=True) as guest, guest.transaction() as tx:
        tx.write("t", rows(7))
    end(catalog, sent, parts, rows().schema, shared=True)
    assert numbers(catalog) == [0, 1, 7]


def test_a_version_that_was_committed_between_is_skipped(catalog):
    written(catalog, rows(0))
    sent, parts = begin(catalog, rows(1), shared=True, app=("job", 1))
    with catalog.writer("w", "db", shared=True) as guest, guest.transaction("job", 1) as tx:
        tx.write("t", rows(1))
    info = end(catalog, sent, parts, rows().schema, shared=True, app=("job", 1))
    assert info.skipped
    assert numbers(catalog) == [0, 1]
