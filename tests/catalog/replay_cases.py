"""What the tests of replay share."""

from __future__ import annotations

import pytest
from lakelog.catalog.log.replay import apply
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    CorruptError,
)
from lakelog.testing.logs import (
    add_action,
    remove_action,
)

A, B, C = "data/a", "data/b", "data/c"


def add(path):
    return add_action(path)


def remove(path):
    return remove_action(path)


def facts(state):
    """All that a state says, in a form that compares."""
    files, columns = state.files, ["path", "partition", "size_bytes", "row_count", "revision"]
    return (
        state.log, state.revision, state.uuid, state.successor_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_id, state.named, state.sealed_for,
        state.reader_features, state.writer_features, state.applications.versions(),
        sorted(state.schemas.entries),
        {
            name: sorted(
                files.table(name).select(columns).to_pylist(), key=lambda row: row["path"]
            )
            for name in files.tables()
        },
        state.history.table().to_pylist(),
    )  # fmt: skip


def broken(log, change, **options):
    """Apply the next transaction, altered, and return the error."""
    before = facts(log.state)
    with pytest.raises(CorruptError) as caught:
        apply(log.state, log.decode(*log.encode(add(C), change=change, **options)))
    assert facts(log.state) == before
    assert log.state.revision < 0 or caught.value.key
    return caught.value


def upgrade(readers=(), writers=()):
    item = wire.Upgrade(required_reader_features=readers, required_writer_features=writers)
    return wire.Action(upgrade=item)
