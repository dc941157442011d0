"""A catalog can't begin inside another one."""

from __future__ import annotations

import secrets

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import NestedCatalog, UsageError
from lakelog.store import open_store

ROWS = pa.table({"a": [1]})


def commit(url, options=None, writer_id="w1", database="db"):
    with (
        lakelog.open_catalog(url, options).writer(writer_id, database) as writer,
        writer.transaction() as tx,
    ):
        tx.write("t", ROWS)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def outer(request, tmp_path):
    """The URL of a catalog, and its storage options."""
    if request.param == "local":
        url, options = str(tmp_path / "lake"), None
    else:
        moto = request.getfixturevalue("moto")
        url, options = f"s3://{moto.make_bucket()}/some/lake", moto.storage_options
    commit(url, options)
    return url, options


@pytest.mark.parametrize("below", ["db", "db/data", "db/data/_/t", "db/data/new/x/y", "db/other"])
def test_inside_a_writers_prefix_no_catalog_begins(outer, below):
    url, options = outer
    with pytest.raises(NestedCatalog, match=r"below w1/db/ of \S*lake\. ") as caught:
        commit(f"{url}/w1/{below}", options, "inner")
    assert isinstance(caught.value, UsageError)
    assert caught.value.key == f"{url}/w1/{below}"
    store = open_store(url, options)
    assert not [info.key for info in store.list("w1/") if "/inner/" in info.key]


@pytest.mark.slow("20 writers are opened, each with a probe and a commit, on a test server")
def test_beside_it_and_with_such_names_catalogs_begin(outer):
    url, options = outer
    parent = url.rpartition("/")[0]
    for place in ("other", "data", "data/data", "transactions", "transactions/data"):
        root = f"{parent}/{secrets.token_hex(2)}/{place}"
        for writer_id in ("data", "transactions", "w"):
            commit(root, options, writer_id, "transactions")
        commit(root, options, "w", "data")
        assert lakelog.open_catalog(root, options).databases() == ["data", "transactions"]


def test_a_catalog_that_is_there_already_goes_on(tmp_path):
    """What was begun before lakelog looked for this must stay usable, to be moved elsewhere."""
    inner = tmp_path / "lake" / "w1" / "db"
    commit(str(inner), None, "inner")
    commit(str(tmp_path / "lake"))
    commit(str(inner), None, "inner")
    with pytest.raises(NestedCatalog):
        commit(str(inner), None, "second")


def test_a_store_knows_the_places_above_it(tmp_path):
    store = open_store(tmp_path / "a" / "b")
    assert store.above(1).url == str(tmp_path / "a")
    assert store.above(2).url == str(tmp_path)
    assert store.above(100) is None
    assert open_store("/").above(1) is None or open_store("/").above(1).url == "/"
    remote = open_store("s3://bucket/a/b")
    assert remote.above(1).url == "s3://bucket/a"
    assert remote.above(2).url == "s3://bucket"
    assert remote.above(3) is None
    assert open_store("memory://a/b").above(1) is None
