"""Conditions of Spark's as `FilterText` writes them down, drawn at random, with what Spark makes of
them for a row."""

from __future__ import annotations

import math
import operator
import random
import struct

import pyarrow as pa

COLUMNS = {
    "i": ("int", pa.field("i", pa.int32())),
    "f": ("double", pa.field("f", pa.float64())),
    "s": ("string", pa.field("s", pa.string())),
    "o": ("boolean", pa.field("o", pa.bool_())),
    "d": ("date", pa.field("d", pa.date32())),
}
VALUES = {
    "i": [-1, 0, 1, 2],
    "f": [-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan],
    "s": ["", "a", "ab", "é"],
    "o": [False, True],
    "d": [-200_000, 0, 19_000],
}
TESTS = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


def told(name: str, value: object) -> object:
    """A value as it is written down."""
    if name == "f":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    return value.encode().hex() if name == "s" else value


def key(value: object) -> object:
    """By which Spark orders values."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def leaf(draw: random.Random, row: dict) -> tuple[object, bool | None]:
    """What Spark asks, as it is written down, and what a row makes of it."""
    if draw.random() < 0.25:
        return None, draw.choice([True, False, None])  # not understood
    name = draw.choice(list(COLUMNS))
    kind, value = COLUMNS[name][0], row[name]
    start = [name.encode().hex(), kind]
    word = draw.choice([*TESTS, *TESTS, "<=>", "in", "null", "filled", "begins", "true"])
    if word in ("null", "filled"):
        return [word, *start], (value is None) == (word == "null")
    if word == "true":
        return ["true", b"o".hex(), "boolean"], row["o"]
    if word == "begins":
        given = draw.choice(VALUES["s"])
        answer = None if row["s"] is None else row["s"].startswith(given)
        return ["begins", b"s".hex(), "string", told("s", given)], answer
    if word == "in":
        several = draw.choices(VALUES[name], k=draw.randint(0, 3))
        found = None if value is None else any(key(value) == key(each) for each in several)
        return ["in", *start, *(told(name, each) for each in several)], found
    given = draw.choice(VALUES[name])
    if word == "<=>":
        return [word, *start, told(name, given)], value is not None and key(value) == key(given)
    answer = None if value is None else TESTS[word](key(value), key(given))
    return [word, *start, told(name, given)], answer


def tree(draw: random.Random, row: dict, depth: int = 3) -> tuple[object, bool | None]:
    shape = draw.random()
    if not depth or shape < 0.3:
        return leaf(draw, row)
    if shape < 0.5:
        text, answer = tree(draw, row, depth - 1)
        return ["not", text], None if answer is None else not answer
    parts = [tree(draw, row, depth - 1) for _ in range(draw.randint(1, 3))]
    answers = [answer for _, answer in parts]
    decides = shape >= 0.75  # or
    found = decides if decides in answers else None if None in answers else not decides
    return ["or" if decides else "and", *(text for text, _ in parts)], found
