"""The modules of the independent reader stand beside the tests, outside of any package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from three_readers import GoReader, go_reader

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def maybe_go() -> Iterator[GoReader | None]:
    """The reader in Go; None where there is no Go. CI must have it."""
    try:
        with go_reader() as reader:
            yield reader
    except FileNotFoundError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error}: CI must hold the reader in Go against the others")
        yield None
