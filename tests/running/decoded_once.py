"""Decoding is a pure function of bytes: where thousands of logs hold the same segments, and many
processes read one log, each object is decoded once, and the time goes to what differs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from lakelog.catalog.format import names, objects, references, schema, segment_bytes
from lakelog.catalog.log import checkpoint, history, known_schemas

assert checkpoint, "imported here, so that no module takes the functions below for good"
KEPT = 4_096  # decoded segments, of a few rows each; and as many of each kind of object


def _object(real: Callable[..., Any]) -> Callable[..., Any]:
    """As the real one, whose errors are raised anew each time."""
    kept = lru_cache(maxsize=KEPT)(real)
    return lambda data, key: kept(bytes(data), key)


def _segment(real: Callable[..., Any]) -> Callable[..., Any]:
    @lru_cache(maxsize=KEPT)
    def kept(data: bytes, said: tuple[Any, ...], columns: Any, exact: bool) -> Any:
        return real(data, *said, columns=columns, exact=exact)

    def decode_segment(
        data: Any, *said: Any, columns: Sequence[str] | None = None, exact: bool = False
    ) -> Any:
        return kept(bytes(data), said, None if columns is None else tuple(columns), exact)

    return decode_segment


def _references(real: Callable[..., Any]) -> Callable[..., Any]:
    @lru_cache(maxsize=KEPT)
    def kept(data: bytes, rows: int, attachments: bytes, *said: str) -> Any:
        return real(data, rows, memoryview(attachments), *said)

    return lambda data, rows, attachments, *said: kept(bytes(data), rows, bytes(attachments), *said)


def _by_values(real: Callable[..., Any]) -> Callable[..., Any]:
    """As the real one, whose arguments are values already."""
    return lru_cache(maxsize=KEPT)(real)


def _schema(real: Callable[..., Any]) -> Callable[..., Any]:
    kept = lru_cache(maxsize=KEPT)(real)
    return lambda message, generations=(): kept(bytes(message), tuple(generations))


def _schemas(real: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[tuple[Any, ...], Any] = {}

    def decode_schemas(data: Any, piece: Any, newest: int, *, exact: bool = False) -> Any:
        said = piece.segment.SerializeToString(deterministic=True)
        asked = (bytes(data), said, piece.rows, piece.where, newest, exact)
        if asked not in kept:
            if len(kept) >= KEPT:
                kept.clear()
            kept[asked] = real(data, piece, newest, exact=exact)
        return kept[asked]

    return decode_schemas


def _row(real: Callable[..., Any]) -> Callable[..., Any]:
    """Of a transaction; its digest alone may lie, where a planted bug doesn't look at it."""
    kept: dict[tuple[bytes, bytes], Any] = {}

    def transaction_row(found: Any) -> Any:
        asked = (found.digest, found.message.SerializeToString())
        if asked not in kept:
            if len(kept) >= KEPT:
                kept.clear()
            kept[asked] = real(found)
        return dict(kept[asked])

    return transaction_row


_ONCE = {
    real: once(real)
    for real, once in [
        (names.parse_log_object, _by_values),
        (schema.decode_schema, _schema),
        (known_schemas.decode_schemas, _schemas),
        (history.transaction_row, _row),
        (segment_bytes.decode_segment, _segment),
        (references.decode_references, _references),
        (objects.decode_transaction, _object),
        (objects.decode_checkpoint, _object),
    ]
}


@contextmanager
def decoded_once() -> Iterator[None]:
    """Let lakelog decode the same object or segment once only."""
    places = [
        (vars(module), real.__name__, real)
        for name, module in list(sys.modules.items())
        if name.startswith("lakelog.")
        for real in _ONCE
        if vars(module).get(real.__name__) is real
    ]
    for found, name, real in places:
        found[name] = _ONCE[real]
    try:
        yield
    finally:
        for found, name, real in places:
            found[name] = real
