"""Rule by rule: what docs/format.md says to refuse or to take, lakelog and the independent reader
refuse or take alike. Each case alters one sound log in one way; the reader in Go is asked as well
where there is Go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import independent_messages as messages
import pytest
from hand_log import Hooks
from hand_objects import Tree
from hand_small import ARROW, COLUMNS, MARK, Small, add, remove, schema
from hand_values import with_ids
from independent_transaction import fingerprint
from independent_wire import BIG
from rule_outcome import by_name, put_in, told_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from three_readers import GoReader

OK, DAMAGED, TOO_NEW, UNFIT = "ok", "damaged", "too-new", "files damaged"


class Last(Hooks):
    """Alters the message of a transaction once it is armed."""

    def __init__(self) -> None:
        self.change: Callable[[Tree], Any] | None = None

    def message(self, what: str, message: Tree) -> Tree:
        if self.change is not None and what == "transaction":
            return self.change(message) or message
        return message


def trial() -> tuple[Small, Last]:
    """A log of six revisions: `data/a` of t is live, `data/b` was removed, u has a schema."""
    hooks = Last()
    log = Small(hooks).schema("t").schema("u").file("data/a").file("data/b")
    log.log.files.pop(("t", "data/b"))
    log.commit(remove("data/b"), app_id="app", app_version=5)
    log.log.rng.random = lambda: 0.9  # type: ignore[method-assign] - no compression
    return log, hooks


# --- Altering a message ---------------------------------------------------------------------------


def put(where: str, *values: Any) -> Callable[[Tree], None]:
    return put_in(messages.TRANSACTION, where, *values)


def extended(*fields: list[Any]) -> Callable[[Tree], None]:
    """The message with more fields behind."""
    return lambda message: message.extend(fields)


def shorter(name: str) -> Callable[[Tree], None]:
    def change(message: Tree) -> None:
        number, _ = by_name(messages.TRANSACTION, name)
        field = next(item for item in message if item[0] == number)
        field[2] = field[2][:-1]

    return change


def member(name: str, *values: Any) -> Callable[[Tree], None]:
    return put(f"commit.members.0.{name}", *values)


def two_members(message: Tree) -> None:
    lower = {"transaction_id": b"u" * 16, "operation": "append", "app_id": "app", "app_version": 3}
    more = {"transaction_id": b"v" * 16, "operation": "delete", "summary": {"why": "lower"}}
    put("commit.members", lower, more)(message)


MESSAGES: dict[str, tuple[Callable[[Tree], Any], str]] = {
    "nothing": (lambda message: None, OK),
    "revision": (put("revision", 7), DAMAGED),
    "uuid short": (shorter("uuid"), DAMAGED),
    "uuid none": (put("uuid"), DAMAGED),
    "uuid other": (put("uuid", b"x" * 16), DAMAGED),
    "previous uuid other": (put("previous_uuid", b"x" * 16), DAMAGED),
    "previous uuid short": (shorter("previous_uuid"), DAMAGED),
    "previous uuid none": (put("previous_uuid"), DAMAGED),
    "previous digest other": (put("previous_digest", b"x" * 32), DAMAGED),
    "previous digest none": (put("previous_digest"), DAMAGED),
    "epoch 0": (put("epoch"), DAMAGED),
    "epoch higher": (put("epoch", BIG - 1), OK),
    "epoch too high": (put("epoch", BIG), DAMAGED),
    "guest": (put("guest", True), OK),
    "no commit": (put("commit"), DAMAGED),
    "same time": (put("commit.committed_at_us", 6), DAMAGED),
    "no time": (put("commit.committed_at_us"), DAMAGED),
    "time before 1970": (put("commit.committed_at_us", -5), DAMAGED),
    "time at the bound": (put("commit.committed_at_us", (1 << 55) - 1), OK),
    "time beyond": (put("commit.committed_at_us", 1 << 55), DAMAGED),
    "successor short": (put("commit.successor_uuid", b"x"), DAMAGED),
    "successor none": (put("commit.successor_uuid"), DAMAGED),
    "slot seed short": (put("commit.slot_seed", b"x" * 15), DAMAGED),
    "no members": (put("commit.members"), DAMAGED),
    "transaction id short": (member("transaction_id", b"x"), DAMAGED),
    "operation empty": (member("operation"), DAMAGED),
    "operation unknown": (member("operation", "é" * 64), OK),
    "operation long": (member("operation", "x" * 65), DAMAGED),
    "app id long": (member("app_id", "é" * 512), OK),
    "app id too long": (member("app_id", "é" * 512 + "x"), DAMAGED),
    "app version": (member("app_version", BIG), DAMAGED),
    "action count wrong": (member("action_count", 99), OK),
    "members with a lower version": (two_members, OK),
    "summary with odd text": (member("summary", *[[[1, 2, b'"\\\n'], [2, 2, b"\x1f\x7f/"]]]), OK),
    "no actions": (put("actions"), OK),
    "size at the bound": (put("actions.0.add.size_bytes", BIG - 1), OK),
    "size": (put("actions.0.add.size_bytes", BIG), DAMAGED),
    "rows": (put("actions.0.add.row_count", BIG), DAMAGED),
    "footer": (put("actions.0.add.footer_bytes", BIG), DAMAGED),
    "footer digest none": (put("actions.0.add.footer_digest"), OK),
    "footer digest short": (put("actions.0.add.footer_digest", b"1234"), DAMAGED),
    "clocks": (put("actions.0.add.first_clock", -(1 << 63)), OK),
    "first added at 0": (put("actions.0.add.original_revision", 0), OK),
    "first added at any revision": (put("actions.0.add.original_revision", -(1 << 63)), OK),
    "partition": (put("actions.0.add.partition", "../%\\"), OK),
    "partition of 85 %": (put("actions.0.add.partition", "%" * 85), OK),
    "partition of 86 %": (put("actions.0.add.partition", "%" * 86), DAMAGED),
    "no table": (put("actions.0.add.table"), DAMAGED),
    "table of 86 %": (put("actions.0.add.table", "%" * 86), DAMAGED),
    "schema short": (put("actions.0.add.schema_fingerprint", MARK[:8]), DAMAGED),
    "schema unknown": (put("actions.0.add.schema_fingerprint", b"x" * 16), UNFIT),
    "row group rows": (put("actions.0.add.row_groups", {"row_count": BIG}), DAMAGED),
    "unknown field 100": (extended([100, 2, b"x"]), OK),
    "unknown fields of every type": (
        extended([20, 0, 7], [21, 1, bytes(8)], [22, 5, bytes(4)]),
        OK,
    ),
    "a known field of another type": (extended([1, 2, b"x"], [5, 5, bytes(4)]), OK),
    "the highest field number": (extended([(1 << 29) - 1, 0, 1]), OK),
    "a field number too high": (extended([1 << 29, 0, 1]), DAMAGED),
    "field number 0": (extended([0, 0, 1]), DAMAGED),
    "a group": (extended([20, 3, b""], [20, 4, b""]), OK),
    "the end of a group": (extended([20, 4, b""]), DAMAGED),
    "wire type 6": (extended([20, 6, b""]), DAMAGED),
    "wire type 7": (extended([20, 7, b""]), DAMAGED),
    "a scalar twice": (lambda message: message.insert(0, [1, 0, 77]), OK),
    "a message twice": (extended([15, 2, [[2, 0, 1 << 30]]]), OK),
    "text that is no text, overridden": (
        lambda message: message[-1][2][0][2].insert(0, [2, 2, b"\xff"]),
        DAMAGED,
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_message(case: str, maybe_go: GoReader | None) -> None:
    change, expected = MESSAGES[case]
    log, hooks = trial()
    hooks.change = change
    assert told_by_all(log.commit(add("data/c")), maybe_go) == expected


def in_member(*fields: list[Any]) -> Callable[[Tree], None]:
    """More fields in the only member."""
    return lambda message: message[-1][2][0][2].extend(fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([[5, 2, [[1, 2, b"k"], [2, 2, b"v"]]]], OK),
        ([[5, 2, [[1, 2, b"k"], [2, 2, b"1"]]], [5, 2, [[1, 2, b"k"]]]], OK),
        ([[5, 2, [[1, 2, b"k"], [3, 3, b""]]]], DAMAGED),
        ([[5, 2, [[1, 2, b"\xff"]]]], DAMAGED),
        ([[5, 2, [[2, 2, b"\xed\xa0\x80"]]]], DAMAGED),
        ([[5, 2, [[1, 2, b"\xff"], [1, 2, b"k"]]]], DAMAGED),
        ([[5, 2, [[0, 0, 7]]]], DAMAGED),
        ([[5, 2, [[1 << 29, 0, 7]]]], DAMAGED),
        ([[5, 0, 7]], OK),
        ([[5, 2, []]], OK),
        ([[7, 2, b"\x0b\xff\x00"]], OK),
    ],
    ids=str,
)
def test_an_entry_of_a_map(fields: list[Any], expected: str, maybe_go: GoReader | None) -> None:
    log, hooks = trial()
    hooks.change = in_member(*fields)
    assert told_by_all(log.commit(add("data/c")), maybe_go) == expected


PATHS = {
    "data/x": OK,
    "data/é/%2F/ x": OK,
    "data/" + "s" * 255: OK,
    "data/..x/x..": OK,
    "data": DAMAGED,
    "data/": DAMAGED,
    "Data/x": DAMAGED,
    "/data/x": DAMAGED,
    "data//x": DAMAGED,
    "data/x/": DAMAGED,
    "data/./x": DAMAGED,
    "data/..": DAMAGED,
    "data/x\\y": DAMAGED,
    "data/x\ny": DAMAGED,
    "data/x\x7fy": DAMAGED,
    "data/\x85": OK,
    "data/" + "s" * 256: DAMAGED,
    "data/" + "é" * 128: DAMAGED,
    "data" + "/s" * 444: OK,
    "data" + "/s" * 444 + "s": DAMAGED,
    "s3://bucket/data/x": DAMAGED,
    "": DAMAGED,
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items(), ids=[p[:20] for p in PATHS])
def test_a_path(path: str, expected: str, maybe_go: GoReader | None) -> None:
    log, _ = trial()
    assert told_by_all(log.commit(add(path)), maybe_go) == expected
    log, _ = trial()
    one, two = (remove(path), add(path)) if expected == DAMAGED else (add(path), remove(path))
    assert told_by_all(log.commit(one, two), maybe_go) == expected


# --- Actions --------------------------------------------------------------------------------------


def schema_of(message: bytes, **more: Any) -> dict[str, Any]:
    """A Schema action of these bytes with its right fingerprint."""
    found = {"table": "t", "arrow_schema": message, "fingerprint": fingerprint(message)}
    return {"schema": found | more}


def of_ids(*ids: int) -> bytes:
    """The columns of `ARROW` with other ids."""
    return with_ids(COLUMNS, ids).serialize().to_pybytes()


LATER = fingerprint(of_ids(7, 2))
ACTIONS: dict[str, tuple[list[Any], str]] = {
    "add again": ([add("data/a")], UNFIT),
    "add twice": ([add("data/c"), add("data/c")], UNFIT),
    "add again in another table": ([add("data/a", "u")], OK),
    "add what was removed": ([add("data/b")], OK),
    "add and remove": ([add("data/c"), remove("data/c")], OK),
    "remove and add": ([remove("data/a"), add("data/a")], OK),
    "remove twice": ([remove("data/a"), remove("data/a")], UNFIT),
    "remove what was removed": ([remove("data/b")], UNFIT),
    "remove a bad path": ([remove("data/../a")], DAMAGED),
    "schema of another table": ([add("data/c", "v"), schema("v")], UNFIT),
    "schema just before": ([schema("v"), add("data/c", "v")], OK),
    "schema of no table": ([schema("")], DAMAGED),
    "other fingerprint": ([schema_of(ARROW, fingerprint=b"x" * 16)], DAMAGED),
    "schema no message": ([schema_of(b"")], OK),
    "schema junk": ([schema_of(b"junk of some length, no schema")], OK),
    "other ids": ([schema_of(of_ids(2, 1))], OK),
    "id 0": ([schema_of(of_ids(0, 1))], OK),
    "the greatest id": ([schema_of(of_ids(1, (1 << 31) - 1))], OK),
    "a greater id": ([schema_of(of_ids(1, 1 << 31))], OK),
    "no ids": ([schema_of(COLUMNS.serialize().to_pybytes())], OK),
    "one id twice": ([schema_of(of_ids(1, 1))], OK),
    "a file of a later column": (
        [schema_of(of_ids(7, 2)), add("data/c", schema_fingerprint=LATER)],
        OK,
    ),
    "key of no column": ([schema_of(ARROW, key=["nowhere"], sort_order=["", "x"])], OK),
    "upgrade writers": ([{"upgrade": {"required_writer_features": ["x", "x"]}}], OK),
    "upgrade readers": ([{"upgrade": {"required_reader_features": ["x"]}}], TOO_NEW),
    "upgrade readers to what they know": (
        [{"upgrade": {"required_reader_features": ["partition_columns"]}}],
        OK,
    ),
    "upgrade of nothing": ([{"upgrade": {}}], OK),
    "256 features": ([{"upgrade": {"required_writer_features": [f"{n}" for n in range(256)]}}], OK),
    "257 features": (
        [{"upgrade": {"required_writer_features": [f"{n}" for n in range(257)]}}],
        DAMAGED,
    ),
    "a feature of 65 characters": (
        [{"upgrade": {"required_writer_features": ["é" * 65]}}],
        DAMAGED,
    ),
    "no kind": ([{}], TOO_NEW),
    "no kind, optional": ([{"optional": True}], OK),
    "kind 14": ([[[14, 2, b"x"]]], TOO_NEW),
    "kind 14, optional": ([[[14, 2, b"x"], [15, 0, 1]]], OK),
    "kind 14 beside no remove, optional": ([[[2, 2, b""], [14, 2, b"x"], [15, 0, 1]]], DAMAGED),
    "field 16 beside a remove": ([[[2, 2, [[1, 2, b"data/a"], [2, 2, b"t"]]], [16, 0, 1]]], OK),
    "the highest kind": ([[[(1 << 29) - 1, 0, 1]]], TOO_NEW),
    "optional of another wire type": (
        [[[2, 2, [[1, 2, b"data/a"], [2, 2, b"t"]]], [15, 2, b"x"]]],
        OK,
    ),
    "a known kind of another wire type": ([[[2, 0, 1]]], TOO_NEW),
    "known and optional": ([remove("data/a") | {"optional": True}], OK),
    "too new before damaged": ([remove("x"), {}], TOO_NEW),
    "identity": ([{"identity": {"writer": "x", "database": "y"}}], OK),
    "identity begun": (
        [{"identity": {"writer": "x", "database": "y", "begun_at_us": (1 << 55) - 1}}],
        OK,
    ),
    "identity begun before 1970": (
        [{"identity": {"writer": "x", "database": "y", "begun_at_us": -1}}],
        DAMAGED,
    ),
    "identity begun beyond": (
        [{"identity": {"writer": "x", "database": "y", "begun_at_us": 1 << 55}}],
        DAMAGED,
    ),
    "identity of nobody": ([{"identity": {"writer": "w"}}], DAMAGED),
    "seal": ([{"seal": {"next_incarnation": 2, "rebuild_id": bytes(16)}}], DAMAGED),
    "seal, and something ignored": (
        [{"seal": {"next_incarnation": 2, "rebuild_id": bytes(16)}}, {"optional": True}],
        DAMAGED,
    ),
    "seal among others": (
        [{"seal": {"next_incarnation": 2, "rebuild_id": bytes(16)}}, remove("data/a")],
        DAMAGED,
    ),
    "seal without an id": ([{"seal": {"next_incarnation": 2}}], DAMAGED),
    "seal of its own": ([{"seal": {"next_incarnation": 1, "rebuild_id": bytes(16)}}], DAMAGED),
    "forget a table in use": ([{"forget": {"tables": ["t"]}}, schema("t")], UNFIT),
    "forget another table": ([{"forget": {"tables": ["u"]}}], OK),
    "forget applications": ([{"forget": {"applications_before_us": 10**9}}], OK),
    "forget by a short fingerprint": (
        [{"forget": {"schemas": [{"table": "u", "fingerprint": b"x"}]}}],
        DAMAGED,
    ),
    "forget no table": ([{"forget": {"tables": [""]}}], DAMAGED),
}


@pytest.mark.parametrize("case", ACTIONS)
def test_actions(case: str, maybe_go: GoReader | None) -> None:
    actions, expected = ACTIONS[case]
    log, _ = trial()
    assert told_by_all(log.commit(*actions), maybe_go) == expected


def test_only_an_identity_begins_a_log(maybe_go: GoReader | None) -> None:
    identity = {"identity": {"writer": "w", "database": "d"}}
    for actions, expected in (
        ([identity], OK),
        ([identity, schema()], OK),
        ([{"optional": True}, identity], OK),
        ([schema(), identity], DAMAGED),
        ([], DAMAGED),
    ):
        log = Small()
        log.log.transactions.clear()
        log.log.begin()
        assert told_by_all(log.commit(*actions), maybe_go) == expected
