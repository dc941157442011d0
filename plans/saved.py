"""Plans as JSON text, and back with every field checked by its type. Pure.

Bytes are base64; times are ISO-8601 with their zone. Every field is there and no other is: a plan
that somebody wrote by hand, or that another version made, is refused and not guessed at.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import json
import types
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contract import SavedPlan

FORMAT: Final = 1
_FORMAT_FIELD: Final = "lakelog_plan"
_LEAST: Final = -1  # of every number: -1 stands for "none" where a revision may be missing
_ABOVE: Final = 1 << 64
_SIZES: Final = ("size_bytes", "objects", "row_count")
_T = TypeVar("_T")


def encode_plan(plan: Any, rows: str) -> str:
    """JSON text; the same plan gives the same text.

    Args:
        plan: A dataclass.
        rows: The field that has one line for each of its items; it comes last.
    """
    fields = [field.name for field in dataclasses.fields(plan) if field.name != rows]
    lines = [f'"{_FORMAT_FIELD}": {FORMAT}']
    lines += [f'"{name}": {_dump(_plain(getattr(plan, name)))}' for name in fields]
    items = [_dump(_plain(item)) for item in getattr(plan, rows)]
    lines.append(f'"{rows}": [' + ",".join(f"\n{item}" for item in items) + "]")
    return "{" + ",\n".join(lines) + "}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds")
    return value


def decode_plan(kind: type[_T], text: str | bytes) -> _T:
    """The plan in a JSON text, not yet checked for what it names.

    Args:
        kind: Its class, a dataclass.
    Raises:
        UsageError: Not a plan, or one of another format.
    """
    data = _load(text)
    if not isinstance(data, dict) or _FORMAT_FIELD not in data:
        raise _bad("it has no field " + _FORMAT_FIELD)
    found = data.pop(_FORMAT_FIELD)
    if found != FORMAT:
        raise UsageError(
            f"The plan has format {str(found)[:60]!r}, this lakelog reads {FORMAT}",
            hint="Make a new plan with this version",
        )
    plan: _T = _value(kind, data, "plan")
    return plan


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is not JSON ({error})") from error


def dump_plans(plans: Sequence[SavedPlan]) -> str:
    """The text of a file that holds plans: of one as it is, of several as a JSON array."""
    if len(plans) == 1:
        return plans[0].to_json()
    return "[" + ",\n".join(plan.to_json() for plan in plans) + "]\n"


def split_plans(text: str | bytes) -> list[str]:
    """Returns the texts of the plans in a file, for `from_json`. Raises `UsageError` if it isn't
    JSON."""
    data = _load(text)
    return [_dump(item) for item in (data if isinstance(data, list) and data else [data])]


def _value(kind: Any, value: Any, where: str) -> Any:
    """A value of a type: a dataclass, or what dataclasses of plans are made of."""
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple(inner, value, where)
    if origin is types.UnionType:
        return None if value is None else _value(inner[0], value, where)
    if origin is Literal:
        if value not in inner:
            raise _bad(f"{where} is {str(value)[:60]!r}: unknown kind")
        return value
    if kind is bytes:
        return _bytes(value, where)
    if kind is dt.datetime:
        return _time(value, where)
    least = 0 if where.endswith(_SIZES) else _LEAST
    if type(value) is not kind or (isinstance(value, int) and not least <= value < _ABOVE):
        raise _bad(f"{where} is {str(value)[:60]!r}")
    return value


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _bad(f"{where} is no list")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(value) != len(kinds):
        raise _bad(f"{where} has not {len(kinds)} parts")
    return tuple(_value(kind, item, where) for kind, item in zip(kinds, value, strict=True))


def _record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _bad(f"{where} is no object")
    wanted = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for name in names:
        if name not in value:
            raise _bad(f"{where} has no {name}")
    extra = sorted(set(value) - set(names))
    if extra:
        raise _bad(f"{where} has unknown fields: {', '.join(extra)[:60]}")
    return kind(**{name: _value(wanted[name], value[name], f"{where}.{name}") for name in names})


def _bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise _bad(f"{where} is no base64") from error


def _time(value: Any, where: str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise _bad(f"{where} is no time ({error})") from error
    if at.tzinfo is None:
        raise _bad(f"{where} has no time zone")
    return at.astimezone(dt.UTC)


def _bad(problem: str) -> UsageError:
    return UsageError(
        f"This is no saved plan or report of lakelog: {problem}", hint="Make it again and save it"
    )
