"""The backends that the conformance suite runs against; a new one is a function and a row."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakelog.errors import MissingDependency
from lakelog.store import open_store
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.cloud_servers import azurite, fake_gcs_server
from lakelog.testing.fault_proxy import fault_proxy
from lakelog.testing.servers import s3proxy_server, versitygw_server

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


def started(stack: contextlib.ExitStack, what: str, server: Any) -> Any:
    """A server for as long as the stack is open. Without it what it is for is skipped, loudly, and
    fails in CI."""
    try:
        return stack.enter_context(server)
    except MissingDependency as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{what} IS NOT TESTED: {error}")


@pytest.fixture(scope="session")
def azure() -> Iterator[CloudServer]:
    with contextlib.ExitStack() as stack:
        yield started(stack, "AZURE", azurite())


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[CloudServer]:
    """Google Cloud Storage, with put-if-absent."""
    with contextlib.ExitStack() as stack:
        yield started(stack, "GOOGLE CLOUD STORAGE", fake_gcs_server())


@pytest.fixture(scope="session")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[S3Server]]:
    """Two S3 servers with put-if-absent, before one folder: what holds must hold between them."""
    folder = tmp_path_factory.mktemp("gateways")
    with contextlib.ExitStack() as stack:
        yield [started(stack, "VERSITYGW", versitygw_server(folder)) for _ in range(2)]


@pytest.fixture(scope="session")
def s3proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """S3 with put-if-absent, that lists in UTF-16 order."""
    with contextlib.ExitStack() as stack:
        yield started(stack, "S3PROXY", s3proxy_server(tmp_path_factory.mktemp("s3proxy")))


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
    # The servers that are built are in test_built_servers.py, together.
]


@pytest.fixture(params=BACKENDS)
def opener(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Opens a store object on one empty root, as often as it is called."""
    return request.param(request)


@pytest.fixture
def store(opener: Callable[[], Store]) -> Store:
    """An empty store."""
    return opener()


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest) -> Callable[[str], list[tuple[str, dict]]]:
    """By the name of a server, each way to one bucket of it: the URL and the options."""
    buckets: dict[str, str] = {}

    def ways(name: str) -> list[tuple[str, dict]]:
        found = request.getfixturevalue(name)
        servers = found if isinstance(found, list) else [found]
        bucket = buckets.setdefault(name, "") or servers[0].make_bucket()
        buckets[name] = bucket
        scheme = "gs" if name == "fake_gcs" else "s3"
        return [(f"{scheme}://{bucket}", server.storage_options) for server in servers]

    return ways


@pytest.fixture(params=["fake_gcs", "gateways", "s3proxy"])
def ways(
    request: pytest.FixtureRequest, places: Callable[[str], list[tuple[str, dict]]]
) -> list[tuple[str, dict]]:
    """Each way to one new root on a server."""
    root = secrets.token_hex(6)
    return [(f"{url}/{root}", options) for url, options in places(request.param)]


@pytest.fixture
def has_folders(store: Store) -> bool:
    """Whether a name can't be an object's and a folder's at once."""
    return store.backend == "file"


@pytest.fixture
def missing() -> list[str]:
    """Keys of which none is there, beside `w/there`."""
    return ["missing", "w/missing", "w/db/deep/missing", "w", "w/there/below"]


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
