"""Deletes in the files of all writers, where logs are rebuilt, pruned, set back or replaced."""

from __future__ import annotations

import shutil

import pytest
from cut_cases import NO_GRACE, checkpoint, delete, do, left, rows, write
from lakelog.catalog.catalog import Catalog
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild


def test_a_log_that_was_rebuilt_is_known_again(lake) -> None:
    for _ in range(3):
        write(lake, "b", [7])
    do(
        lake,
        "b",
        lambda tx: tx.remove(lake.snapshot("db").files("t", where="n = 7")["path"][0].as_py()),
    )
    delete(lake, "n IN (2, 7)")
    write(lake, "b", [2, 7])
    wanted = left("a2", "b2", more="b2 b7")
    for name in ("b", "a", "b"):
        execute_rebuild(lake, plan_rebuild(lake, name, "db"))
        assert rows(lake) == wanted
        assert rows(lake, where="n = 2") == ["b2"]
    write(lake, "b", [2])
    checkpoint(lake, "a", "b")
    assert rows(lake) == sorted([*wanted, "b2"])
    before = lake.snapshot("db", {"b": 0})
    assert before.to_arrow("t").num_rows


def test_the_history_of_a_rebuilt_log_is_kept_for_it(lake) -> None:
    """Else nobody could tell of which of its files the delete holds."""
    delete(lake, "n = 2")
    execute_rebuild(lake, plan_rebuild(lake, "b", "db"))
    for value in (2, 3):
        write(lake, "b", [value])
    with lake.writer("b", "db") as writer:
        writer.checkpoint()
        write(lake, "b", [2])
    checkpoint(lake, "b")
    quick = Catalog(lake.store, margins=NO_GRACE)
    plan = plan_prune(quick, "b", "db", keep_revisions=1, margins=NO_GRACE)
    execute_prune(quick, plan, margins=NO_GRACE)
    write(lake, "b", [5])
    checkpoint(lake, "b")
    assert rows(lake) == left("a2", "b2", more="b2 b2 b3 b5")


def test_a_pruned_log_is_known_by_its_revisions(lake) -> None:
    delete(lake, "n = 2")
    for value in (2, 3, 5):
        write(lake, "b", [value])
    quick = Catalog(lake.store, margins=NO_GRACE)
    for name in "ba":
        checkpoint(lake, name)
        plan = plan_prune(quick, name, "db", keep_revisions=1, margins=NO_GRACE)
        execute_prune(quick, plan, margins=NO_GRACE)
        for _ in range(6):  # few rows of history are not put together with those before
            write(lake, name, [6])
        checkpoint(lake, name)
        execute_gc(quick, plan_gc(quick, name, "db", margins=NO_GRACE), margins=NO_GRACE)
    (state,) = [state for state in lake.snapshot("db")._states if state.writer == "b"]
    assert state.history.table()["revision"].to_pylist()[0] > 0
    assert rows(lake) == left("a2", "b2", more="b2 b3 b5" + " b6 a6" * 6)


def test_a_log_that_was_set_back_to_a_copy_loses_nothing_that_came_since(tmp_path, lake) -> None:
    """Its revisions have the numbers that the delete names, and are others."""
    folder = tmp_path / "lake" / "b"
    shutil.copytree(folder, tmp_path / "copy")
    for value in (2, 6):
        write(lake, "b", [value])
    delete(lake, "n IN (2, 6)")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    assert rows(lake) == left("a2", "b2")
    for number in range(3):
        write(lake, "b", [2])
        assert rows(lake) == left("a2", "b2", more="b2 " * (number + 1))
    checkpoint(lake, "b")
    assert rows(lake) == left("a2", "b2", more="b2 b2 b2")


def test_a_new_log_of_the_same_name_is_another(tmp_path, lake) -> None:
    delete(lake, "n = 2")
    shutil.rmtree(tmp_path / "lake" / "b")
    write(lake, "b", [1, 2])
    assert rows(lake) == ["a1", "a3", "a4", "b1", "b2"]


def test_a_renamed_log_is_the_same(tmp_path, lake) -> None:
    delete(lake, "n = 2")
    (tmp_path / "lake" / "b").rename(tmp_path / "lake" / "c")
    with lake.writer("c", "db") as writer:
        writer.adopt_name()
    assert rows(lake) == left("a2", "b2")


def test_it_is_refused_where_nothing_tells_of_which_files_it_holds(lake) -> None:
    """Somebody else's writer took the history of a rebuilt log away."""
    from lakelog.errors import CorruptObject

    delete(lake, "n = 2")
    execute_rebuild(lake, plan_rebuild(lake, "b", "db"))
    write(lake, "b", [2])
    write(lake, "b", [3])
    snapshot = lake.snapshot("db")
    (state,) = [state for state in snapshot._states if state.writer == "b"]
    state.history.rows = state.history.rows[-1:]
    state.history.pieces = ()
    with pytest.raises(CorruptObject, match="can't be told"):
        snapshot.to_arrow("t")
    assert rows(lake, {"b": state.revision}) == ["b1", "b2", "b2", "b3", "b3", "b4"]
