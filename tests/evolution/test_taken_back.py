"""Columns that a restore takes back are not there without files either: schemas of files that left
are known on."""

from __future__ import annotations

import pyarrow as pa
import pytest
from evolution_cases import INT, TEXT, Lake, evolve, write
from lakelog.errors import SchemaConflict


def take_out(lake: Lake, writer: str = "w") -> None:
    """All files of a writer."""
    paths = lake.now.files("t", writer=writer)["path"].to_pylist()
    lake.do(lambda tx: [tx.remove(path) for path in paths], writer=writer)


def told(lake: Lake, since: str) -> list[dict[str, object]]:
    """What changed in `t`, without whose and when."""
    rows = lake.catalog.changes("db", "t", since=since).read_all()
    about = [name for name in rows.column_names if name.startswith("_") and name != "_change"]
    return rows.drop_columns(about).to_pylist()


@pytest.fixture(params=["declared", "as_written"])
def emptied(request) -> Lake:
    """`v` has a file, `w` none any more; before a rename their table is defined, or isn't."""
    lake = Lake()
    lake.do(write(u=(INT, [1]), s=(INT, [10])), writer="v")
    lake.do(write(u=(INT, [2]), s=(INT, [20])))
    if request.param == "declared":
        lake.catalog.evolve("db", "t", order=["u"])
    take_out(lake)
    return lake


@pytest.fixture
def renamed(emptied) -> tuple[Lake, str, str]:
    """`s` was `c` for a time, in which `w` wrote a file; then of before and in that time."""
    before = emptied.now.token
    emptied.catalog.evolve("db", "t", rename={"s": "c"})
    emptied.do(write(u=(INT, [3]), c=(INT, [30])))
    since = emptied.now.token
    emptied.catalog.restore("db", to=before, execute=True)
    return emptied, before, since


def test_rows_that_go_with_a_rename_are_told_under_the_name_of_then(renamed) -> None:
    lake, _, since = renamed
    assert told(lake, since) == [{"_change": "delete", "u": 3, "s": 30}]


def test_no_later_change_makes_a_column_of_one_that_was_taken_back(renamed) -> None:
    lake, _, _ = renamed
    done = lake.catalog.evolve("db", "t", add={"n": INT})
    assert [item.after.names for item in done] == [["u", "s", "n"]] * 2
    lake.do(write(u=(INT, [4]), s=(INT, [40]), n=(INT, [1])))
    assert lake.now.schema("t").names == ["u", "s", "n"]


def test_data_of_a_column_that_was_taken_back_is_refused_until_it_is_added(renamed) -> None:
    lake, _, _ = renamed
    data = write(u=(INT, [4]), c=(INT, [40]))
    with pytest.raises(SchemaConflict, match="'c' of table 't' was renamed to 's'"):
        lake.do(data)
    lake.catalog.evolve("db", "t", add={"c": INT})
    lake.do(data)
    assert lake.rows(columns=["c"]) == [{"c": None}, {"c": 40}]


def test_there_and_back_is_exact_and_says_nothing_twice(renamed) -> None:
    lake, before, since = renamed
    after = lake.now.token
    assert not any(plan.columns for plan in lake.catalog.restore("db", to=before).changes)
    lake.catalog.restore("db", to=since, execute=True)
    assert lake.rows() == lake.catalog.snapshot("db", since).to_arrow("t").to_pylist()
    lake.do(write(u=(INT, [4]), c=(INT, [40])))
    lake.catalog.restore("db", to=after, execute=True)
    assert lake.now.schema("t", writer="w").names == ["u", "s"]


def test_files_that_go_after_a_restore_leave_the_columns_that_they_had() -> None:
    lake = Lake()
    lake.do(write(u=(INT, [1]), s=(INT, [10])), evolve(order=["u"]))
    before = lake.now.token
    lake.do(evolve(rename={"s": "c"}, add={"n": INT}))
    lake.do(write(u=(INT, [2]), c=(INT, [20]), n=(INT, [5])))
    lake.catalog.restore("db", to=before, execute=True)
    take_out(lake)
    assert lake.now.schema("t").names == ["u", "s"]


def test_all_else_that_was_said_of_columns_then_is_said_again() -> None:
    lake = Lake()
    lake.do(write(u=(INT, [1]), s=(INT, [10]), x=(INT, [7])))
    lake.do(evolve(drop=["x"], add={"n": INT}, default={"n": 9}, key=["u"]))
    before = lake.now.token
    lake.do(evolve(rename={"s": "c"}), write(u=(INT, [1]), c=(INT, [20]), n=(INT, [5])))
    lake.catalog.restore("db", to=before, execute=True)
    assert (lake.rows(), lake.now.key("t")) == ([{"u": 1, "s": 10, "n": 9}], ("u",))
    lake.do(write(u=(INT, [1]), s=(INT, [11]), n=(INT, [6])))
    assert lake.rows() == [{"u": 1, "s": 11, "n": 6}]


def test_columns_that_nobody_declared_go_where_no_file_was() -> None:
    lake = Lake()
    lake.do(write(u=(INT, [1])), evolve(order=["u"]))
    points, more = [lake.now.token], write(u=(INT, [2]), x=(INT, [3]))
    lake.do(more)
    lake.catalog.restore("db", to=points[0], execute=True)
    lake.do(write(u=(INT, [2]), x=(INT, [4]), y=(INT, [3])))  # nobody took them back
    take_out(lake)
    points.append(lake.now.token)
    assert lake.now.schema("t").names == ["u", "x", "y"]  # as in a log without a definition
    lake.do(write(u=(INT, [2]), z=(INT, [3])))
    lake.catalog.restore("db", to=points[1], execute=True)
    assert lake.now.schema("t").names == ["u", "x", "y"]
    lake.catalog.restore("db", to=points[0], execute=True)
    assert lake.now.schema("t").names == ["u"]
    with pytest.raises(SchemaConflict, match="'x' of table 't' was dropped"):
        lake.do(more)


@pytest.mark.parametrize("stays", [True, False])
def test_a_free_column_whose_name_began_anew_takes_data_again(stays: bool) -> None:
    lake = Lake()
    lake.do(write(u=(INT, [1]), x=(TEXT, ["a"]), b=(INT, [5])))
    if not stays:
        take_out(lake)
    before, rows = lake.now.token, lake.rows()
    lake.do(evolve(drop=["b"], add={"b": TEXT}), write(b=(TEXT, ["new"])))
    lake.catalog.restore("db", to=before, execute=True)
    assert lake.rows() == rows
    lake.do(write(u=(INT, [2]), b=(INT, [6])))
    assert lake.rows(columns=["b"])[-1] == {"b": 6}
    take_out(lake)
    assert lake.now.schema("t").remove_metadata() == pa.schema({"u": INT, "x": TEXT, "b": INT})


def test_of_a_name_whose_files_disagree_nothing_is_dropped() -> None:
    """Else data with it would be refused, and nobody can say of which type it is."""
    lake = Lake()
    with lake.catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for kind, value in ((INT, 5), (TEXT, "x")):
            tx.write("t", pa.table({"u": [1], "b": pa.array([value], kind)}), on_conflict="allow")
    before = lake.now.token
    lake.do(evolve(drop=["b"], add={"b": INT}), write(b=(INT, [7])))
    lake.catalog.restore("db", to=before, execute=True)
    lake.do(write(u=(INT, [2])))
    assert lake.now.column_names("t") == ["u", "b"]
    with lake.catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"b": pa.array([6], INT)}), on_conflict="allow")
