"""Fixtures of the core's tests."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log import checkpoint_files
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from lakelog.testing.keys import drop_mirror, log_keys
from lakelog.testing.logs import LogBuilder, add_action, schema_action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakelog.store import Store

sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them


@pytest.fixture
def fake() -> FakeAmbient:
    """A clock that stands still, and identities from a seed."""
    return FakeAmbient()


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return MemoryStore("test")


@pytest.fixture
def catalog(store: Store, fake: FakeAmbient) -> Catalog:
    """A catalog on `store`, under the clock of `fake`."""
    return Catalog(store, ambient=fake.ambient)


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)])
def any_catalog(request: pytest.FixtureRequest) -> Callable[[], Catalog]:
    """Opens a catalog on one empty root of each backend, as often as it is called."""
    if request.param == "memory":
        root = MemoryStore("any")
        return lambda: Catalog(root)
    if request.param == "local":
        folder = request.getfixturevalue("tmp_path") / "root"
        return lambda: Catalog(open_store(folder))
    moto = request.getfixturevalue("moto")
    url = f"s3://{moto.make_bucket()}/root-{secrets.token_hex(4)}"
    return lambda: Catalog(open_store(url, moto.storage_options))


@pytest.fixture
def spilling() -> Iterator[None]:
    """Every segment becomes an object of its own."""
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0):
        yield


# --- Logs without a store -------------------------------------------------------------------------


@pytest.fixture
def log() -> LogBuilder:
    """A log whose first commit makes the schema known."""
    built = LogBuilder()
    built.commit(schema_action())
    return built


@pytest.fixture
def longer(log: LogBuilder) -> LogBuilder:
    """`log` and two commits more, of a file each."""
    log.commit(add_action("data/a"))
    log.commit(add_action("data/b"))
    return log


@pytest.fixture
def spilled_log(spilling: None) -> LogBuilder:
    """Three tables, a checkpoint a commit of each, every piece an object; a short tail."""
    from lazy_cases import three_tables

    return three_tables()


# --- Logs in `store` ------------------------------------------------------------------------------


@pytest.fixture
def six_commits(catalog: Catalog, store: Store, fake: FakeAmbient) -> list[str]:
    """A log of six commits, a second apart, without a mirror; returns the keys of its
    transactions."""
    from damaged_logs import COUNT

    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for value in range(COUNT):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [value]}))
            fake.move(1)
    drop_mirror(store)
    return log_keys(store)


@pytest.fixture
def catalog_of_two(catalog: Catalog, fake: FakeAmbient) -> Catalog:
    """Two writers that commit in turn, a second apart: A at 0, 2, 4 and B at 1, 3, 5."""
    writers = {name: catalog.writer(name, "db") for name in ("A", "B")}
    for step in range(6):
        with writers["AB"[step % 2]].transaction() as tx:
            tx.write("t", pa.table({"a": [step]}))
        fake.move(1)
    return catalog


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder outside of the lake, with three files."""
    from in_place_cases import parquet

    folder = tmp_path / "out"
    for number in range(3):
        parquet(folder / f"x{number}.parquet", number, number + 10)
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    """An empty lake on disk."""
    return Catalog(open_store(tmp_path / "lake"))


@pytest.fixture
def in_place(lake: Catalog, out: Path) -> Catalog:
    """That lake with a file of its own and two elsewhere, in partitions."""
    with lake.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [100]}))
        tx.add("t", str(out / "x0.parquet"), "p=0")
        tx.add("t", f"file://{out}/x1.parquet", "p=1")
    return lake
