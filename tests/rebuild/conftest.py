"""Stores and histories for the tests of footers and rebuild."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.rebuild import plan_rebuild
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.rebuild import RebuildPlan
    from lakelog.store import Store

sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return MemoryStore("test")


@pytest.fixture
def fake() -> FakeAmbient:
    """A clock that stands still, and identities from a seed."""
    return FakeAmbient()


@pytest.fixture
def catalog(store: Store, fake: FakeAmbient) -> Catalog:
    """A catalog on `store`, under the clock of `fake`."""
    return Catalog(store, ambient=fake.ambient)


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)])
def any_store(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Makes a fresh empty store of each backend, as often as it is called."""
    if request.param == "memory":
        return MemoryStore
    if request.param == "local":
        folder = request.getfixturevalue("tmp_path")
        return lambda: open_store(folder / secrets.token_hex(4))
    moto = request.getfixturevalue("moto")
    bucket = moto.make_bucket()
    return lambda: open_store(f"s3://{bucket}/{secrets.token_hex(4)}", moto.storage_options)


@pytest.fixture
def plan_of(store: Store, fake: FakeAmbient) -> Callable[..., RebuildPlan]:
    """Loses the log and plans its rebuild."""
    from rebuild_cases import lose_the_log

    def plan(**options: object) -> RebuildPlan:
        lose_the_log(store)
        return plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **options)

    return plan
