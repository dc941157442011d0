"""Views that DuckDB reads by its own Parquet reader: the very rows of the stream, or an error."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import duckdb
import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_lakes import KINDS, condition, value
from lakelog.catalog.data import pages
from lakelog.catalog.data.pages import check_pages
from lakelog.catalog.engines import bare
from lakelog.catalog.sql_session import SqlSession
from lakelog.errors import AccessDenied, CorruptObject, InvalidQuery, ObjectNotFound, UsageError
from own_files import add_own

WIDE = {name: kinds[-1] for name, kinds in KINDS.items()} | {"t": pa.timestamp("us")}
WIDE |= {kind: getattr(pa, kind)() for kind in ("int8", "int16", "uint8", "uint16", "uint32")}
WIDE |= {"small": pa.float32(), "large": pa.large_string(), "bytes": pa.large_binary()}
WIDE["coded"] = pa.dictionary(pa.int32(), pa.string())
LIKE = {"small": "f [°C]", "large": "s ü", "bytes": "50 %", "coded": "s ü"}

pytestmark = pytest.mark.usefixtures("tables_of_any_size")


def write(catalog, *tables, **options):
    with catalog.writer("w", "db") as writer:
        for data in tables:
            with writer.transaction() as tx:
                tx.write("t", data if isinstance(data, pa.Table) else pa.table(data), **options)
    return catalog.snapshot("db")


def is_bare(connection, view="t"):
    plan = connection.sql(f"explain from {view}").fetchall()[0][1]
    assert ("READ_PARQUET" in plan) != ("ARROW_SCAN" in plan), plan
    return "READ_PARQUET" in plan


def alike(random_, place, count, first):
    """The rows of one file, in the types of all."""
    columns = {"row": pa.array(range(first, first + count), pa.int64())}
    for name, kind in WIDE.items():
        nulls = random_.choice([0, 0, 0.3, 1])
        drawn = [value(LIKE.get(name, name), place, random_) if name in (*KINDS, *LIKE)
                 else random_.randint(0, 120) for _ in range(count)]  # fmt: skip
        columns[name] = pa.array([None if random_.random() < nulls else v for v in drawn], kind)
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_of_reading_give_the_same_rows(catalog, seed, monkeypatch):
    random_ = random.Random(seed)
    data, first = [], 0
    for place in random_.sample(range(1, 40), 5):
        count = random_.randint(1, 3000 if seed == 0 else 12)
        data.append(alike(random_, place, count, first))
        first += count
    snapshot = write(catalog, *data)
    own = snapshot.to_duckdb()
    monkeypatch.setattr(bare, "MOST_FILES", 0)
    stream = snapshot.to_duckdb()
    assert (is_bare(own), is_bare(stream)) == (True, False)
    assert own.sql("describe t").fetchall() == stream.sql("describe t").fetchall()
    whole = snapshot.to_arrow("t")
    # As text: NaN isn't equal to itself, and -0.0 is equal to 0.0.
    asked = "select row, columns(* exclude row)::varchar from t"
    assert own.sql(asked).fetchall() == stream.sql(asked).fetchall()
    for _ in range(40):
        condition_ = condition(random_, whole.select(["row", *KINDS]))
        query = f"select row from t where {condition_.sql}"
        found = own.execute(query, condition_.values).fetchall()
        assert found == stream.execute(query, condition_.values).fetchall(), condition_
    totals = 'select count(*), min("f [°C]"), max("f [°C]"), max(m), min(z), max(oslo) from t'
    assert str(own.sql(totals).fetchall()) == str(stream.sql(totals).fetchall())


def test_what_might_be_read_otherwise_stays_with_the_stream(catalog, tmp_path):
    def of(*tables, **options):
        snapshot = write(catalog, *tables, **options)
        found = is_bare(snapshot.to_duckdb())
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            for path in snapshot.files("t")["path"].to_pylist():
                tx.remove(path)
        return found

    assert of({"a": [1]}), "else this shows nothing"
    for kind in (pa.timestamp("ns"), pa.timestamp("ms"), pa.time64("us"), pa.float16()):
        assert not of(pa.table({"a": pa.nulls(2, kind)})), kind
    nested = [pa.array([{"x": 1}]), pa.array([[1]])]
    assert not any(of(pa.table({"a": each})) for each in nested)
    assert not of({"a": [1]}, {"a": [1], "b": [2]}), "files that differ"
    assert not of({"a": pa.array([1], pa.int32())}, {"a": [1.5]})
    assert not of({"a": [1], "A": [2]}), "names that differ in case only"
    odd = write(lakelog.open_catalog(str(tmp_path / "x[1]")), {"a": [1]})
    assert not is_bare(odd.to_duckdb()), "DuckDB takes this name for a pattern"
    file = tmp_path / "w/db/data/in/a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), file)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", "data/in/a.parquet")
    assert not is_bare(catalog.snapshot("db").to_duckdb()), "a file of others"


def test_many_files_and_few_rows_and_many_bytes_stay_with_the_stream(catalog, monkeypatch):
    snapshot = write(catalog, {"a": [1]}, {"a": [2]})
    assert is_bare(snapshot.to_duckdb())
    for name, limit in (("MOST_FILES", 1), ("LEAST_ROWS", 3), ("MOST_BYTES", 10)):
        with monkeypatch.context() as patch:
            patch.setattr(bare, name, limit)
            assert not is_bare(snapshot.to_duckdb()), name


def lake_of_three(catalog):
    draw = random.Random(1)
    tables = [
        pa.table({"a": list(range(k, k + 5000)), "b": [draw.random() for _ in range(5000)]})
        for k in range(3)
    ]
    snapshot = write(catalog, *tables)
    return snapshot, snapshot.files("t")["url"].to_pylist()


def flip(path, column):
    """One bit in the middle of a page of a column."""
    chunk = pq.read_metadata(path).row_group(0).column(column)
    first = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
    at = first + chunk.total_compressed_size // 2
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 16]))


def another(path, _):
    pq.write_table(pa.table({"a": [1], "b": [2.0]}), path)


def gone(path, _):
    os.unlink(path)


def cut_short(path, _):
    os.truncate(path, 100)


def link(path, _):
    os.rename(path, path + ".moved")
    os.symlink(path + ".moved", path)


DAMAGE = [
    (flip, CorruptObject), (another, CorruptObject), (cut_short, CorruptObject),
    (gone, ObjectNotFound), (link, AccessDenied),
]  # fmt: skip


@pytest.mark.parametrize("before", [True, False], ids=["was-read-before", "first-read"])
@pytest.mark.parametrize(("damage", "error"), DAMAGE, ids=[d.__name__ for d, _ in DAMAGE])
def test_damage_is_an_error_whenever_it_comes(catalog, damage, error, before):
    """Also to a file that was found sound before: it isn't the same any more."""
    snapshot, urls = lake_of_three(catalog)
    connection, later = snapshot.to_duckdb(), snapshot.to_duckdb(schema="later")
    assert is_bare(later, "later.t")
    if before:
        assert connection.sql("select count(*), sum(b) from t").fetchall()[0][0] == 15000
    damage(urls[1], 1)
    for query in ("select sum(b) from t", "select b from t limit 1", "select count(*) from t"):
        with pytest.raises(duckdb.Error, match=os.path.basename(urls[1])):
            connection.sql(query).fetchall()
    with pytest.raises(duckdb.Error, match=os.path.basename(urls[1])):
        later.sql("select b from later.t where a < 0").fetchall()
    with SqlSession() as session:
        session.add(snapshot)
        with pytest.raises(error):
            session.run("select sum(b) from t").read_all()


def test_damage_that_is_there_before_the_view_is(catalog):
    snapshot, urls = lake_of_three(catalog)
    for url in urls:
        cut_short(url, None)
    connection = snapshot.to_duckdb()
    with pytest.raises(duckdb.Error, match="bytes, the log says"):
        connection.sql("from t").fetchall()


def test_a_session_checks_the_pages_of_the_columns_that_it_is_asked_for(catalog):
    snapshot, urls = lake_of_three(catalog)
    flip(urls[2], 1)
    with SqlSession() as session:
        session.add(snapshot)
        assert session.run("select sum(a) from t where a > 0").read_all().num_rows == 1
        for query in ("from t limit 1", "select 1 from t where b > 2", "select sum(b) from t"):
            with pytest.raises(CorruptObject, match="'b'"):
                session.run(query).read_all()


def test_a_session_sees_no_other_files(catalog, tmp_path):
    snapshot, _ = lake_of_three(catalog)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with SqlSession() as session:
        session.add(snapshot)
        assert session.run("select count(*) from t").read_all().to_pylist() == [
            {"count_star()": 15000}
        ]
        for path in (tmp_path / "other.parquet", tmp_path / "*.parquet", "/etc/passwd"):
            with pytest.raises(InvalidQuery):
                session.run(f"from read_parquet('{path}')").read_all()
        with pytest.raises(InvalidQuery):
            session.run(f"copy t to '{tmp_path}/out.parquet'").read_all()


def test_rows_come_in_the_order_of_commits(catalog):
    snapshot, _ = lake_of_three(catalog)
    wanted = snapshot.to_arrow("t")["a"].to_pylist()
    assert [a for (a,) in snapshot.to_duckdb().sql("select a from t").fetchall()] == wanted


def test_views_stay_at_their_cut_and_leave_nothing_on_disk(catalog, tmp_path):
    before = write(catalog, {"a": [1]})
    own = tmp_path / "own.db"
    with duckdb.connect(str(own)) as connection:
        before.to_duckdb(connection)
        after = write(catalog, {"a": [2]})
        assert connection.sql("from t").fetchall() == [(1,)]
        after.to_duckdb(connection, schema="later")
        assert connection.sql("select a from later.t except from t").fetchall() == [(2,)]
        connection.execute("prepare q as select a from later.t where a = $1")
        assert connection.execute("execute q(2)").fetchall() == [(2,)]
    with duckdb.connect(str(own)) as connection:
        assert connection.sql("show tables").fetchall() == []


def test_connections_that_may_do_little(catalog, tmp_path):
    snapshot = write(catalog, {"a": [1]})
    duckdb.connect(str(tmp_path / "own.db")).close()
    with duckdb.connect(str(tmp_path / "own.db"), read_only=True) as connection:
        assert snapshot.to_duckdb(connection).sql("from t").fetchall() == [(1,)]
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        snapshot.to_duckdb(connection)
        assert not is_bare(connection)
        assert connection.sql("from t").fetchall() == [(1,)]
    with duckdb.connect() as connection:
        for _ in range(2):  # over and over, in either way
            assert snapshot.to_duckdb(connection).sql("from t").fetchall() == [(1,)]
        both = write(catalog, {"a": [2], "b": [3]})  # files that differ: by the stream
        assert both.to_duckdb(connection).sql("select sum(a) from t").fetchall() == [(3,)]
        assert snapshot.to_duckdb(connection).sql("from t").fetchall() == [(1,)]
    with duckdb.connect() as connection:
        connection.execute("create temp view t as select 'own' as own")
        with pytest.raises(UsageError):
            snapshot.to_duckdb(connection, ["t"])
        assert connection.sql("from t").fetchall() == [("own",)]


def test_an_open_connection_ends_in_silence(catalog, tmp_path):
    """DuckDB lists on stderr what Python's functions still hold when a process ends."""
    write(catalog, {"a": list(range(200_000))})
    script = (
        "import sys, lakelog\n"
        "c = lakelog.open_catalog(sys.argv[1]).snapshot('db').to_duckdb()\n"
        "print(c.sql('select count(*) from t').fetchall())"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[(200000,)]\n", "")


def test_any_bit_of_any_page_counts(catalog):
    """Beside the headers of pages, which no checksum covers: there some bits say nothing."""
    random_ = random.Random(7)
    data = alike(random_, 9, 2000, 0)
    snapshot = write(catalog, data)
    (part,) = snapshot.file_parts("t")
    (url,) = snapshot.files("t")["url"].to_pylist()
    columns = frozenset(data.column_names)
    metadata = check_pages(snapshot._store, part, columns)
    with open(url, "rb") as file:
        body = file.read()
    for at in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(at)
        last = chunk.data_page_offset + chunk.total_compressed_size - 1
        if chunk.has_dictionary_page:
            last = chunk.dictionary_page_offset + chunk.total_compressed_size - 1
        for place in (last, last - 1):
            wrong = bytearray(body)
            wrong[place] ^= 1 << random_.randrange(8)
            with open(url, "wb") as file:
                file.write(wrong)
            with pytest.raises(CorruptObject, match="checksum"):
                check_pages(snapshot._store, part, {chunk.path_in_schema})
            others = columns - {chunk.path_in_schema}
            assert check_pages(snapshot._store, part, others)


def test_pages_longer_than_what_is_read_at_a_time(catalog, monkeypatch):
    monkeypatch.setattr(pages, "_BLOCK_BYTES", 64 << 10)
    random_ = random.Random(8)
    numbers = [random_.randrange(1 << 62) for _ in range(60_000)]
    snapshot = write(catalog, pa.table({"a": numbers, "b": [b"x" * 100_000, *[b""] * 59_999]}))
    (part,) = snapshot.file_parts("t")
    (url,) = snapshot.files("t")["url"].to_pylist()
    metadata = check_pages(snapshot._store, part, {"a", "b"})
    with open(url, "rb") as file:
        body = file.read()
    chunk = metadata.row_group(0).column(0)
    assert chunk.total_compressed_size > 4 * pages._BLOCK_BYTES
    first = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1):
        wrong = bytearray(body)
        wrong[first + int(chunk.total_compressed_size * share) - 1] ^= 1
        with open(url, "wb") as file:
            file.write(wrong)
        with pytest.raises(CorruptObject, match="checksum"):
            check_pages(snapshot._store, part, {"a"})
        check_pages(snapshot._store, part, {"b"})
