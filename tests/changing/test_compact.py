"""Compaction: what is rewritten, what stays, and that no row changes, at any point in time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import lakelog
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lakelog import Catalog, open_catalog
from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.commit import compacting
from lakelog.catalog.commit.checkpointer import CompactionWarning
from lakelog.catalog.commit.compacting import CompactOptions, execute_compaction
from lakelog.catalog.data import parquet
from lakelog.errors import CapabilityMissing, TableNotFound, UsageError, WriterNotFound
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.crashing import Crash, CrashingStore
from lakelog.testing.doubles import PlainStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(str(tmp_path / "lake"))


def fill(catalog: Catalog, writer: str = "a", files: int = 6, **options: Any) -> None:
    """Writes files of two rows: 0 and 1, 2 and 3, and so on."""
    with catalog.writer(writer, "db") as opened:
        for number in range(files):
            with opened.transaction() as tx:
                rows = {"n": [2 * number, 2 * number + 1], "half": [number // 2] * 2}
                tx.write("t", pa.table(rows), **options)


def values(catalog: Catalog, as_of: Any = None) -> list[int]:
    return sorted(catalog.snapshot("db", as_of).to_arrow("t").column("n").to_pylist())


def live(catalog: Catalog) -> list[str]:
    return catalog.snapshot("db").files("t").column("path").to_pylist()


def points(catalog: Catalog) -> dict[str, list[int]]:
    """The rows at each revision of writer a."""
    head = catalog.snapshot("db").cut.revisions["a"]
    tokens = [catalog.snapshot("db", {"a": n}).token for n in range(head + 1)]
    return {token: values(catalog, token) for token in tokens}


def test_small_files_become_one_and_every_point_in_time_stays(catalog: Catalog) -> None:
    fill(catalog)
    before = points(catalog)
    planned = catalog.compact("db")
    assert [(g.writer, g.table, len(g.paths), g.status) for g in planned.groups] == [
        ("a", "t", 6, "planned")
    ]
    assert len(live(catalog)) == 6, "a plan changes nothing"
    done = catalog.compact("db", execute=True)
    (group,) = done.groups
    assert (group.status, group.revision, group.files_after, done.remaining) == ("done", 6, 1, 0)
    assert len(live(catalog)) == 1
    found = catalog.snapshot("db").to_arrow("t").column("n").to_pylist()
    assert found == list(range(12)), "rows keep their order"
    assert {token: values(catalog, token) for token in before} == before
    assert catalog.history("db").column("operation").to_pylist()[-1] == "rewrite"


def test_a_second_run_has_nothing_to_do(catalog: Catalog) -> None:
    fill(catalog)
    catalog.compact("db", execute=True)
    again = catalog.compact("db", execute=True)
    assert again.is_empty
    assert again.files_kept == {"too few small files": 1}
    assert "nothing to compact" in again.describe()


def test_fewer_small_files_than_asked_for_stay(catalog: Catalog) -> None:
    fill(catalog, files=4)
    assert catalog.compact("db").is_empty
    (group,) = catalog.compact("db", min_input_files=4).groups
    assert len(group.paths) == 4


def test_large_files_stay(catalog: Catalog) -> None:
    fill(catalog)
    size_bytes = max(catalog.snapshot("db").files("t").column("size_bytes").to_pylist())
    found = catalog.compact("db", target_file_size_bytes=size_bytes)
    assert found.is_empty
    assert found.files_kept == {"large enough": 6}


def test_deleted_rows_go_whatever_the_size_of_a_file(catalog: Catalog) -> None:
    fill(catalog, files=3)
    with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
        tx.delete("t", "n = 2", mode="rows")
    before = points(catalog)
    (group,) = catalog.compact("db", target_file_size_bytes=1, execute=True).groups
    assert (group.reason, len(group.paths), group.deleted_rows) == ("deleted rows", 1, 1)
    assert values(catalog) == [0, 1, 3, 4, 5]
    assert sum(catalog.snapshot("db").files("t").column("row_count").to_pylist()) == 5
    assert {token: values(catalog, token) for token in before} == before
    assert catalog.compact("db", target_file_size_bytes=1).is_empty


def test_rows_deleted_by_a_predicate_don_t_come_back(catalog: Catalog) -> None:
    fill(catalog)
    with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
        tx.delete("t", "n = 3", mode="predicate")
    catalog.compact("db", execute=True)
    assert values(catalog) == [n for n in range(12) if n != 3]
    assert len(live(catalog)) == 1


def test_a_file_of_which_all_rows_are_deleted_goes(catalog: Catalog) -> None:
    fill(catalog, files=1)
    with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
        tx.delete("t", "half = 0 OR n = 100", mode="predicate")
        tx.write("t", pa.table({"n": [7], "half": [1]}))
    catalog.compact("db", min_input_files=2, execute=True)
    assert values(catalog) == [7]


def test_writers_partitions_and_tables_are_apart(catalog: Catalog) -> None:
    fill(catalog, "a", partition_by=["half"])
    fill(catalog, "a", partition_by=["half"])
    fill(catalog, "b")
    with catalog.writer("a", "db") as writer, writer.transaction() as tx:
        for _ in range(5):
            tx.write("u", pa.table({"x": [1]}))
    found = catalog.compact("db", min_input_files=2, execute=True)
    a_groups = [g for g in found.groups if g.writer == "a" and g.table == "t"]
    assert sorted(g.partition for g in a_groups) == [f"half={n}" for n in range(3)]
    assert [len(g.paths) for g in found.groups if g.writer == "b"] == [6]
    assert [len(g.paths) for g in found.groups if g.table == "u"] == [5]
    parts = catalog.snapshot("db").files("t", writer="a").column("partition").to_pylist()
    assert sorted(parts) == sorted(g.partition for g in a_groups)
    chosen = catalog.compact("db", "t", writers=["b"], min_input_files=1)
    assert {g.writer for g in chosen.groups} <= {"b"}


def test_small_groups_of_many_partitions_share_commits(catalog: Catalog) -> None:
    with catalog.writer("a", "db") as writer:
        for number in range(5):
            with writer.transaction() as tx:
                rows = {"n": list(range(10 * number, 10 * number + 10)), "half": list(range(10))}
                tx.write("t", pa.table(rows), partition_by=["half"])
    before = points(catalog)
    size_bytes = catalog.snapshot("db").files("t").column("size_bytes").to_pylist()
    limit = {"target_file_size_bytes": 30 * max(size_bytes)}
    found = catalog.compact("db", execute=True, **limit)
    assert [(len(g.paths), g.files_after) for g in found.groups] == [(5, 1)] * 10
    assert [g.revision for g in found.groups] == [5] * 6 + [6] * 4
    assert len({g.partition for g in found.groups}) == len(live(catalog)) == 10
    assert {token: values(catalog, token) for token in before} == before
    assert catalog.compact("db", **limit).is_empty


def test_the_inputs_of_a_commit_are_bounded(catalog: Catalog) -> None:
    fill(catalog, files=10)
    sizes = catalog.snapshot("db").files("t").column("size_bytes").to_pylist()
    found = catalog.compact("db", max_group_bytes=5 * max(sizes), execute=True)
    assert [len(g.paths) for g in found.groups] == [5, 5]
    assert len(live(catalog)) == 2
    assert values(catalog) == list(range(20))


def test_rows_are_sorted(catalog: Catalog) -> None:
    with catalog.writer("b", "db") as writer, writer.transaction() as tx:
        for number in (5, 3, 4):
            tx.write("u", pa.table({"n": [number]}))
    catalog.compact("db", "u", sort_by=["n"], min_input_files=2, execute=True)
    assert catalog.snapshot("db").to_arrow("u").column("n").to_pylist() == [3, 4, 5]


# --- Clustering -----------------------------------------------------------------------------------


def cluster(catalog: Catalog, **options: Any) -> lakelog.catalog.commit.compacting.Compaction:
    """Compacts so that files of a few rows are large."""
    options = {"target_file_size_bytes": 1_000, "sort_by": ["n"], "execute": True} | options
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", 10):
        return catalog.compact("db", "t", **options)


def spread(catalog: Catalog, *starts: int, step: int = 1) -> None:
    """Writes a file of ten rows for each start."""
    with catalog.writer("a", "db") as writer, writer.transaction() as tx:
        for start in starts:
            found = [start + step * n for n in range(10)]
            tx.write("t", pa.table({"n": found, "words": [f"{n} " * 40 for n in found]}))


def bounds(catalog: Catalog) -> list[tuple[int, int]]:
    found = []
    for part in catalog.snapshot("db").files("t", details=True).to_pylist():
        column = pq.read_table(part["url"]).column("n").to_pylist()
        assert column == sorted(column)
        found.append((column[0], column[-1]))
    return sorted(found)


def test_only_files_that_overlap_are_rewritten(catalog: Catalog) -> None:
    spread(catalog, 0, 100, 200, 205, 300)
    (group,) = cluster(catalog).groups
    assert (group.reason, len(group.paths), group.status) == ("overlap", 2, "done")
    assert bounds(catalog) == [(0, 9), (100, 109), (200, 214), (300, 309)]


def test_a_second_clustering_has_nothing_to_do(catalog: Catalog) -> None:
    spread(catalog, *range(10), step=10)
    before = values(catalog)
    done = cluster(catalog)
    (group,) = done.groups
    assert (group.reason, len(group.paths)) == ("overlap", 10)
    assert 3 <= group.files_after == len(live(catalog))
    assert values(catalog) == before
    again = cluster(catalog)
    assert again.is_empty
    assert again.describe().startswith("nothing to compact")
    spread(catalog, 33)
    (group,) = cluster(catalog).groups
    assert 2 <= len(group.paths) <= 3, "it and those that it meets"
    assert cluster(catalog).is_empty


def test_small_files_are_put_together_only_with_their_neighbours(catalog: Catalog) -> None:
    spread(catalog, 100)
    cluster(catalog, min_input_files=1)
    for start in (0, 10, 20, 200, 210, 220):
        spread(catalog, start)
    options = {"target_file_size_bytes": 1_000_000, "sort_by": ["n"], "min_input_files": 3}
    plan = catalog.compact("db", "t", **options)
    assert [len(g.paths) for g in plan.groups] == [7]
    with mock.patch.object(compacting, "_SMALL", 0):
        assert catalog.compact("db", "t", **options).is_empty


@pytest.mark.parametrize("memory_bytes", [1 << 30, 1_000])
def test_more_rows_than_fit_in_memory_are_sorted_in_ranges(
    catalog: Catalog, memory_bytes: int
) -> None:
    spread(catalog, *range(20), step=7)
    before = points(catalog)
    (group,) = cluster(catalog, memory_bytes=memory_bytes).groups
    assert group.status == "done"
    assert catalog.snapshot("db").to_arrow("t").column("n").to_pylist() == values(catalog)
    assert {token: values(catalog, token) for token in before} == before
    assert cluster(catalog).is_empty


def test_a_table_with_a_key_stays_as_it_is(catalog: Catalog) -> None:
    fill(catalog)
    fill(catalog, "b")
    catalog.evolve("db", "t", key=["n"], writers=["b"])
    found = catalog.compact("db", execute=True)
    assert found.is_empty
    assert found.files_kept == {"table has a key": 12}


def test_external_files_are_written_below_data(catalog: Catalog, tmp_path: Path) -> None:
    for number in range(5):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number}.parquet")
    with catalog.writer("a", "db") as writer, writer.transaction() as tx:
        for number in range(5):
            tx.add("t", tmp_path / f"{number}.parquet")
    catalog.compact("db", execute=True)
    (path,) = live(catalog)
    assert path.startswith("data/")
    assert values(catalog) == list(range(5))
    assert len(list(tmp_path.glob("*.parquet"))) == 5, "they are somebody else's"


def test_files_written_before_and_after_a_change_of_columns(catalog: Catalog) -> None:
    fill(catalog, files=5)
    catalog.evolve("db", "t", add={"new": pa.int64()}, rename={"half": "part"}, default={"new": 9})
    with catalog.writer("a", "db") as writer:
        for number in range(5):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [100 + number], "part": [0], "new": [number]}))
    before = catalog.snapshot("db").to_arrow("t").sort_by("n")
    catalog.compact("db", execute=True)
    assert len(live(catalog)) == 2
    assert catalog.snapshot("db").to_arrow("t").sort_by("n").equals(before)
    catalog.compact("db", min_input_files=2, execute=True)
    assert len(live(catalog)) == 1
    assert catalog.snapshot("db").to_arrow("t").sort_by("n").equals(before)


# --- Beside others --------------------------------------------------------------------------------


def compacted_beside(
    catalog: Catalog, change: Callable[[int], None], turns: int, **options: Any
) -> lakelog.catalog.commit.compacting.Compaction:
    """Compacts while `change` is called before each of the first commits of the compaction."""
    plan = catalog.compact("db")
    left = iter(range(turns))

    def opened(name: str) -> Any:
        writer = catalog.writer(name, "db", shared=True)
        commit = writer._session.commit

        def after_change(intent: Any) -> Any:
            turn = next(left, None)
            if turn is not None:
                change(turn)
            return commit(intent)

        writer._session.commit = after_change  # type: ignore[method-assign]
        return writer

    return execute_compaction(plan, opened, CompactOptions(**options))


def test_an_append_is_no_conflict(catalog: Catalog) -> None:
    fill(catalog)

    def append(turn: int) -> None:
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.write("t", pa.table({"n": [100 + turn], "half": [0]}))

    (group,) = compacted_beside(catalog, append, 1).groups
    assert (group.status, group.revision) == ("done", 7)
    assert values(catalog) == [*range(12), 100]


@pytest.mark.parametrize(
    "options",
    [{}, {"sort_by": ("n",)}, {"sort_by": ("n",), "memory_bytes": 64}],
    ids=["as they come", "sorted", "sorted in ranges"],
)
@pytest.mark.parametrize("mode", ["rows", "predicate"])
def test_a_delete_meanwhile_is_carried_over(
    catalog: Catalog, mode: str, options: dict[str, Any]
) -> None:
    fill(catalog)
    with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
        tx.write("t", pa.table({"n": [20, 3], "half": [9, 9]}))
        tx.delete("t", "n = 8", mode="rows")
    catalog.delete("db", "t", "n = 9", mode="predicate")
    at_first = catalog.snapshot("db").token
    before = points(catalog)

    def delete(turn: int) -> None:
        where = "half = 9" if turn == 3 else f"n = {2 * turn + 1}"
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.delete("t", where, mode=mode)

    (group,) = compacted_beside(catalog, delete, 4, **options).groups
    assert group.status == "done"
    assert values(catalog) == [0, 2, 4, 6, 7, 10, 11]
    assert len(live(catalog)) == 1
    assert {token: values(catalog, token) for token in before} == before
    feed = catalog.changes("db", "t", at_first).read_all().to_pylist()
    assert sorted(row["n"] for row in feed) == [1, 3, 3, 5, 20]
    assert catalog.check("db", level="data").is_sound
    names = [info.key for info in catalog.store.list("a/db/data/")]
    written = [name for name in names if name.endswith(".parquet")]
    assert len(written) == 8, "rows are written again once, and nothing is left over"


def test_a_delete_of_all_rows_of_a_new_file_is_carried_over(catalog: Catalog) -> None:
    fill(catalog)

    def delete(turn: int) -> None:
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.delete("t", "n >= 0 OR half = 77", mode="predicate")

    (group,) = compacted_beside(catalog, delete, 1).groups
    assert group.status == "done"
    assert values(catalog) == []
    catalog.compact("db", execute=True)
    assert live(catalog) == []


def test_files_that_others_took_out_are_left_out(catalog: Catalog) -> None:
    fill(catalog)
    first = live(catalog)[0]

    def remove(turn: int) -> None:
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.remove(first)

    (group,) = compacted_beside(catalog, remove, 1).groups
    assert group.status == "done"
    assert len(values(catalog)) == 10


def test_a_group_that_is_overtaken_each_time_leaves_nothing_behind(
    catalog: Catalog, tmp_path: Path
) -> None:
    fill(catalog)

    def remove(turn: int) -> None:
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.remove(live(catalog)[0])

    found = compacted_beside(catalog, remove, 3)
    assert [g.status for g in found.groups] == ["overtaken"]
    assert found.remaining == 1
    assert values(catalog) == list(range(6, 12))
    assert len(list((tmp_path / "lake/a/db/data").rglob("*.parquet"))) == 6


def test_files_whose_clocks_disagree_with_their_commits_stay_apart(catalog: Catalog) -> None:
    """Else a key that is given later would find another newest row."""
    with catalog.writer("a", "db") as writer:
        for clock in (5, 1, 2, 7, 3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [0], "at": [clock]}), clock=(clock, clock))
    found = catalog.compact("db", min_input_files=2, execute=True)
    assert [len(group.paths) for group in found.groups] == [3]
    catalog.evolve("db", "t", key=["n"])
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == [{"n": 0, "at": 7}]


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_key_that_comes_meanwhile_leaves_the_table_alone(catalog: Catalog, who: str) -> None:
    fill(catalog)
    fill(catalog, "b", files=1)
    plan = catalog.compact("db")
    catalog.evolve("db", "t", key=["n"], writers=[who])
    found = execute_compaction(
        plan, lambda name: catalog.writer(name, "db", shared=True), CompactOptions()
    )
    assert [g.status for g in found.groups] == ["overtaken"]
    assert len(live(catalog)) == 7


def test_an_owner_that_is_open_goes_on(catalog: Catalog) -> None:
    with catalog.writer("a", "db") as owner:
        for number in range(5):
            with owner.transaction() as tx:
                tx.write("t", pa.table({"n": [number]}))
        late = owner.transaction()
        late.write("t", pa.table({"n": [5]}))
        catalog.compact("db", execute=True)
        late.commit()
        with owner.transaction() as tx:
            tx.overwrite("t", pa.table({"n": [6]}), "n = 0", validate=False)
    assert values(catalog) == [1, 2, 3, 4, 5, 6]


def test_two_compactions_at_once_keep_every_row(catalog: Catalog) -> None:
    fill(catalog, files=20)
    sizes = catalog.snapshot("db").files("t").column("size_bytes").to_pylist()
    size_bytes = 5 * max(sizes)
    runs = [
        threading.Thread(
            target=catalog.compact,
            args=("db",),
            kwargs={"max_group_bytes": size_bytes, "execute": True},
        )
        for _ in range(2)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert values(catalog) == list(range(40))
    assert len(live(catalog)) == 4


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_any_write_loses_no_row_and_the_next_run_goes_on(after: bool) -> None:
    def prepared() -> Catalog:
        catalog = Catalog(MemoryStore("lake"))
        fill(catalog, files=10)
        with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
            tx.delete("t", "n = 2", mode="rows")
        return catalog

    one_thread = replace(SYSTEM, in_background=False)
    sizes = prepared().snapshot("db").files("t").column("size_bytes").to_pylist()
    options: dict[str, Any] = {"max_group_bytes": 5 * max(sizes), "execute": True}
    counted = CrashingStore(prepared().store)
    Catalog(counted, ambient=one_thread).compact("db", **options)
    assert counted.requests >= 6
    for at in range(counted.requests):
        catalog = prepared()
        before = points(catalog)
        dying = Catalog(CrashingStore(catalog.store, at, after=after), ambient=one_thread)
        with pytest.raises(Crash):
            dying.compact("db", **options)
        assert {token: values(catalog, token) for token in before} == before
        assert values(catalog) == [n for n in range(20) if n != 2]
        catalog.compact("db", **options)
        assert values(catalog) == [n for n in range(20) if n != 2]
        assert len(live(catalog)) == 2
        assert catalog.check("db", level="data").is_sound


@pytest.mark.parametrize("after", [False, True])
def test_a_death_while_a_delete_is_carried_over_loses_no_row(after: bool) -> None:
    """The delete comes before the first attempt to commit, so that the second one brings it."""
    one_thread = replace(SYSTEM, in_background=False)

    def prepared() -> Catalog:
        catalog = Catalog(MemoryStore("lake"))
        fill(catalog)
        return catalog

    def delete_in(catalog: Catalog) -> Callable[[int], None]:
        def delete(turn: int) -> None:
            with catalog.writer("a", "db", shared=True) as guest, guest.transaction() as tx:
                tx.delete("t", "n = 3", mode="rows")

        return delete

    catalog = prepared()
    counted = CrashingStore(catalog.store)
    compacted_beside(Catalog(counted, ambient=one_thread), delete_in(catalog), 1)
    assert counted.requests >= 4
    for at in range(counted.requests):
        catalog = prepared()
        before = points(catalog)
        dying = Catalog(CrashingStore(catalog.store, at, after=after), ambient=one_thread)
        with pytest.raises(Crash):
            compacted_beside(dying, delete_in(catalog), 1)
        assert {token: values(catalog, token) for token in before} == before
        left = values(catalog)
        assert left in ([*range(12)], [n for n in range(12) if n != 3])
        catalog.compact("db", execute=True)
        assert values(catalog) == left
        assert catalog.check("db", level="data").is_sound


def test_what_is_not_begun_in_time_is_left_for_the_next_run(catalog: Catalog) -> None:
    fill(catalog)
    found = catalog.compact("db", time_limit_s=0.0, execute=True)
    assert [g.status for g in found.groups] == ["not begun"]
    assert found.remaining == 1
    assert len(live(catalog)) == 6


def test_a_store_without_put_if_absent_is_left_alone(catalog: Catalog) -> None:
    fill(catalog)
    plain = Catalog(PlainStore(catalog.store))
    assert len(plain.compact("db").groups) == 1
    with pytest.raises(CapabilityMissing):
        plain.compact("db", execute=True)
    assert len(live(catalog)) == 6


def test_what_it_costs(catalog: Catalog) -> None:
    fill(catalog)
    counting = CountingStore(catalog.store)
    costly = Catalog(counting)
    costly.compact("db")
    planned = {verb: n for verb, n in counting.reset().items() if n}
    assert planned == {"list": 2, "get": 6}
    costly.compact("db", execute=True)
    spent = {verb: n for verb, n in counting.reset().items() if n}
    # A new file, the commit and its copy; a HEAD when the transaction begins.
    assert spent == {"put": 3, "head": 1, "list": 2 + 3, "get": 6 + 12}


# --- By the owner, beside its commits -------------------------------------------------------------


def append(writer: Any, *values: int) -> None:
    for value in values:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [value]}))


def test_an_owner_compacts_its_own_small_files(catalog: Catalog) -> None:
    with catalog.writer("b", "db") as other:
        append(other, *range(100, 106))
    with catalog.writer("a", "db", compact_every=10) as writer:
        append(writer, *range(25))
    assert values(catalog) == [*range(25), *range(100, 106)]
    files = catalog.snapshot("db").files("t").column("writer").to_pylist()
    assert files.count("b") == 6
    assert files.count("a") < 20
    history = catalog.history("db", "a").filter(pc.field("guest"))
    assert set(history.column("operation").to_pylist()) == {"rewrite"}


def test_programs_of_one_commit_each_compact_too(catalog: Catalog) -> None:
    for value in range(12):
        with catalog.writer("a", "db", compact_every=6) as writer:
            append(writer, value)
    assert values(catalog) == list(range(12))
    assert len(live(catalog)) <= 7


def test_beside_the_commits_each_row_is_rewritten_only_a_few_times(catalog: Catalog) -> None:
    quiet = Catalog(catalog.store, ambient=replace(SYSTEM, in_background=False))
    rng = np.random.default_rng(1)
    with (
        mock.patch.object(compacting, "_TINY_BYTES", 0),
        quiet.writer("a", "db", compact_every=5, checkpoint_every=0) as writer,
    ):
        for _ in range(60):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": rng.integers(0, 1 << 62, 500)}))
    history = quiet.history("db").to_pylist()
    rewrites = [row for row in history if row["operation"] == "rewrite"]
    written = sum(row["rows_rewritten"] for row in rewrites)
    assert len(rewrites) > 6
    assert written < 4 * 60 * 500
    assert len(live(catalog)) < 20


def test_what_goes_wrong_with_it_is_a_warning(catalog: Catalog) -> None:
    plain = Catalog(PlainStore(catalog.store), ambient=replace(SYSTEM, in_background=False))
    with plain.writer("a", "db", compact_every=6) as writer:
        append(writer, *range(5))
        with pytest.warns(CompactionWarning, match="The commit stands"):
            append(writer, 5)
    assert values(catalog) == list(range(6))
    with pytest.raises(UsageError, match="compact_every"):
        catalog.writer("a", "db", compact_every=-1)


# --- What can't be --------------------------------------------------------------------------------


def test_arguments_that_can_not_be(catalog: Catalog) -> None:
    fill(catalog, files=1)
    for wrong in (
        {"target_file_size_bytes": 0},
        {"min_input_files": -1},
        {"delete_ratio_threshold": 0},
        {"delete_ratio_threshold": 30},
        {"max_group_bytes": 1.5},
        {"memory_bytes": 0},
    ):
        with pytest.raises(UsageError):
            catalog.compact("db", **wrong)
    for wrong in ({"delete_ratio_threshold": "x"}, {"time_limit_s": -1}, {"time_limit_s": "5"}):
        with pytest.raises(UsageError):
            catalog.compact("db", **wrong)
    for sort_by in (5, "nope"):
        with pytest.raises(UsageError):
            catalog.compact("db", "t", sort_by=sort_by)
    with pytest.raises(UsageError, match="one table"):
        catalog.compact("db", where="n = 1")
    with pytest.raises(UsageError, match="one table"):
        catalog.compact("db", sort_by="n")
    with pytest.raises(TableNotFound):
        catalog.compact("db", "no")
    with pytest.raises(WriterNotFound):
        catalog.compact("db", writers=["no"])
