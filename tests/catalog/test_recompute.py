"""What doctor recomputes: checkpoints from the log below them; and whether live files are there."""

from __future__ import annotations

import math
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.commit.checkpointer import put_segments
from lakelog.catalog.data import parquet
from lakelog.catalog.log import piece_sink
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.health import examine_log
from lakelog.catalog.read.log_reader import LogReader
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import log_keys
from table_cases import write


@pytest.fixture
def fill(catalog):
    """Commits one file each; gives a writer that makes no checkpoint by itself."""

    def make(*values):
        writer = catalog.writer("w", "db", checkpoint_every=0)
        for value in values:
            write(writer, value)
        return writer

    return make


def state_of(store):
    return LogReader(store, "w", "db").load()


def put_checkpoint(store, state, salt=b"s"):
    """The checkpoint of a state that was changed; its key."""
    encoded = encode_state(state, retained_from=0, salt=salt * 16)
    log = LogReader(store, "w", "db")
    put_segments(log, encoded, exclusive=True)
    key = log.folder + encoded.name
    store.delete([key])
    store.put(key, encoded.body)
    return key


def problems(store, **options):
    return [
        item
        for item in examine_log(store, "w", "db", **options).findings
        if item.severity == "problem"
    ]


def lose_a_file(state):
    state.files.take_out([("t", state.files.table("t").column("path")[0].as_py())])


def lie_in_statistics(state):
    for adds in state.files.added.values():
        for add, _ in adds.values():
            for group in add.row_groups:
                for column in group.columns:
                    column.min = column.max = (100).to_bytes(8, "little")


LIES = {
    "a file": (lose_a_file, "files of table 't'"),
    "statistics": (lie_in_statistics, "statistics of table 't'"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_checkpoint_that_lies_is_found(store, fill, lie):
    fill(0, 1, 2, 3)
    assert problems(store) == []
    state = state_of(store)
    change, words = LIES[lie]
    change(state)
    key = put_checkpoint(store, state)
    (found,) = problems(store)
    assert found.key == key
    assert words in found.what
    assert "from its beginning" in found.what
    assert found.to_do


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (1 << 20, "says: statistics of table 'f'"),
        (2, "says: statistics of table 'f', statistics of row groups of table 'f'"),
    ],
)
def test_a_checkpoint_that_denies_nan_is_found(store, fill, rows, words):
    """One that says less than the log does tells no lie."""
    with (
        fill() as writer,
        mock.patch.object(parquet, "ROW_GROUP_ROWS", rows),
        writer.transaction() as tx,
    ):
        tx.write("f", pa.table({"d": [1.0, 2.0, math.nan], "g": [1.0, 2.0, 3.0]}))
    for no_nan in (False, True):
        state = state_of(store)
        ((add, _),) = state.files.added["f"].values()
        for group in add.row_groups:
            for column in group.columns:
                column.no_nan = no_nan
        key = put_checkpoint(store, state)
        for deep in (False, True):
            found = problems(store, deep=deep)
            assert [item.key for item in found] == [key] * no_nan
            assert all(words in item.what for item in found)
        store.delete([key])


def test_an_old_lie_that_a_new_checkpoint_took_over_is_found(store, fill):
    """The newest is recomputed from far below it, and the deep look takes each."""
    fill(0, 1, 2)
    state = state_of(store)
    lose_a_file(state)
    first = put_checkpoint(store, state)
    second = fill(3).checkpoint().key
    assert [item.key for item in problems(store)] == [second]
    (found,) = problems(store, deep=True)
    assert found.key == first
    assert "later ones" in found.to_do


def test_pieces_that_both_refer_to_are_not_read_and_hide_nothing(store, fill):
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0):
        fill(*range(20)).checkpoint()
        fill(20)
        state = state_of(store)
        lie_in_statistics(state)
        key = put_checkpoint(store, state)
        named = {piece.name for piece in state_of(store).pieces if piece.name}
        first = LogReader(store, "w", "db").load(19)
        shared = named & {piece.name for piece in first.pieces}
    assert shared, "the second checkpoint refers to pieces of the first"
    for deep in (False, True):
        (found,) = problems(store, deep=deep)
        assert found.key == key
        assert "statistics of table 't'" in found.what


def test_without_the_log_below_nothing_can_be_compared(store, fill):
    fill(0, 1)
    state = state_of(store)
    lose_a_file(state)
    put_checkpoint(store, state)
    store.delete(log_keys(store, "transaction"))
    assert problems(store) == problems(store, deep=True) == []


def test_an_older_checkpoint_that_is_damaged_is_found_by_the_deep_look(store, fill):
    first = fill(0, 1).checkpoint().key
    fill(2).checkpoint()
    store.put(first, store.get(first)[:-1] + b"\0")
    (found,) = problems(store, deep=True)
    assert found.key == first


def test_a_damaged_transaction_is_told_once(store, fill):
    fill(0, 1, 2).checkpoint()
    fill(3).checkpoint()
    broken = log_keys(store, "transaction")[1]
    store.put(broken, store.get(broken)[:-1] + b"\0")
    for deep in (False, True):
        assert [item.key for item in problems(store, deep=deep)] == [broken]


# --- Data files -----------------------------------------------------------------------------------


def test_files_that_are_gone_or_have_another_length_are_found(store, fill):
    fill(0, 1, 2)
    paths = sorted(state_of(store).files.table("t").column("path").to_pylist())
    gone, longer = (f"w/db/{path}" for path in paths[:2])
    store.delete([gone])
    body = store.get(longer)
    store.delete([longer])
    store.put(longer, body + b"x")
    (found,) = problems(store)
    assert found.key == gone
    assert f"{gone} is not there" in found.what
    assert f"{longer} has {len(body) + 1:,} bytes instead of {len(body):,}" in found.what


def test_a_file_that_a_listing_misses_is_asked_for_by_name(store, fill):
    class Short(PassingStore):
        def list(self, prefix, *, after=None, first_page=1000):
            found = list(self.inner.list(prefix, after=after, first_page=first_page))
            return iter(found[1:] if prefix.endswith("data/") else found)

    fill(0, 1)
    assert problems(Short(store)) == []


def test_what_it_costs(store, fill):
    """A LIST for the names and one for the data; each transaction once for itself, and once more
    for the newest checkpoint, which is read once more, too."""
    fill(0, 1, 2).checkpoint()
    counting = CountingStore(store)
    examine_log(counting, "w", "db")
    spent = counting.reset()
    assert (spent["list"], spent["get"]) == (2, (1 + 1) + 3 + (1 + 3))
    assert spent["head"] == spent["put"] == 0
