"""The files of a transaction: written, taken in, removed, and how they and tables may be named."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.format.names import parse_data_file
from lakelog.errors import (
    DuplicateFile,
    FileNotLive,
    InvalidName,
    InvalidParquet,
    InvalidPath,
    InvalidSchema,
    ObjectNotFound,
    UsageError,
)
from lakelog.testing.keys import log_keys
from own_files import add_own
from table_cases import table
from writer_cases import values, write


def test_data_files_carry_epoch_and_transaction(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        paths = tx.write("t", table(1), partition="p") + tx.write("t", table(2))
    names = [parse_data_file(path) for path in paths]
    assert [(name.epoch, name.transaction_id.hex(), name.number) for name in names] == [
        (1, tx.transaction_id, 0),
        (1, tx.transaction_id, 1),
    ]
    assert paths[0].startswith("data/p/t/")
    assert paths[1].startswith("data/_/t/")


def bounds(catalog):
    """The least and the greatest value of column `a` of the only file, as the log knows them."""
    (row,) = catalog.snapshot("db").statistics("t").to_pylist()
    assert (row["column"], row["bound_type"]) == ("a", "int64")
    return tuple(int.from_bytes(row[end], "little", signed=True) for end in ("min", "max"))


def test_write_says_its_paths_and_files_lists_them(catalog, store):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", table(1, 2), partition="p", clock=(5, 9))
    row = catalog.snapshot("db").files("t", details=True).to_pylist()[0]
    assert row["path"] == path
    assert row["size_bytes"] == store.head(f"w/db/{path}").size_bytes
    assert row["url"] == store.object_url(f"w/db/{path}")
    assert (row["writer"], row["partition"], row["row_count"], row["revision"]) == ("w", "p", 2, 0)
    assert (row["first_clock"], row["last_clock"]) == (5, 9)
    assert bounds(catalog) == (1, 2)


def test_clocks_of_one_writer_ascend(catalog):
    with catalog.writer("w", "db") as writer:
        for _ in range(3):
            write(writer, 1)
    clocks = catalog.snapshot("db").files("t", details=True).column("first_clock").to_pylist()
    assert len(set(clocks)) == 3


def test_clocks_ascend_over_openings(catalog, fake):
    """Also where the machine's clock was set back between them."""
    clocks = []
    for _ in range(3):
        with catalog.writer("w", "db") as writer:
            write(writer, 1)
        clocks = catalog.snapshot("db").files("t", details=True).column("first_clock").to_pylist()
        fake.wall_us -= 3_600_000_000
    assert sorted(set(clocks)) == clocks
    assert len(clocks) == 3


class Unread(list):
    """What nobody may look through."""

    def __iter__(self):
        raise AssertionError("looked through")

    __contains__ = __iter__


def test_a_removal_doesnt_look_through_those_before(catalog):
    """100,000 of them took minutes."""
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            paths = [*tx.write("t", table(1)), *tx.write("t", table(2))]
        tx = writer.transaction()
        own = tx.write("t", table(3))
        kept, tx._intent.actions = tx._intent.actions, Unread(tx._intent.actions)
        for path in (*paths, *own):
            tx.remove(path)
        with pytest.raises(FileNotLive):
            tx.remove(own[0])
        assert isinstance(tx._removed, dict)
        tx._intent.actions = kept + list.copy(tx._intent.actions)[len(kept) :]
        tx.commit()
    assert values(catalog) == []


def put_parquet(store, path, data, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, **options)
    store.put(f"w/db/{path}", sink.getvalue().to_pybytes())


def test_add_takes_in_an_existing_file(catalog, store):
    put_parquet(store, "data/mine/x.parquet", table(4, 5))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", "data/mine/x.parquet", partition="p")
    assert values(catalog) == [4, 5]
    row = catalog.snapshot("db").files("t", details=True).to_pylist()[0]
    assert (row["row_count"], row["partition"]) == (2, "p")
    assert bounds(catalog) == (4, 5)


def test_add_of_what_is_no_parquet_is_refused(catalog, store):
    for name, body in {"text": b"hello", "empty": b"", "magic": b"PAR1" * 3}.items():
        store.put(f"w/db/data/{name}", body)
        with catalog.writer("w", "db") as writer:
            tx = writer.transaction()
            with pytest.raises(InvalidParquet) as caught:
                add_own(tx, "t", f"data/{name}")
            assert name in str(caught.value)
            assert tx.commit() is None


@pytest.mark.parametrize("name", ["data/_/t/x.parquet", "data/x", "URL"])
def test_nothing_below_the_own_data_is_added(tmp_path, name):
    """All there is lakelog's own, and gc takes what no revision names."""
    catalog = lakelog.open_catalog(tmp_path)
    put_parquet(catalog.store, "data/_/t/x.parquet", table(1))
    name = str(tmp_path / "w/db/data/_/t/x.parquet") if name == "URL" else name
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(InvalidPath, match="lakelog's own files only"):
            tx.add("t", name)
        assert tx.commit() is None


def test_a_file_that_another_process_wrote_and_removed_is_added_again(catalog):
    with catalog.writer("w", "db", shared=True) as guest:
        other = catalog.writer("w", "db", shared=True)
        with other.transaction() as tx:
            (path,) = tx.write("t", table(1))
        with other.transaction() as tx:
            tx.remove(path)
        with guest.transaction() as tx:
            add_own(tx, "t", path)
    assert values(catalog) == [1]


@pytest.mark.parametrize("path", ["x", "data/../../other/db/data/x", "/data/../x", "at/x", ""])
def test_add_and_remove_refuse_paths_that_are_none(catalog, path):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(InvalidPath):
            add_own(tx, "t", path)
        with pytest.raises(InvalidPath):
            tx.remove(path)


@pytest.mark.parametrize("name", ["\ud800", "x" * 256, "%" * 86])
def test_add_to_a_name_that_cannot_be_is_refused(catalog, store, name):
    put_parquet(store, "data/x", table(1))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        with pytest.raises(InvalidName):
            add_own(tx, "t", "data/x", partition=name)
        with pytest.raises(InvalidName):
            add_own(tx, name, "data/x")
        add_own(tx, "t", "data/x")
    assert catalog.snapshot("db").tables() == ["t"]


def test_add_of_a_file_that_is_not_there(catalog):
    with catalog.writer("w", "db") as writer, pytest.raises(ObjectNotFound, match="nowhere"):
        add_own(writer.transaction(), "t", "data/nowhere")


def test_a_duplicate_add_is_refused_and_the_log_goes_on(catalog, store):
    put_parquet(store, "data/x", table(1))
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            add_own(tx, "t", "data/x")
        before = [item.key for item in store.list("w/db/transactions/")]
        with pytest.raises(DuplicateFile, match="data/x"), writer.transaction() as tx:
            add_own(tx, "t", "data/x")
        assert [item.key for item in store.list("w/db/transactions/")] == before
        write(writer, 2)
    assert values(catalog) == [1, 2]


def test_a_double_remove_is_refused_and_the_log_goes_on(catalog, store):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))
        with writer.transaction() as tx:
            tx.remove(path)
            with pytest.raises(FileNotLive, match=path):
                tx.remove(path)
        with pytest.raises(FileNotLive):
            writer.transaction().remove(path)
        assert writer.revision == 1
        write(writer, 2)
    assert values(catalog) == [2]


def test_remove_and_write_again_in_one_transaction(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))
        with writer.transaction() as tx:
            tx.remove(path)
            tx.write("t", table(2))
        assert values(catalog) == [2]
        assert values(catalog, as_of={"w": 0}) == [1]
        row = catalog.history("db").to_pylist()[1]
        assert (row["operation"], row["files_added"], row["files_removed"]) == ("overwrite", 1, 1)


def test_a_file_written_and_removed_in_one_transaction_is_never_seen(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", table(1))
        tx.remove(path)
        tx.write("t", table(2))
    assert values(catalog) == [2]


def test_names_of_any_kind(catalog):
    names = ["a/b", "..", "%", "ü 日本", "C:\\x", "\n"]
    with catalog.writer("w", "db") as writer:
        for number, name in enumerate(names):
            write(writer, number, name=name, partition=name)
    snapshot = catalog.snapshot("db")
    assert snapshot.tables() == sorted(names)
    for number, name in enumerate(names):
        assert values(catalog, name) == [number]
        assert snapshot.files(name).column("partition").to_pylist() == [name]


def test_two_transactions_side_by_side(catalog):
    with catalog.writer("w", "db") as writer:
        one, two = writer.transaction(), writer.transaction()
        one.write("t", table(1))
        two.write("t", table(2))
        two.commit()
        one.commit()
    assert values(catalog) == [1, 2]
    assert values(catalog, as_of={"w": 0}) == [2]


def test_of_two_transactions_that_remove_one_file_the_second_is_refused(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))
        one, two = writer.transaction(), writer.transaction()
        for tx, value in ((one, 10), (two, 20)):
            tx.remove(path)
            tx.write("t", table(value))
        one.commit()
        with pytest.raises(FileNotLive):
            two.commit()
    assert values(catalog) == [10]


@pytest.mark.parametrize(
    ("partition", "hint"),
    [(None, "Leave it out, or give ''"), (2013, r"Give text: str\(2013\)"), (0, r"str\(0\)")],
)
def test_a_partition_that_is_no_text_is_refused_before_anything_is_written(
    catalog, store, partition, hint
):
    with catalog.writer("w", "db") as writer, pytest.raises(InvalidName, match=hint):
        write(writer, 1, partition=partition)
    assert not list(store.list("w/db/data/"))


@pytest.mark.parametrize("every", ["x", -1, None, 1.5, True])
def test_checkpoint_every_is_a_whole_number(catalog, every):
    with pytest.raises(UsageError, match="checkpoint_every"):
        catalog.writer("w", "db", checkpoint_every=every)


@pytest.mark.parametrize("summary", ["x", 5, [1]])
def test_a_summary_that_is_no_mapping(catalog, summary):
    with catalog.writer("w", "db") as writer, pytest.raises(UsageError, match="summary is of type"):
        writer.transaction(summary=summary)


@pytest.mark.parametrize("file_bytes", [0, -1, "x", None, 1.5, True])
def test_a_size_that_can_not_be_is_refused(catalog, store, file_bytes):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(UsageError, match="file_bytes"):
            tx.write("t", pa.table({"a": [1]}), file_bytes=file_bytes)
        tx.write("t", pa.table({"a": [1]}), file_bytes=pa.scalar(5))
        with pytest.raises(UsageError, match="The clock 5"):
            tx.write("t", pa.table({"a": [1]}), clock=5)
        tx.discard()
    assert not log_keys(store)


def test_messages_name_the_object_and_what_to_do(catalog):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(InvalidPath, match="5 is of type int"):
            tx.remove(5)
        with pytest.raises(ObjectNotFound) as caught:
            add_own(tx, "t", "data/in/x")
        assert caught.value.key == "w/db/data/in/x"
        tx.write("t", pa.table({"a": [1]}))
        tx.commit()
    with pytest.raises(UsageError, match="explain needs a condition"):
        catalog.snapshot("db").explain("t", None)
    other = catalog.writer("v", "db").transaction()
    with pytest.raises(InvalidSchema, match="type int can't be written"):
        other.write("t", 5)
