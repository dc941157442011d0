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
    """A bitmap that is a little different, and how."""
    what, body = rng.randrange(7), bytearray(data)
    near = rng.randrange(min(len(body), 40)) if rng.random() < 0.7 else rng.randrange(len(body))
    if what == 0:
        return data[:near], "a bitmap cut short"
    if what == 1:
        return data + rng.choice([b"\0", bytes(8), data]), "bytes behind a bitmap"
    if what == 2:
        body[near] = rng.choice([0, 1, 255, 0x3A, 0x3B])
        return bytes(body), f"byte {near} of a bitmap"
    if what == 3:
        at = near & ~1
        number = rng.choice([0, 1, 0xFFFF, 0x7FFF])
        return data[:at] + struct.pack("<H", number) + data[at + 2 :], f"number {at} of a bitmap"
    if what == 4:
        return rng.choice(ODD), "an odd bitmap"
    body[near] ^= 1 << rng.randrange(8)
    return bytes(body), f"a bit of byte {near} of a bitmap"


def _of_runs(*runs: tuple[int, int], size: int, key: int = 0) -> bytes:
    """A bitmap of one container of runs."""
    head = struct.pack("<IBHH", 12_347, 1, key, size - 1) + struct.pack("<H", len(runs))
    return head + b"".join(struct.pack("<HH", *run) for run in runs)


ODD = [
    b"",
    bytes(8),
    struct.pack("<II", 12_346, 0),  # no containers
    struct.pack("<II", 12_346, (1 << 16) + 1),
    struct.pack("<II", 12_346, (1 << 32) - 1),
    struct.pack("<IBHHIH", 12_347, 0, 0, 0, 13, 3),  # no container is of runs
    struct.pack("<IBHHHHH", 12_347, 3, 0, 0, 1, 0, 0),  # a run too many is flagged
    struct.pack("<IIHHIH", 12_346, 1, 0, 0, 16, 3),  # sound
    struct.pack("<IIHHIH", 12_346, 1, 0, 0, 15, 3),  # the container begins elsewhere
    struct.pack("<IIHHIHH", 12_346, 1, 0, 1, 16, 3, 3),
    struct.pack("<IIHHHHIIHH", 12_346, 2, 1, 0, 1, 0, 24, 26, 3, 4),  # one key twice
    struct.pack("<IIHHHHIIHH", 12_346, 2, 2, 0, 1, 0, 24, 26, 3, 4),
    struct.pack("<IIHHI", 12_346, 1, 0, 4_096, 16) + bytes(8192),  # bits, and none is set
    struct.pack("<IIHHI", 12_346, 1, 0, 4_103, 16) + b"\xff" * 513 + bytes(8192 - 513),
    _of_runs((0, 0), size=1),
    _of_runs((3, 65_532), size=65_533),
    _of_runs((3, 65_533), size=65_534),  # beyond the container
    _of_runs((0, 0), (1, 0), size=2),  # runs that touch
    _of_runs((0, 4), (3, 4), size=10),
    _of_runs((9, 0), (3, 0), size=2),
    _of_runs(size=1),
    _of_runs((0, 4), size=4),
    _of_runs((0, 65_535), size=65_536, key=65_535),
]
