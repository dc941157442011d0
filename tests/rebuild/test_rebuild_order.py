"""The order of transactions, from made-up footers: one test per rule, and random contradictions."""

from __future__ import annotations

import random

import pytest
from lakelog.rebuild.evidence import FoundTransaction, group, prove
from lakelog.rebuild.order import order
from lakelog.rebuild.rivals import rule_out
from lakelog.rebuild.scanned import OwnFile


def id_of(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def footer(
    name: str,
    *,
    epoch: int = 1,
    base: int = -1,
    on: str = "",
    clock: int = 0,
    replaces: tuple[str, ...] = (),
    number: int = 0,
    replaced: int = 0,
    incarnation: int = 1,
    app: tuple[str, int] = ("", 0),
) -> OwnFile:
    """A file `<name>/<number>` of transaction `name`, begun on revision `base`, which was `on`."""
    return OwnFile(
        path=f"{name}/{number}", size_bytes=1, modified_at_us=None, row_count=1, add=b"",
        table="t", fingerprint=b"", transaction_id=id_of(name), number=number, base_revision=base,
        base_transaction_id=id_of(on) if on else b"", epoch=epoch, last_clock=clock,
        log_id=id_of("log"), incarnation=incarnation, slot_seed=id_of("seed"),
        replaces=tuple(("t", path) for path in replaces), replaced=replaced,
        app_id=app[0], app_version=app[1], base_app_version=-1, operation="append",
    )  # fmt: skip


def ordered(*files: OwnFile) -> list[str]:
    transactions, left_out = group(files)
    assert not left_out
    evidence = prove(transactions)
    rule_out(transactions, evidence)
    return [name_of(item) for item in order(transactions, evidence).transactions]


def name_of(item: FoundTransaction) -> str:
    return item.transaction_id.rstrip(b".").decode()


def test_by_epoch_though_clocks_say_otherwise():
    assert ordered(
        footer("new", epoch=2, base=5, clock=50), footer("old", epoch=1, base=9, clock=100)
    ) == ["old", "new"]


def test_by_revision_though_clocks_say_otherwise_and_the_chain_has_holes():
    assert ordered(
        footer("x", base=4, on="c", clock=1),
        footer("y", base=8, on="d", clock=2),
        footer("d", base=7, on="gone", clock=3),
        footer("c", base=3, on="gone too", clock=30),
    ) == ["c", "x", "d", "y"]


def test_the_unproven_come_after_the_head_they_were_begun_on():
    chain = [
        footer(f"c{n}", base=n - 1, on=f"c{n - 1}" if n else "", clock=n * 10) for n in range(5)
    ]
    late_base = footer("late", base=2, on="c2", clock=1)
    assert ordered(*chain, late_base) == ["c0", "c1", "c2", "late", "c3", "c4"]
    without_base = footer("lost", base=2, on="gone", clock=1)
    assert ordered(*chain, without_base) == ["c0", "c1", "c2", "lost", "c3", "c4"]


def test_the_unproven_come_after_earlier_clocks():
    chain = [
        footer(f"c{n}", base=n - 1, on=f"c{n - 1}" if n else "", clock=n * 10) for n in range(5)
    ]
    slow = footer("slow", base=0, on="c0", clock=25)
    assert ordered(*chain, slow) == ["c0", "c1", "c2", "slow", "c3", "c4"]


def test_a_file_comes_before_what_replaces_it_whatever_the_clocks_say():
    assert ordered(
        footer("first", base=3, clock=99), footer("second", base=0, clock=1, replaces=("first/0",))
    ) == ["first", "second"]


def test_the_id_decides_last():
    files = [footer(name, base=3, clock=7) for name in "dbca"]
    assert ordered(*files) == ["a", "b", "c", "d"]
    assert ordered(*reversed(files)) == ["a", "b", "c", "d"]


def test_a_count_that_began_anew_under_a_higher_epoch():
    """Rebuilt in between: what was revision 3 of epoch 1 is revision 1 to epoch 3."""
    assert ordered(
        footer("a", base=1, on="gone", clock=1),
        footer("b", base=2, on="a", clock=2),
        footer("c", epoch=3, base=1, on="b", clock=3, incarnation=2),
        footer("d", epoch=3, base=2, on="c", clock=4, incarnation=2),
    ) == ["a", "b", "c", "d"]


def test_one_count_for_all_epochs_of_an_incarnation():
    transactions, _ = group(
        [footer("a", base=1, on="gone"), footer("b", epoch=2, base=7, on="a", clock=2)]
    )
    assert prove(transactions).revisions == {id_of("a"): 7}


def test_what_a_transaction_replaces_is_said_by_all_its_files_together():
    transactions, _ = group(
        [
            footer("a", number=0, replaces=("x/0",), replaced=1),
            footer("a", number=1, replaces=("x/1", "a/0"), replaced=3),
        ]
    )
    (item,) = transactions.values()
    assert item.replaces == {("t", "x/0"), ("t", "x/1")}
    assert item.unnamed == 0


def test_removals_that_only_a_lost_file_names_are_counted():
    transactions, _ = group([footer("a", number=2, replaces=("x/1",), replaced=5)])
    assert transactions[id_of("a")].unnamed == 4


def test_a_path_of_another_table_is_another_file():
    transactions, _ = group([footer("a"), footer("b", base=0)])
    other = transactions[id_of("b")]
    other.replaces = frozenset({("u", "a/0")})
    assert not prove(transactions).proofs


def test_footers_that_lead_in_a_circle_are_all_placed_and_said():
    transactions, _ = group(
        [
            footer("a", replaces=("b/0",)),
            footer("b", replaces=("a/0",)),
            footer("c", base=0, on="c"),
        ]
    )
    evidence = prove(transactions)
    rule_out(transactions, evidence)
    result = order(transactions, evidence)
    assert {name_of(item) for item in result.transactions} == {"a", "b", "c"}
    assert result.circular


def test_files_that_disagree_about_their_transaction_are_undecided():
    """Both copies of a doubled process have written some."""
    transactions, left_out = group(
        [footer("a"), footer("a", number=1), footer("a", number=2, base=7)]
    )
    assert [file.number for file in transactions[id_of("a")].files] == [0, 1]
    assert [item.path for item in left_out] == ["a/2"]
    assert left_out[0].kind == "undecided"


def test_two_numbers_for_one_transaction_are_said():
    transactions, _ = group([footer("a"), footer("x", base=0, on="a"), footer("y", base=4, on="a")])
    evidence = prove(transactions)
    assert evidence.revisions[id_of("a")] == 0
    assert any("revision 0, 4" in text for text in evidence.contradictions)


@pytest.mark.parametrize("seed", range(300))
def test_any_footers_at_all_give_one_order_without_losing_any(seed):
    """Forged and damaged metadata can say anything; nothing may be lost, repeated or never end."""
    dice = random.Random(seed)
    names = [f"t{n}" for n in range(dice.randint(1, 25))]
    files = [
        footer(
            name,
            epoch=dice.randint(1, 3),
            base=dice.randint(-1, 6),
            on=dice.choice(["", "gone", *names]),
            clock=dice.randint(0, 9),
            replaces=tuple(f"{dice.choice(names)}/0" for _ in range(dice.randint(0, 2))),
            app=dice.choice([("", 0), ("job", dice.randint(0, 2))]),
            incarnation=dice.randint(1, 2),
        )
        for name in names
    ]
    transactions, _ = group(files)
    evidence = prove(transactions)
    rule_out(transactions, evidence)
    found = [item.transaction_id for item in order(transactions, evidence).transactions]
    assert len(set(found)) == len(found)
    out = set(evidence.disproofs) | set(evidence.undecided)
    assert set(found) | out == set(transactions)
    assert not set(found) & out
    assert not out & set(evidence.proofs)
    dice.shuffle(files)
    again, _ = group(files)
    other = prove(again)
    rule_out(again, other)
    assert [item.transaction_id for item in order(again, other).transactions] == found
