"""Bounds as order-preserving signed 64-bit keys, so that every column's bounds have one width and
compare as numbers; what a key can't hold stands beside it in full. Pure.

Source: docs/format.md, section 6.5.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from .statistics import decode_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

KeyedBound = tuple[int, bytes | None]
_INT = struct.Struct("<q")
_FLIP: Final = 1 << 63
_SIGN_LESS: Final = (1 << 63) - 1
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
MAX_KEPT_BYTES: Final = 128  # lakelog writes bounds of 64 bytes and a few; a longer one is unknown


def key_function(kind: pa.DataType) -> Callable[[bytes], KeyedBound | None]:
    """How bounds of a bound type, in their byte form (section 5.2), become keys.

    Returns:
        A function from bytes to the key and, where the key doesn't give the bound back, the bytes;
        None for what is no value of the type.
    """
    types = pa.types
    if types.is_string(kind) or types.is_binary(kind):
        return _text_key if types.is_string(kind) else _binary_key
    if types.is_decimal(kind):
        return _decimal_key
    if types.is_boolean(kind):
        return {b"\x00": (0, None), b"\x01": (1, None)}.get
    if types.is_unsigned_integer(kind):
        return lambda value: (_signed(_INT.unpack(value)[0]), None) if len(value) == 8 else None
    if types.is_float64(kind):
        return _double_key
    return _number_key(kind)


def _signed(bits: int) -> int:
    """A 64-bit pattern with its highest bit turned over: unsigned order becomes signed order."""
    return (bits & ((1 << 64) - 1) ^ _FLIP) - (1 << 64 if (bits & _FLIP) == 0 else 0)


def _number_key(kind: pa.DataType) -> Callable[[bytes], KeyedBound | None]:
    def key(value: bytes) -> KeyedBound | None:
        if len(value) != 8 or decode_bounds([value], kind).null_count:
            return None
        return _INT.unpack(value)[0], None

    def plain(value: bytes) -> KeyedBound | None:
        return (_INT.unpack(value)[0], None) if len(value) == 8 else None

    whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
    return plain if whole else key  # dates and times have a narrower range


def _double_key(value: bytes) -> KeyedBound | None:
    if len(value) != 8:
        return None
    bits: int = _INT.unpack(value)[0]
    if bits & 0x7FF0_0000_0000_0000 == 0x7FF0_0000_0000_0000 and bits & 0x000F_FFFF_FFFF_FFFF:
        return None  # NaN
    return (bits if bits >= 0 else bits ^ _SIGN_LESS), None


def _decimal_key(value: bytes) -> KeyedBound | None:
    if len(value) != 16:
        return None
    number = int.from_bytes(value, "little", signed=True)
    if abs(number) >= 10**38:
        return None
    clamped = min(max(number, _INT64[0]), _INT64[1])
    return clamped, None if clamped == number else value


def _text_key(value: bytes) -> KeyedBound | None:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return _binary_key(value)


def _binary_key(value: bytes) -> KeyedBound | None:
    if len(value) > MAX_KEPT_BYTES:
        return None
    key = _signed(int.from_bytes(value[:8].ljust(8, b"\0"), "big"))
    return key, value if len(value) > 8 or value[-1:] == b"\0" else None


def byte_forms(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> list[bytes | None]:
    """Bounds in their byte form (section 5.2) from their keys; None for unknown, and for a key that
    doesn't fit what stands beside it."""
    key_of = key_function(kind)

    def fits(form: bytes | None, key: int | None) -> bool:
        found = None if form is None else key_of(form)
        return found is not None and found[0] == key

    forms = _byte_forms(keys, whole, kind)
    pairs = zip(forms, keys.to_pylist(), strict=True)
    return [form if fits(form, key) else None for form, key in pairs]


def _byte_forms(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> list[bytes | None]:
    types = pa.types
    text = types.is_string(kind) or types.is_binary(kind)
    wide = types.is_decimal(kind)
    found: list[bytes | None] = []
    for key, full in zip(keys.to_pylist(), whole.to_pylist(), strict=True):
        if key is None or full is not None:
            found.append(None if key is None else full)
        elif text:
            bits = (key & ((1 << 64) - 1)) ^ _FLIP
            found.append(bits.to_bytes(8, "big").rstrip(b"\0"))
        elif types.is_boolean(kind):
            found.append(bytes([key]) if key in (0, 1) else None)
        elif types.is_unsigned_integer(kind):
            found.append((key + _FLIP).to_bytes(8, "little"))
        elif types.is_float64(kind):
            found.append(_INT.pack(key if key >= 0 else key ^ _SIGN_LESS))
        else:
            found.append(key.to_bytes(16 if wide else 8, "little", signed=True))
    return found
