"""A state held open while prune deletes what it was read from: not damage, and it says so."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest
from commit_cases import prune_to_checkpoint
from lakelog.catalog.format.names import (
    log_folder,
    mirror_log_folder,
    mirror_segments_folder,
    parse_log_object,
    segments_folder,
)
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.read.mirror import MirrorWarning
from lakelog.errors import CorruptObject, MissingTransaction, RevisionNotFound, SnapshotPruned
from lakelog.testing.keys import drop_mirror
from lakelog.testing.rebuilt import rebuild, seal

FOLDER, SEGMENTS = log_folder("w", "db"), segments_folder("w", "db")
FOLDERS = (FOLDER, mirror_log_folder("w", "db"))
PARTS = {
    "files": lambda state: state.files.count,
    "schemas": lambda state: sorted(state.schemas.tables()),
    "applications": lambda state: state.applications.versions(),
    "history": lambda state: state.history.table()["revision"].to_pylist(),
}


@pytest.fixture(autouse=True)
def _spilling(monkeypatch):
    monkeypatch.setattr(checkpoint_files, "SPILL_FROM_BYTES", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CheckpointWarning)
        yield


@pytest.fixture
def writer(catalog):
    """Revisions 0 to 3, a checkpoint at 2."""
    writer = catalog.writer("w", "db", checkpoint_every=0)
    for value in range(4):
        commit(writer, value)
        if value == 2:
            writer.checkpoint()
    return writer


@pytest.fixture
def reader(store, fake):
    return LogReader(store, "w", "db", fake.ambient)


def commit(writer, value):
    with writer.transaction("app", value + 1) as tx:
        tx.write(f"table {value}", pa.table({"n": [value]}))


def prune_below(store, reader, revision):
    """As prune does: log objects from the beginning, then segments that no checkpoint needs."""
    prune_to_checkpoint(store, revision)
    kept = {piece.name for piece in reader.load().pieces}
    kept.add(reader.load().base.references.name)
    for info in list(store.list(SEGMENTS)):
        if info.key.removeprefix(SEGMENTS) not in kept:
            store.delete([info.key])


def drop_incarnation(store, incarnation, folders=FOLDERS):
    for folder in folders:
        for info in list(store.list(folder)):
            if parse_log_object(info.key.removeprefix(folder)).incarnation == incarnation:
                store.delete([info.key])


@pytest.mark.parametrize("part", PARTS)
def test_what_was_pruned_is_called_pruned(writer, store, reader, part):
    state = reader.load(3)
    for value in range(4, 7):
        commit(writer, value)
    writer.checkpoint()
    prune_below(store, reader, 6)
    with pytest.raises(SnapshotPruned, match="Revision 3 of w/db was pruned"):
        PARTS[part](state)


@pytest.mark.parametrize("part", PARTS)
def test_a_newer_checkpoint_serves_a_revision_that_is_still_there(writer, store, reader, part):
    state, expected = reader.load(3), PARTS[part](reader.load(3))
    assert state.base.message.revision == 2
    writer.checkpoint()
    prune_below(store, reader, 3)
    assert PARTS[part](state) == expected


@pytest.mark.parametrize("part", PARTS)
def test_it_is_also_found_after_more_was_taken_in(writer, store, reader, part):
    state = reader.load(3)
    commit(writer, 4)
    state = reader.advance(state)
    writer.checkpoint()
    expected = PARTS[part](reader.load(4))
    prune_below(store, reader, 4)
    assert PARTS[part](state) == expected


def test_a_whole_incarnation_that_was_pruned(writer, store, reader):
    state = reader.load(3)
    seal(store, "w", "db")
    rebuild(store, "w", "db")
    drop_incarnation(store, 1)
    for folder in (SEGMENTS, mirror_segments_folder("w", "db")):
        store.delete([info.key for info in list(store.list(folder))])
    with pytest.raises(SnapshotPruned, match="whole incarnation"):
        PARTS["files"](state)


def test_a_token_of_a_pruned_incarnation_is_pruned_and_one_of_a_lost_is_not_there(
    catalog, writer, store
):
    tokens = [catalog.snapshot("db").token]
    for _ in range(2):
        seal(store, "w", "db")
        rebuild(store, "w", "db")
        tokens.append(catalog.snapshot("db").token)
    assert [catalog.snapshot("db", token).files("table 0").num_rows for token in tokens] == [1] * 3
    drop_incarnation(store, 1)
    with pytest.raises(SnapshotPruned, match="whole incarnation, 1"):
        catalog.snapshot("db", tokens[0])
    assert catalog.snapshot("db", tokens[1]).files("table 0").num_rows == 1
    drop_incarnation(store, 3, (FOLDER,))
    with pytest.warns(MirrorWarning, match="the copy in the mirror was read instead"):
        assert catalog.snapshot("db", tokens[2]).files("table 0").num_rows == 1
    drop_incarnation(store, 3)
    with pytest.raises(RevisionNotFound, match="no incarnation 3"):
        catalog.snapshot("db", tokens[2])


def test_what_follows_a_revision_that_is_gone_is_not_taken_in(writer, store, reader):
    """The log was lost under a writer that goes on: its next commit is no continuation of it."""
    state = reader.load(3)
    commit(writer, 4)
    for info in list(store.list(FOLDER)):
        if parse_log_object(info.key.removeprefix(FOLDER)).revision < 4:
            store.delete([info.key])
    with pytest.raises(MissingTransaction):
        reader.advance(state)


def test_what_is_gone_below_a_checkpoint_that_is_listed_is_lost(writer, store, reader):
    state = reader.load(3)
    writer.checkpoint()
    drop_mirror(store)
    store.delete([info.key for info in list(store.list(SEGMENTS))])
    store.delete([FOLDER + parsed(store, 0, "transaction")])
    with pytest.raises(CorruptObject, match="is not there"):
        PARTS["files"](state)


def parsed(store, revision, kind):
    names = (info.key.removeprefix(FOLDER) for info in store.list(FOLDER))
    return next(
        n
        for n in names
        if (item := parse_log_object(n)) and (item.revision, item.kind) == (revision, kind)
    )
