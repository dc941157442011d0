"""Tables and predicates drawn at random: each predicate as a tree for the oracle and as SQL text.

Literals lie close to the values of their columns, and to the ends of their types: where rows are
lost. `same_in_duckdb` says whether DuckDB means the same by the very text.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

DAY = 86_400
EPOCH = dt.datetime(1970, 1, 1)
FIRST = int((dt.datetime(1, 1, 2) - EPOCH).total_seconds())
LAST = int((dt.datetime(9999, 12, 30) - EPOCH).total_seconds())
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LETTERS = ["a", "b", "A", "é", "ß", "漢", "😀", "'", '"', "\\", "\n", "%", "_", " ", "\x7f", "z"]
INTS = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(),
}  # fmt: skip
FLOATS = {"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64()}
DECIMALS = {
    "d9": pa.decimal128(9, 2), "d38": pa.decimal128(38, 10), "d60": pa.decimal256(60, 5),
    "d5": pa.decimal128(5, 5),
}  # fmt: skip
STAMPS = {
    f"{'tz' if zone else 'ts'}_{unit}": pa.timestamp(unit, zone)
    for unit in PER_SECOND
    for zone in (None, "Europe/Oslo")
}
TIMES = {
    "t_s": pa.time32("s"), "t_ms": pa.time32("ms"), "t_us": pa.time64("us"), "t_ns": pa.time64("ns")
}  # fmt: skip
DATES = {"date": pa.date32(), "date64": pa.date64()}
TEXTS = {"text": pa.string(), "large": pa.large_string()}
BYTES = {"bytes": pa.binary(), "fixed": pa.binary(3)}
KINDS = INTS | FLOATS | DECIMALS | STAMPS | TIMES | DATES | TEXTS | BYTES | {"bool": pa.bool_()}


@dataclass
class Literal:
    """A literal.

    Attributes:
        text: In SQL.
        value: For the oracle.
        same: Whether DuckDB takes it as the package does.
    """

    text: str
    value: object
    same: bool = True


def unit_of(kind: str) -> Fraction:
    """Steps of a type in one, or in a second."""
    if kind in DECIMALS:
        return Fraction(10 ** DECIMALS[kind].scale)
    if kind in DATES:
        return Fraction(1, DAY)
    return Fraction(PER_SECOND[KINDS[kind].unit]) if kind in STAMPS | TIMES else Fraction(1)


def ends(kind: str) -> tuple[int, int]:
    """The least and greatest number of steps that is drawn."""
    if kind in INTS:
        info = np.iinfo(INTS[kind].to_pandas_dtype())
        return int(info.min), int(info.max)
    if kind in DECIMALS:
        return -(10 ** DECIMALS[kind].precision) + 1, 10 ** DECIMALS[kind].precision - 1
    if kind in TIMES:
        return 0, DAY * PER_SECOND[KINDS[kind].unit] - 1
    if kind in DATES:
        return FIRST // DAY, LAST // DAY
    unit = PER_SECOND[STAMPS[kind].unit]
    low, high = FIRST * unit, LAST * unit
    return (low, high) if unit < 10**9 else (-(2**62), 2**62)


def draw_values(rng, kind: str, count: int) -> list:
    """Values of a column, as the oracle sees them."""
    found = [draw_value(rng, kind) for _ in range(count)]
    return [None if rng.random() < 0.2 else value for value in found]


def draw_value(rng, kind: str):
    if kind == "bool":
        return rng.random() < 0.5
    if kind in TEXTS:
        return "".join(rng.choice([*LETTERS, "\0"]) for _ in range(rng.choice([0, 1, 2, 2, 3])))
    if kind in BYTES:
        size = 3 if kind == "fixed" else rng.choice([0, 1, 2, 3])
        return bytes(rng.choice([0, 1, 127, 128, 255]) for _ in range(size))
    if kind in FLOATS:
        return draw_float(rng, kind)
    low, high = ends(kind)
    near = 0 if low <= 0 else low
    count = rng.choice([low, high, near, near + 1, rng.randint(low, high), rng.randint(-5, 5)])
    return Fraction(min(max(count, low), high)) / unit_of(kind)


def draw_float(rng, kind: str) -> float:
    make = FLOATS[kind].to_pandas_dtype()
    info = np.finfo(make)
    few = [0.1, -0.1, 0.5, 1.0, -2.0, 3.0, 1e-3]
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, info.max, -info.max, info.smallest_subnormal]
    return float(make(rng.choice([*few, *odd, rng.uniform(-10, 10)])))


def to_arrow(kind: str, values: list) -> pa.Array:
    """The column of such values."""
    arrow = KINDS[kind]
    if kind in FLOATS:
        made = [None if value is None else arrow.to_pandas_dtype()(value) for value in values]
        return pa.array(made, arrow, from_pandas=False)
    if kind in TEXTS | BYTES | {"bool": 0}:
        return pa.array(values, arrow)
    counts = [None if value is None else int(value * unit_of(kind)) for value in values]
    if kind in DECIMALS:
        places = [None if n is None else Decimal(n).scaleb(-arrow.scale, CONTEXT) for n in counts]
        return pa.array(places, arrow)
    if kind == "date64":
        counts = [None if count is None else count * DAY * 1000 for count in counts]
    return (
        pa.array(counts, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)
        if kind not in INTS
        else pa.array(counts, arrow)
    )


CONTEXT = __import__("decimal").Context(prec=2_500, Emin=-9_999, Emax=9_999)


def draw_literal(rng, kind: str, values: list) -> Literal:
    """A literal for a column, close to one of its values."""
    if rng.random() < 0.05:
        return Literal("NULL", None)
    present = [value for value in values if value is not None]
    value = rng.choice(present) if present and rng.random() < 0.7 else draw_value(rng, kind)
    if kind == "bool":
        return Literal(rng.choice([str(value), str(value).lower()]), value)
    if kind in TEXTS:
        value = value[: rng.randint(0, 3)] + rng.choice(["", "", "a", "\x7f"])
        return Literal("'" + value.replace("'", "''") + "'", value, "\0" not in value)
    if kind in BYTES:
        value = value[: rng.randint(0, 3)] + rng.choice([b"", b"", b"\0", b"\xff"])
        return Literal(f"{rng.choice('Xx')}'{value.hex()}'", value)
    if kind in FLOATS:
        return float_literal(rng, kind, value)
    near = value * unit_of(kind) + rng.choice(
        [0, 0, 0, 1, -1, Fraction(1, 2), Fraction(-1, 2), Fraction(1, 1000), Fraction(-1, 1000)]
    )
    near = rng.choice([near] * 9 + [end + rng.choice([-1, 0, 1]) for end in ends(kind)])
    exact = near / unit_of(kind)
    if kind in INTS | DECIMALS:
        return number_literal(rng, kind, exact)
    return time_literal(rng, kind, exact)


def number_literal(rng, kind: str, exact: Fraction) -> Literal:
    text = plain(exact)
    if rng.random() < 0.2 and "." not in text:
        text += rng.choice([".", ".0", "e0"])
    same = (kind in INTS and text.lstrip("-").isdigit() and abs(exact) < 2**64) or (
        kind == "d9" and len(text) < 12 and "e" not in text
    )
    if rng.random() < 0.1 and (kind in DECIMALS or text.lstrip("-").isdigit()):
        return Literal(f"'{text}'", exact, False)
    if rng.random() < 0.1:
        return (
            Literal(f"CAST({text} AS DECIMAL(76, 13))", exact, False)
            if abs(exact) < 10**60
            else Literal(text, exact, same)
        )
    return Literal(text, exact, same)


def plain(exact: Fraction) -> str:
    """A number with all its digits."""
    power = 0
    while exact.denominator != 1 and power < 2_000:
        exact, power = exact * 10, power + 1
    assert exact.denominator == 1
    digits = str(abs(exact.numerator)).rjust(power + 1, "0")
    whole = digits[:-power] + "." + digits[-power:] if power else digits
    return ("-" if exact < 0 else "") + whole


def float_literal(rng, kind: str, value: float) -> Literal:
    if math.isnan(value) or math.isinf(value):
        value = math.inf if value > 0 else -math.inf
        return Literal(
            f"'{rng.choice(['-inf', '-Infinity'] if value < 0 else ['inf', 'INF'])}'", value
        )
    exact = Fraction(value)
    make = FLOATS[kind].to_pandas_dtype()
    with np.errstate(all="ignore"):
        above = float(np.nextafter(make(value), make(np.inf)))
    choice = rng.random()
    if choice < 0.3:
        return Literal(repr(value), Fraction(repr(value)), False)
    if choice < 0.5 and math.isfinite(above):
        exact = (exact + Fraction(above)) / 2  # a tie: the even one
    elif choice < 0.6:
        exact = rng.choice(
            [Fraction(10) ** 39, -(Fraction(10) ** 310), Fraction(65_519), exact * 2]
        )
    elif choice < 0.7:
        few = Fraction(rng.randint(-50, 50), 10)
        return Literal(plain(few), few, kind == "f64")
    return Literal(plain(exact), exact, False)


def time_literal(rng, kind: str, exact: Fraction) -> Literal:
    """A date or time as SQL text: with all the digits that the value needs."""
    if kind in TIMES:
        exact = min(max(exact, Fraction(0)), DAY - Fraction(1, 10**12))
        text = clock(exact, digits(exact))
        prefix = rng.choice(["TIME ", ""])
        return Literal(f"{prefix}'{text}'", exact, digits(exact) <= 6 and kind in ("t_us", "t_ms"))
    exact = min(max(exact, Fraction(FIRST)), Fraction(LAST))
    zoned = kind.startswith("tz")
    if exact % DAY == 0 and not zoned and rng.random() < 0.5:
        prefix = rng.choice(["DATE ", "" if kind not in ("date64",) else "DATE "])
        return Literal(f"{prefix}'{day(exact)}'", exact, kind != "date64" and "_ns" not in kind)
    offset = rng.choice([0, 0, 2 * 3600, -9000]) if zoned else 0
    local = exact + offset
    text = f"{day(local)}{rng.choice(' T')}{clock(local % DAY, digits(exact))}"
    if zoned:
        sign = "-" if offset < 0 else "+"
        text += "Z" if not offset else f"{sign}{abs(offset) // 3600:02}:{abs(offset) // 60 % 60:02}"
    same = digits(exact) <= 6 and kind in ("ts_us", "tz_us", "date", "tz_ms")
    prefix = "TIMESTAMPTZ " if zoned else "TIMESTAMP "
    if zoned or kind in STAMPS:
        prefix = rng.choice([prefix, ""])
    return Literal(f"{prefix}'{text}'", exact, same)


def digits(exact: Fraction) -> int:
    count = 0
    while (exact * 10**count).denominator != 1:
        count += 1
    return count


def day(exact: Fraction) -> str:
    when = EPOCH + dt.timedelta(days=math.floor(exact / DAY))
    return f"{when.year:04}-{when.month:02}-{when.day:02}"


def clock(exact: Fraction, count: int) -> str:
    whole = math.floor(exact)
    fraction = f".{int((exact - whole) * 10**count):0{count}}" if count else ""
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{fraction}"
