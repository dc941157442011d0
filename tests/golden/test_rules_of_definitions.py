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


def defined(*columns: Any, dropped: Any = (), table: str = "t", **more: Any) -> dict[str, Any]:
    """A definition; a column is a list of names with generations."""
    made: list[dict[str, Any]] = [
        {"sources": [{"column": n, "generation": g} for n, g in column]} for column in columns
    ]
    gone = [{"column": n, "generation": g} for n, g in dropped]
    return {"table": table, "arrow_schema": b"opaque", "columns": made, "dropped": gone} | more


def with_default(value: bytes) -> dict[str, Any]:
    found = defined([("a", 0)])
    found["columns"][0]["default"] = (value,)
    return found


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one column": (defined([("a", 0)]), OK),
    "a renamed one": (defined([("c", 0), ("a", 0), ("a", 3)]), OK),
    "greatest generation": (defined([("a", 999_999_999)]), OK),
    "a greater generation": (defined([("a", 1_000_000_000)]), DAMAGED),
    "any schema": (defined([("a", 0)], arrow_schema=b""), OK),
    "no columns": (defined(), DAMAGED),
    "a column without sources": (defined([("a", 0)], []), DAMAGED),
    "no name": (defined([("", 0)]), DAMAGED),
    "two of one name": (defined([("a", 0)], [("a", 1)]), DAMAGED),
    "one source twice": (defined([("a", 0)], [("b", 0), ("a", 0)]), DAMAGED),
    "a source twice in one column": (defined([("a", 0), ("a", 0)]), DAMAGED),
    "a dropped source": (defined([("a", 0)], dropped=[("a", 0)]), DAMAGED),
    "dropped": (defined([("a", 2)], dropped=[("a", 0), ("a", 1), ("é", 0)]), OK),
    "dropped twice": (defined([("a", 2)], dropped=[("a", 0), ("a", 0)]), DAMAGED),
    "dropped, generations out of order": (
        defined([("a", 2)], dropped=[("a", 1), ("a", 0)]),
        DAMAGED,
    ),
    "dropped, names out of order": (defined([("a", 2)], dropped=[("c", 0), ("b", 0)]), DAMAGED),
    "dropped without a name": (defined([("a", 2)], dropped=[("", 0)]), DAMAGED),
    "no table": (defined([("a", 0)], table=""), DAMAGED),
    "too long a table": (defined([("a", 0)], table="x" * 256), DAMAGED),
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
        message = defined([("a", 0)], table=row.get("of", row["table"]))
        rows.append({"definition": bytes_of(message), "revision": 0} | row)
    assert in_a_checkpoint(rows, maybe_go) == expected


def test_the_newest_counts_and_forgetting_its_table_ends_it(maybe_go: GoReader | None) -> None:
    for more in ([], [forget(tables=["u"])]):
        log, _ = trial()
        log.commit({"definition": defined([("a", 0)], table="u")})
        log.commit({"definition": defined([("b", 0)], table="u")}, *more)
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
