"""The backends that the conformance suite runs against; a new one is a function and a row."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelog.errors import MissingDependency
from lakelog.store import open_store
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.cloud_servers import azurite
from lakelog.testing.fault_proxy import fault_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakelog.store import Store
    from lakelog.testing.cloud_servers import CloudServer
    from lakelog.testing.fault_proxy import FaultProxy
    from lakelog.testing.servers import S3Server

sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them


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


# --- One backend, behind what a test does to it ---------------------------------------------------


@pytest.fixture
def s3_proxy(moto: S3Server) -> Iterator[FaultProxy]:
    """A proxy before the S3 server, that answers with faults if a test gives it a rule."""
    with fault_proxy(moto.endpoint_url) as running:
        yield running


@pytest.fixture
def s3_store(moto: S3Server, moto_bucket: str, s3_proxy: FaultProxy) -> Store:
    """An empty store on S3 behind `s3_proxy`; it waits only briefly before it tries again."""
    options = moto.storage_options | {"endpoint_url": s3_proxy.endpoint_url}
    store = open_store(f"s3://{moto_bucket}/faults/{secrets.token_hex(6)}", options)
    store.policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.05)
    return store


@pytest.fixture
def local_store(tmp_path: Path) -> Store:
    """A local store in the folder `down`, with one object."""
    store = open_store(tmp_path / "down")
    store.put("w/db/a", b"1")
    return store
