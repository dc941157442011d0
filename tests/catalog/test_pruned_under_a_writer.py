"""A writer that lags behind while others go on and prune: what can no longer be read of the state
that it knows is asked of the newest one."""

from __future__ import annotations

import pytest
from commit_cases import LIMIT_S, prune_to_checkpoint
from lakelog.catalog.format.names import mirror_segments_folder, segments_folder
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import CorruptObject, SnapshotPruned
from table_cases import table, values, write

SEGMENTS = segments_folder("w", "db")


def gc_segments(store, fake):
    """As gc does: segments that no checkpoint needs."""
    state = LogReader(store, "w", "db", fake.ambient).load()
    kept = {piece.name for piece in state.pieces} | {state.base.references.name}
    found = [info.key for info in store.list(SEGMENTS)]
    store.delete([key for key in found if key.removeprefix(SEGMENTS) not in kept])


@pytest.fixture
def sleeper(catalog, store, fake, monkeypatch):
    """It has read the head and nothing else, and all that it would read is gone."""
    monkeypatch.setattr(checkpoint_files, "SPILL_FROM_BYTES", 0)
    first = catalog.writer("w", "db", shared=True)
    path = write_path(first, 0, app_id="job", app_version=1)
    first.checkpoint()
    sleeper = catalog.writer("w", "db", shared=True)
    other = catalog.writer("w", "db", shared=True)
    for value in range(1, 4):
        write(other, value, app_id="job", app_version=1 + value)
    with other.transaction() as tx:
        tx.write("another", table(1))
    prune_to_checkpoint(store, other.checkpoint().revision)
    gc_segments(store, fake)
    return sleeper, path


def write_path(writer, value, **options):
    with writer.transaction(**options) as tx:
        (path,) = tx.write("t", table(value))
    return path


@pytest.mark.parametrize("slept_s", [0, LIMIT_S + 1])
def test_versions_of_applications_that_were_pruned_are_read_anew(store, fake, sleeper, slept_s):
    writer, _ = sleeper
    fake.move(slept_s)
    assert write(writer, 9, app_id="job", app_version=4).skipped
    with writer.transaction(app_id="job", app_version=5) as tx:
        assert tx._base.app_version == 4
        tx.write("t", table(4))
    assert values(store) == [0, 1, 2, 3, 4]


def test_schemas_that_were_pruned_are_read_anew(store, sleeper):
    write(sleeper[0], 4)
    assert values(store) == [0, 1, 2, 3, 4]


def test_files_that_were_pruned_are_read_anew(store, sleeper):
    writer, path = sleeper
    with writer.transaction() as tx:
        tx.remove(path)
    assert values(store) == [1, 2, 3]


def test_what_is_damaged_is_still_refused(store, sleeper):
    for folder in (SEGMENTS, mirror_segments_folder("w", "db")):
        for info in list(store.list(folder)):
            store.put(info.key, b"damaged")
    with pytest.raises(CorruptObject):
        sleeper[0].transaction(app_id="job", app_version=9)
    sleeper[0].transaction()


def test_a_log_that_was_lost_is_not_begun_anew(store, sleeper):
    for info in list(store.list("w/db/")):
        if "/data/" not in info.key:
            store.delete([info.key])
    with pytest.raises(SnapshotPruned):
        sleeper[0].transaction(app_id="job", app_version=9)
    assert sleeper[0].revision == 1
