"""The backends that the conformance suite runs against; a new one is a function and a row."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

import pytest
from lakelog.errors import MissingDependency
from lakelog.store import open_store
from lakelog.testing.cloud_servers import azurite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakelog.store import Store
    from lakelog.testing.cloud_servers import CloudServer
    from lakelog.testing.servers import S3Server


@pytest.fixture(scope="session")
def moto_bucket(moto: S3Server) -> str:
    return moto.make_bucket()


def _memory(request: pytest.FixtureRequest) -> Callable[[], Store]:
    url = f"memory://{secrets.token_hex(8)}"
    return lambda: open_store(url)


def _local(request: pytest.FixtureRequest) -> Callable[[], Store]:
    root = request.getfixturevalue("tmp_path") / "not yet there" / "root"
    return lambda: open_store(root)


def _s3(request: pytest.FixtureRequest) -> Callable[[], Store]:
    moto = request.getfixturevalue("moto")
    bucket = request.getfixturevalue("moto_bucket")
    url = f"s3://{bucket}/roots/{secrets.token_hex(8)}"
    return lambda: open_store(url, moto.storage_options)


@pytest.fixture(scope="session")
def azure() -> Iterator[CloudServer]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(azurite())
        except MissingDependency as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"AZURE IS NOT TESTED, for there is no npm: {error}")
        yield server


@pytest.fixture(scope="session")
def azure_bucket(azure: CloudServer) -> str:
    return azure.make_bucket()


def _azure(request: pytest.FixtureRequest) -> Callable[[], Store]:
    azure = request.getfixturevalue("azure")
    url = f"az://{request.getfixturevalue('azure_bucket')}/roots/{secrets.token_hex(8)}"
    return lambda: open_store(url, azure.storage_options)


BACKENDS = [
    pytest.param(_memory, id="memory"),
    pytest.param(_local, id="local"),
    pytest.param(_s3, id="s3", marks=pytest.mark.s3),
    pytest.param(_azure, id="azure"),
    # Google's emulator ignores put-if-absent and crashes on empty bodies: see test_gcs_store.py.
]


@pytest.fixture(params=BACKENDS)
def opener(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Opens a store object on one empty root, as often as it is called."""
    return request.param(request)


@pytest.fixture
def store(opener: Callable[[], Store]) -> Store:
    """An empty store."""
    return opener()
