"""Chosen tables: what stands at the destination is replaced by its own source alone, as it went on;
and whoever else has been there is noticed."""

from __future__ import annotations

import threading
from collections import Counter

import pyarrow as pa
import pytest
from lakelog.errors import PlanOutdated, ReplicaDiverged, TableNotFound
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication import replicate
from replica_cases import D, Pair

T = {"tables": ["t"]}


@pytest.fixture
def pair():
    return Pair()


def write(pair, *values, table="t", writer="oslo", world=None):
    (world or pair.source).write(*values, table=table, writer=writer)


def act(pair, change, world=None, writer="oslo"):
    pair.clock.now_s += 1
    with (world or pair.source).writer(writer) as opened, opened.transaction() as tx:
        change(tx)


def rows(world, table="t", as_of=None):
    return sorted(world.catalog.snapshot(D, as_of).to_arrow(table)["n"].to_pylist())


def refused(pair, match, **options):
    """The replication is refused, and changes nothing."""
    there = pair.objects()
    with pytest.raises(ReplicaDiverged, match=match):
        pair.replicate(**{**T, **options})
    assert pair.objects() == there


def same(pair, **options):
    report = pair.replicate(**{**T, **options})
    assert rows(pair.copy, as_of=report.tokens[D]) == rows(pair.source)
    return report


def set_back(pair, writer="oslo", count=2):
    """The newest transactions of the source's log are lost in both copies, with all checkpoints."""
    for folder in ("transactions", "mirror/transactions"):
        newest = [
            key
            for key in pair.objects(".transaction", pair.source)
            if key.startswith(f"{writer}/{D}/{folder}/")
        ]
        pair.source.store.delete(newest[:count])
    pair.source.store.delete(pair.objects(".checkpoint", pair.source))


def renamed(world, old, new):
    """A log's folder is moved, and the log takes that name."""
    for info in list(world.store.list(f"{old}/")):
        world.store.put(info.key.replace(old, new, 1), world.store.get(info.key))
        world.store.delete([info.key])
    with world.writer(new) as writer:
        writer.adopt_name()


# --- Another source -------------------------------------------------------------------------------


def test_a_source_begun_anew_replaces_nothing_after_another_table_either(pair):
    write(pair, 1, 2, 3)
    same(pair)
    pair.source = pair.world()
    write(pair, 9, table="u")
    with pytest.raises(TableNotFound):
        pair.replicate(**T)
    pair.replicate(tables=["u"])
    with pytest.raises(TableNotFound):
        pair.replicate(**T)
    write(pair, 100)
    refused(pair, "made from another log")
    assert (rows(pair.copy), rows(pair.copy, "u")) == ([1, 2, 3], [9])


def test_two_sources_do_not_take_turns(pair):
    first, second = pair.source, pair.world()
    write(pair, 1)
    same(pair)
    pair.source = second
    write(pair, 2)
    write(pair, 3, table="u")
    refused(pair, "made from another log")
    pair.replicate(tables=["u"])
    refused(pair, "made from another log")
    pair.source = first
    write(pair, 4)
    same(pair)


def test_a_log_whose_applications_were_forgotten_is_known_still(pair):
    write(pair, 1, 2, 3)
    same(pair)
    pair.clock.now_s += 100
    with pair.copy.writer() as writer:
        writer.forget(applications_before=pair.clock.time())
    pair.source = pair.world()
    write(pair, 7)
    refused(pair, "made from another log")


# --- A source that was set back -------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_a_source_that_was_set_back_is_refused_whatever_it_commits(pair, more):
    for number in range(4):
        write(pair, number)
    same(pair)
    set_back(pair)
    for number in range(more):
        write(pair, 100 + number)
    refused(pair, "was set back")


def test_a_source_that_was_set_back_is_refused_though_others_went_on(pair):
    for number in range(4):
        write(pair, number)
    write(pair, 50, writer="bergen")
    same(pair)
    set_back(pair)
    write(pair, 60, writer="bergen")
    write(pair, 61, writer="bergen")
    found = {log.plan.writer: log for log in replicate(*ends(pair), **T).logs}
    assert isinstance(found["oslo"].error, ReplicaDiverged)
    assert found["bergen"].error is None
    assert rows(pair.copy) == [0, 1, 2, 3, 50, 60, 61]


def ends(pair):
    return pair.source.catalog, pair.copy.catalog


def test_a_source_set_back_to_before_the_table_empties_nothing(pair):
    write(pair, 0, table="u")
    write(pair, 1, 2, 3)
    same(pair)
    set_back(pair, count=1)
    write(pair, 7, table="u")
    write(pair, 8, table="u")
    refused(pair, "was set back")


def test_a_source_that_was_rebuilt_goes_on(pair):
    for number in range(3):
        write(pair, number)
    same(pair)
    lost = [info.key for info in pair.source.store.list("oslo/") if "/data/" not in info.key]
    for keys in (lost, []):
        pair.source.store.delete(keys)
        pair.clock.now_s += 100
        catalog = pair.source.catalog
        execute_rebuild(catalog, plan_rebuild(catalog, "oslo", D))
        same(pair)
        write(pair, 10)
        same(pair)


def test_a_source_that_pruned_what_was_replicated_goes_on(pair):
    write(pair, 1)
    same(pair)
    for number in range(5):
        write(pair, number)
    pair.source.prune()
    same(pair)


def test_the_newest_commit_of_replication_is_found_below_others(pair):
    write(pair, 1)
    write(pair, 2)
    same(pair)
    for number in range(40):
        write(pair, number, table="own", world=pair.copy)
    set_back(pair, count=1)
    refused(pair, "was set back")


def test_a_writer_that_is_gone_at_the_source_stops_no_other(pair):
    for number in range(4):
        write(pair, number)
    write(pair, 50, writer="bergen")
    same(pair)
    pair.source.store.delete([info.key for info in pair.source.store.list("bergen/")])
    write(pair, 5)
    same(pair)


# --- Two at once ----------------------------------------------------------------------------------


def replicated_between(pair, change, **options):
    """Two replications: the second begins and ends while the first makes its files."""
    inner = []

    def between(told):
        if not inner:
            inner.append(None)
            act(pair, change)
            inner[0] = replicate(*ends(pair), **options)

    report = replicate(*ends(pair), progress=between, **options)
    return report, inner[0]


@pytest.mark.parametrize("before", [(), ("t",)])
def test_of_two_at_once_each_reads_as_the_cut_that_it_reports(pair, before):
    act(pair, lambda tx: (tx.write("t", pa.table({"n": [0]})),
                          tx.write("u", pa.table({"n": [1, 2, 3]}))))  # fmt: skip
    if before:
        pair.replicate(tables=list(before))
    for report in replicated_between(pair, lambda tx: tx.delete("u", "n = 2"), tables=["u"]):
        assert not report.errors
        found = rows(pair.copy, "u", report.tokens[D])
        assert found == rows(pair.source, "u", report.source_tokens[D])
    assert rows(pair.copy, "u") == [1, 3]


def test_a_difference_that_was_found_before_another_was_made_is_found_anew(pair):
    write(pair, 0)
    same(pair)
    write(pair, 1, 2, 3)
    looked, done, found = threading.Event(), threading.Event(), {}

    def other(told):
        looked.set()
        done.wait(20)

    thread = threading.Thread(
        target=lambda: found.update(second=replicate(*ends(pair), progress=other, **T))
    )

    def first(told):
        if not thread.ident:
            act(pair, lambda tx: tx.delete("t", "n = 2", mode="rows"))
            thread.start()
            looked.wait(20)

    found["first"] = replicate(*ends(pair), progress=first, **T)
    done.set()
    thread.join()
    for report in found.values():
        assert not report.errors
        got = rows(pair.copy, as_of=report.tokens[D])
        assert got == rows(pair.source, as_of=report.source_tokens[D])
    assert rows(pair.copy) == [0, 1, 3]


def test_what_each_try_has_done_is_told(pair):
    write(pair, 1)
    write(pair, 2, writer="bergen")
    once = []

    def between(told):
        if not once:
            once.append(1)
            write(pair, 5, table="own", writer="bergen", world=pair.copy)

    logs = replicate(*ends(pair), progress=between, **T).logs
    assert [(log.error, log.copied.commits, log.copied.files) for log in logs] == [(None, 1, 1)] * 2
    assert rows(pair.copy) == [1, 2]


def test_somebody_who_commits_again_and_again_is_told(pair):
    write(pair, 1, 2, 3)

    def between(told):
        write(pair, 5, table="own", world=pair.copy)

    (log,) = replicate(*ends(pair), progress=between, **T).logs
    assert isinstance(log.error, PlanOutdated)
    assert "quicker" in str(log.error)
    same(pair)


# --- A log that was renamed -----------------------------------------------------------------------


def test_a_log_that_was_renamed_is_renamed_at_the_destination_likewise(pair):
    for number in range(3):
        write(pair, number)
    act(pair, lambda tx: tx.delete("t", "n = 1", mode="rows"))
    same(pair)
    renamed(pair.source, "oslo", "bergen")
    refused(pair, "has it as oslo/weather.*adopt-name")
    renamed(pair.copy, "oslo", "bergen")
    report = same(pair)
    assert not any(log.copied.commits for log in report.logs), "nothing is made anew"
    write(pair, 5, writer="bergen")
    same(pair)
    set_back(pair, "bergen", 1)
    refused(pair, "was set back")


def test_a_log_that_takes_the_name_of_a_renamed_one(pair):
    write(pair, 1)
    same(pair)
    renamed(pair.source, "oslo", "bergen")
    write(pair, 2)
    errors = {log.plan.writer: str(log.error) for log in replicate(*ends(pair), **T).logs}
    assert "made from another log" in errors["oslo"]
    assert "renamed" in errors["bergen"]
    renamed(pair.copy, "oslo", "bergen")
    same(pair)


# --- Somebody else at the destination -------------------------------------------------------------

CHANGES = {
    "rows": lambda tx: tx.delete("t", "n = 2", mode="rows"),
    "predicate": lambda tx: tx.delete("t", "n = 3", mode="predicate"),
    "key": lambda tx: tx.evolve("t", key=["n"]),
    "name": lambda tx: tx.evolve("t", rename={"n": "m"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_somebody_changed_at_the_destination_is_noticed(pair, change):
    write(pair, 1, 2, 3)
    same(pair)
    act(pair, change, pair.copy)
    refused(pair, "Somebody has")
    write(pair, 4)
    refused(pair, "Somebody has")


def test_deletes_keys_and_names_of_the_source_leave_a_replica_without_any(pair):
    write(pair, 1, 2, 3)
    for change in CHANGES.values():
        act(pair, change)
        for _ in range(2):
            report = pair.replicate(**T)
            found = pair.copy.catalog.snapshot(D, report.tokens[D]).to_arrow("t").to_pylist()
            source = pair.source.catalog.snapshot(D).to_arrow("t").to_pylist()
            assert Counter(map(repr, found)) == Counter(map(repr, source))


def test_what_others_do_in_tables_of_their_own_concerns_nobody(pair):
    write(pair, 1, 2, 3)
    same(pair)
    write(pair, 1, 2, table="own", world=pair.copy)
    act(pair, lambda tx: tx.delete("own", "n = 2"), pair.copy)
    act(pair, lambda tx: tx.evolve("own", key=["n"]), pair.copy)
    write(pair, 4)
    same(pair)
