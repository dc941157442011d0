"""Deletes of files that DuckDB reads by its own reader: when it may, and what it is told."""

from __future__ import annotations

import os

import duckdb
import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.engines import bare
from lakelog.catalog.sql_session import SqlSession
from lakelog.errors import CorruptObject, ObjectNotFound
from test_bare_files import flip, is_bare, write

pytestmark = pytest.mark.usefixtures("tables_of_any_size")


def change(catalog, act, writer="w"):
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        act(tx)
    return catalog.snapshot("db")


def delete(catalog, where, mode="predicate", **options):
    return change(catalog, lambda tx: tx.delete("t", where, mode=mode, **options))


def rows_of(snapshot, query="select n from t"):
    with duckdb.connect() as connection:
        snapshot.to_duckdb(connection)
        return connection.sql(query).fetchall()


def has_own_reader(snapshot):
    with duckdb.connect() as connection:
        snapshot.to_duckdb(connection, ["t"])
        return is_bare(connection)


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_of_some_files_and_at_every_point_in_time(catalog, mode):
    before = write(catalog, {"n": [1, 2, 3, None]}, {"n": [11]})
    after = delete(catalog, "n = 2 OR n = 11", mode)
    later = write(catalog, {"n": [2, 21]})
    wanted = {before: [1, 2, 3, None, 11], after: [1, 3, None], later: [1, 3, None, 2, 21]}
    for snapshot, numbers in wanted.items():
        assert has_own_reader(snapshot)
        assert rows_of(snapshot) == [(n,) for n in numbers]
        counted = rows_of(snapshot, "select count(*), count(n), max(n) from t")
        known = [n for n in numbers if n is not None]
        assert counted == [(len(numbers), len(known), max(known))]
    assert rows_of(later, "select n from t where n = 2") == [(2,)]


def test_several_deletes_of_either_kind(catalog):
    """Two bitmaps of one file count together, and with tombstones of all files and of some."""
    write(catalog, {"n": list(range(100))}, {"n": list(range(100, 200))})
    delete(catalog, "n = 7 OR n = 107", "rows")
    delete(catalog, "n = 8", "rows")
    delete(catalog, "n >= 20 AND n < 120")
    write(catalog, {"n": list(range(200, 210))})
    snapshot = delete(catalog, "n IN (5, 205)")
    gone = {7, 107, 8, 5, 205, *range(20, 120)}
    assert has_own_reader(snapshot)
    assert rows_of(snapshot) == [(n,) for n in range(210) if n not in gone]


def test_of_all_writers(catalog):
    write(catalog, {"n": [1, 2]})
    change(catalog, lambda tx: tx.write("t", pa.table({"n": [2, 3]})), "v")
    catalog.delete("db", "t", "n = 2")
    snapshot = change(catalog, lambda tx: tx.write("t", pa.table({"n": [2, 4]})), "v")
    assert has_own_reader(snapshot)
    assert rows_of(snapshot) == [(3,), (2,), (4,), (1,)]


def test_what_might_be_read_otherwise_stays_with_the_stream(catalog):
    write(catalog, {"n": [1, 2], "m": [3, 4]})
    snapshot = delete(catalog, "n = 1")
    assert has_own_reader(snapshot), "else this shows nothing"
    for name in ("filename", "File_Row_Number", bare.FILE, bare.LEFT.upper()):
        other = lakelog.open_catalog(str(catalog.url) + f"/{name}")
        write(other, {"n": [1, 2], name: ["a", "b"]})
        assert has_own_reader(other.snapshot("db"))
        assert not has_own_reader(delete(other, "n = 1")), name
        assert rows_of(other.snapshot("db")) == [(2,)]
    keyed = change(catalog, lambda tx: tx.upsert("t", pa.table({"n": [2], "m": [5]}), key=["n"]))
    assert rows_of(keyed, "select m from t") == [(5,)]
    change(catalog, lambda tx: tx.evolve("t", rename={"n": "m", "m": "n"}))
    swapped = catalog.snapshot("db")
    assert not has_own_reader(swapped)
    assert rows_of(swapped) == [(5,)]


@pytest.mark.parametrize(("name", "limit"), [("MOST_CHUNKS", 0), ("MOST_TEXT", 10)])
def test_too_much_to_tell_stays_with_the_stream(catalog, monkeypatch, name, limit):
    write(catalog, {"n": [1, 2]})
    snapshot = delete(catalog, "n = 1", "rows")
    assert has_own_reader(snapshot)
    monkeypatch.setattr(bare, name, limit)
    assert not has_own_reader(snapshot)
    assert rows_of(snapshot) == [(2,)]


def test_whatever_the_connection_is_set_to(catalog):
    """Its collation, how it takes bytes, and macros in the place of functions say nothing."""
    write(catalog, {"s": ["abc", "ABC", "äbc", "b"], "b": [b"a", b"\\x41", b"A", b""]})
    delete(catalog, "s = 'abc' OR s LIKE 'q%'")
    delete(catalog, "s < 'Abd'", "rows")
    write(catalog, {"s": ["abd"], "b": [b"x"]})
    snapshot = delete(catalog, "s IN ('ABD', 'x') OR b = X'4141'")
    wanted = [("äbc", b"A"), ("b", b""), ("abd", b"x")]
    for setting in (
        "SET default_collation = 'nocase.noaccent'",
        "SET binary_as_string = true",
        "CREATE TEMP MACRO starts_with(a, b) AS true",
        "CREATE TEMP MACRO get_bit(a, b) AS 1",
        "SET preserve_insertion_order = true",
    ):
        with duckdb.connect() as connection:
            connection.execute(setting)
            snapshot.to_duckdb(connection)
            assert is_bare(connection)
            assert connection.sql("select s, b from t").fetchall() == wanted, setting


def test_a_folder_with_odd_signs(tmp_path):
    """Files are found by their names in SQL."""
    catalog = lakelog.open_catalog(str(tmp_path / "it's ~ é%20\\n"))
    for partition in ("it's", "Ü", "~", "a"):
        rows = pa.table({"n": [1, 2], "p": [partition] * 2})
        change(catalog, lambda tx, p=partition, rows=rows: tx.write("t", rows, p))
    snapshot = delete(catalog, "(n = 1 AND p = 'it''s') OR (n = 2 AND p = '~')", "rows")
    assert has_own_reader(snapshot)
    wanted = [(2, "it's"), (1, "Ü"), (2, "Ü"), (1, "~"), (1, "a"), (2, "a")]
    assert rows_of(snapshot, "select n, p from t") == wanted


def test_rows_keep_their_order(catalog, monkeypatch):
    """In a query that several threads take part in."""
    monkeypatch.setattr(bare, "CHUNK_ROWS", 1 << 14)
    tables = [{"n": list(range(k * 300_000, (k + 1) * 300_000))} for k in range(3)]
    write(catalog, *tables)
    delete(catalog, "n < 299990 AND n > 150000", "rows")
    snapshot = delete(catalog, "n > 600000 AND n < 899000")
    wanted = snapshot.to_arrow("t")["n"].to_pylist()
    assert len(wanted) < 500_000
    assert has_own_reader(snapshot)
    assert rows_of(snapshot) == [(n,) for n in wanted]


def test_a_condition_reaches_the_reader_and_a_plan_is_short(catalog):
    write(catalog, {"n": list(range(20_000))}, {"n": list(range(20_000))})
    delete(catalog, "n = 3", "rows")
    snapshot = delete(catalog, "n = 4")
    with duckdb.connect() as connection:
        snapshot.to_duckdb(connection)
        asked = "explain (format json) select n from t where n > 19998"
        plan = connection.sql(asked).fetchall()[0][1]
        assert len(plan) < 3_000
        scan = plan[plan.index("READ_PARQUET") :]
        assert "n>19998" in scan.replace(" ", "")
        assert connection.sql("select n from t where n > 19998").fetchall() == [(19999,)] * 2


def test_a_lost_bitmap_is_an_error(catalog, tmp_path):
    write(catalog, {"n": [1, 2]})
    snapshot = delete(catalog, "n = 1", "rows")
    (bitmaps,) = tmp_path.rglob("*.deletes")
    body = bitmaps.read_bytes()
    for damage, error in ((bytes(len(body)), CorruptObject), (None, ObjectNotFound)):
        os.unlink(bitmaps)
        if damage is not None:
            bitmaps.write_bytes(damage)
        with pytest.raises(duckdb.Error, match=r"\.deletes"):
            rows_of(snapshot)
        with SqlSession() as session:
            session.add(snapshot)
            with pytest.raises(error):
                session.run("select n from t").read_all()


def test_the_pages_that_a_delete_looks_at_are_checked(catalog):
    """Though a query doesn't name their column: else a flipped bit could bring a row back."""
    rows = 5_000
    write(catalog, {"n": list(range(rows)), "m": [n * 7919 % 6007 for n in range(rows)]})
    snapshot = delete(catalog, "m = 5")
    flip(snapshot.files("t")["url"].to_pylist()[0], 1)
    found = snapshot._source("t").bare()
    found.wanted = frozenset({"n"})
    with pytest.raises(CorruptObject, match="'m'"):
        found.check()
