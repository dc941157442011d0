"""Settings and fixtures of the core's tests.

`LAKELOG_EXAMPLES=5000 pytest tests/catalog` runs the property tests longer, on fresh seeds.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from lakelog.catalog.catalog import Catalog
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.store import Store

_EXAMPLES = os.environ.get("LAKELOG_EXAMPLES")
settings.register_profile(
    "lakelog",
    max_examples=int(_EXAMPLES or 40),
    derandomize=_EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("lakelog")


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
