"""Rule by rule: what docs/format.md says of definitions. All readers refuse and take alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from checkpoint_lies import outcome
from checkpoint_lies import trial as checkpointed
from hand_checkpoint import Made, sound, write
from hand_objects import encode, tree
from hand_segments import make_table
from hand_small import forget
from independent_messages import CHECKPOINT, DEFINITION, DEFINITIONS
from rule_outcome import put_in, told_by_all
from test_rules_of_both import trial

if TYPE_CHECKING:
    from hand_objects import Tree
    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"


LAST = (1 << 31) - 1


def defined(*columns: tuple[str, int], table: str = "t", **more: Any) -> dict[str, Any]:
    """A definition; a column is a name with an id."""
    made: list[dict[str, Any]] = [{"id": number, "name": name} for name, number in columns]
    last = max((number for _, number in columns), default=0)
    said = {"table": table, "arrow_schema": b"opaque", "columns": made, "last_id": last}
    return said | more


def with_default(value: bytes) -> dict[str, Any]:
    found = defined(("a", 1))
    found["columns"][0]["default"] = (value,)
    return found


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one column": (defined(("a", 1)), OK),
    "two columns": (defined(("c", 9), ("a", 3)), OK),
    "a higher last id": (defined(("a", 1), last_id=9), OK),
    "a lower last id": (defined(("a", 2), last_id=1), DAMAGED),
    "the greatest id": (defined(("a", LAST)), OK),
    "a greater id": (defined(("a", LAST + 1)), DAMAGED),
    "a greater last id": (defined(("a", 1), last_id=LAST + 1), DAMAGED),
    "id 0": (defined(("a", 0), last_id=1), DAMAGED),
    "any schema": (defined(("a", 1), arrow_schema=b""), OK),
    "no columns": (defined(), OK),
    "no columns, but ids": (defined(last_id=7), OK),
    "no name": (defined(("", 1)), DAMAGED),
    "two of one name": (defined(("a", 1), ("a", 2)), DAMAGED),
    "two of one id": (defined(("a", 1), ("b", 1)), DAMAGED),
    "no table": (defined(("a", 1), table=""), DAMAGED),
    "too long a table": (defined(("a", 1), table="x" * 256), DAMAGED),
    "an empty default": (with_default(b""), OK),
    "the longest default": (with_default(bytes([9]) * 65_536), OK),
    "too long a default": (with_default(bytes([9]) * 65_537), DAMAGED),
}


@pytest.mark.parametrize("case", CASES)
def test_an_action(case: str, maybe_go: GoReader | None) -> None:
    message, expected = CASES[case]
    log, _ = trial()
    log.commit({"definition": message})
    assert told_by_all(log, maybe_go) == expected


@pytest.mark.parametrize("case", CASES)
def test_a_row_of_a_segment(case: str, maybe_go: GoReader | None) -> None:
    message, expected = CASES[case]
    row = {"table": message["table"], "definition": bytes_of(message), "revision": 0}
    wanted = OK if expected == OK else "definitions damaged"
    assert in_a_checkpoint([row], maybe_go) == wanted


ROWS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "two tables": ([{"table": "a"}, {"table": "b"}], OK),
    "out of order": ([{"table": "b"}, {"table": "a"}], "definitions damaged"),
    "one table twice": ([{"table": "a"}, {"table": "a"}], "definitions damaged"),
    "of another table": ([{"table": "a", "of": "b"}], "definitions damaged"),
    "of a later revision": ([{"table": "a", "revision": 99}], "definitions damaged"),
    "of a negative revision": ([{"table": "a", "revision": -1}], "definitions damaged"),
    "no message": ([{"table": "a", "definition": b"\xff"}], "definitions damaged"),
    "a wrong text": ([{"table": "a", "definition": b"\x0a\x01\xff"}], "definitions damaged"),
}


@pytest.mark.parametrize("case", ROWS)
def test_the_rows_of_a_segment(case: str, maybe_go: GoReader | None) -> None:
    given, expected = ROWS[case]
    rows = []
    for row in given:
        message = defined(("a", 1), table=row.get("of", row["table"]))
        rows.append({"definition": bytes_of(message), "revision": 0} | row)
    assert in_a_checkpoint(rows, maybe_go) == expected


def test_the_newest_counts_and_forgetting_its_table_ends_it(maybe_go: GoReader | None) -> None:
    for more in ([], [forget(tables=["u"])]):
        log, _ = trial()
        log.commit({"definition": defined(("a", 1), table="u")})
        log.commit({"definition": defined(("b", 2), table="u")}, *more)
        assert told_by_all(log, maybe_go) == OK


def bytes_of(message: dict[str, Any]) -> bytes:
    return encode(tree(DEFINITION, message))


def in_a_checkpoint(rows: list[dict[str, Any]], go: GoReader | None) -> str:
    """What becomes of a log whose checkpoint has these rows."""
    log = checkpointed()

    def message(what: str, found: Tree) -> Tree:
        put_in(CHECKPOINT, "required_reader_features", ["definitions"])(found)
        return found

    log.log.hooks.message = message  # type: ignore[method-assign]
    names = ("table", "definition", "revision")
    table = make_table(DEFINITIONS, [{name: row[name] for name in names} for row in rows])
    write(log.log, [*sound(log.log), Made(DEFINITIONS, table)])
    return outcome(log, go)
