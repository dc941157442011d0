"""The rules of a rebuild, one by one."""

from __future__ import annotations

import pyarrow as pa
from lakelog.rebuild.rules import EXCLUDED, REMOVED, Base, Readable, decide
from lakelog.rebuild.scan import OwnFile

SEED = b"s" * 16


def file(name: str, base: int, *, epoch: int = 1, on: str = "", **more) -> OwnFile:
    """A data file of a transaction, by one letter: its path, its id."""
    own = name[0].encode() * 16
    facts = {
        "partition": "", "first_clock": 0, "schema": pa.schema([]),
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


def test_what_a_proven_one_replaced_does_not_come_back_with_an_unproven_one():
    old = file("a", -1)
    new = file("b", 1, on="z", operation="overwrite", replaces=(name_of(old),))
    found, decision = decided([old, new, file("c", 2, on="b")])
    assert old.path not in found
    assert decision.refused == {old.transaction_id: REMOVED}


def test_an_unproven_one_needs_a_lost_revision():
    base = Base(3, 2, 1, {3: (2, frozenset({b"z" * 16}))})
    readable = {5: Readable(frozenset({b"y" * 16}), 4)}
    cases = {(3, 3): True, (2, 2): True, (4, 4): True, (3, 1): False, (5, 3): False, (5, 4): True}
    for (begun, epoch), counts in cases.items():
        one = file("a", begun, epoch=epoch)
        found, decision = decided([one], base=base, readable=readable)
        assert (one.path in found) is counts, (begun, epoch)
        assert bool(decision.refused) is not counts


def test_the_file_of_a_double_with_the_same_id_takes_nothing_from_a_lost_commit():
    """The double began on nothing and came too late; the original began on revision 1."""
    base = Base(1, 2, 1, {1: (2, frozenset({b"z" * 16}))})
    double, original = file("a", -1, epoch=1), file("a", 1, epoch=2)
    assert double.path not in decided([double], base=base)[0]
    _, decision = decided([double, original], base=base)
    assert decision.live == {name_of(original)}


def test_a_double_of_another_opening_takes_no_place_of_a_logged_transaction():
    base = Base(1, 1, 1, {1: (1, frozenset({b"a" * 16}))})
    logged, double = file("a", 0), file("a", 0, slot_seed=b"2" * 16, path="data/_/t/2.parquet")
    _, decision = decided([logged, double], base=base)
    assert len(decision.live) == 1


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
    base = Base(0, 1, 1, {0: (1, frozenset({b"a" * 16}))}, {name_of(old)})
    assert decided([], base=base, gone=[old.path])[1].gone == {name_of(old)}


# --- A log that lost its end, and went on ---------------------------------------------------------

HISTORY = {
    revision: (epoch, frozenset({own * 16}))
    for revision, (epoch, own) in enumerate([(1, b"z"), (2, b"y"), (2, b"x")])
}


def went_on(*live) -> Base:
    """The log was z, a, b, ...; all but z was lost, and y and x were committed on z."""
    return Base(2, 2, 1, HISTORY, set(map(name_of, live)))


def test_commits_of_a_lost_end_count_though_the_log_has_others_there():
    a, b, c, d = (
        file("a", 0, on="z"),
        file("b", 1, on="a"),
        file("c", 2, on="b"),
        file("d", 3, on="c"),
    )
    for files in ([a, b], [a, b, c], [a, b, c, d]):
        found, decision = decided(files, base=went_on())
        assert set(found) == {one.path for one in files}, "the last one has no proof"
        assert [one.is_proven for one in decision.salvaged] == [True] * (len(files) - 1) + [False]
        assert {one.revision for one in decision.salvaged} == {None}


def test_a_lost_end_takes_nothing_out():
    logged, a = file("l", -1), file("a", 0, on="z")
    new = file("b", 1, on="a", operation="overwrite", replaces=(name_of(logged), name_of(a)))
    last = file("c", 2, on="b")
    found, decision = decided([a, new, last], base=went_on(logged))
    assert set(found) == {a.path, new.path, last.path}
    assert not any(one.removes for one in decision.salvaged)


def test_of_a_rewrite_of_a_lost_end_the_inputs_are_live():
    a = file("a", 0, on="z")
    new = file("b", 1, on="a", operation="rewrite", replaces=(name_of(a),))
    last = file("c", 2, on="b")
    found, _ = decided([a, new, last], base=went_on())
    assert set(found) == {a.path, last.path}


def test_a_commit_of_a_lost_end_can_be_excluded():
    a, b = file("a", 0, on="z"), file("b", 1, on="a")
    there = {a.path, b.path}
    found = decide(went_on(), {}, [a, b], there, {a.transaction_id})
    assert [one.attempt.first for one in found.salvaged] == [b]
    assert found.refused == {a.transaction_id: EXCLUDED}


def test_a_version_of_a_lost_end_may_be_lower_than_the_logs():
    a, b = file("a", 0, on="z"), file("b", 1, on="a", app_id="job", app_version=7)
    base = Base(2, 2, 1, HISTORY, versions={"job": 9})
    assert b.path in decided([a, b], base=base)[0]


def test_a_file_that_the_log_removed_is_not_of_a_lost_end():
    old = file("y", 0, on="z")
    found, decision = decided([old], base=went_on())
    assert not found
    assert decision.refused == {old.transaction_id: REMOVED}


def test_a_lost_end_is_known_by_its_epoch_alone():
    """Nothing names a, and the log has not come as far as the revision that c names."""
    a, c = file("a", 0, on="z"), file("c", 3, on="b")
    found, _ = decided([a, c], base=went_on())
    assert set(found) == {a.path, c.path}


# --- What a readable transaction says of lost ones ------------------------------------------------


def test_a_transaction_is_proven_if_a_readable_one_names_a_file_of_it():
    """Revision 2 removed one of its files, so it was committed before: at 1."""
    one, rest = file("a", 0), file("a", 0, path="data/_/t/rest.parquet", number=1)
    base = Base(0, 1, 1, {0: (1, frozenset({b"z" * 16}))})
    removed = frozenset({name_of(one)})
    readable = {2: Readable(frozenset({b"y" * 16}), 2, removes=removed)}
    found, decision = decided([one, rest], base=base, readable=readable)
    assert (found[one.path].is_proven, found[one.path].revision) == (True, 1)
    assert set(decision.live) == {name_of(rest)}


def test_a_file_that_is_live_by_the_log_is_not_added_a_second_time():
    one = file("a", 0)
    readable = {1: Readable(frozenset({b"y" * 16}), 1, adds=frozenset({name_of(one)}))}
    found, decision = decided([one], base=Base(0, 1, 1), readable=readable)
    assert not found
    assert set(decision.live) == {name_of(one)}


def test_an_id_that_was_drawn_twice_is_another_transaction():
    """What was begun on a revision is not what was committed as it: a process has a double."""
    base = Base(0, 1, 1, {0: (1, frozenset({b"a" * 16}))})
    for begun, counts in ((-1, False), (0, True)):
        one = file("a", begun)
        found, decision = decided([one], base=base)
        assert (one.path in found) is counts
        assert (REMOVED in decision.refused.values()) is not counts
    later = file("c", 2, on="a")
    found, _ = decided([file("b", 0, on="a"), file("a", 1, on="b"), later], base=base)
    assert {one.revision for one in found.values()} == {None, 1, 2}


def test_a_readable_delete_of_rows_proves_the_transaction_of_their_file():
    one = file("a", 0)
    readable = {2: Readable(frozenset({b"y" * 16}), 1, hides=frozenset({name_of(one)}))}
    found, _ = decided([one], base=Base(0, 1, 1), readable=readable)
    assert found[one.path].revision == 1
