"""What a commit looks up is what the whole state says, and costs only the pieces that may hold
it."""

from __future__ import annotations

import random
import warnings
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import segments_folder
from lakelog.catalog.format.segments import FILES, SCHEMAS
from lakelog.catalog.log import merge
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.lookup import files_with, schemas_with
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import CorruptObject, DuplicateFile, FileNotLive
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action
from own_files import add_own

SEGMENTS = segments_folder("w", "db")
TABLES = ["a", "b", "c"]


def path_of(number):
    return f"data/{number % 7}/f{number:05d}.parquet"


class Grown:
    """A log that grows at random, and what is live in it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.log = LogBuilder()
        self.live: dict[str, str] = {}
        self.next = 0
        self.log.commit(*map(schema_action, TABLES))

    def commit(self):
        actions = []
        for _ in range(self.dice.randrange(1, 30)):
            if self.live and self.dice.random() < 0.3:
                path = self.dice.choice(sorted(self.live))
                actions.append(remove_action(path, self.live.pop(path)))
            else:
                table, path = self.dice.choice(TABLES), path_of(self.next)
                self.next += self.dice.randrange(1, 3)
                self.live[path] = table
                actions.append(add_action(path, table))
        self.log.commit(*actions)

    def some_paths(self):
        return [path_of(self.dice.randrange(self.next + 50)) for _ in range(5)] + ["data/x"]


def check(grown, state):
    paths = grown.some_paths()
    files = files_with(state, paths)
    for path in paths:
        table = grown.live.get(path)
        assert files.tables_of(path) == ([] if table is None else [table])
        assert all(files.is_live(t, path) == (t == table) for t in TABLES)
    assert files.live_among(paths) == grown.live.keys() & set(paths)
    assert state.loaded_files is None


def rebase(state, store):
    """As a committer does with a checkpoint of its own that didn't need all files."""
    encoded = encode_state(state.copy())
    for name, body in encoded.segments:
        store.put(SEGMENTS + name, body)
    state.rebase(encoded.decoded, encoded.pieces, None)


@pytest.mark.parametrize("seed", range(8))
def test_paths_are_found_as_in_the_whole_state_while_it_goes_on(seed, spilling):
    grown = Grown(seed)
    store = MemoryStore("lookup")
    state = None
    reader = LogReader(store, "w", "db")
    for step in range(40):
        grown.commit()
        if grown.dice.random() < 0.2:
            grown.log.checkpoint()
        grown.log.put_into(store)
        # Sometimes the state that was looked at before, sometimes a fresh one from a checkpoint.
        state = reader.advance(state) if state and step % 5 else reader.load()
        check(grown, state)
        if grown.dice.random() < 0.3:
            rebase(state, store)
            check(grown, state)
        check(grown, state.copy())


@pytest.fixture
def large(spilling):
    """One table, in pieces of 100 files each; another table in a piece of its own."""
    built = LogBuilder()
    built.commit(schema_action("t"), schema_action("z"))
    with mock.patch.object(merge, "ROWS_PER_SEGMENT", 100):
        for start in range(0, 400, 100):
            built.commit(*(add_action(path_of(n * 7), "t") for n in range(start, start + 100)))
        built.commit(add_action("data/z.parquet", "z"))
        built.checkpoint()
    store = MemoryStore("large")
    built.put_into(store)
    return built, CountingStore(store)


def ranges(built):
    return [piece.segment for piece in built.state.pieces if piece.kind == FILES]


def test_a_path_costs_the_pieces_whose_range_it_is_in(large):
    built, counting = large
    state = LogReader(counting, "w", "db").load()
    counting.reset()
    assert (
        files_with(state, ["data/a.parquet", "data/zz.parquet"]).tables_of("data/a.parquet") == []
    )
    mixed = sum(said.first_table != said.last_table for said in ranges(built))
    assert counting.reset()["get"] == mixed < len(ranges(built)) - 2
    one = path_of(7)
    wanted = sum(
        said.first_table == said.last_table and said.first_path <= one <= said.last_path
        for said in ranges(built)
    )
    assert files_with(state, [one]).tables_of(one) == ["t"]
    assert counting.reset()["get"] == wanted
    assert files_with(state, [one]).is_live("t", one)
    assert counting.reset()["get"] == 0, "it is kept"


def test_a_checkpoint_after_foreign_names_reads_only_what_may_hold_them(large):
    built, counting = large
    built.commit(add_action("data/zz.parquet", "t"))
    built.put_into(counting.inner)
    state = LogReader(counting, "w", "db").load()
    counting.reset()
    encoded = encode_state(state)
    assert encoded.decoded.message.counts.files == 402
    assert state.loaded_files is None
    read = counting.reset()["get"]
    assert 0 < read < len(built.state.pieces)


def test_what_was_looked_up_is_not_read_again_after_a_checkpoint(large):
    """A committer writes one every few commits: it would read the same rows each time."""
    built, counting = large
    one, gone = path_of(7), path_of(14)
    state = LogReader(counting, "w", "db").load()
    assert files_with(state, [one, gone]).is_live("t", gone)
    built.commit(remove_action(gone, "t"), add_action("data/new.parquet", "t"))
    built.put_into(counting.inner)
    state = LogReader(counting, "w", "db").advance(state)
    rebase(state, counting)
    counting.reset()
    found = files_with(state, [one, gone])
    assert found.is_live("t", one)
    assert not found.is_live("t", gone)
    assert counting.reset()["get"] == 0


@pytest.mark.parametrize("removed_again", [False, True])
def test_no_checkpoint_after_a_file_that_the_base_has_already(large, removed_again):
    built, counting = large
    one = path_of(7)
    built.commit(add_action(one, "t"))
    if removed_again:
        built.commit(remove_action(one, "t"))
    built.put_into(counting.inner)
    state = LogReader(counting, "w", "db").load()
    with pytest.raises(CorruptObject, match=f"adds {one} again"):
        encode_state(state)


def test_schemas_cost_the_pieces_that_may_hold_the_table(spilling):
    built = LogBuilder()
    for table in ("a", "m", "z"):
        built.commit(schema_action(table))
        built.checkpoint()
    store = MemoryStore("schemas")
    built.put_into(store)
    counting = CountingStore(store)
    state = LogReader(counting, "w", "db").load()
    counting.reset()
    assert not schemas_with(state, ["zzz"]).tables()
    assert counting.reset()["get"] == 0
    assert "m" in schemas_with(state, ["m"]).tables()
    pieces = [piece for piece in built.state.pieces if piece.kind == SCHEMAS]
    assert counting.reset()["get"] == sum(piece.may_hold("m") for piece in pieces)
    assert "m" in schemas_with(state, ["m"]).tables()
    assert counting.reset()["get"] == 0
    built.commit(schema_action("new"))
    built.put_into(store)
    newer = LogReader(counting, "w", "db").advance(state)
    assert {"m", "new"} <= schemas_with(newer, ["m", "new"]).tables()


def test_a_damaged_piece_is_had_from_an_older_checkpoint(large):
    built, counting = large
    one = path_of(7)
    for piece in built.state.pieces:
        if piece.kind == FILES:
            body = bytearray(counting.get(SEGMENTS + piece.name))
            body[200] ^= 4
            counting.inner.put(SEGMENTS + piece.name, bytes(body))
    state = LogReader(counting, "w", "db").load()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert files_with(state, [one]).tables_of(one) == ["t"]
    assert {w.category for w in caught} == {CheckpointWarning}


def test_damaged_schemas_leave_the_base_alone(spilling):
    """Files that were read are of the pieces of that base."""
    built = LogBuilder()
    for table in ("a", "b"):
        built.commit(schema_action(table), add_action(f"data/{table}.parquet", table))
        built.checkpoint()
    store = MemoryStore("schemas")
    built.put_into(store)
    for piece in built.state.pieces:
        if piece.kind == SCHEMAS and piece.may_hold("b"):
            body = bytearray(store.get(SEGMENTS + piece.name))
            body[200] ^= 4
            store.put(SEGMENTS + piece.name, bytes(body))
    state = LogReader(store, "w", "db").load()
    base = state.base
    with pytest.warns(CheckpointWarning):
        assert "b" in schemas_with(state, ["b"]).tables()
    assert state.base is base
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "b" in schemas_with(state, ["b"]).tables(), "it is kept"


# --- By a writer ----------------------------------------------------------------------------------


@pytest.fixture
def writer(store, fake, spilling):
    """On a log of three tables behind a checkpoint, with data files of foreign names to add."""
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), body)
    for name in ("one", "two", "three"):
        store.put(f"w/db/data/{name}.parquet", body.getvalue().to_pybytes())
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db", checkpoint_every=0)
    for table in TABLES:
        with writer.transaction() as tx:
            tx.write(table, pa.table({"a": [1, 2]}))
    with writer.transaction() as tx:
        add_own(tx, "a", "data/one.parquet")
    writer.checkpoint()
    return Catalog(store, ambient=fake.ambient).writer("w", "db", checkpoint_every=0)


def test_a_file_that_another_table_has_is_refused(writer):
    with pytest.raises(DuplicateFile), writer.transaction() as tx:
        add_own(tx, "b", "data/one.parquet")
    with writer.transaction() as tx:
        add_own(tx, "b", "data/two.parquet")
    with pytest.raises(DuplicateFile), writer.transaction() as tx:
        add_own(tx, "c", "data/two.parquet")


def test_a_file_can_be_moved_to_another_table_over_a_checkpoint(writer):
    with writer.transaction() as tx:
        tx.remove("data/one.parquet")
        add_own(tx, "b", "data/one.parquet")
    writer.checkpoint()
    with writer.transaction() as tx:
        tx.remove("data/one.parquet")
    with pytest.raises(FileNotLive), writer.transaction() as tx:
        tx.remove("data/one.parquet")
    with writer.transaction() as tx:
        add_own(tx, "c", "data/one.parquet")
