"""Where the names of some tables are damaged the others are listed, and the range is said."""

from __future__ import annotations

import hashlib
import warnings
from unittest import mock

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import log_folder, segments_folder
from lakelog.catalog.format.pieces import open_segment
from lakelog.catalog.format.segments import SCHEMAS
from lakelog.catalog.log import checkpoint, checkpoint_files
from lakelog.catalog.read.cut_tables import TablesWarning, listed_tables
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject, TableNotFound, UnsupportedFeature
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import LogBuilder, add_action, schema_action

SEGMENTS = segments_folder("w", "db")


class Lake:
    """A log of tables a to d. Two checkpoints hold each schema in a segment of its own;
    a tail that makes e known and forgets d. The transactions below are gone."""

    def __init__(self):
        log = LogBuilder()
        with (
            mock.patch.object(checkpoint, "ROWS_PER_SEGMENT", 1),
            mock.patch.object(checkpoint, "size_of_merge", return_value=0),
            mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
        ):
            log.commit(*(schema_action(table) for table in "abd"), add_action("data/b", "b"))
            encoded = [log.checkpoint()]
            log.commit(schema_action("c"))
            encoded.append(log.checkpoint())
        log.commit(schema_action("e"), wire.Action(forget=wire.Forget(tables=["d"])))
        self.store = MemoryStore("listed")
        log.put_into(self.store)
        for name, _ in log.objects[:1]:
            self.store.delete([log_folder("w", "db") + name])
        self.keys = [
            {p.segment.first_table: p.where for p in one.pieces if p.kind == SCHEMAS}
            for one in encoded
        ]

    def damage(self, place, table, change=lambda body: body[:-1]):
        key = self.keys[place][table]
        self.store.put(key, change(self.store.get(key)))
        return key

    def listed(self):
        names, unlisted = listed_tables(LogReader(self.store, "w", "db").load())
        return sorted(names), [(one.first, one.last, one.error.key) for one in unlisted]

    def snapshot(self):
        return Catalog(self.store).snapshot("db")


@pytest.fixture
def lake():
    found = Lake()
    assert all(found.keys[0][table] != found.keys[1][table] for table in "ab"), "none is shared"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        yield found


def test_all_are_listed(lake):
    assert lake.listed() == (["a", "b", "c", "e"], [])
    assert lake.snapshot().tables() == ["a", "b", "c", "e"]


def test_a_range_that_no_base_gives_is_said_beside_the_others(lake):
    lake.damage(0, "b")
    key = lake.damage(1, "b")
    assert lake.listed() == (["a", "c", "e"], [("b", "b", key)])
    with pytest.warns(TablesWarning, match="from 'b' to 'b'"):
        assert lake.snapshot().tables() == ["a", "c", "e"]
    with pytest.raises(CorruptObject):
        lake.snapshot().files("b")
    assert lake.snapshot().files("a").num_rows == 0
    with pytest.warns(TablesWarning), pytest.raises(TableNotFound, match="bb"):
        lake.snapshot().files("bb")


def test_what_one_base_lacks_another_gives(lake):
    """Also where each of them lacks something."""
    lake.damage(0, "a")
    lake.damage(1, "b")
    assert lake.listed() == (["a", "b", "c", "e"], [])
    key = lake.damage(1, "a")
    assert lake.listed() == (["b", "c", "e"], [("a", "a", key)])


def test_a_range_that_is_too_new_is_not_looked_for_below(lake):
    key = lake.keys[1]["b"]
    with mock.patch("lakelog.catalog.read.log_reader.open_segment", later(key)):
        assert lake.listed() == (["a", "c", "e"], [("b", "b", key)])
        with pytest.warns(TablesWarning):
            assert "a" in lake.snapshot().tables()


def later(key):
    def opened(data, piece, *more):
        if piece.where == key:
            raise UnsupportedFeature(f"{key} has format version 2", key=key)
        return open_segment(data, piece, *more)

    return opened


def test_where_nothing_names_the_segments_nothing_is_listed():
    log = LogBuilder()
    log.commit(schema_action("a"))
    encoded = log.checkpoint()
    place = encoded.decoded.references.inline
    body = encoded.body.replace(bytes(place), bytes(len(place)))
    log.checkpoints[:] = [(encoded.name, resigned(body))]
    log.commit(schema_action("b"))
    store = MemoryStore("nothing")
    log.put_into(store)
    store.delete([log_folder("w", "db") + log.objects[0][0]])
    with pytest.raises(CorruptObject) as caught:
        Catalog(store).snapshot("db").tables()
    assert caught.value.key == log_folder("w", "db") + encoded.name


def resigned(body):
    digest = hashlib.sha256(body[:48] + body[80:]).digest()
    return body[:48] + digest + body[80:]
