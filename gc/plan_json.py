"""Plans as JSON text, and back with every field checked. Pure.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from typing import Any, Final, TypeVar

from ..errors import UsageError
from .plan import Deletion, Facts, Kept, Plan, check_plan

FORMAT: Final = 1
_MARK: Final = "lakelog_plan"
_T = TypeVar("_T")


def encode_plan(plan: Plan) -> str:
    """JSON text, one line an object that is deleted; the same plan gives the same text."""
    head: dict[str, Any] = {
        _MARK: FORMAT,
        "kind": plan.kind,
        "url": plan.url,
        "writer": plan.writer,
        "database": plan.database,
        "made_at": plan.made_at.isoformat(timespec="microseconds"),
        "facts": dataclasses.asdict(plan.facts),
        "notes": list(plan.notes),
        "kept": [dataclasses.asdict(kept) for kept in plan.kept],
    }
    fields = [f'"{name}": {_dump(value)}' for name, value in head.items()]
    rows = [_dump(dataclasses.asdict(action)) for action in plan.actions]
    fields.append('"actions": [' + ",".join(f"\n{row}" for row in rows) + "]")
    return "{" + ",\n".join(fields) + "}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def decode_plan(text: str | bytes) -> Plan:
    """The plan in a JSON text.

    Raises:
        UsageError: Not a plan, or one of another format.
        InvalidPath: It names an object that no plan of this kind may delete.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is not JSON ({error})") from error
    if not isinstance(data, dict) or _MARK not in data:
        raise _bad("it has no field " + _MARK)
    if data[_MARK] != FORMAT:
        raise UsageError(
            f"The plan has format {data[_MARK]!r}, this lakelog reads {FORMAT}",
            hint="Make a new plan with this version",
        )
    try:
        made_at = dt.datetime.fromisoformat(_take(data, "made_at", str))
    except ValueError as error:
        raise _bad(f"made_at is no time ({error})") from error
    if made_at.tzinfo is None:
        raise _bad("made_at has no time zone")
    plan = Plan(
        kind=_take(data, "kind", str),
        url=_take(data, "url", str),
        writer=_take(data, "writer", str),
        database=_take(data, "database", str),
        actions=tuple(_record(Deletion, item) for item in _take(data, "actions", list)),
        kept=tuple(_record(Kept, item) for item in _take(data, "kept", list)),
        notes=_strings(_take(data, "notes", list), "notes"),
        facts=_record(Facts, _take(data, "facts", dict)),
        made_at=made_at.astimezone(dt.UTC),
    )
    return check_plan(plan)


def _take(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind):
        raise _bad(f"{name} is missing or is no {kind.__name__}")
    return value


def _record(kind: type[_T], item: Any) -> _T:
    """One dataclass of integers, booleans, strings and tuples of strings; exactly its fields."""
    if not isinstance(item, dict):
        raise _bad(f"a {kind.__name__} is no object")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in item:
            raise _bad(f"a {kind.__name__} has no {field.name}")
        where = f"{kind.__name__}.{field.name}"
        values[field.name] = _checked(item[field.name], str(field.type), where)
    extra = set(item) - set(values)
    if extra:
        raise _bad(f"a {kind.__name__} has unknown fields: {', '.join(sorted(extra))}")
    return kind(**values)


def _checked(value: Any, annotation: str, where: str) -> Any:
    if annotation.startswith("tuple"):
        return _strings(value, where)
    if annotation.endswith(" | None"):
        if value is None:
            return None
        annotation = annotation.removesuffix(" | None")
    wanted = {"int": int, "bool": bool, "str": str}[annotation]
    least = 0 if where.endswith(("size_bytes", "objects")) else -1
    if type(value) is not wanted or (isinstance(value, int) and value < least):
        raise _bad(f"{where} is {str(value)[:60]!r}")
    return value


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _bad(f"{where} is no list of strings")
    return tuple(value)


def _bad(problem: str) -> UsageError:
    return UsageError(
        f"This is not a plan of lakelog: {problem}", hint="Make a new plan and save it again"
    )
