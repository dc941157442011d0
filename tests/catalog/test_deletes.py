"""Deleting rows: what each way writes, what stays, who wins, and what damage costs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import deleting
from lakelog.errors import (
    CorruptObject,
    FileNotLive,
    InvalidPredicate,
    ObjectNotFound,
    SchemaConflict,
    TableNotFound,
    UsageError,
)
from lakelog.testing.counting import CountingStore
from own_files import add_own


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    """A database of one writer: three files of four rows, `m` says which."""
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer:
        for month in (1, 2, 3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"m": [month] * 4, "n": [None, 10, 20, 30]}))
    return catalog


def rows(catalog: Catalog, as_of=None, **asked) -> list[tuple[int, int | None]]:
    found = catalog.snapshot("db", as_of).to_arrow("t", ["m", "n"], **asked).to_pylist()
    return sorted(((row["m"], row["n"]) for row in found), key=str)


def delete(catalog: Catalog, where: str, **how):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        return tx.delete("t", where, **how)


BOTH = pytest.mark.parametrize("mode", ["predicate", "rows"])
ALL = [(month, n) for month in (1, 2, 3) for n in (None, 10, 20, 30)]


@BOTH
@pytest.mark.parametrize("checkpointed", [False, True])
def test_rows_for_which_the_predicate_is_true_go(lake, mode, checkpointed) -> None:
    before = lake.snapshot("db").token
    done = delete(lake, "n > 15 AND m <> 2", mode=mode)
    assert (done.files_removed, done.files_touched) == (0, 2)
    assert (done.tombstones, done.rows) == ((1, None) if mode == "predicate" else (0, 4))
    if checkpointed:
        with lake.writer("w", "db") as writer:
            writer.checkpoint()
    wanted = [(m, n) for m, n in ALL if n is None or n == 10 or m == 2]
    assert rows(lake) == sorted(wanted, key=str)
    assert rows(lake, before) == sorted(ALL, key=str)
    assert rows(lake, where="n = 20") == [(2, 20)]
    assert lake.snapshot("db").dataset("t").count_rows() == len(wanted)
    assert lake.snapshot("db").dataset("t").to_table(columns=[]).num_rows == len(wanted)


@BOTH
def test_a_file_of_which_every_row_goes_is_removed(lake, mode) -> None:
    done = delete(lake, "m = 2", mode=mode)
    assert (done.files_removed, done.files_touched, done.tombstones, done.rows) == (1, 0, 0, 4)
    assert lake.snapshot("db").files("t").num_rows == 2
    (last,) = lake.history("db").slice(3).to_pylist()
    assert (last["operation"], last["files_removed"]) == ("delete", 1)


def test_a_null_is_no_reason_to_remove_a_file(lake) -> None:
    assert delete(lake, "n >= 10", mode="predicate").files_removed == 0
    assert rows(lake) == [(1, None), (2, None), (3, None)]


@BOTH
def test_nan_is_the_greatest_and_no_reason_to_remove_a_file(tmp_path, mode) -> None:
    catalog = open_catalog(str(tmp_path))
    values = [1.0, float("nan"), -0.0, None, float("inf")]
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"x": values, "row": list(range(5))}))
        with writer.transaction() as tx:
            assert tx.delete("t", "x < 5 AND x <> 0", mode=mode).files_removed == 0
    assert catalog.snapshot("db").to_arrow("t")["row"].to_pylist() == [1, 2, 3, 4]
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "x = 0 OR x > 100", mode=mode)
    assert catalog.snapshot("db").to_arrow("t")["row"].to_pylist() == [3]


@BOTH
def test_what_comes_with_it_or_later_stays(lake, mode) -> None:
    with lake.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"m": [4], "n": [10]}))
            tx.delete("t", "n = 10", mode=mode)
            tx.write("t", pa.table({"m": [5], "n": [10]}))
        with writer.transaction() as tx:
            tx.write("t", pa.table({"m": [6], "n": [10]}))
    assert [m for m, n in rows(lake) if n == 10] == [4, 5, 6]


@BOTH
def test_a_column_that_is_dropped_and_added_again_keeps_the_old_meaning(tmp_path, mode) -> None:
    """('hello', 5); b dropped and added anew; what is deleted by the new b leaves the old row."""
    catalog = open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": ["hello", "old"], "b": [5, 6]}))
        with writer.transaction() as tx:
            tx.delete("t", "b = 6", mode=mode)
        with writer.transaction() as tx:
            tx.evolve("t", drop=["b"], add={"b": pa.int64()})
            tx.write("t", pa.table({"a": ["new", "kept"], "b": [5, 7]}))
        with writer.transaction() as tx:
            tx.delete("t", "b = 5", mode=mode)
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert found == [{"a": "hello", "b": None}, {"a": "kept", "b": 7}]


def test_a_wider_type_that_comes_later_changes_nothing(tmp_path) -> None:
    """0.1 as a float is not 0.1 as a double: the predicate goes on meaning the float."""
    catalog = open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"x": pa.array([0.1, 0.5], pa.float32())}))
        with writer.transaction() as tx:
            tx.delete("t", "x = 0.1")
        with writer.transaction() as tx:
            tx.write("t", pa.table({"x": [0.1]}))
    assert catalog.snapshot("db").to_arrow("t")["x"].to_pylist() == [0.5, 0.1]


def test_row_numbers_hold_under_row_groups_that_are_skipped(tmp_path) -> None:
    catalog = open_catalog(str(tmp_path))
    place = tmp_path / "w" / "db" / "data" / "x.parquet"
    place.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": list(range(20))}), place, row_group_size=3)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            add_own(tx, "t", "data/x.parquet")
        with writer.transaction() as tx:
            assert tx.delete("t", "n IN (4, 10, 19)", mode="rows").rows == 3
    snapshot = catalog.snapshot("db")
    left = [n for n in range(20) if n not in (4, 10, 19)]
    assert snapshot.to_arrow("t")["n"].to_pylist() == left
    for low in range(20):
        found = snapshot.to_arrow("t", where=f"n >= {low} AND n < {low + 4}")
        assert found["n"].to_pylist() == [n for n in left if low <= n < low + 4]


def test_the_newest_bitmap_has_the_rows_of_those_before(lake) -> None:
    for n, count in ((10, 3), (20, 3), (10, 0)):
        assert delete(lake, f"n = {n}", mode="rows").rows == count
    hidden = [part.hidden for part in lake.snapshot("db").file_parts("t")]
    assert [len(each.bitmaps) for each in hidden] == [1, 1, 1]
    assert {each.bitmaps[0].cardinality for each in hidden} == {2}
    assert delete(lake, "n = 30 OR n IS NULL", mode="rows").files_removed == 3
    assert rows(lake) == []


@BOTH
def test_two_who_delete_rows_of_one_file_lose_nothing(lake, mode) -> None:
    """The bitmap of the second doesn't know of the first's."""
    with (
        lake.writer("w", "db", shared=True) as one,
        lake.writer("w", "db", shared=True) as two,
        one.transaction() as first,
        two.transaction() as second,
    ):
        first.delete("t", "n = 10", mode=mode)
        second.delete("t", "n = 20", mode=mode)
    assert {n for _, n in rows(lake)} == {None, 30}
    delete(lake, "m = 1 AND n = 30", mode="rows")
    assert (1, 30) not in rows(lake)
    assert {n for m, n in rows(lake) if m == 1} == {None}


def test_rows_of_a_file_that_was_removed_meanwhile_are_a_conflict(lake) -> None:
    path = lake.snapshot("db").files("t")["path"][0].as_py()
    with lake.writer("w", "db", shared=True) as one, lake.writer("w", "db", shared=True) as two:
        tx = one.transaction()
        tx.delete("t", "n = 10", mode="rows")
        with two.transaction() as other:
            other.remove(path)
        with pytest.raises(FileNotLive, match="is not live any more"):
            tx.commit()


def test_a_file_that_is_added_again_has_all_its_rows(tmp_path) -> None:
    catalog = open_catalog(str(tmp_path))
    place = tmp_path / "w" / "db" / "data" / "x.parquet"
    place.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2, 3]}), place)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            add_own(tx, "t", "data/x.parquet")
        for mode in ("rows", "predicate"):
            with writer.transaction() as tx:
                tx.delete("t", "n = 2", mode=mode)
            assert catalog.snapshot("db").to_arrow("t")["n"].to_pylist() == [1, 3]
            with writer.transaction() as tx:
                tx.remove("data/x.parquet")
                add_own(tx, "t", "data/x.parquet")
            assert catalog.snapshot("db").to_arrow("t")["n"].to_pylist() == [1, 2, 3]
        writer.checkpoint()
    (state,) = catalog.snapshot("db")._states
    assert not state.deletes.tombstones  # no live file is older
    assert not state.deletes.objects()
    assert catalog.snapshot("db").to_arrow("t")["n"].to_pylist() == [1, 2, 3]


def test_auto_takes_rows_once_there_are_many_predicates(lake) -> None:
    told = [delete(lake, f"n = 10 AND m <> {-k}") for k in range(deleting.MOST_TOMBSTONES + 1)]
    assert [each.tombstones for each in told] == [1] * deleting.MOST_TOMBSTONES + [0]
    assert told[-1].rows == 0
    assert delete(lake, "n = 20").rows == 3


def test_files_that_hold_no_such_row_are_read_as_before(lake) -> None:
    delete(lake, "m = 2 AND n = 10")
    hidden = [part.hidden is None for part in lake.snapshot("db").file_parts("t")]
    assert sorted(hidden) == [False, True, True]
    told = lake.snapshot("db").explain("t", "m > 0").to_pylist()
    assert sorted(row["deletes"] for row in told) == ["", "", "1 tombstone"]


def test_nothing_is_written_where_no_row_can_meet_it(lake) -> None:
    done = delete(lake, "m = 7")
    assert (done.files_removed, done.files_touched, done.tombstones, done.rows) == (0, 0, 0, 0)
    assert lake.history("db").num_rows == 3


def test_a_predicate_that_says_nothing_of_a_column_names_it_all_the_same(lake) -> None:
    delete(lake, "n = 10 OR (m = 1 AND FALSE)")
    assert {n for _, n in rows(lake)} == {None, 20, 30}


def test_what_can_not_be_asked_for_changes_nothing(lake) -> None:
    with lake.writer("w", "db") as writer, writer.transaction() as tx:
        for error, args in (
            (TableNotFound, ("u", "n = 1")),
            (InvalidPredicate, ("t", "k = 1")),
            (InvalidPredicate, ("t", "n = ")),
            (UsageError, ("t", None)),
        ):
            with pytest.raises(error):
                tx.delete(*args)
        with pytest.raises(UsageError, match="mode"):
            tx.delete("t", "n = 1", mode="row")
    assert tx.commit_info is None


def test_a_file_that_came_beside_with_no_common_type_is_refused(lake) -> None:
    """It was committed between the delete and its commit, below its revision: lakelog lets that
    commit be a conflict, which another writer of the format may not."""
    with lake.writer("w", "db", shared=True) as one, lake.writer("w", "db", shared=True) as two:
        tx = one.transaction()
        tx.delete("t", "n = 10", mode="predicate")
        tx._intent.fits.clear()
        with two.transaction() as other:
            other.write("t", pa.table({"n": ["text"]}), on_conflict="allow")
        tx.commit()
    with pytest.raises(SchemaConflict, match="were deleted by column 'n'"):
        lake.snapshot("db").to_arrow("t", ["m"])


# --- Damage ---------------------------------------------------------------------------------------


def the_object(lake: Catalog) -> Path:
    (path,) = Path(lake.url.removeprefix("file://")).rglob("*.deletes")
    return path


def test_rows_are_refused_without_their_bitmap(lake) -> None:
    delete(lake, "n = 10", mode="rows")
    path = the_object(lake)
    body = path.read_bytes()
    path.unlink()
    with pytest.raises(ObjectNotFound, match="deletes") as gone:
        rows(lake)
    assert "which rows of files were deleted" in gone.value.hint
    for damaged in (body[:-1], body[:90] + b"x" + body[91:], b""):
        path.write_bytes(damaged)
        with pytest.raises(CorruptObject):
            rows(lake)
    path.write_bytes(body)
    assert len(rows(lake)) == 9


def test_one_object_is_read_once(lake) -> None:
    delete(lake, "n = 10", mode="rows")
    seen = []

    class Seen(CountingStore):
        def get(self, key, **part):
            seen.append(key)
            return super().get(key, **part)

    found = Catalog(Seen(lake.store)).snapshot("db")
    assert len(found.to_arrow("t")) == 9
    assert len([key for key in seen if key.endswith(".deletes")]) == 1
