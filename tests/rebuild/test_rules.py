"""The rules of a rebuild, one by one; and that the document has the same list."""

from __future__ import annotations

from pathlib import Path

import lakelog
from lakelog.rebuild import RULES
from lakelog.rebuild.rules import Base, Readable, decide
from lakelog.rebuild.scan import OwnFile

SEED = b"s" * 16


def file(name: str, base: int, *, epoch: int = 1, on: str = "", **more) -> OwnFile:
    """A data file of a transaction, by one letter: its path, its id."""
    own = name[0].encode() * 16
    facts = {
        "path": f"data/_/t/{epoch}-{own.hex()}-0.parquet", "writer": "w", "database": "d",
        "table": "t", "size_bytes": 1, "row_count": 1, "fingerprint": b"", "add": b"add",
        "vectors": (), "transaction_id": own, "number": 0, "base_revision": base,
        "base_transaction_id": on.encode() * 16, "epoch": epoch, "last_clock": 0,
        "log_id": b"l" * 16, "incarnation": 1, "slot_seed": SEED, "replaces": (), "app_id": "",
        "app_version": 0, "operation": "append", "task": -1, "attempt": 0,
    }  # fmt: skip
    return OwnFile(**facts | more)


def name_of(one: OwnFile) -> tuple[str, str]:
    return one.table, one.path


def decided(files, *, base: Base | None = None, readable=None, gone=()):
    there = {one.path for one in files} | {path for _, path in (base.live if base else ())}
    found = decide(base or Base(), readable or {}, files, there - set(gone))
    return {one.attempt.first.path: one for one in found.salvaged}, found


def test_the_document_has_the_same_list():
    text = (Path(lakelog.__file__).parent / "docs/maintenance.md").read_text()
    words = " ".join(text.split())
    for number, rule in enumerate(RULES, 1):
        assert f"{number}. {rule}" in words
    assert f"{len(RULES) + 1}. " not in words[words.index(RULES[-1]) :][:400]


def test_a_footer_proves_the_transaction_that_it_was_begun_on():
    first, second = file("a", -1), file("b", 0, on="a")
    found, _ = decided([first, second])
    assert found[first.path].revision == 0
    assert found[second.path].revision is None


def test_only_a_proven_one_replaces():
    old = file("a", -1)
    for proven in (True, False):
        new = file("b", 0, on="a", operation="overwrite", replaces=(name_of(old),))
        later = file("c", 1, on="b") if proven else file("c", 0, on="a")
        found, _ = decided([old, new, later])
        assert bool(found[new.path].removes) is proven


def test_an_unproven_one_needs_a_lost_revision():
    base = Base(3, 2, 1, {b"z" * 16})
    readable = {5: Readable(frozenset({b"y" * 16}), 4)}
    cases = {(3, 3): True, (2, 2): True, (4, 4): True, (3, 1): False, (5, 3): False, (5, 4): True}
    for (begun, epoch), counts in cases.items():
        one = file("a", begun, epoch=epoch)
        found, decision = decided([one], base=base, readable=readable)
        assert (one.path in found) is counts, (begun, epoch)
        assert bool(decision.refused) is not counts


def test_a_known_revision_is_left_to_those_who_may_have_shared_its_commit():
    base = Base(0, 1, 1)
    later = file("c", 1, epoch=2, on="b", slot_seed=b"2" * 16)
    proven = file("b", 0, on="z")
    readable = {2: Readable(frozenset({b"c" * 16}), 2)}
    for seed, counts in ((SEED, True), (b"3" * 16, False)):
        one = file("a", 0, slot_seed=seed)
        found, _ = decided([one, proven, later], base=base, readable=readable)
        assert (one.path in found) is counts


def test_of_a_rewrite_the_inputs_are_live_if_all_are_there():
    inputs = [file("a", -1), file("b", 0, on="a")]
    names = tuple(map(name_of, inputs))
    new = file("c", 1, on="b", operation="rewrite", replaces=names)
    found, decision = decided([*inputs, new])
    assert new.path not in found
    assert decision.refused[new.transaction_id].endswith("its inputs are there")
    found, _ = decided([inputs[0], new], gone=[inputs[1].path])
    assert found[new.path].removes == {names[0]}


def test_of_rewrites_in_a_row_only_one_end_is_live():
    old = file("a", -1)
    middle = file("b", 0, on="a", operation="rewrite", replaces=(name_of(old),))
    new = file("c", 0, on="a", operation="rewrite", replaces=(name_of(middle),))
    found, _ = decided([old, middle, new])
    assert set(found) == {old.path}


def test_of_several_attempts_the_proven_or_the_fullest_counts():
    some = {"app_id": "job", "app_version": 7}
    small, large = file("a", 0, row_count=1, **some), file("b", 0, row_count=9, **some)
    found, _ = decided([small, large])
    assert set(found) == {large.path}
    found, _ = decided([small, large, file("c", 1, on="a")])
    assert small.path in found
    assert large.path not in found
    done = Base(0, 1, 1, versions={"job": 7})
    assert not decided([small, large], base=done)[0]


def test_of_attempts_at_a_task_the_fullest_counts():
    one = file("a", -1, task=0, attempt=1)
    two = file("a", -1, task=0, attempt=2, row_count=5, path="data/_/t/2.parquet", number=1)
    three = file("a", -1, task=1, attempt=3, path="data/_/t/3.parquet", number=2)
    (salvaged,) = decided([one, two, three])[1].salvaged
    assert {file.path for file in salvaged.attempt.files} == {two.path, three.path}


def test_what_is_gone_is_live_no_longer():
    old = file("a", -1)
    base = Base(0, 1, 1, {b"a" * 16}, {name_of(old)})
    assert decided([], base=base, gone=[old.path])[1].gone == {name_of(old)}
