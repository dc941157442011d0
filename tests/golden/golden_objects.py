"""The golden objects of fixtures/v1, decoded by lakelog's code, and the states that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakelog.catalog.format.objects import (
    DecodedTransaction,
    decode_checkpoint,
    decode_transaction,
)
from lakelog.catalog.format.pieces import Piece, open_segment
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import State, empty_state, state_of_checkpoint
from lakelog.catalog.read.statistics import table_statistics

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "fixtures" / "v1"
OBJECTS = GOLDEN / "objects"
CHAIN = (
    "append",
    "remove",
    "schemas",
    "members",
    "add-batch",
    "upgrade",
    "forget",
    "optional-action",
    "seal",
)


def one(case: str, suffix: str = "transaction") -> Path:
    """The only object of a case."""
    (path,) = (OBJECTS / case).glob(f"*.{suffix}")
    return path


def decoded(case: str) -> DecodedTransaction:
    """The transaction of a case."""
    path = one(case)
    return decode_transaction(path.read_bytes(), path.name)


def replayed(last: str) -> State:
    """The state after the chain up to a case."""
    state = empty_state("EWR", "weather")
    for case in CHAIN[: CHAIN.index(last) + 1]:
        apply(state, decoded(case))
    return state


def loaded(case: str) -> State:
    """The state that a checkpoint holds."""
    path = one(case, "checkpoint")
    state = state_of_checkpoint(decode_checkpoint(path.read_bytes(), path.name), "EWR", "weather")

    def fetch(pieces: Sequence[Piece]) -> list[memoryview]:
        bodies = [(path.parent / piece.name).read_bytes() for piece in pieces]
        assert state.log is not None
        return [open_segment(b, p, state.log) for b, p in zip(bodies, pieces, strict=True)]

    state.fetch = fetch
    return state


def said_by(state: State) -> list[Any]:
    """All that a state says, in a form that compares."""
    tables = sorted(state.schemas.tables())
    files = [
        sorted(state.table_of(t)[0].table(t, whole=True).to_pylist(), key=lambda row: row["path"])
        for t in tables
    ]
    told = [
        table_statistics(state, table, row_groups=groups).to_pylist()
        for table in tables
        for groups in (False, True)
    ]
    entries = sorted(
        state.schemas.entries.values(), key=lambda entry: (entry.revision, entry.fingerprint)
    )
    return [
        state.log, state.revision, state.uuid, state.next_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_id, state.named, state.writer_features, tables,
        files, told, entries, state.applications.versions(), state.history.table().to_pylist(),
    ]  # fmt: skip
