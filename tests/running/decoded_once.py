"""Decoding is a pure function of bytes: where thousands of logs hold the same segments, and many
processes read one log, each object is decoded once, and the time goes to what differs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
from lakelog.catalog.format import columns, names, objects, pieces, schema, segments
from lakelog.catalog.log import checkpoint, history, known_schemas, part
from lakelog.errors import LakelogError

assert checkpoint, "imported here, so that no module takes the functions below for good"
KEPT = 4_096  # decoded segments, of a few rows each; and as many of each kind of object
FEW = 16  # values, which are one key
SIMPLE = {kind.id for kind in (pa.int32(), pa.int64(), pa.string(), pa.bool_())}


def _object(real: Callable[..., Any]) -> Callable[..., Any]:
    """As the real one, whose errors are raised anew each time."""
    kept = lru_cache(maxsize=KEPT)(real)
    return lambda data, key: kept(bytes(data), key)


def _segment(real: Callable[..., Any]) -> Callable[..., Any]:
    """As the real one. What is whole and exact is so for whoever asks for less of it; where it
    lies is only told in errors, and these are of the real one."""

    @lru_cache(maxsize=KEPT)
    def kept(data: bytes, kind: int, rows: int) -> Any:
        return real(data, kind, rows, "a segment", exact=True)

    def decode_segment(
        data: Any, kind: int, rows: int, key: str, *,
        columns: Sequence[str] | None = None, exact: bool = False,
    ) -> Any:  # fmt: skip
        body = bytes(data)
        try:
            table = kept(body, kind, rows)
        except LakelogError:
            return real(body, kind, rows, key, columns=columns, exact=exact)
        if columns is None:
            return table
        return table.select([name for name in table.column_names if name in columns])

    return decode_segment


def _run(real: Callable[..., Any]) -> Callable[..., Any]:
    """Of inline pieces; others ask the store for their bytes once more."""
    kept: dict[tuple[Any, ...], Any] = {}

    def sound_run(data: Any, piece: Any, newest: int, again: Any) -> Any:
        if again is not None:
            return real(data, piece, newest, again)
        said = piece.segment.SerializeToString(deterministic=True)
        return _once(
            kept, (bytes(data), said, piece.where, newest), lambda: real(data, piece, newest, None)
        )

    return sound_run


def _entries(real: Callable[..., Any]) -> Callable[..., Any]:
    """Of tables that are the same object, as those of `_schemas` are."""
    kept: dict[tuple[Any, ...], Any] = {}

    def schema_entries(rows: Any, where: str) -> Any:
        return _once(kept, (id(rows), where), lambda: (real(rows, where), rows))[0]

    return schema_entries


def _column(real: Callable[..., Any]) -> Callable[..., Any]:
    """Few values of a simple type: logs repeat most of them."""
    kept: dict[tuple[Any, ...], Any] = {}

    def column(values: Any, kind: Any) -> Any:
        if kind.id not in SIMPLE or len(values) > FEW:
            return real(values, kind)
        return _once(kept, (kind.id, *values), lambda: real(values, kind))

    return column


def _once(kept: dict[Any, Any], asked: Any, make: Callable[[], Any]) -> Any:
    """What was made for this before, or is made now."""
    if asked not in kept:
        if len(kept) >= KEPT:
            kept.clear()
        kept[asked] = make()
    return kept[asked]


def _references(real: Callable[..., Any]) -> Callable[..., Any]:
    @lru_cache(maxsize=KEPT)
    def kept(data: bytes, rows: int, attachments: bytes, *said: Any) -> Any:
        return real(data, rows, memoryview(attachments), *said)

    return lambda data, rows, attachments, *said: kept(bytes(data), rows, bytes(attachments), *said)


def _by_values(real: Callable[..., Any]) -> Callable[..., Any]:
    """As the real one, whose arguments are values already."""
    return lru_cache(maxsize=KEPT)(real)


def _schema(real: Callable[..., Any]) -> Callable[..., Any]:
    kept = lru_cache(maxsize=KEPT)(real)
    return lambda message: kept(bytes(message))


def _schemas(real: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[tuple[Any, ...], Any] = {}

    def decode_schemas(data: Any, piece: Any, newest: int, *, exact: bool = False) -> Any:
        said = piece.segment.SerializeToString(deterministic=True)
        asked = (bytes(data), said, piece.rows, piece.where, newest, exact)
        return _once(kept, asked, lambda: real(data, piece, newest, exact=exact))

    return decode_schemas


def _row(real: Callable[..., Any]) -> Callable[..., Any]:
    """Of a transaction; its digest alone may lie, where a planted bug doesn't look at it."""
    kept: dict[tuple[bytes, bytes], Any] = {}

    def transaction_row(found: Any) -> Any:
        asked = (found.digest, found.message.SerializeToString())
        return dict(_once(kept, asked, lambda: real(found)))

    return transaction_row


_ONCE = (
    (columns.column, _column),
    (names.name_prefix, _by_values),
    (names.parse_log_object, _by_values),
    (names.parse_own_file, _by_values),
    (names.parse_data_file, _by_values),
    (part.sound_run, _run),
    (known_schemas.schema_entries, _entries),
    (schema.decode_schema, _schema),
    (known_schemas.decode_schemas, _schemas),
    (history.transaction_row, _row),
    (segments.decode_segment, _segment),
    (pieces.decode_references, _references),
    (objects.decode_transaction, _object),
    (objects.decode_checkpoint, _object),
)


@contextmanager
def decoded_once() -> Iterator[None]:
    """Let lakelog decode the same object or segment once only. Nothing is kept beyond the end: what
    a planted bug has let pass must be there for no one else."""
    anew = {real: once(real) for real, once in _ONCE}
    places = [
        (vars(module), real.__name__, real)
        for name, module in list(sys.modules.items())
        if name.startswith("lakelog.")
        for real in anew
        if vars(module).get(real.__name__) is real
    ]
    for found, name, real in places:
        found[name] = anew[real]
    try:
        yield
    finally:
        for found, name, real in places:
            found[name] = real
