"""Rule by rule, as `test_rules_of_both`: whether a checkpoint is a base beside the transaction of
its own revision, which is another than the one that it is of (docs/format.md, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hand_damage import anew
from hand_small import Small
from rule_outcome import told_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"
OLD, NEW = "old", "new"  # which history is told: that of the checkpoint, or of what is listed


def flipped(data: bytes) -> bytes:
    return anew(data)[:-1] + b"\0"


def of_a_later_version(data: bytes) -> bytes:
    return anew(data, version=2)


# What lies under the name of the checkpoint's transaction; what is told where a lower base is
# there, and where it isn't.
CASES: dict[str, tuple[Callable[[bytes], bytes | None], str, str]] = {
    "its own": (lambda data: data, OLD, OLD),
    "none": (lambda data: None, OLD, OLD),
    "another": (anew, NEW, DAMAGED),
    "another, damaged": (flipped, OLD, OLD),
    "its own, damaged": (lambda data: data[:-1] + b"\0", OLD, OLD),
    "cut short": (lambda data: data[:79], OLD, OLD),
    "of a later version": (of_a_later_version, TOO_NEW, DAMAGED),
    "another kind of object": (lambda data: anew(data, kind=2), OLD, OLD),
}


def trial(case: str, *, lower: bool) -> Small:
    log = Small().schema().file("data/a")
    if lower:
        log.checkpoint()
    else:
        log.drop(0)  # no base but the checkpoint
    log.file("data/b").checkpoint()
    change, _, _ = CASES[case]
    name = next(n for n in log.log.transactions if n.split("-")[2].startswith("3.") and "tr" in n)
    data = change(log.log.transactions[name])
    if data is None:
        del log.log.transactions[name]
    else:
        log.log.transactions[name] = data
    return log


@pytest.mark.parametrize("lower", [True, False], ids=["a lower base", "no other base"])
@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_beside_its_transaction(
    case: str, lower: bool, maybe_go: GoReader | None
) -> None:
    log = trial(case, lower=lower)
    old = log.log.digest.hex()
    _, with_lower, alone = CASES[case]
    expected = with_lower if lower else alone
    found = told_by_all(log, maybe_go)
    if expected in (OLD, NEW):
        assert found == OK
        assert (log.told()["digest"] == old) is (expected == OLD)
        assert log.files() == ["data/a", "data/b"]
    else:
        assert found == expected


def test_with_a_transaction_above_the_chain_alone_tells(maybe_go: GoReader | None) -> None:
    """Who reads the revision itself is given the listed history; what is above it goes on from the
    checkpoint, and is read."""
    log = Small().schema().file("data/a").checkpoint().file("data/b")
    name = next(n for n in log.log.transactions if n.split("-")[2].startswith("2.") and "tr" in n)
    log.log.transactions[name] = anew(log.log.transactions[name])
    assert told_by_all(log, maybe_go) == OK
    assert log.files() == ["data/a", "data/b"]
