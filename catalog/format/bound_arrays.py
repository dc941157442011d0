"""Many bounds at once, from their keys: to be compared as numbers, or as text. Pure.

What is no value of the bound type is unknown, as in `bound_keys.byte_forms`, which says it value by
value.

Source: docs/format.md, section 6.5.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from . import compute as pc
from .bound_keys import byte_forms
from .columns import array, column, is_null, numbers

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INFINITY: Final[int] = struct.unpack("<q", struct.pack("<d", float("inf")))[0]
_KEY_BYTES: Final = 8


def is_text_kind(kind: pa.DataType) -> bool:
    """Whether bounds of a bound type are compared as bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def known_keys(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Which keys of a bound type that is no text are known bounds, and give them back. (Bounds that
    stand beside their keys, decimals beyond 64 bits, are none of these.)"""
    found = ~is_null(keys) & is_null(whole)
    least, greatest = _range(kind)
    values = numbers(keys)
    if least is not None:
        found &= (values >= least) & (values <= greatest)
    return found  # type: ignore[no-any-return]


def _range(kind: pa.DataType) -> tuple[int | None, int]:
    types = pa.types
    if types.is_boolean(kind):
        return 0, 1
    if types.is_float64(kind):
        return -_INFINITY - 1, _INFINITY
    if types.is_date32(kind):
        return -(1 << 31), (1 << 31) - 1
    if types.is_time(kind):
        return 0, 86_400 * _PER_SECOND[kind.unit] - 1
    return None, 0


def text_bounds(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bounds of text or binary columns in full, as binary; null where unknown."""
    known, beside = ~is_null(keys), ~is_null(whole)
    short = known & ~beside
    bounds = _of_keys(numbers(keys), short) if short.any() or not known.any() else whole
    if beside.any():
        taken = bounds if bounds is whole else pc.coalesce(whole, bounds)
        sound = known & (short | _begin_with(whole, numbers(keys)))
        bounds = taken if sound.all() else pc.if_else(array(sound), taken, _NULL)
    if pa.types.is_string(kind) and not _is_utf8(bounds):
        return column(byte_forms(keys, whole, kind), pa.binary())
    return bounds


_NULL: Final = column([None], pa.binary())[0]


def _of_keys(keys: np.ndarray, wanted: np.ndarray) -> pa.Array:
    """The texts that keys give back, null where none is wanted: their 8 bytes without zeros at the
    end."""
    raw = _big_endian(keys)
    filled = raw != 0
    lengths = _KEY_BYTES - np.argmax(filled[:, ::-1], axis=1)
    lengths[~filled.any(axis=1) | ~wanted] = 0
    data = raw[np.arange(_KEY_BYTES) < lengths[:, None]]
    offsets = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    there = pa.py_buffer(np.packbits(wanted, bitorder="little"))
    buffers = [there, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(keys), buffers)


def _big_endian(keys: np.ndarray) -> np.ndarray:
    """The 8 bytes that each key stands for."""
    return _unsigned(keys).astype(">u8").view(np.uint8).reshape(-1, _KEY_BYTES)


def _unsigned(keys: np.ndarray) -> np.ndarray:
    """The same as numbers."""
    return keys.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _begin_with(whole: pa.Array, keys: np.ndarray) -> np.ndarray:
    """Whether each whole bound has the key that stands beside it."""
    _, offsets, data = whole.buffers()
    starts = np.frombuffer(offsets, np.int32, len(whole) + 1, whole.offset * 4)
    starts, lengths = starts[:-1], np.diff(starts)
    body = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    is_long = lengths >= _KEY_BYTES
    words = np.ndarray(max(0, len(body) - _KEY_BYTES + 1), ">u8", body, strides=(1,))
    if is_long.all():
        return words[starts] == _unsigned(keys)  # type: ignore[no-any-return]
    found = np.zeros(len(whole), np.bool_)
    found[is_long] = words[starts[is_long]] == _unsigned(keys[is_long])
    rest = np.flatnonzero(~is_long)
    places = starts[rest, None] + np.arange(_KEY_BYTES)
    inside = np.arange(_KEY_BYTES) < lengths[rest, None]
    padded = np.append(body, np.uint8(0))
    first = np.where(inside, padded[np.where(inside, places, -1)], 0)
    found[rest] = (first == _big_endian(keys[rest])).all(axis=1)
    return found


def _is_utf8(bounds: pa.Array) -> bool:
    try:
        bounds.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
