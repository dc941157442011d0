"""Time zones of timestamp columns: one that nobody knows makes a column that nobody can show."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ..errors import InvalidSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d", re.ASCII)
_SURE: Final = "Europe/Berlin"  # any machine that has a time zone database knows it


def check_zones(schema: pa.Schema) -> None:
    """Refuse timestamps in a zone that doesn't exist. On a machine without a time zone database
    every name passes.

    Raises:
        InvalidSchema: There is one, perhaps inside a nested column.
    """
    for field in schema:
        for zone in _zones(field.type):
            if not _known(zone) and _known(_SURE):
                raise InvalidSchema(
                    f"Column {field.name!r} has type {field.type}: there is no time zone {zone!r}",
                    key=field.name,
                    hint="Give UTC, an offset such as +02:00, or a zone such as Europe/Oslo; if it "
                    "is a new or an old one, install the newest tzdata",
                )


def _zones(kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_timestamp(kind) and kind.tz:
        yield kind.tz
    for index in range(kind.num_fields):
        yield from _zones(kind.field(index).type)


@cache
def _known(zone: str) -> bool:
    if zone.upper() in ("UTC", "Z") or _OFFSET.fullmatch(zone):
        return True
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder
        return False
    return True
