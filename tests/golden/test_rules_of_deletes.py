"""Rule by rule: what docs/format.md says of tombstones and row deletes, in actions and in segments.
All readers refuse and take alike. What they hold of is in `test_rules_of_bitmaps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import package_verdict
import pytest
from checkpoint_lies import ALL_BAD, outcome
from checkpoint_lies import trial as checkpointed
from hand_checkpoint import Made, sound, write
from hand_objects import encode, tree
from hand_segments import make_table
from hand_small import Small, add, remove
from independent_messages import (
    CHECKPOINT,
    ROW_DELETES,
    TOMBSTONE,
    TOMBSTONES,
)
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import LogReader
from rule_outcome import put_in, told_by_all
from test_rules_of_both import trial
from test_rules_of_definitions import defined

if TYPE_CHECKING:
    from hand_objects import Tree
    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"
BIG = 1 << 62
BAD = "deletes damaged"
NAME = f"data/_/t/1-{'0f' * 16}-0.deletes"


# --- What an action or a row says -----------------------------------------------------------------


def tombstone(**more: Any) -> dict[str, Any]:
    return {"table": "t", "predicate": "temp > 3"} | more


def struck(**more: Any) -> dict[str, Any]:
    """Row deletes of `data/a`."""
    made = {"table": "t", "path": "data/a", "object": NAME, "offset": 0, "length": 18}
    return {**made, "cardinality": 1, "digest": bytes(32), "covers_below": 0, **more}


TOMB: dict[str, tuple[dict[str, Any], str]] = {
    "no columns": (tombstone(), OK),
    "of a table that nobody knows": (tombstone(table="never"), OK),
    "no table": (tombstone(table=""), DAMAGED),
    "too long a table": (tombstone(table="x" * 256), DAMAGED),
    "no predicate": (tombstone(predicate=""), DAMAGED),
    "no predicate that can be understood": (tombstone(predicate="("), OK),
    "the longest predicate": (tombstone(predicate="é" * 32_768), OK),
    "too long a predicate": (tombstone(predicate="é" * 32_768 + "x"), DAMAGED),
    "columns": (tombstone(columns=defined(("temp", 3), last_id=7)), OK),
    "columns with a key": (tombstone(columns=defined(("temp", 1), key=["temp"])), OK),
    "no columns in columns": (tombstone(columns=defined()), DAMAGED),
    "columns of another table": (tombstone(columns=defined(("a", 1), table="u")), DAMAGED),
    "wrong columns": (tombstone(columns=defined(("a", 1), ("a", 2))), DAMAGED),
    "paths": (tombstone(paths=["data/a", "data/never"]), OK),
    "paths elsewhere": (tombstone(paths=["at/0123456789abcdef/x"]), OK),
    "paths out of order": (tombstone(paths=["data/b", "data/a"]), DAMAGED),
    "a path twice": (tombstone(paths=["data/a", "data/a"]), DAMAGED),
    "no path": (tombstone(paths=["x"]), DAMAGED),
}
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "one row": (struck(), OK),
    "no table": (struck(table=""), DAMAGED),
    "no path": (struck(path="x"), DAMAGED),
    "no object": (struck(object=""), DAMAGED),
    "an object elsewhere": (struck(object="at/0123456789abcdef" + NAME[4:]), DAMAGED),
    "an object right in data/": (struck(object=NAME.replace("_/t/", "")), OK),
    "an object below another one": (struck(object=f"{NAME}/x"), DAMAGED),
    "an object named as a file": (struck(object=NAME.replace(".deletes", ".parquet")), DAMAGED),
    "an object of epoch 0": (struck(object=NAME.replace("/1-", "/0-")), DAMAGED),
    "the highest epoch": (struck(object=NAME.replace("/1-", f"/{BIG - 1}-")), OK),
    "an epoch beyond it": (struck(object=NAME.replace("/1-", f"/{BIG}-")), DAMAGED),
    "an object of a short id": (struck(object=NAME.replace("0f0f", "0f", 1)), DAMAGED),
    "upper-case digits": (struck(object=NAME.replace("0f", "0F")), DAMAGED),
    "a line behind the name": (struck(object=f"{NAME}\n"), DAMAGED),
    "the furthest offset": (struck(offset=BIG - 1), OK),
    "an offset beyond it": (struck(offset=BIG), DAMAGED),
    "no bytes": (struck(length=0), DAMAGED),
    "the longest bitmap": (struck(length=1 << 30), OK),
    "too long a bitmap": (struck(length=(1 << 30) + 1), DAMAGED),
    "no rows": (struck(cardinality=0), DAMAGED),
    "all rows that can be": (struck(cardinality=1 << 32), OK),
    "more rows": (struck(cardinality=(1 << 32) + 1), DAMAGED),
    "no digest": (struck(digest=b""), DAMAGED),
    "a short digest": (struck(digest=bytes(31)), DAMAGED),
}
COVERS = {
    "the greatest": (struck(covers_below=BIG - 1), OK),
    "one beyond": (struck(covers_below=BIG), DAMAGED),
}


@pytest.mark.parametrize("case", TOMB)
def test_an_action_of_a_tombstone(case: str, maybe_go: GoReader | None) -> None:
    message, expected = TOMB[case]
    log, _ = trial()
    assert told_by_all(log.commit({"tombstone": message}), maybe_go) == expected


@pytest.mark.parametrize("case", [*ROWS, *COVERS])
def test_an_action_of_row_deletes(case: str, maybe_go: GoReader | None) -> None:
    message, expected = {**ROWS, **COVERS}[case]
    log, _ = trial()
    assert told_by_all(log.commit({"row_deletes": message}), maybe_go) == expected


def test_row_deletes_of_what_is_not_live(maybe_go: GoReader | None) -> None:
    for actions in (
        [{"row_deletes": struck(path="data/b")}],
        [remove(), {"row_deletes": struck()}],
        [{"row_deletes": struck(table="u")}],
    ):
        log, _ = trial()
        log.commit(*actions)
        unfit = "files damaged"
        assert told_by_all(log, maybe_go) == unfit
        assert told_by_all(log.commit(), maybe_go) == unfit


# --- What a segment holds -------------------------------------------------------------------------


def tomb_row(**more: Any) -> dict[str, Any]:
    message = more.pop("message", tombstone(table=more.get("table", "t")))
    return {"table": "t", "revision": 1, "number": 0, "tombstone": bytes_of(message)} | more


def struck_row(**more: Any) -> dict[str, Any]:
    return {**struck(), "revision": 1, "number": 0, **more}


def bytes_of(message: dict[str, Any]) -> bytes:
    return encode(tree(TOMBSTONE, message))


@pytest.mark.parametrize("case", TOMB)
def test_a_row_of_a_tombstone(case: str, maybe_go: GoReader | None) -> None:
    message, expected = TOMB[case]
    row = tomb_row(message=message, table=message["table"])
    wanted = OK if expected == OK else BAD
    assert in_a_checkpoint([(TOMBSTONES, [row])], maybe_go) == wanted


@pytest.mark.parametrize("case", ROWS)
def test_a_row_of_row_deletes(case: str, maybe_go: GoReader | None) -> None:
    message, expected = ROWS[case]
    if len(message["digest"]) != 32:
        return  # its column has no room for it
    wanted = OK if expected == OK else BAD
    found = in_a_checkpoint([(ROW_DELETES, [struck_row(**message)])], maybe_go)
    assert found == wanted


Segments = list[tuple[int, list[dict[str, Any]]]]
SEGMENTS: dict[str, tuple[Segments, str]] = {
    "both kinds": ([(TOMBSTONES, [tomb_row()]), (ROW_DELETES, [struck_row()])], OK),
    "tombstones in order": (
        [(TOMBSTONES, [tomb_row(), tomb_row(number=7), tomb_row(revision=2), tomb_row(table="u")])],
        OK,
    ),
    "tombstones out of order": ([(TOMBSTONES, [tomb_row(number=1), tomb_row()])], BAD),
    "revisions out of order": ([(TOMBSTONES, [tomb_row(revision=2), tomb_row()])], BAD),
    "tables out of order": ([(TOMBSTONES, [tomb_row(table="u"), tomb_row()])], ALL_BAD),
    "a tombstone twice": ([(TOMBSTONES, [tomb_row(), tomb_row()])], BAD),
    "a tombstone in two segments": ([(TOMBSTONES, [tomb_row()]), (TOMBSTONES, [tomb_row()])], BAD),
    "another one of the same action": (
        [(TOMBSTONES, [tomb_row()]), (TOMBSTONES, [tomb_row(message=tombstone(predicate="x"))])],
        BAD,
    ),
    "segments out of order": (
        [(TOMBSTONES, [tomb_row(number=1)]), (TOMBSTONES, [tomb_row()])],
        OK,
    ),
    "a tombstone of another table": ([(TOMBSTONES, [tomb_row(message=tombstone(table="u"))])], BAD),
    "a tombstone to come": ([(TOMBSTONES, [tomb_row(revision=99)])], BAD),
    "a negative revision": ([(TOMBSTONES, [tomb_row(revision=-1)])], BAD),
    "a negative number": ([(TOMBSTONES, [tomb_row(number=-1)])], BAD),
    "no message": ([(TOMBSTONES, [tomb_row(tombstone=b"\xff")])], BAD),
    "a group": ([(TOMBSTONES, [tomb_row(tombstone=bytes_of(tombstone()) + b"\x7b\x7c")])], OK),
    "an unknown field": (
        [(TOMBSTONES, [tomb_row(tombstone=bytes_of(tombstone()) + b"\x78\1")])],
        OK,
    ),
    "an invalid text": ([(TOMBSTONES, [tomb_row(tombstone=b"\x0a\x01\xff")])], BAD),
    "row deletes in order": (
        [(ROW_DELETES, [struck_row(), struck_row(number=1), struck_row(path="data/b")])],
        OK,
    ),
    "row deletes out of order": ([(ROW_DELETES, [struck_row(number=1), struck_row()])], BAD),
    "paths out of order": ([(ROW_DELETES, [struck_row(path="data/b"), struck_row()])], BAD),
    "row deletes twice": ([(ROW_DELETES, [struck_row(), struck_row(length=19)])], BAD),
    "row deletes in two segments": (
        [(ROW_DELETES, [struck_row()]), (ROW_DELETES, [struck_row(length=19)])],
        BAD,
    ),
    "segments of row deletes out of order": (
        [(ROW_DELETES, [struck_row(number=1)]), (ROW_DELETES, [struck_row()])],
        OK,
    ),
    "row deletes to come": ([(ROW_DELETES, [struck_row(revision=99)])], BAD),
    "row deletes of a negative number": ([(ROW_DELETES, [struck_row(number=-1)])], BAD),
    "row deletes of what is not live": ([(ROW_DELETES, [struck_row(path="data/never")])], OK),
}


@pytest.mark.parametrize("case", SEGMENTS)
def test_the_rows_of_segments(case: str, maybe_go: GoReader | None) -> None:
    segments, expected = SEGMENTS[case]
    assert in_a_checkpoint(segments, maybe_go) == expected


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another first table": ({"first_table": "s"}, BAD),
    "another last table": ({"last_table": "u"}, BAD),
    "paths, which mean nothing": ({"first_path": "z", "last_path": "a"}, OK),
    "sums, which mean nothing": ({"total_rows": 7}, OK),
    "a row more": ({"row_count": 2}, BAD),
}


@pytest.mark.parametrize("kind", [TOMBSTONES, ROW_DELETES])
@pytest.mark.parametrize("case", LIES)
def test_what_a_reference_says(case: str, kind: int, maybe_go: GoReader | None) -> None:
    said, expected = LIES[case]
    rows = [tomb_row() if kind == TOMBSTONES else struck_row()]
    assert in_a_checkpoint([(kind, rows)], maybe_go, **said) == expected


def in_a_checkpoint(segments: Segments, go: GoReader | None, **said: Any) -> str:
    """What becomes of a log whose checkpoint has these segments, of which references say this."""
    # Whether bitmaps can be used is asked elsewhere: their objects are not there.
    return outcome(checkpoint_of(segments, **said), go)


def checkpoint_of(segments: Segments, **said: Any) -> Small:
    log = checkpointed()

    def message(what: str, found: Tree) -> Tree:
        if what == "checkpoint":
            put_in(CHECKPOINT, "required_reader_features", ["row_deletes", "tombstones"])(found)
        return found

    log.log.hooks.message = message  # type: ignore[method-assign]
    made = [Made(kind, make_table(kind, rows), dict(said)) for kind, rows in segments]
    write(log.log, [*sound(log.log), *made])
    return log


def test_deletes_come_from_a_lower_base(maybe_go: GoReader | None) -> None:
    """One segment that can't be used, and both kinds come from the next lower base."""
    for kind in (TOMBSTONES, ROW_DELETES):
        log = Small().schema().commit(add())
        log.commit({"row_deletes": struck()}, {"tombstone": tombstone()})
        expected = log.told()["deletes"]
        log.log.features |= {"tombstones", "row_deletes"}
        rows = {
            TOMBSTONES: [tomb_row(revision=9 if kind == TOMBSTONES else 3)],
            ROW_DELETES: [struck_row(revision=9 if kind == ROW_DELETES else 3)],
        }
        pieces = [Made(each, make_table(each, own)) for each, own in rows.items()]
        write(log.log, [*sound(log.log)[1:], *pieces], count=0)
        assert (log.told()["deletes"], told_by_all(log, maybe_go)) == (expected, OK)


@pytest.mark.parametrize("case", ["segments out of order", "segments of row deletes out of order"])
def test_a_checkpoint_of_a_checkpoint_is_in_order(case: str) -> None:
    """What lakelog writes anew of another writer's segments keeps the rules."""
    log = checkpoint_of(SEGMENTS[case][0])
    log.commit({"tombstone": tombstone()})
    objects = log.log.transactions, log.log.segments, log.log.data
    store = package_verdict.store_of(*objects, "w/d")
    state = LogReader(store, "w", "d", Ambient()).load()
    made = encode_state(state)
    log.log.transactions[made.name] = made.body
    log.log.segments |= dict(made.segments)
    before = log.told()["deletes"]
    log.drop(*range(state.revision + 1))
    log.drop(*range(state.revision), kind="checkpoint")
    assert (told_by_all(log), log.told()["deletes"]) == (OK, before)
