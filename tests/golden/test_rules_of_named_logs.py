"""Rule by rule: what docs/format.md, section 5.6, says of logs that a tombstone names, as far as
one log tells: what may be said of them, and of which of its own files such a tombstone holds. All
readers refuse and take alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hand_checkpoint import Made, sound, write
from hand_segments import make_table
from hand_small import Small, forget, remove
from independent_log import Log
from independent_messages import HISTORY, TOMBSTONES
from independent_verdict import deleted_lines
from rule_outcome import told_by_all
from test_rules_of_both import trial
from test_rules_of_deletes import BAD, DAMAGED, OK, TOO_NEW, in_a_checkpoint, tomb_row, tombstone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from three_readers import GoReader

BEGUN = 10  # when revision 0 is committed; the next ones follow one by one
OTHER = b"another log's id"


def log_at(**more: Any) -> dict[str, Any]:
    """The small log, as it was somewhere that its history doesn't know."""
    made = {"writer": "w", "log_id": b"L" * 16, "incarnation": 1, "revision": 2}
    return {**made, "transaction_id": b"?" * 16, "committed_at_us": 1, **more}


def naming(*logs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return tombstone(logs=list(logs), **more)


# --- What may be said -----------------------------------------------------------------------------

SAID: dict[str, tuple[dict[str, Any], str]] = {
    "one log": (naming(log_at()), OK),
    "two logs": (naming(log_at(), log_at(log_id=OTHER)), OK),
    "logs out of order": (naming(log_at(log_id=OTHER), log_at()), DAMAGED),
    "a log twice": (naming(log_at(), log_at(revision=3)), DAMAGED),
    "paths, too": (naming(log_at(), paths=["data/a"]), DAMAGED),
    "no writer": (naming(log_at(writer="")), DAMAGED),
    "a writer of 64 signs": (naming(log_at(writer="w" * 64)), OK),
    "a writer of more": (naming(log_at(writer="w" * 65)), DAMAGED),
    "a writer in a folder": (naming(log_at(writer="a/b")), DAMAGED),
    "a line behind the writer": (naming(log_at(writer="w\n")), DAMAGED),
    "no log id": (naming(log_at(log_id=b"")), DAMAGED),
    "a short log id": (naming(log_at(log_id=b"L" * 15)), DAMAGED),
    "a long log id": (naming(log_at(log_id=b"L" * 17)), DAMAGED),
    "incarnation 0": (naming(log_at(incarnation=0)), DAMAGED),
    "the last incarnation": (naming(log_at(incarnation=999)), OK),
    "an incarnation beyond it": (naming(log_at(incarnation=1000)), DAMAGED),
    "revision 0": (naming(log_at(revision=0)), OK),
    "the last revision": (naming(log_at(revision=10**12 - 1)), OK),
    "a revision beyond it": (naming(log_at(revision=10**12)), DAMAGED),
    "no transaction id": (naming(log_at(transaction_id=b"")), DAMAGED),
    "a short transaction id": (naming(log_at(transaction_id=b"t" * 15)), DAMAGED),
    "no time": (naming(log_at(committed_at_us=0)), DAMAGED),
    "a time before all": (naming(log_at(committed_at_us=-1)), DAMAGED),
    "the last time": (naming(log_at(committed_at_us=(1 << 55) - 1)), OK),
    "a time beyond it": (naming(log_at(committed_at_us=1 << 55)), DAMAGED),
}


@pytest.mark.parametrize("case", SAID)
def test_in_an_action(case: str, maybe_go: GoReader | None) -> None:
    message, expected = SAID[case]
    log, _ = trial()
    assert told_by_all(log.commit({"tombstone": message}), maybe_go) == expected


@pytest.mark.parametrize("case", SAID)
def test_in_a_row(case: str, maybe_go: GoReader | None) -> None:
    message, expected = SAID[case]
    row = tomb_row(message=message)
    wanted = OK if expected == OK else BAD
    assert in_a_checkpoint([(TOMBSTONES, [row])], maybe_go) == wanted


def test_all_of_it_counts(maybe_go: GoReader | None) -> None:
    """Readers tell of two tombstones that they differ, whatever differs."""
    others = [
        {"writer": "x"}, {"log_id": OTHER}, {"incarnation": 2}, {"revision": 3},
        {"transaction_id": b"!" * 16}, {"committed_at_us": 2},
    ]  # fmt: skip
    said = set()
    for other in [{}, *others]:
        log = Small().schema().commit({"tombstone": naming(log_at(**other))})
        assert told_by_all(log, maybe_go) == OK
        said.add(log.told()["deletes"])
    assert len(said) == 1 + len(others)


# --- Of which files it holds ----------------------------------------------------------------------


def files() -> Small:
    """Revisions 2, 3 and 4 have added `data/a`, `data/b` and `data/c`."""
    log = Small(at=BEGUN - 1).schema()
    for revision, name in enumerate("abc", 2):
        log.file(f"data/{name}", transaction_id=bytes([revision]) * 16)
    return log


def held(log: Small, go: GoReader | None) -> str:
    """The files of `t` of which a tombstone holds, or why that can't be told."""
    told_by_all(log, go)
    word: str = log.told()["tables"]["t"]["deleted"]
    if word in (DAMAGED, TOO_NEW):
        return word
    state = Log(log.log.transactions, log.log.segments).read()
    lines = deleted_lines(state, "t", state.files("t"), log.log.data)
    return "".join(sorted(line.split("|")[0].removeprefix("data/") for line in lines))


HELD: dict[str, tuple[Sequence[dict[str, Any]], str]] = {
    "another log": ([log_at(log_id=OTHER, committed_at_us=99)], ""),
    "as it is": ([log_at(committed_at_us=BEGUN + 5)], "abc"),
    "its time before a transaction": (
        [log_at(transaction_id=b"\2" * 16, committed_at_us=BEGUN + 5)], "abc",
    ),
    "later than it is": ([log_at(committed_at_us=99)], "abc"),
    "beside another": ([log_at(committed_at_us=99), log_at(log_id=OTHER)], "abc"),
    "after a transaction": ([log_at(transaction_id=b"\3" * 16)], "ab"),
    "after the first one": ([log_at(transaction_id=b"\2" * 16)], "a"),
    "after one of many revisions": ([log_at(transaction_id=b"t" * 16)], "abc"),
    "a transaction before a time": (
        [log_at(transaction_id=b"\2" * 16, committed_at_us=BEGUN + 3)], "a",
    ),
    "a time before a transaction": (
        [log_at(transaction_id=b"\4" * 16, committed_at_us=BEGUN + 4)], "abc",
    ),
    "at a time": ([log_at(committed_at_us=BEGUN + 3)], "ab"),
    "at the time of the birth": ([log_at(committed_at_us=BEGUN)], ""),
    "in another incarnation": ([log_at(committed_at_us=BEGUN + 3, incarnation=9)], "ab"),
    "before the birth": ([log_at(committed_at_us=BEGUN - 1)], ""),
    "before the birth in another incarnation": ([log_at(incarnation=9, revision=4)], ""),
}  # fmt: skip


@pytest.mark.parametrize("case", HELD)
def test_it_holds_of_files_up_to_where_the_log_is_named(
    case: str, maybe_go: GoReader | None
) -> None:
    logs, expected = HELD[case]
    assert held(files().commit({"tombstone": naming(*logs)}), maybe_go) == expected


def test_it_may_hold_of_files_of_its_own_transaction_and_of_later_ones(
    maybe_go: GoReader | None,
) -> None:
    log = files().commit({"tombstone": naming(log_at(committed_at_us=BEGUN + 6))})
    log.file("data/d").file("data/e")
    assert held(log, maybe_go) == "abcd"


SHORT: dict[str, tuple[dict[str, Any], str]] = {
    "a transaction of the history": (log_at(transaction_id=b"\3" * 16), "ab"),
    "a time in the history": (log_at(committed_at_us=BEGUN + 4, incarnation=9), "abc"),
    "a revision before it": (log_at(), "a"),
    "revision 0": (log_at(revision=0), ""),
    "a revision of the history, with a time before it": (log_at(revision=4), "a"),
    "a revision of another incarnation": (log_at(incarnation=2), DAMAGED),
}


@pytest.mark.parametrize("case", SHORT)
def test_where_the_history_is_short(case: str, maybe_go: GoReader | None) -> None:
    """It begins with revision 3."""
    at, expected = SHORT[case]
    log = files()
    write(log.log, [*sound(log.log)[:2], Made(HISTORY, make_table(HISTORY, log.log.history[3:]))])
    assert held(log.commit({"tombstone": naming(at)}), maybe_go) == expected


@pytest.mark.parametrize(
    ("lies", "word"), [({"log_id": OTHER}, DAMAGED), ({"version": 2}, TOO_NEW)]
)
def test_where_the_history_is_lost(
    lies: dict[str, Any], word: str, maybe_go: GoReader | None
) -> None:
    for at, expected in (
        (log_at(committed_at_us=BEGUN + 5), "abc"),
        (log_at(log_id=OTHER), ""),
        (log_at(committed_at_us=BEGUN + 3), word),
    ):
        log = files()
        *others, history = sound(log.log)
        history.spilled, history.header = True, lies
        write(log.log, [*others, history])
        log.drop(0, 1, 2, 3, 4)
        assert held(log.commit({"tombstone": naming(at)}), maybe_go) == expected
        assert log.told()["history"] == word


def test_it_outlives_files_and_tables(maybe_go: GoReader | None) -> None:
    log = files().commit({"tombstone": naming(log_at())})
    before = log.told()["deletes"]
    log.commit({"tombstone": tombstone()})
    log.commit(remove("data/a"), remove("data/b"), remove("data/c"))
    log.commit(forget(tables=["t"]))
    assert (told_by_all(log, maybe_go), log.told()["deletes"]) == (OK, before)
