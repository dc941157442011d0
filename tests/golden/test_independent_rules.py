"""Rule by rule: what a log costs that breaks one thing, as docs/format.md says, for the independent
reader. Each case is a small log written by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hand_log import Hooks
from hand_random import RandomLog
from hand_small import MARK, Change, Small, add, forget, remove, schema
from hand_tokens import token_of
from independent_cut import Entry, parse_footer, parse_token, read_entry
from independent_log import Log
from independent_messages import FILES, HISTORY, REFERENCES, SCHEMAS, STATISTICS
from independent_verdict import verdict
from independent_wire import Damaged, Refusal

NAMED = [{"table": "t", "fingerprint": MARK}]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], ["data/a"]),
        ([remove()], []),
        ([remove(), add()], ["data/a"]),
        ([add("data/b")], ["data/a", "data/b"]),
        ([add("data/b", schema_fingerprint=bytes(16))], "damaged"),
        ([add()], "damaged"),
        ([remove("data/b")], "damaged"),
        ([forget(tables=["t"])], "damaged"),
        ([forget(schemas=NAMED)], "damaged"),
        ([remove(), forget(schemas=NAMED), add("data/b")], "damaged"),
        ([remove(), forget(schemas=NAMED), schema(), add("data/b")], ["data/b"]),
        ([forget(tables=["u"], schemas=[{"table": "u", "fingerprint": bytes(16)}])], ["data/a"]),
        ([{"optional": True}], ["data/a"]),
        ([remove(table="u")], ["data/a"]),
    ],
)
def test_what_does_not_fit_costs_its_table(actions: list[Any], expected: Any) -> None:
    log = Small().schema("u2").schema().file().commit(*actions)
    assert log.files() == expected
    assert log.told()["verdict"] == "ok"
    assert log.files("u2") == []
    assert Log(log.log.transactions, {}).read(3).files("t").keys() == {"data/a"}
    log.commit()
    assert log.files() == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (add(path="x"), "damaged"),
        (add(size_bytes=1 << 62), "damaged"),
        (add(size_bytes=(1 << 62) - 1), "ok"),
        (add(footer_digest=b"1234567"), "damaged"),
        (add(partition="%" * 86), "damaged"),
        (remove(table=""), "damaged"),
        (forget(schemas=[{"table": "t", "fingerprint": b"1"}]), "damaged"),
        ({"upgrade": {"required_writer_features": [""]}}, "damaged"),
        ({"upgrade": {"required_writer_features": ["x" * 64]}}, "ok"),
        ({"upgrade": {"required_reader_features": ["x"]}}, "too-new"),
        ({"tombstone": {}, "optional": True}, "damaged"),
        ({}, "too-new"),
        ({"identity": {"writer": "-w", "database": "d"}}, "damaged"),
        ({"seal": {"next_incarnation": 1, "rebuild_id": bytes(16)}}, "damaged"),
        ({"seal": {"next_incarnation": 1000, "rebuild_id": bytes(16)}}, "damaged"),
        ({"add_batch": {}}, "damaged"),
        ({"add_batch": {"segments": [{"segment": {"kind": 12, "row_count": 1}}]}}, "too-new"),
        ({"add_batch": {"segments": [{"segment": {"kind": 3, "row_count": 1}}]}}, "damaged"),
        ({"add_batch": {"segments": [{"segment": {"kind": 1, "row_count": 1}}]}}, "ok"),
        ({"add_batch": {"segments": [{"segment": {"kind": 1, "row_count": 0}}]}}, "damaged"),
    ],
)
def test_what_decides_whether_a_revision_exists(action: dict[str, Any], expected: str) -> None:
    assert Small().schema().commit(action).told()["verdict"] == expected


def test_nothing_follows_a_seal() -> None:
    log = Small().commit({"seal": {"next_incarnation": 3, "rebuild_id": bytes(16)}})
    assert Log(log.log.transactions, log.log.segments).read(log.log.revision).head.seal == 3
    assert log.told() == {"verdict": "damaged"}  # a rebuild was broken off
    assert log.commit().told() == {"verdict": "damaged"}


# --- Checkpoints ----------------------------------------------------------------------------------


def renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns([f"{name}_" for name in table.schema.names])


@pytest.mark.parametrize("kind", [FILES, SCHEMAS, HISTORY, REFERENCES])
@pytest.mark.parametrize("lower", [True, False])
def test_a_damaged_segment_costs_its_part(kind: int, lower: bool) -> None:
    log = Small(Change(kind, renamed, consistent=False)).schema().file().checkpoint().file("data/b")
    if not lower:
        log.drop(0)
    told = log.told()
    assert told["verdict"] == "ok"
    assert told["revision"] == 3
    if lower:
        assert log.files() == ["data/a", "data/b"]
        return
    all_gone = kind == REFERENCES
    assert (told["history"] == "damaged") == (kind == HISTORY or all_gone)
    assert log.files() == (["data/a", "data/b"] if kind == HISTORY else "damaged")
    assert (told["applications"] == "damaged") == all_gone


def test_an_unknown_kind_in_references_is_never_fallen_back_from() -> None:
    def unknown(table: pa.Table) -> pa.Table:
        kinds = pa.array([12, *table.column("kind").to_pylist()[1:]], pa.uint8())
        return table.set_column(0, "kind", kinds).drop_columns(["run"])

    log = Small(Change(REFERENCES, unknown)).schema().file().checkpoint().commit()
    told = log.told()
    assert (told["verdict"], told["history"], told["applications"]) == ("ok", "too-new", "too-new")
    assert log.files() == "too-new"


def test_a_checkpoint_that_is_not_the_base_of_the_next() -> None:
    log = Small().schema().file()
    log.log.digest, right = bytes(32), log.log.digest
    log.checkpoint()
    log.log.digest = right
    assert log.told()["digest"] == right.hex()  # its own transaction is another one
    assert log.commit().told()["revision"] == 3
    assert log.drop(0).told()["verdict"] == "damaged"
    assert log.drop(2, 3).told()["digest"] == bytes(32).hex()  # nothing is left that shows it


def test_damaged_statistics_cost_nothing_else() -> None:
    found = []
    for hooks in (Hooks(), Change(STATISTICS, renamed, consistent=False)):
        made = RandomLog(5, hooks)
        made.birth()
        made.log.commit(made.learn("t"), made.members(1))
        made.log.commit([{"add": f.add()} for f in made.new_files("t", 9)], made.members(1))
        made.log.checkpoint()
        found.append(verdict(made.log.transactions, made.log.segments)["tables"]["t"])
    one, other = found
    assert one["files"] == other["files"]
    assert one["statistics"] != other["statistics"]
    assert one["row_group_statistics"] == other["row_group_statistics"]


def test_bitmaps() -> None:
    log = Small().schema().file().file("data/b")
    log.log.removed.append(log.log.files.pop(("t", "data/a")))
    log.commit(remove())
    log.log.rng.random = lambda: 0.5  # type: ignore[method-assign]
    log.checkpoint().drop(0, 1, 2, 3, 4)
    assert log.files() == ["data/b"]


# --- Listings -------------------------------------------------------------------------------------


def test_what_cannot_be_read_and_why() -> None:
    assert verdict({"x": b""}, {}) == {"verdict": "empty"}
    log = Small().schema().file().checkpoint().commit().commit()
    objects = log.log.transactions
    read = Log(objects, {})
    with pytest.raises(Refusal) as refused:
        read.read(9)
    assert refused.value.kind == "not-found"
    log.drop(0)
    assert Log(objects, {}).read().head.revision == 4
    with pytest.raises(Refusal) as refused:
        Log(objects, {}).read(1)
    assert refused.value.kind == "pruned"
    log.drop(3)
    assert log.told() == {"verdict": "missing"}


def test_forks() -> None:
    log = Small().schema().checkpoint().commit()
    objects = log.log.transactions
    first = next(name for name in objects if "-0." in name)
    objects[f"{first.split('.')[0]}.ffffffff.transaction"] = b""
    assert log.told()["verdict"] == "ok"  # below the base in use
    last = next(name for name in objects if "-2." in name)
    objects[f"{last.split('.')[0]}.ffffffff.checkpoint"] = b""
    assert log.told() == {"verdict": "forked"}


def test_incarnations() -> None:
    log = Small().schema()
    log.log.incarnation = 2
    log.log.begin()
    log.commit({"identity": {"writer": "w", "database": "d"}}).commit()
    assert log.told()["incarnation"] == 2
    log.checkpoint()
    assert (log.told()["incarnation"], log.told()["revision"]) == (2, 1)
    (saved,) = (name for name in log.log.transactions if name.endswith("checkpoint"))
    log.log.transactions[saved] = b""
    assert log.told()["incarnation"] == 2


# --- Tokens and footers ---------------------------------------------------------------------------


W: dict[str, Any] = {"writer": "w", "revision": 3, "digest": b"12345678", "log_id": b"L" * 16}


def test_tokens() -> None:
    token = token_of("d", {"writer": "-"[1:] + "a"}, {**W, "incarnation": 2})
    database, found = parse_token(token)
    assert (database, list(found)) == ("d", ["a", "w"])
    assert found["w"] == Entry(3, b"12345678", b"L" * 16, 2)
    for at in range(len(token)):
        other = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(Damaged):
            parse_token(other)
    for wrong in (token + " ", " " + token, "ll1-", "", token + "=", "ll1-" + "A" * (1 << 20)):
        with pytest.raises(Damaged):
            parse_token(wrong)


@pytest.mark.parametrize(
    "writers",
    [
        [], [W], [{**W, "incarnation": 1000}], [{"writer": "w", "incarnation": 1}],
        [{"writer": "w"}, {"writer": "w"}], [{"writer": "x"}, {"writer": "w"}], [{"writer": "_"}],
        [{"writer": "w", "digest": b"1"}], [{"writer": "w", "revision": 10**12}],
        [{**W, "log_id": b"1", "incarnation": 1}],
    ],
)  # fmt: skip
def test_what_is_no_cut(writers: list[dict[str, Any]]) -> None:
    with pytest.raises(Damaged):
        parse_token(token_of("d", *writers))


def test_reading_a_token() -> None:
    log = Small().schema().file()
    objects, digest = log.log.transactions, log.log.digest[:8]
    assert read_entry(objects, {}, Entry(2, digest, b"L" * 16, 1)).head.revision == 2
    for entry in (
        Entry(2, b"x" * 8, b"L" * 16, 1), Entry(2, digest, b"M" * 16, 1),
        Entry(2, b"", b"L" * 16, 2)
    ):  # fmt: skip
        with pytest.raises(Refusal):
            read_entry(objects, {}, entry)
    assert read_entry(objects, {}, Entry(1, b"", b"", 0)).head.revision == 1


def test_footers() -> None:
    texts = ("writer", "database", "table", "partition", "app_id", "operation")
    numbers = ("incarnation", "number", "base_revision", "epoch", "first_clock", "last_clock")
    footer = {f"lakelog.{name}": "x" for name in texts}
    numbers = (*numbers, "app_version")
    footer |= {f"lakelog.{name}": "-1" for name in numbers}
    footer |= {f"lakelog.{name}": "0f" * 16 for name in ("log_id", "slot_seed", "transaction_id")}
    footer |= {"lakelog.base_transaction_id": "", "lakelog.schema": "", "lakelog.version": "1"}
    footer |= {"lakelog.replaces": '[["t","data/a"]]'}
    found = parse_footer({**footer, "other": "x"})
    assert found is not None
    assert (found["base_revision"], found["replaces"]) == (-1, [["t", "data/a"]])
    assert parse_footer({}) is None
    assert parse_footer({**footer, "lakelog.version": "2"}) is None
    for name, value in (("replaces", '[["t","x"]]'), ("log_id", "F" * 32)):
        with pytest.raises(Damaged):
            parse_footer({**footer, f"lakelog.{name}": value})
    with pytest.raises(Damaged):
        parse_footer({**footer, "lakelog.task": "1"})
    of_task = parse_footer({**footer, "lakelog.task": "1", "lakelog.attempt": "7"})
    assert of_task is not None
    assert (of_task["task"], of_task["attempt"]) == (1, 7)
    del footer["lakelog.number"]
    with pytest.raises(Damaged):
        parse_footer(footer)
