"""The conformance suite on the servers that are built (`tests/servers/`).

That is fake-gcs-server, two gateways of versitygw before one folder, and s3proxy, whose listings
are in UTF-16 order. All in one process, so that each is started once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from lakelog.store import open_store
from test_conformance import *  # noqa: F403
from test_conformance_listing import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.store import Store


@pytest.fixture
def has_folders(request) -> bool:
    """Those before a folder keep its rules: a name is a file's or a folder's."""
    return "fake_gcs" not in request.node.name


@pytest.fixture
def missing(request, missing) -> list[str]:
    """s3proxy fails, with 500, where a key leads through an object."""
    return missing[:-1] if "s3proxy" in request.node.name else missing


@pytest.fixture
def opener(ways) -> Callable[[], Store]:
    """In the place of the suite's own: opens the root, by each way in turn."""
    turns = itertools.cycle(ways)
    return lambda: open_store(*next(turns))
