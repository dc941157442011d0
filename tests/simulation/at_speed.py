"""Histories at speed: what a process would do once, and again in each of thousands of histories,
is done once; and footers, all of them lakelog's own and whole, are read without a child process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

from decoded_once import decoded_once
from lakelog.catalog.data.footers.parse import (
    NotParquet,
    ParsedFooter,
    decode_parsed,
    encode_parsed,
    parse_footer,
)
from lakelog.catalog.data.footers.pool import FooterPool


@lru_cache(maxsize=1_024)
def _parsed(tail: bytes, size_bytes: int) -> bytes:
    try:
        return encode_parsed(parse_footer(tail, size_bytes))
    except Exception as error:  # as the child says it
        raise NotParquet(str(error) or type(error).__name__) from error


def _parse(_: Any, tail: bytes, size_bytes: int) -> ParsedFooter:
    return decode_parsed(_parsed(bytes(tail), size_bytes))


@contextmanager
def at_speed() -> Iterator[None]:
    """Until it ends, for histories alone."""
    with (
        decoded_once(),
        mock.patch.object(FooterPool, "parse", _parse),
        mock.patch.object(FooterPool, "start", return_value=None),
    ):
        yield
