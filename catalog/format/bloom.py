"""Bloom filters of Parquet: blocks of 256 bits, and a value's 64-bit xxHash says which bits of
which block it has set. Pure.

pyarrow writes them and has no reader of them.

Source: https://github.com/apache/parquet-format/blob/master/BloomFilter.md
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

_BLOCK_BYTES: Final = 32
_SALT: Final = np.array(
    [
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
        0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
    ],
    np.uint32,
)  # fmt: skip
# The header in Thrift's compact form: how many bytes (zigzag); split blocks, xxHash, uncompressed.
# These are all there are, and each has one form.
_HEADER: Final = re.compile(rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])(?:\x1c\x1c\x00\x00){3}\x00", re.S)


def decode_bloom_filter(data: bytes) -> np.ndarray | None:
    """The blocks of a filter.

    Args:
        data: Header and bits, nothing else.
    Returns:
        uint32, 8 a block; None: it isn't one that can be understood, or can't be whole. (Nothing in
        Parquet tells a bit that has flipped.)
    """
    found = _HEADER.match(data)
    if found is None:
        return None
    number = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(found[1]))
    bits = data[found.end() :]
    if number & 1 or len(bits) != number >> 1 or not bits or len(bits) % _BLOCK_BYTES:
        return None
    words = np.frombuffer(bits, "<u4").reshape(-1, len(_SALT))
    return words if words.any() else None  # of no value: nobody writes that


def bloom_hashes(values: Iterable[bytes]) -> np.ndarray:
    """The hashes of values in Parquet's plain encoding, without the length of texts."""
    import xxhash

    return np.array([xxhash.xxh64_intdigest(value) for value in values], np.uint64)


def may_hold(blocks: np.ndarray, hashes: np.ndarray) -> bool:
    """Whether one of some values may have been put into a filter; if not, none was.

    Args:
        blocks: Of `decode_bloom_filter`.
        hashes: Of `bloom_hashes`.
    """
    high, low = hashes >> np.uint64(32), hashes.astype(np.uint32)
    at = (high * np.uint64(len(blocks))) >> np.uint64(32)
    masks = np.uint32(1) << ((low[:, None] * _SALT) >> np.uint32(27))
    return bool(((blocks[at] & masks) == masks).all(axis=1).any())
