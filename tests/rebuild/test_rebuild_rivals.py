"""Of a lost log: the last transaction, which nothing proves, did again what an earlier one had done
that overlapped with another, so that no footer tells which revision it was. Found by a reviewer's
programs."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import rows


@pytest.fixture
def first(catalog):
    """A file of an earlier owner."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer, writer.transaction() as tx:
        (path,) = tx.write("t", rows(1, 2, 3))
    return path


@pytest.fixture
def writer(catalog, first):
    with catalog.writer("w", "db", checkpoint_every=0) as opened:
        with opened.transaction() as tx:
            tx.write("u", rows(0))
        yield opened


def overlapping(writer, does, **options):
    """A transaction that another one overlaps with, which is committed after it."""
    one, other = writer.transaction(**options), writer.transaction()
    does(one)
    one.commit()
    other.write("u", rows(7))
    other.commit()


def commit(writer, does, **options):
    with writer.transaction(**options) as tx:
        return does(tx)


def comes_back(catalog):
    """What all tables show is what they show after the log was lost and rebuilt."""

    def shown():
        snapshot = catalog.snapshot("db")
        found = {table: snapshot.to_arrow(table).to_pylist() for table in snapshot.tables()}
        return {table: sorted(map(str, some)) for table, some in found.items()}

    before = shown()
    log = [info.key for info in catalog.store.list("w/db/") if "/data/" not in info.key]
    catalog.store.delete(log)
    plan = plan_rebuild(catalog, "w", "db")
    execute_rebuild(catalog, plan)
    assert shown() == before
    return plan


def restore(catalog, table, revision):
    catalog.restore("db", table, to={"w": revision}, execute=True)


def replace(table, path, *values):
    def does(tx):
        tx.remove(path)
        tx.write(table, rows(*values))

    return does


def test_a_file_that_was_restored_is_replaced_again(catalog, first, writer):
    overlapping(writer, replace("t", first, 1, 2))
    restore(catalog, "t", 1)
    with catalog.writer("w", "db", checkpoint_every=0) as owner:
        commit(owner, lambda tx: tx.write("u", rows(8)))
        commit(owner, replace("t", first, 100, 200))
    plan = comes_back(catalog)
    assert not any(item.kind == "disproved" for item in plan.left_out)


def test_a_file_elsewhere_that_was_restored_is_replaced_again(catalog, writer, tmp_path):
    pq.write_table(rows(1, 2, 3), tmp_path / "raw.parquet")
    commit(writer, lambda tx: tx.add("e", str(tmp_path / "raw.parquet")))
    (path,) = catalog.snapshot("db").files("e")["path"].to_pylist()
    overlapping(writer, replace("e", path, 1, 2))
    restore(catalog, "e", 2)
    with catalog.writer("w", "db", checkpoint_every=0) as owner:
        commit(owner, lambda tx: tx.write("u", rows(8)))
        commit(owner, replace("e", path, 100))
    comes_back(catalog)


def test_a_version_that_was_forgotten_comes_again(catalog, fake, writer):
    made = []
    batch = {"app_id": "x", "app_version": 1}
    overlapping(writer, lambda tx: made.extend(tx.write("t", rows(4))), **batch)
    fake.move(100)
    commit(writer, replace("t", made[0], 5))
    fake.move(100)
    writer.forget(applications_before=dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))
    fake.move(1)
    commit(writer, lambda tx: tx.write("u", rows(8)))
    commit(writer, lambda tx: tx.write("t", rows(100)), **batch)
    comes_back(catalog)


def test_of_two_that_nothing_puts_in_order_none_is_disproved(catalog, fake, writer):
    """As before, but what proves the first of the two is the last commit, like the second."""
    made = []
    batch = {"app_id": "x", "app_version": 1}
    overlapping(writer, lambda tx: made.extend(tx.write("t", rows(4))), **batch)
    fake.move(100)
    writer.forget(applications_before=dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))
    fake.move(1)
    commit(writer, lambda tx: tx.write("u", rows(8)))
    again, other = writer.transaction(**batch), writer.transaction()
    (path,) = again.write("t", rows(100))
    again.commit()
    replace("t", made[0], 5)(other)
    other.commit()
    catalog.store.delete(
        [info.key for info in catalog.store.list("w/db/") if "/data/" not in info.key]
    )
    plan = plan_rebuild(catalog, "w", "db")
    assert path in plan.live or path in plan.undecided


def test_a_table_that_was_forgotten_is_defined_anew(catalog, writer):
    made = []

    def define(value):
        def does(tx):
            made[:] = tx.write("d", rows(value))
            tx.evolve("d", add={"k": pa.int64()}, default={"k": value})

        return does

    overlapping(writer, define(1))
    commit(writer, lambda tx: tx.remove(made[0]))
    writer.forget(tables=["d"])
    commit(writer, lambda tx: tx.write("u", rows(8)))
    commit(writer, define(2))
    comes_back(catalog)
