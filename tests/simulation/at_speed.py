"""Histories at speed: what a process would do once, and again in each of thousands of histories,
is done once; and footers are read without a child process if this process wrote them. Others may be
damaged, and end the process that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from unittest import mock

from decoded_once import decoded_once
from lakelog.catalog.data import parquet
from lakelog.catalog.data.footers.parse import (
    NotParquet,
    ParsedFooter,
    decode_parsed,
    encode_parsed,
    parse_footer,
)
from lakelog.catalog.data.footers.pool import FooterPool

_OWN: set[bytes] = set()
_by_child = FooterPool.parse
_digest_of = parquet.footer_digest


def _noted(footer: bytes) -> bytes:
    """`footer_digest`, of files that are written, and of those that are read without harm."""
    digest = _digest_of(footer)
    _OWN.add(digest)
    return digest


@lru_cache(maxsize=1_024)
def _parsed(tail: bytes, size_bytes: int) -> bytes:
    try:
        return encode_parsed(parse_footer(tail, size_bytes))
    except Exception as error:  # as the child says it
        raise NotParquet(str(error) or type(error).__name__) from error


def _parse(pool: FooterPool, tail: bytes, size_bytes: int) -> ParsedFooter:
    if _digest_of(tail) not in _OWN:
        return _by_child(pool, tail, size_bytes)
    return decode_parsed(_parsed(bytes(tail), size_bytes))


@contextmanager
def at_speed() -> Iterator[None]:
    """Until it ends, for histories alone."""
    with (
        decoded_once(),
        mock.patch.object(parquet, "footer_digest", _noted),
        mock.patch.object(FooterPool, "parse", _parse),
        mock.patch.object(FooterPool, "start", return_value=None),
    ):
        yield
    _parsed.cache_clear()
