"""The backends that the conformance suite runs against; a new one is a function and a row."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from lakelog.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.store import Store
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


BACKENDS = [
    pytest.param(_memory, id="memory"),
    pytest.param(_local, id="local"),
    pytest.param(_s3, id="s3", marks=pytest.mark.s3),
]


@pytest.fixture(params=BACKENDS)
def opener(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Opens a store object on one empty root, as often as it is called."""
    return request.param(request)


@pytest.fixture
def store(opener: Callable[[], Store]) -> Store:
    """An empty store."""
    return opener()
