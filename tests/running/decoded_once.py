"""Decoding a segment is a pure function of its bytes: where thousands of logs hold the same ones,
each is decoded once, and the time goes to what differs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from lakelog.catalog.format import segment_bytes
from lakelog.catalog.log import checkpoint

assert checkpoint, "imported here, so that no module takes the function below for good"
_real = segment_bytes.decode_segment
KEPT = 4_096  # decoded segments, of a few rows each


@lru_cache(maxsize=KEPT)
def _decoded(data: bytes, said: tuple[Any, ...], columns: Any, exact: bool) -> Any:
    return _real(data, *said, columns=columns, exact=exact)


def decode_segment(
    data: memoryview | bytes, *said: Any, columns: Sequence[str] | None = None, exact: bool = False
) -> Any:
    """As the real one, whose errors are raised anew each time."""
    return _decoded(bytes(data), said, None if columns is None else tuple(columns), exact)


@contextmanager
def segments_decoded_once() -> Iterator[None]:
    """Let lakelog decode the same segment once only."""
    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("lakelog.") and vars(module).get("decode_segment") is _real
    ]
    for module in users:
        vars(module)["decode_segment"] = decode_segment
    try:
        yield
    finally:
        for module in users:
            vars(module)["decode_segment"] = _real
