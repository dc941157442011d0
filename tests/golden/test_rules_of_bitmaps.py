"""Rule by rule: what docs/format.md says of the files of which deletes hold, of the objects of row
deletes and of the bitmaps in them. All readers refuse and take alike."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

import pytest
from hand_bitmap import ODD, encode_bitmap
from hand_objects import Header, encode, frame, tree
from hand_small import Small, add, forget, remove
from independent_log import Log
from independent_messages import DELETES_OBJECT
from independent_verdict import deleted_lines
from rule_outcome import told_by_all
from test_rules_of_deletes import BIG, NAME, struck, tombstone

if TYPE_CHECKING:
    from collections.abc import Callable

    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"


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
    lines = deleted_lines(state, "t", state.files("t"), log.log.data)
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
    "a message with a group": ({"message": b"\x7b\x7c"}, "4-4"),
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
def test_what_is_no_bitmap(number: int, maybe_go: GoReader | None) -> None:
    log = files()
    log.commit(put_rows(log, ODD[number]))
    assert deleted(log, maybe_go) == {"data/a": "|damaged"}
