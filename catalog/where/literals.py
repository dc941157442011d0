"""Literals of predicates: what a text says as a number, a date or a time, exactly. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from .tree import DAY_S

MAX_DIGITS: Final = 2_000
MAX_EXPONENT: Final = 2_000
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_DATE = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?"
_OFFSET = r"(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_ONLY_DATE = re.compile(_DATE)
_ONLY_TIME = re.compile(_TIME)
_MOMENT = re.compile(rf"{_DATE}(?:[ T]{_TIME}{_OFFSET})?")
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class NotThis(ValueError):
    """A text is not a literal of this kind; the message says why, if there is more to say."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, exact, or an infinity; `whole` if it was written as an integer."""

    value: Fraction | float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a point in time: exact seconds since 1970, of UTC if it has an offset."""

    seconds: Fraction
    offset: bool = False
    date: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day: exact seconds since midnight."""

    seconds: Fraction


@dataclass(frozen=True, slots=True)
class Text:
    """A text, which may say something else, by what it is compared with."""

    value: str


@dataclass(frozen=True, slots=True)
class Null:
    """NULL."""


Literal = Number | Moment | Clock | Text | Null | bool | bytes


@lru_cache(100)  # a comparison asks twice
def number(text: str) -> Number:
    """A number: digits, a point, an exponent; or an infinity.

    Raises:
        NotThis: The text is not a number, or NaN, or beyond the range of all columns.
    """
    if _NAN.fullmatch(text):
        raise NotThis("NaN can't be compared with, since engines differ")
    infinite = _INFINITY.fullmatch(text)
    if infinite:
        return Number(-math.inf if infinite[1] == "-" else math.inf)
    found = _NUMBER.fullmatch(text)
    if not found or not (found[2] or found[3]):
        raise NotThis("it is no number")
    sign, before, after, exponent = found.groups()
    digits = before + (after or "")
    if len(digits) > MAX_DIGITS or len(exponent or "") > 5:
        raise NotThis(f"it has over {MAX_DIGITS:,} digits")
    power = int(exponent or 0) - len(after or "")
    if abs(power) > MAX_EXPONENT:
        raise NotThis(f"its exponent is beyond {MAX_EXPONENT:,}")
    value = int(digits) * Fraction(10) ** power
    return Number(-value if sign == "-" else value, after is None and exponent is None)


def integer(text: str) -> Number:
    """A number without point and exponent."""
    if not _INTEGER.fullmatch(text):
        raise NotThis("it is no integer")
    return number(text)


def boolean(text: str) -> bool:
    """`true` or `false`, however spelled."""
    if text.lower() not in ("true", "false"):
        raise NotThis("it is neither true nor false")
    return text.lower() == "true"


def date(text: str) -> Moment:
    """A day, written `2026-11-30`."""
    found = _ONLY_DATE.fullmatch(text)
    if not found:
        raise NotThis("it is no date like 2026-11-30")
    return Moment(Fraction(_days(*map(int, found.groups())) * DAY_S), date=True)


def clock(text: str) -> Clock:
    """A time of day, written `12:00`, `12:00:00` or `12:00:00.5`."""
    found = _ONLY_TIME.fullmatch(text)
    if not found:
        raise NotThis("it is no time of day like 12:00:00")
    return Clock(_seconds(*found.groups()))


def moment(text: str) -> Moment:
    """A point in time, written `2026-11-30 12:00:00.5`, with `Z` or an offset like `+02:00` or
    without; or a date alone, which is its first moment."""
    found = _MOMENT.fullmatch(text)
    if not found:
        raise NotThis("it is no time like 2026-11-30 12:00:00")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    seconds = Fraction(_days(int(year), int(month), int(day)) * DAY_S)
    if hour is None:
        return Moment(seconds, date=True)
    seconds += _seconds(hour, minute, second, fraction) - _offset(offset)
    return Moment(seconds, bool(offset))


def _days(year: int, month: int, day: int) -> int:
    if not (year and 1 <= month <= 12 and 1 <= day <= _month_days(year, month)):
        raise NotThis("there is no such day")
    return days_from_civil(year, month, day)


def _month_days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_DAYS[month - 1] + (month == 2 and leap)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a day of the Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The day of the Gregorian calendar that is so many days after 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def _seconds(hour: str, minute: str, second: str | None, fraction: str | None) -> Fraction:
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise NotThis("there is no such time of day")
    whole = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    return whole + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else Fraction(0))


def _offset(text: str | None) -> int:
    if text is None or text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if hours > 23 or minutes > 59:
        raise NotThis("there is no such offset")
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)
