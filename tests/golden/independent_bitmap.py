"""Objects of row deletes and the bitmaps in them, for the independent reader: docs/format.md,
section 5.7, and the specification of Roaring's portable form."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import independent_messages as messages
from independent_frame import open_frame
from independent_wire import Damaged, decode, need

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from independent_content import Entry

DELETES = 5  # the kind of frame
RUNS, PLAIN = 12_347, 12_346  # how a bitmap begins, with containers of runs and without
MOST_LISTED = 4_096  # numbers in a container that lists them
Range = tuple[int, int]  # the first and the last number


def deleted_rows(
    data: Mapping[str, bytes], entries: Iterable[Entry], row_count: int
) -> list[Range]:
    """The rows that all bitmaps of a file delete together, as ranges that don't touch.

    Raises:
        TooNew: An object needs a later reader.
        Damaged: A bitmap can't be used.
    """
    found: list[Range] = []
    problem: Damaged | None = None
    for entry in entries:
        try:
            found += bitmap_of(data, entry, row_count)
        except Damaged as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return joined(sorted(found))


def bitmap_of(data: Mapping[str, bytes], entry: Entry, row_count: int) -> list[Range]:
    """The rows that one bitmap names."""
    facts = entry.facts
    need(facts["object"] in data, f"{facts['object']} is gone")
    frame = open_frame(data[facts["object"]], DELETES)
    decode(messages.DELETES_OBJECT, frame.message)
    end = facts["offset"] + facts["length"]
    need(end <= len(frame.attached), "a bitmap beyond the attachments")
    raw = frame.attached[facts["offset"] : end]
    need(hashlib.sha256(raw).digest() == facts["digest"], "another bitmap")
    ranges = joined(numbers(raw))
    need(sum(last - first + 1 for first, last in ranges) == facts["cardinality"], "cardinality")
    need(ranges and ranges[-1][1] < row_count, "a row beyond the file")
    return ranges


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ascending ranges, without gaps of nothing between them."""
    found: list[Range] = []
    for first, last in ranges:
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def numbers(raw: bytes) -> Iterator[Range]:
    """The numbers in a bitmap, ascending."""
    try:
        yield from containers(raw)
    except struct.error:
        raise Damaged("a bitmap that ends early") from None


def containers(raw: bytes) -> Iterator[Range]:
    (cookie,) = struct.unpack_from("<I", raw)
    flags = 0
    if cookie & 0xFFFF == RUNS:
        count = (cookie >> 16) + 1
        at = 4 + (count + 7) // 8
        flags = int.from_bytes(raw[4:at], "little")
    else:
        need(cookie == PLAIN, "no bitmap")
        (count,) = struct.unpack_from("<I", raw, 4)
        need(count <= 1 << 16, "number of containers")
        at = 8
    heads = struct.unpack_from(f"<{2 * count}H", raw, at)
    at += 4 * count
    if cookie == PLAIN or count >= 4:
        at += 4 * count  # where each container begins, which follows from their sizes
    for number, (key, most) in enumerate(zip(heads[::2], heads[1::2])):
        read = run_container if flags >> number & 1 else container
        found, at = read(raw, at, most + 1)
        yield from ((key << 16 | first, key << 16 | last) for first, last in found)


def run_container(raw: bytes, at: int, size: int) -> tuple[list[Range], int]:
    """The ranges of a container of runs, and where it ends."""
    (count,) = struct.unpack_from("<H", raw, at)
    pairs = struct.unpack_from(f"<{2 * count}H", raw, at + 2)
    found = [(start, start + more) for start, more in zip(pairs[::2], pairs[1::2])]
    return found, at + 2 + 4 * count


def container(raw: bytes, at: int, size: int) -> tuple[list[Range], int]:
    """The same of one that lists its numbers, or has a bit for each that may be there."""
    if size <= MOST_LISTED:
        listed = struct.unpack_from(f"<{size}H", raw, at)
        return [(number, number) for number in listed], at + 2 * size
    need(len(raw) >= at + 8192, "a bitmap that ends early")
    bits = bin(int.from_bytes(raw[at : at + 8192], "little"))[:1:-1]  # the lowest first
    return [(place, place) for place, bit in enumerate(bits) if bit == "1"], at + 8192
