"""Going back across deletes in the files of all writers: every row that was read then is read
again, and no other."""

from __future__ import annotations

import pyarrow as pa
import pytest
from cut_cases import NO_GRACE, checkpoint, delete, do, left, rows, write
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.execute_change import Execution
from lakelog.errors import PlanOutdated
from lakelog.gc import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild


def restore(lake, to, **how):
    return lake.restore("db", to=to, **{"execute": True, **how})


def every_engine(lake) -> list[str]:
    """The rows, as every engine reads them."""
    found, snapshot = rows(lake), lake.snapshot("db")

    def plain(table: pa.Table) -> list[str]:
        return sorted(f"{row['w']}{row['n']}" for row in table.to_pylist())

    assert plain(snapshot.to_duckdb().sql("FROM t").to_arrow_table()) == found
    assert plain(snapshot.to_polars("t").collect().to_arrow()) == found
    assert plain(snapshot.dataset("t").to_table()) == found
    assert snapshot.dataset("t").count_rows() == len(found)
    return found


def test_rows_that_others_deleted_come_back_and_go_again(lake) -> None:
    before = lake.snapshot("db").token
    delete(lake, "n = 2")
    after = lake.snapshot("db").token
    plan = lake.restore("db", to=before)
    assert (plan.files_added, plan.files_removed, plan.rows_back) == (0, 0, 2)
    told = [change.deletes.select(["deleted_now", "deleted_then", "added_again"]) for change in
            plan.changes]  # fmt: skip
    back = {"deleted_now": 1, "deleted_then": 0, "added_again": True}
    assert [each.to_pylist() for each in told] == [[back], [back]]
    assert rows(lake) == left("a2", "b2")
    restore(lake, before, execute=plan)
    assert every_engine(lake) == left()
    assert lake.restore("db", to=before).is_empty
    assert rows(lake, after) == left("a2", "b2")
    done = restore(lake, after)
    assert (done.rows_back, done.rows_deleted) == (0, 2)
    assert every_engine(lake) == left("a2", "b2")
    restore(lake, before)
    checkpoint(lake, "a", "b")
    assert every_engine(lake) == left()
    delete(lake, "n = 2")
    assert every_engine(lake) == left("a2", "b2")


def test_files_do_not_come_back_with_rows_that_others_deleted(lake) -> None:
    delete(lake, "n = 2")
    good = lake.snapshot("db").token
    paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
    do(lake, "b", lambda tx: tx.remove(paths[0]))
    done = restore(lake, good)
    assert (done.files_added, done.rows_back) == (1, 0)
    assert every_engine(lake) == left("a2", "b2")
    assert rows(lake, writer="b") == ["b1", "b3", "b4"]
    restore(lake, good, writers=["b"])
    assert every_engine(lake) == left("a2", "b2")


def test_rows_that_own_deletes_hide_come_back_without_those_of_others(lake) -> None:
    """The file is added again, and so is free of the delete that stays."""
    delete(lake, "n = 2")
    good = lake.snapshot("db").token
    do(lake, "b", lambda tx: tx.delete("t", "n = 3"))
    delete(lake, "n = 4", by="b")
    assert rows(lake) == ["a1", "a3", "b1"]
    restore(lake, good)
    assert every_engine(lake) == left("a2", "b2")


def test_a_writer_that_came_since_takes_its_deletes_with_it(lake) -> None:
    before = lake.snapshot("db").token
    delete(lake, "n = 2", by="new")
    done = restore(lake, before, writers=["a", "b", "new"])
    assert done.notes == ("Writer 'new' has nothing in the cut: all its files go",)
    assert every_engine(lake) == left()


def test_who_stays_as_he_is_keeps_what_he_has_deleted(lake) -> None:
    """What is taken back is one writer's: its files, and what it has said of others'."""
    before = lake.snapshot("db").token
    delete(lake, "n = 2", by="a")
    delete(lake, "n = 3", by="b")
    write(lake, "b", [7])
    done = restore(lake, before, writers=["b"])
    assert done.notes == (
        "Rows that b has deleted of files of a stay deleted: these are not taken back",
    )
    assert every_engine(lake) == left("a2", "b2", "a3")
    assert lake.restore("db", to=before, writers=["b"]).is_empty
    restore(lake, before)
    assert every_engine(lake) == left()


def test_of_other_tables_nothing_changes(lake) -> None:
    for name in "ab":
        do(lake, name, lambda tx: tx.write("u", pa.table({"n": [1, 2]})))
    before = lake.snapshot("db")
    delete(lake, "n = 2")
    cut = lake.snapshot("db")
    do(lake, "a", lambda tx: tx.delete("u", "n = 2", cut=cut))
    restore(lake, before.token, table="u")
    assert rows(lake) == left("a2", "b2")
    assert lake.snapshot("db").to_arrow("u").num_rows == 4
    restore(lake, cut.token, table="t")
    assert rows(lake) == left("a2", "b2")
    restore(lake, before.token)
    assert rows(lake) == left()


def test_a_dropped_table_comes_back_without_what_others_deleted(lake) -> None:
    delete(lake, "n = 2")
    good = lake.snapshot("db").token
    lake.drop("db", "t", execute=True)
    checkpoint(lake, "a", "b")
    restore(lake, good)
    assert every_engine(lake) == left("a2", "b2")


def test_with_a_key_the_newest_rows_are_hidden_and_come_back(lake) -> None:
    lake.evolve("db", "t", key=["n"])
    before = lake.snapshot("db").token
    newest = rows(lake)
    delete(lake, "n = 2")
    after = lake.snapshot("db").token
    restore(lake, before)
    assert every_engine(lake) == newest
    restore(lake, after)
    assert every_engine(lake) == [row for row in newest if row[1] != "2"]


def test_a_delete_by_others_since_the_plan_stops_it(lake) -> None:
    do(lake, "b", lambda tx: tx.delete("t", "n = 1"))
    before = lake.snapshot("db").token
    do(lake, "b", lambda tx: tx.delete("t", "n = 3"))
    real = Execution._delete_rows

    def late(self, *args):
        delete(lake, "n = 4", lake.snapshot("db"))
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "_delete_rows", late)
        with pytest.raises(PlanOutdated, match="a/db has deleted rows of table 't' in files of b"):
            restore(lake, before, writers=["b"])
    assert rows(lake) == left("b1", "b3", "a4", "b4")
    restore(lake, before, writers=["b"])
    assert every_engine(lake) == left("b1", "a4", "b4"), "what a deleted stays deleted"


def test_a_rebuilt_log_has_the_rows_that_came_back(lake) -> None:
    before = lake.snapshot("db").token
    delete(lake, "n = 2")
    delete(lake, "n = 3", lake.snapshot("db", before))
    middle = lake.snapshot("db").token
    restore(lake, before)
    delete(lake, "n = 4", by="b")
    wanted = left("a4", "b4")
    assert rows(lake) == wanted
    assert rows(lake, middle) == left("a2", "b2", "a3", "b3")
    for name in "ab":
        execute_rebuild(lake, plan_rebuild(lake, name, "db"))
        assert every_engine(lake) == wanted


def test_across_a_prune_of_the_log_of_the_files(lake) -> None:
    delete(lake, "n = 2")
    for n in (5, 6, 7):
        write(lake, "b", [n])
    good = lake.snapshot("db").token
    delete(lake, "n = 5")
    checkpoint(lake, "a", "b")
    quick = Catalog(lake.store, margins=NO_GRACE)
    plan = plan_prune(quick, "b", "db", keep_revisions=2, margins=NO_GRACE)
    execute_prune(quick, plan, margins=NO_GRACE)
    done = restore(lake, good)
    assert done.rows_back == 1
    assert every_engine(lake) == left("a2", "b2", more="b5 b6 b7")
