"""Fixtures of the core's tests."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from collections.abc import Callable

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
