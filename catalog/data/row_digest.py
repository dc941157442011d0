"""A digest of rows that doesn't depend on their order: whether two sets of files hold the same
rows, each as often. Batch by batch, so that memory stays bounded. Pure.

Every value has a number of 64 bits; a row's follows from those of its values and their columns, and
a digest is the sums of these numbers. So rows may come in any order, from any number of files, and
one that is lost, doubled or changed shows. NaN is one value, whatever its bits; -0.0 is another one
than 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..format.columns import is_null
from ..format.schema import plain
from .unify import conform, readable_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX: Final = np.uint64(0x94D049BB133111EB)
_AT_ONCE: Final = 1 << 20  # elements: what is computed for them takes some hundred bytes each
_MANTISSA: Final = {16: 10, 32: 23, 64: 52}


@dataclass(slots=True)
class RowDigest:
    """What was seen of some rows.

    Attributes:
        target: The schema in which they are compared: narrower types, other order and columns that
            are lacking (null) make no difference.
        rows: How many there were.
    """

    target: pa.Schema
    rows: int = 0
    _sum: int = 0
    _squares: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch. Raises `pyarrow.ArrowInvalid` if a value doesn't fit the
        target."""
        own = batch.select(readable_columns(batch.schema, self.target))
        for start in range(0, batch.num_rows, _AT_ONCE):
            found = row_hashes(conform(own.slice(start, _AT_ONCE), self.target))
            self.rows += len(found)
            self._sum += int(found.sum(dtype=np.uint64))
            self._squares += int((found * found).sum(dtype=np.uint64))

    @property
    def value(self) -> tuple[int, int, int]:
        """Equal for the same rows."""
        return self.rows, self._sum % (1 << 64), self._squares % (1 << 64)


def row_hashes(batch: pa.RecordBatch) -> np.ndarray:
    """A number for each row: equal for equal rows, as uint64."""
    return _of_columns(batch.columns, batch.num_rows)


def _of_columns(columns: Sequence[pa.Array], rows: int) -> np.ndarray:
    total = np.zeros(rows, np.uint64)
    for number, values in enumerate(columns):
        total += _mixed(_hashes(values) ^ np.uint64(number + 1))
    return _mixed(total)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Numbers that look drawn at random, one for each (SplitMix64, whose sums wrap around)."""
    found = values + _NULL
    found = (found ^ (found >> np.uint64(30))) * _STEP
    found = (found ^ (found >> np.uint64(27))) * _MIX
    mixed: np.ndarray = found ^ (found >> np.uint64(31))
    return mixed


def _hashes(values: pa.Array) -> np.ndarray:
    """A number for each value of a column."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _hashes(values.storage)
    if pa.types.is_dictionary(kind):
        return _hashes(values.dictionary_decode())
    if pa.types.is_null(kind):
        return np.full(len(values), _NULL)
    wanted = plain(kind)
    if not wanted.equals(kind):
        return _hashes(values.cast(wanted))
    found = _filled(values)
    nulls = is_null(values)
    found[nulls] = _NULL
    return found


def _filled(values: pa.Array) -> np.ndarray:
    """The same where there are no nulls; any number where a value is null."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _of_columns(values.flatten(), len(values))
    if pa.types.is_fixed_size_list(kind):
        return _filled(values.cast(pa.list_(kind.value_field)))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        ends = np.asarray(values.offsets).astype(np.int64)
        first, last = (int(ends[0]), int(ends[-1])) if len(values) else (0, 0)
        inner = _hashes(values.values.slice(first, last - first))
        return _of_sequences(inner, ends - first)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(values)
    if pa.types.is_boolean(kind):
        bits = values.fill_null(False)
        return _mixed(np.asarray(bits.to_numpy(zero_copy_only=False)).astype(np.uint64))
    return _of_fixed(values)


def _of_bytes(values: pa.Array) -> np.ndarray:
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return _of_sequences(np.zeros(0, np.uint64), np.zeros(len(values) + 1, np.int64))
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    whole = np.frombuffer(b"" if data is None else data, np.uint8)
    found = np.zeros(len(values), np.uint64)
    start = 0
    while start < len(values):  # so many values that their bytes are not too many
        stop = int(np.searchsorted(ends, int(ends[start]) + _AT_ONCE, "right"))
        stop = min(max(stop - 1, start + 1), len(values))
        first, last = int(ends[start]), int(ends[stop])
        inner = whole[first:last].astype(np.uint64)
        found[start:stop] = _of_sequences(inner, ends[start : stop + 1].astype(np.int64) - first)
        start = stop
    return found


def _of_sequences(items: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A number for each sequence of items: of the items and their places in it.

    Args:
        ends: Where each sequence begins, and where the last one ends.
    """
    lengths = np.diff(ends)
    places = np.arange(len(items), dtype=np.int64) - np.repeat(ends[:-1], lengths)
    terms = _mixed(items ^ _mixed(places.astype(np.uint64) * _STEP))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mixed(sums[ends[1:]] - sums[ends[:-1]] + lengths.astype(np.uint64) * _MIX)


def _of_fixed(values: pa.Array) -> np.ndarray:
    """Of values of a fixed width, by their bytes."""
    kind = values.type
    width = kind.bit_width // 8
    data = values.buffers()[1]
    if data is None or not len(values):
        return np.zeros(len(values), np.uint64)
    raw = np.frombuffer(data, np.uint8, len(values) * width, values.offset * width)
    raw = raw.reshape(len(values), width)
    if pa.types.is_floating(kind):
        return _mixed(_one_nan(raw, kind.bit_width))
    count = -(-width // 8)
    whole = np.zeros((len(values), count * 8), np.uint8)
    whole[:, :width] = raw
    words = whole.view(np.uint64)
    found = np.full(len(values), np.uint64(width))
    for word in range(count):
        found = _mixed(np.bitwise_xor(found, words[:, word]))
    return found


def _one_nan(raw: np.ndarray, bits: int) -> np.ndarray:
    """The bits of floating-point numbers, with one form of NaN."""
    kinds: dict[int, Any] = {16: np.uint16, 32: np.uint32, 64: np.uint64}
    found = np.ascontiguousarray(raw).view(kinds[bits])[:, 0].astype(np.uint64)
    mantissa = np.uint64(_MANTISSA[bits])
    without_sign = found & np.uint64((1 << (bits - 1)) - 1)
    infinity = np.uint64((1 << (bits - 1)) - (1 << int(mantissa)))
    found[without_sign > infinity] = infinity + np.uint64(1)
    bits_of: np.ndarray = found
    return bits_of
