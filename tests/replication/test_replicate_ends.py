"""Which end an error is about, and whether both ends are one place."""

from __future__ import annotations

import pytest
from lakelog.errors import CorruptObject, LakelogError, MissingTransaction
from lakelog.replication import replicate
from replica_cases import Pair, written

KINDS = [{}, {"tables": ["hourly"]}]


@pytest.fixture
def pair():
    return Pair()


def lose(store, keys):
    store.delete([keys[1]])


def damage(store, keys):
    store.put(keys[0], store.get(keys[0])[:-1] + b"?")


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize(("harm", "kind"), [(lose, MissingTransaction), (damage, CorruptObject)])
def test_a_damaged_replica_is_told_as_the_destinations_and_made_anew(pair, harm, kind, options):
    for _ in range(3):
        written(pair, 1)
        pair.replicate(**options)
    pair.copy.store.delete(pair.objects(".checkpoint"))
    harm(pair.copy.store, pair.objects(".transaction"))
    (error,) = replicate(pair.source.catalog, pair.copy.catalog, **options).errors
    assert isinstance(error, kind)
    assert "At the destination: " in str(error)
    assert "delete oslo/weather/ at the destination" in str(error)
    pair.copy.store.delete([info.key for info in pair.copy.store.list("oslo/weather/")])
    pair.replicate(**options)
    assert pair.copy.rows() == pair.source.rows()


def test_a_damaged_source_is_not_told_as_the_destinations(pair):
    written(pair, 1)
    pair.replicate()
    written(pair, 3)
    lose(pair.source.store, pair.objects(".transaction", pair.source))
    pair.source.store.delete(pair.objects(".checkpoint", pair.source))
    (error,) = replicate(pair.source.catalog, pair.copy.catalog).errors
    assert isinstance(error, LakelogError)
    assert "destination" not in str(error)
