"""Bitmaps of row numbers by hand, in Roaring's portable form, and damage to them. See
`logs_by_hand`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

MOST_LISTED = 4_096


def some_rows(rng: random.Random, row_count: int) -> list[int]:
    """Numbers of a few rows, of a range, or of many; ascending, at least one."""
    most = min(row_count, 1 << 32)
    what = rng.randrange(8)
    start = rng.choice([0, 0, 1, most // 2, most - 1, rng.randrange(most), (1 << 16) - 2])
    start = min(start, most - 1)
    if what < 3:
        few = range(rng.randint(1, 9))
        near = [start + rng.randrange(min(200_000, most - start)) for _ in few]
        return sorted({*near, *(rng.randrange(most) for _ in few)})
    length = rng.choice([1, 2, 40, 5_000, 70_000])
    step = rng.choice([2, 9]) if what == 3 else 1
    return list(range(start, min(most, start + length), step))


def encode_bitmap(rows: Sequence[int], rng: random.Random) -> bytes:
    """A bitmap of ascending numbers; in which containers are runs is left to chance."""
    parts: dict[int, list[int]] = {}
    for row in rows:
        parts.setdefault(row >> 16, []).append(row & 0xFFFF)
    as_runs = {key: rng.random() < 0.4 for key in parts}
    count, flags = len(parts), sum(as_runs[key] << at for at, key in enumerate(parts))
    head = struct.pack("<II", 12_346, count)
    if flags:
        head = struct.pack("<I", 12_347 | (count - 1) << 16)
        head += flags.to_bytes((count + 7) // 8, "little")
    for key, own in parts.items():
        head += struct.pack("<HH", key, len(own) - 1)
    bodies = [_runs(own) if as_runs[key] else _plain(own) for key, own in parts.items()]
    at = len(head) + 4 * count
    for body in bodies if not flags or count >= 4 else ():
        head += struct.pack("<I", at)
        at += len(body)
    return head + b"".join(bodies)


def _runs(own: Sequence[int]) -> bytes:
    found: list[list[int]] = []
    for number in own:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    pairs = (struct.pack("<HH", first, last - first) for first, last in found)
    return struct.pack("<H", len(found)) + b"".join(pairs)


def _plain(own: Iterable[int]) -> bytes:
    own = list(own)
    if len(own) <= MOST_LISTED:
        return struct.pack(f"<{len(own)}H", *own)
    return sum(1 << number for number in own).to_bytes(8192, "little")


def change_bitmap(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """A bitmap that its digest names, and no reader takes."""
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))], "a bitmap cut short"
    return b"\0" + data[1:], "another beginning of a bitmap"


ODD = [
    bytes(8),
    struct.pack("<II", 12_346, 0),  # no containers
    struct.pack("<II", 12_346, (1 << 16) + 1),
    struct.pack("<II", 12_346, (1 << 32) - 1),
    struct.pack("<IIHHIHH", 12_346, 1, 0, 2, 16, 3, 4),  # ends early
    struct.pack("<IIHHI", 12_346, 1, 0, 4_103, 16) + b"\xff" * 513,  # so does this
    struct.pack("<IBHHH", 12_347, 1, 0, 0, 1),  # and this
]
