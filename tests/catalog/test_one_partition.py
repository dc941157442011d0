"""The files of one partition are those that a reading of the whole table gives, and cost only the
pieces that may hold them."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import segments_folder
from lakelog.catalog.format.segments import FILES
from lakelog.catalog.log import build, merge
from lakelog.catalog.read.log_reader import CheckpointWarning
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject, TableNotFound, UsageError
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action
from seeds import base_seed

SEGMENTS = segments_folder("w", "db")
PARTITIONS = ["", "2026-01", "2026-02", "2026-10", "a/b", "Ä", "🦆"]


def row_groups(count):
    """Some of nine rows, of which something is known."""
    statistics = wire.ColumnStatistics(column=0, null_count=1)
    return [wire.RowGroup(row_count=9, columns=[statistics]) for _ in range(count)]


def rows(snapshot, **options):
    """The files, sorted, as tuples."""
    found = snapshot.files("t", details=True, **options)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def known(snapshot, **options):
    return snapshot.statistics("t", **options).to_pylist()


def check(catalog, partitions):
    """Each partition is what the whole says, asked of a fresh snapshot and of one that has read the
    whole table; so are statistics."""
    whole = catalog.snapshot("db")
    everything = whole.files("t", details=True)
    place = everything.column_names.index("partition")
    every_row = rows(whole)
    paths = dict(zip(*(everything[name].to_pylist() for name in ("path", "partition"))))
    every_bound = known(whole)
    for partition in partitions:
        expected = [row for row in every_row if row[place] == partition]
        bounds = [row for row in every_bound if paths[row["path"]] == partition]
        for snapshot in (catalog.snapshot("db"), whole):
            assert rows(snapshot, partition=partition) == expected
            assert known(snapshot, partition=partition) == bounds


@pytest.mark.parametrize("number", range(2))
def test_it_is_what_the_whole_table_says_at_every_revision(number, spilling):
    dice = random.Random(f"{base_seed()} one partition {number}")
    built, store = LogBuilder(), MemoryStore("db")
    live: dict[str, str] = {}
    built.commit(schema_action("t"), schema_action("u"))
    # Foreign names say nothing of their partition; own ones lie by it. Pieces hold some of each.
    with (
        mock.patch.object(merge, "ROWS_PER_SEGMENT", 7),
        mock.patch.object(build, "BATCH_FROM_FILES", 12),
    ):
        for step in range(12):
            actions = []
            for item in range(dice.randrange(1, 25)):
                if live and dice.random() < 0.3:
                    path = dice.choice(sorted(live))
                    actions.append(remove_action(path, live.pop(path)))
                    continue
                table, partition = dice.choice("ttu"), dice.choice(PARTITIONS)
                folder = f"p{PARTITIONS.index(partition)}" if dice.random() < 0.8 else "foreign"
                path = f"data/{folder}/{step}-{item}.parquet"
                live[path] = table
                groups = row_groups(dice.randrange(3))
                actions.append(add_action(path, table, partition=partition, row_groups=groups))
            built.commit(*actions)
            if dice.random() < 0.3:
                built.checkpoint()
            built.put_into(store)
            check(Catalog(store), dice.sample([*PARTITIONS, "nothing"], 2))


@pytest.fixture
def large(spilling):
    """Ten partitions of 40 files, ten pieces; two files of the first are removed after that."""
    built = LogBuilder()
    built.commit(schema_action("t"))
    paths = [(f"data/p{n // 40}/{n:03d}.parquet", f"p{n // 40}") for n in range(400)]
    with mock.patch.object(merge, "ROWS_PER_SEGMENT", 40):
        built.commit(
            *(add_action(path, partition=p, row_groups=row_groups(1)) for path, p in paths)
        )
        built.checkpoint()
    built.commit(remove_action("data/p0/000.parquet"), remove_action("data/p9/399.parquet"))
    built.commit(add_action("data/p3/new.parquet", partition="p3"))
    store = MemoryStore("db")
    built.put_into(store)
    return built, store


def test_it_costs_the_pieces_that_may_hold_it(large):
    built, store = large
    counting = CountingStore(store)
    pieces = [piece for piece in built.state.pieces if piece.kind == FILES]
    assert [(piece.segment.min_partition, piece.segment.max_partition) for piece in pieces] == [
        (f"p{n}", f"p{n}") for n in range(10)
    ]
    for partition, files in (("p3", 41), ("p9", 39), ("p", 0)):
        snapshot = Catalog(counting).snapshot("db")
        snapshot.tables()
        counting.reset()
        assert snapshot.files("t", partition=partition).num_rows == files
        assert counting.reset()["get"] == bool(files)
        in_checkpoint = min(files, 40)  # of the new file nothing is known
        assert snapshot.statistics("t", partition=partition).num_rows == in_checkpoint
        assert counting.reset()["get"] == (3 if files else 0), "files, all columns, statistics"


def test_damage_in_another_partition_costs_nothing(large):
    built, store = large
    (piece,) = (
        piece
        for piece in built.state.pieces
        if piece.kind == FILES and piece.may_hold_partition("p5")
    )
    store.put(SEGMENTS + piece.name, b"\0" * 100)
    catalog = Catalog(store)
    assert catalog.snapshot("db").files("t", partition="p4").num_rows == 40
    # What it did hold is told by an older base, if there is one: here the transactions.
    with pytest.warns(CheckpointWarning):
        assert catalog.snapshot("db").files("t", partition="p5").num_rows == 40
    store.delete([f"w/db/transactions/{built.objects[0][0]}"])
    with pytest.raises(CorruptObject, match=piece.name):
        catalog.snapshot("db").files("t", partition="p5")
    assert catalog.snapshot("db").files("t", partition="p4").num_rows == 40


def test_a_checkpoint_that_lost_all_files_of_a_partition_is_noticed_at_the_first_that_is_removed(
    spilling,
):
    """Its pieces are sound, each by itself: only that nothing in them can be the file tells."""
    built, store = LogBuilder(), MemoryStore("db")
    built.commit(schema_action("t"))
    with mock.patch.object(merge, "ROWS_PER_SEGMENT", 2):
        built.commit(*(add_action(f"data/{p}/{n}", partition=p) for p in "abc" for n in range(2)))
        sound, built.state = built.state, built.copy()
        for number in range(2):
            assert not built.state.files.take_out([("t", f"data/b/{number}")])
        built.checkpoint()
        built.state = sound
    built.commit(remove_action("data/b/0"))
    built.put_into(store)
    for partition, files in (("a", 2), ("b", 1), (None, 5)):
        with pytest.warns(CheckpointWarning, match="not live"):
            found = Catalog(store).snapshot("db").files("t", partition=partition)
        assert found.num_rows == files


def test_a_partition_of_no_table(large):
    with pytest.raises(TableNotFound):
        Catalog(large[1]).snapshot("db").files("u", partition="p1")


@pytest.mark.parametrize("name", [7, b"p1", "\ud800", True])
def test_a_name_that_is_no_text_is_refused(large, name):
    snapshot = Catalog(large[1]).snapshot("db")
    for ask in (snapshot.files, snapshot.statistics):
        with pytest.raises(UsageError, match="partition is text"):
            ask("t", partition=name)
        with pytest.raises(UsageError, match="table is text"):
            ask(name)
