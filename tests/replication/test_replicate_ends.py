"""Which end an error is about, and whether both ends are one place."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import open_catalog
from lakelog.catalog.format.names import log_folder, mirror_key
from lakelog.errors import CorruptObject, LakelogError, LogLost, MissingTransaction, UsageError
from lakelog.replication import replicate
from lakelog.replication.replicate import refuse_one_place
from replica_cases import Pair, written

KINDS = [{}, {"tables": ["hourly"]}]


@pytest.fixture
def pair():
    return Pair()


def lose(store, keys):
    store.delete([keys[1], mirror_key(keys[1])])


def damage(store, keys):
    for key in (keys[0], mirror_key(keys[0])):
        body = store.get(key)
        store.put(key, body[:-1] + bytes([body[-1] ^ 1]))


def transactions(pair, world):
    return [key for key in pair.objects(".transaction", world) if "/mirror/" not in key]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize(("harm", "kind"), [(lose, MissingTransaction), (damage, CorruptObject)])
def test_a_damaged_replica_is_told_as_the_destinations_and_made_anew(pair, harm, kind, options):
    for _ in range(3):
        written(pair, 1)
        pair.replicate(**options)
    pair.copy.store.delete(pair.objects(".checkpoint"))
    harm(pair.copy.store, transactions(pair, pair.copy))
    (error,) = replicate(pair.source.catalog, pair.copy.catalog, **options).errors
    assert isinstance(error, kind)
    assert "At the destination: " in str(error)
    assert "delete oslo/weather/ at the destination" in str(error)
    pair.copy.store.delete([info.key for info in pair.copy.store.list("oslo/weather/")])
    pair.replicate(**options)
    assert pair.copy.rows() == pair.source.rows()


def test_a_log_of_chosen_tables_that_was_lost_is_told_as_the_destinations(pair):
    for number in range(3):
        pair.source.write(number, table="t")
        pair.replicate(tables=["t"])
        pair.source.take_out(
            *pair.source.catalog.snapshot("weather").files("t")["path"].to_pylist()
        )
    pair.replicate(tables=["t"])
    lost = [info.key for info in pair.copy.store.list(log_folder("oslo", "weather"))]
    pair.copy.store.delete(lost)
    pair.source.write(9, table="t")
    (error,) = replicate(pair.source.catalog, pair.copy.catalog, tables=["t"]).errors
    assert isinstance(error, LogLost)
    assert "At the destination: " in str(error)
    assert "delete oslo/weather/ at the destination" in str(error)
    pair.copy.store.delete([info.key for info in pair.copy.store.list("oslo/weather/")])
    pair.replicate(tables=["t"])
    assert pair.copy.rows("t") == [9]


def test_a_damaged_source_is_not_told_as_the_destinations(pair):
    written(pair, 1)
    pair.replicate()
    written(pair, 3)
    lose(pair.source.store, transactions(pair, pair.source))
    pair.source.store.delete(pair.objects(".checkpoint", pair.source))
    (error,) = replicate(pair.source.catalog, pair.copy.catalog).errors
    assert isinstance(error, LakelogError)
    assert "destination" not in str(error)


S3, AZURE = "s3://lake/catalog", "az://lake/catalog"
ONE = {"endpoint_url": "http://one:9000"}
CONNECTION = "DefaultEndpointsProtocol=https;AccountName=one;AccountKey=a2V5;"
PLACES = [
    (S3, ONE, {**ONE, "key": "somebody", "secret": "else"}, True),
    (S3, ONE, {"client_kwargs": {"endpoint_url": "HTTP://one:9000/", "region_name": "x"}}, True),
    (S3, ONE, {"endpoint_url": "http://two:9000"}, False),
    (S3, ONE, {}, False),
    (S3, {}, {"profile": "other", "anon": True}, True),
    (AZURE, {"account_name": "one"}, {"account_name": "one", "account_key": "a2V5"}, True),
    (AZURE, {"account_name": "one"}, {"account_name": "two"}, False),
    (AZURE, {"account_name": "one"}, {"connection_string": CONNECTION}, True),
    (AZURE, {"account_name": "two"}, {"connection_string": CONNECTION}, False),
]


@pytest.mark.parametrize(("url", "source", "destination", "refused"), PLACES)
def test_one_place_is_one_of_one_server(url, source, destination, refused):
    ends = open_catalog(url, source), open_catalog(f"{url}/copy", destination)
    if not refused:
        refuse_one_place(*ends)
        return
    with pytest.raises(UsageError, match="one place"):
        refuse_one_place(*ends)


def test_options_make_no_other_place_of_a_folder(tmp_path):
    ends = open_catalog(str(tmp_path)), open_catalog(str(tmp_path), ONE)
    with pytest.raises(UsageError, match="one place"):
        refuse_one_place(*ends)
