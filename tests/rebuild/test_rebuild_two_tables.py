"""A file is of one table at a time, though a transaction that was refused for just that has left an
object of actions which adds it to another one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import DuplicateFile
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import BASE, lose_the_log

PATH = "data/in/x.parquet"


def put(store) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [2]}), sink)
    store.put(BASE + PATH, sink.getvalue().to_pybytes())


@pytest.mark.parametrize("later", [False, True])
def test_a_file_stays_in_the_table_that_was_first(catalog, store, fake, later) -> None:
    """Also if a commit behind it proves that it was committed there."""
    with (
        catalog.writer("EWR", "weather", shared=True) as one,
        catalog.writer("EWR", "weather", shared=True) as other,
    ):
        with one.transaction() as tx:
            tx.write("hourly", pa.table({"n": [1]}))
        put(store)
        late, first = one.transaction(), other.transaction()
        late.write("daily", pa.table({"n": [3]}))
        late.add("daily", PATH)
        first.add("hourly", PATH)
        first.commit()
        with pytest.raises(DuplicateFile):
            late.commit()
        if later:
            with other.transaction() as tx:
                tx.write("hourly", pa.table({"n": [4]}))
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    snapshot = catalog.snapshot("weather")
    files = {table: snapshot.files(table)["path"].to_pylist() for table in snapshot.tables()}
    assert PATH in files["hourly"]
    assert PATH not in files["daily"]
    rows = snapshot.to_arrow("hourly")["n"].to_pylist()
    assert sorted(rows) == ([1, 2, 4] if later else [1, 2])


@pytest.mark.parametrize("back", [False, True])
def test_a_file_that_its_own_transaction_moved_is_in_the_last_table(
    catalog, store, fake, back
) -> None:
    """Its footer tells where it was written."""
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [1]}))
        for table in ("daily", "hourly")[: 1 + back]:
            tx.remove(path)
            tx.add(table, path)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.undecided
    execute_rebuild(store, plan, ambient=fake.ambient)
    snapshot = catalog.snapshot("weather")
    files = {table: snapshot.files(table)["path"].to_pylist() for table in snapshot.tables()}
    last = "hourly" if back else "daily"
    assert {table: paths for table, paths in files.items() if paths} == {last: [path]}
    assert snapshot.to_arrow(last)["n"].to_pylist() == [1]
