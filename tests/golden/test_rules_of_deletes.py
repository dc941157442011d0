"""Rule by rule: what docs/format.md says of tombstones, of row deletes and of the bitmaps that they
point to. All readers refuse and take alike."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

import package_verdict
import pytest
from checkpoint_lies import ALL_BAD, outcome
from checkpoint_lies import trial as checkpointed
from hand_bitmap import ODD, encode_bitmap
from hand_checkpoint import Made, sound, write
from hand_objects import Header, encode, frame, tree
from hand_segments import make_table
from hand_small import Small, add, forget, remove
from independent_log import Log
from independent_messages import (
    CHECKPOINT,
    DELETES_OBJECT,
    ROW_DELETES,
    TOMBSTONE,
    TOMBSTONES,
)
from independent_verdict import deleted_lines
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import LogReader
from rule_outcome import put_in, told_by_all
from test_rules_of_both import trial
from test_rules_of_definitions import defined

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "columns": (tombstone(columns=defined([("temp", 0), ("x", 2)])), OK),
    "columns with a key": (tombstone(columns=defined([("temp", 0)], key=["temp"])), OK),
    "no columns in columns": (tombstone(columns=defined()), DAMAGED),
    "columns of another table": (tombstone(columns=defined([("a", 0)], table="u")), DAMAGED),
    "dropped columns": (tombstone(columns=defined([("a", 1)], dropped=[("a", 0)])), DAMAGED),
    "wrong columns": (tombstone(columns=defined([("a", 0)], [("a", 1)])), DAMAGED),
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
    "a group": ([(TOMBSTONES, [tomb_row(tombstone=bytes_of(tombstone()) + b"\x7b\x7c")])], BAD),
    "an unknown field": (
        [(TOMBSTONES, [tomb_row(tombstone=bytes_of(tombstone()) + b"\x78\1")])],
        OK,
    ),
    "a text that is none": ([(TOMBSTONES, [tomb_row(tombstone=b"\x0a\x01\xff")])], BAD),
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


# --- What holds of which file ---------------------------------------------------------------------


def files() -> Small:
    """Three files of t: `data/a` and `data/b` of 9 rows, and `data/c` of 2^33."""
    log = Small().schema()
    log.commit(add("data/a", row_count=9), add("data/b", row_count=9))
    return log.commit(add("data/c", row_count=1 << 33))


def put_rows(
    log: Small,
    rows: list[int] | bytes,
    name: str = NAME,
    *,
    change: Callable[[Header], Any] = lambda header: None,
    message: bytes | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An object with one bitmap, and the action that points to it."""
    data = rows if isinstance(rows, bytes) else encode_bitmap(rows, random.Random(1))
    header = Header(5, b"any log's id is.", 7)
    change(header)
    own = encode(tree(DELETES_OBJECT, {"table": "t"})) if message is None else message
    log.log.data[name] = frame(header, own, b"before" + data + b"behind")
    count = len(rows) if isinstance(rows, list) else 1
    facts = {"object": name, "offset": 6, "length": len(data), "cardinality": count}
    return {"row_deletes": struck(**facts | {"digest": hashlib.sha256(data).digest()} | more)}


def deleted(log: Small, go: GoReader | None) -> dict[str, str]:
    """By path what is deleted, as all readers say it."""
    assert told_by_all(log, go) == OK
    state = Log(log.log.transactions, log.log.segments).read()
    lines = deleted_lines(state.deletes(), "t", state.files("t"), log.log.data)
    return dict(line.split("|", 1) for line in lines)


def test_a_tombstone_holds_of_older_files(maybe_go: GoReader | None) -> None:
    log = files()
    log.commit({"optional": True}, {"tombstone": tombstone()}, add("data/d"))
    assert deleted(log, maybe_go) == dict.fromkeys(["data/a", "data/b", "data/c"], "4.1|")
    log.commit(
        {"tombstone": tombstone(paths=["data/b", "data/d"])}, {"tombstone": tombstone(table="u")}
    )
    assert deleted(log, maybe_go) == {
        "data/a": "4.1|", "data/b": "4.1,5.0|", "data/c": "4.1|", "data/d": "5.0|",
    }  # fmt: skip
    log.commit(remove("data/b"), add("data/b"))
    assert deleted(log, maybe_go).keys() == {"data/a", "data/c", "data/d"}
    log.commit(forget(tables=["u"]))
    before = log.told()["deletes"]
    assert log.commit(forget(tables=["t"])).told()["deletes"] != before
    assert told_by_all(log, maybe_go) == OK


def test_row_deletes_hold_until_they_are_covered_or_their_file_goes(
    maybe_go: GoReader | None,
) -> None:
    other = NAME.replace("-0.", "-1.")
    log = files()
    log.commit(put_rows(log, [0, 4, 5]), put_rows(log, [7], other))
    assert deleted(log, maybe_go) == {"data/a": "|0-0,4-5,7-7"}
    log.commit(put_rows(log, [1], other.replace("-1.", "-2."), covers_below=4))
    assert deleted(log, maybe_go) == {"data/a": "|0-1,4-5,7-7"}
    log.commit(put_rows(log, [8], other.replace("-1.", "-3."), covers_below=5))
    assert deleted(log, maybe_go) == {"data/a": "|1-1,8-8"}
    log.commit(
        put_rows(log, [2], other.replace("-1.", "-4."), covers_below=99),
        put_rows(log, [3], other.replace("-1.", "-5."), covers_below=99),
    )
    assert deleted(log, maybe_go) == {"data/a": "|2-3"}
    log.commit(remove("data/a"), add("data/a"))
    assert deleted(log, maybe_go) == {}


def test_a_bitmap_of_very_many_rows(maybe_go: GoReader | None) -> None:
    """4 million in 1 KiB. What lists them before it counts them: `tests/hostile/bombs.py`."""
    many, data = 1 << 22, full_bitmap(64)
    for rows, count, expected in (
        (1 << 33, many, f"|0-{many - 1}"),
        (many, many, f"|0-{many - 1}"),
        (many - 1, many, "|damaged"),
        (1 << 33, many - 1, "|damaged"),
    ):
        log = Small().schema().commit(add("data/a", row_count=rows))
        log.commit(put_rows(log, data, cardinality=count))
        assert deleted(log, maybe_go) == {"data/a": expected}


def full_bitmap(count: int) -> bytes:
    """All numbers of so many containers, as runs."""
    head = (12_347 | (count - 1) << 16).to_bytes(4, "little") + b"\xff" * (count // 8)
    head += b"".join(key.to_bytes(2, "little") + b"\xff\xff" for key in range(count))
    start = len(head) + 4 * count
    head += b"".join((start + 6 * n).to_bytes(4, "little") for n in range(count))
    return head + b"\1\0\0\0\xff\xff" * count


OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "sound": ({}, "4-4"),
    "no bytes too few": ({"length": 17}, DAMAGED),
    "other bytes": ({"offset": 5}, DAMAGED),
    "beyond the object": ({"length": 1 << 20}, DAMAGED),
    "beyond all": ({"offset": BIG - 1}, DAMAGED),
    "another digest": ({"digest": bytes(32)}, DAMAGED),
    "more rows": ({"cardinality": 2}, DAMAGED),
    "another version": ({"change": {"version": 2}}, TOO_NEW),
    "another codec": ({"change": {"codec": 2}}, TOO_NEW),
    "another kind": ({"change": {"kind": 3}}, DAMAGED),
    "no incarnation": ({"change": {"incarnation": 0}}, DAMAGED),
    "no message": ({"message": b"\xff"}, DAMAGED),
    "a message of nothing": ({"message": b""}, "4-4"),
    "a message with an unknown field": ({"message": b"\x78\1"}, "4-4"),
    "a message with a group": ({"message": b"\x7b\x7c"}, DAMAGED),
    "a name that is no text": ({"message": b"\x0a\x01\xff"}, DAMAGED),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object(case: str, maybe_go: GoReader | None) -> None:
    given, expected = OBJECTS[case]
    more = dict(given)
    changes = more.pop("change", {})

    def change(header: Header) -> None:
        for name, value in changes.items():
            setattr(header, name, value)

    log = files()
    log.commit(put_rows(log, [4], change=change, **more))
    assert deleted(log, maybe_go) == {"data/a": f"|{expected}"}


def test_one_that_is_gone_and_one_too_new(maybe_go: GoReader | None) -> None:
    other = NAME.replace("-0.", "-1.")
    log = files()
    log.commit(put_rows(log, [4]), put_rows(log, [5], path="data/b"))
    del log.log.data[NAME]
    assert deleted(log, maybe_go) == {"data/a": "|damaged", "data/b": "|damaged"}
    log.commit(put_rows(log, [5], other, change=lambda header: setattr(header, "version", 9)))
    assert deleted(log, maybe_go) == {"data/a": "|too-new", "data/b": "|damaged"}


@pytest.mark.parametrize("number", range(len(ODD)))
def test_bitmaps_that_are_odd(number: int, maybe_go: GoReader | None) -> None:
    data = ODD[number]
    log = files()
    for count in (1, 2, 5, 4_104, 65_533, 65_536) if data else ():
        name = NAME.replace("-0.", f"-{count}.")
        log.commit(add(f"data/{count}", row_count=1 << 33))
        log.commit(put_rows(log, data, name, cardinality=count, path=f"data/{count}"))
    found = deleted(log, maybe_go)
    sound = [path for path, said in found.items() if said != "|damaged"]
    assert len(sound) == (number in SOUND), found


SOUND = {7, 13, 14, 15, 22}  # all others of ODD are damaged, whatever the log says of them


def test_deletes_come_from_a_lower_base(maybe_go: GoReader | None) -> None:
    """One segment that can't be used, and both kinds come from the next lower base."""
    for kind in (TOMBSTONES, ROW_DELETES):
        log = files()
        log.commit(put_rows(log, [4]), {"tombstone": tombstone()})
        expected = log.told()["deletes"]
        log.log.features |= {"tombstones", "row_deletes"}
        rows = {
            TOMBSTONES: [tomb_row(revision=9 if kind == TOMBSTONES else 4)],
            ROW_DELETES: [struck_row(revision=9 if kind == ROW_DELETES else 4)],
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
