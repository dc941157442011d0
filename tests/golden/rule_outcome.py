"""What all readers say of a small log, in a word; and messages altered by the names of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hand_objects import Tree, raw_value
from three_readers import differences, text, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hand_small import Small
    from independent_wire import Shape
    from three_readers import GoReader

OK = "ok"


def told_by_all(log: Small, go: GoReader | None = None) -> str:
    """How the log, or which part of it, is refused by all readers alike; `ok` if nothing is."""
    found = verdicts(log.log.transactions, log.log.segments, go, log.log.data)
    base = found["independent"]
    for reader, other in found.items():
        assert text(other) == text(base), (reader, list(differences(base, other)))
    if base["verdict"] != OK:
        return str(base["verdict"])
    parts = [(name, base[name]) for name in ("history", "applications", "definitions", "deletes")]
    for table in base["tables"].values():
        parts += [(name, table[name]) for name in ("files", "schemas")]
    bad = {f"{name} {word}" for name, word in parts if word in ("damaged", "too-new")}
    if not base["complete"]:
        bad.add("not all tables")
    return ", ".join(sorted(bad)) or OK


def put_in(shape: Shape, where: str, *values: Any) -> Callable[[Tree], None]:
    """Set a field, by its path (`commit.members.0.operation`), to these values; to none: clear."""

    def change(message: Tree) -> None:
        own = shape
        *path, last = where.split(".")
        for step, after in zip(path, [*path[1:], ""]):
            if step.isdigit():
                continue
            number, field = by_name(own, step)
            place = int(after) if after.isdigit() else 0
            message = [item for item in message if item[0] == number][place][2]
            own = field.kind
        number, field = by_name(own, last)
        message[:] = [item for item in message if item[0] != number]
        many = values
        if len(values) == 1 and field.often == "many":
            many = tuple(values[0]) if isinstance(values[0], list) else values
        message += [[number, field.wire(), raw_value(field.kind, value)] for value in many]

    return change


def by_name(shape: Shape, name: str) -> tuple[int, Any]:
    return next((n, field) for n, field in shape.fields.items() if field.name == name)
