"""A log with definitions, keys or deletes requires a feature: who doesn't know it refuses by its
name, and reads what came before."""

from __future__ import annotations

import pytest
from evolution_cases import INT, TEXT, Lake, evolve, write
from lakelog.catalog.format import objects
from lakelog.catalog.format.definitions import FEATURE as DEFINITIONS
from lakelog.catalog.format.deletes import ROW_DELETES, TOMBSTONES
from lakelog.errors import UnsupportedFeature

REQUIRED = {
    "definition": (evolve(drop=["b"]), DEFINITIONS),
    "key": (evolve(key=["b"]), DEFINITIONS),
    "tombstone": (lambda tx: tx.delete("t", "b = 1", mode="predicate"), TOMBSTONES),
    "row deletes": (lambda tx: tx.delete("t", "b = 1", mode="rows"), ROW_DELETES),
}


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize(("change", "feature"), REQUIRED.values(), ids=REQUIRED)
def test_a_reader_without_the_feature_refuses_and_reads_the_revisions_before(
    monkeypatch: pytest.MonkeyPatch, change, feature: str, checkpoint: bool
) -> None:
    lake = Lake()
    lake.do(write(a=(TEXT, ["x", "y"]), b=(INT, [1, 2])))
    lake.do(change, checkpoint=checkpoint)
    assert lake.now._states[0].reader_features == lake.now._states[0].writer_features == {feature}
    monkeypatch.setattr(objects, "READER_FEATURES", objects.READER_FEATURES - {feature})
    with pytest.raises(UnsupportedFeature, match=f"requires {feature}"):
        lake.rows()
    before = lake.catalog.snapshot("db", {"w": 0})
    assert before.to_arrow("t").to_pylist() == [{"a": "x", "b": 1}, {"a": "y", "b": 2}]


def test_a_log_without_definitions_requires_nothing() -> None:
    lake = Lake()
    lake.do(write(a=(TEXT, ["x"])), checkpoint=True)
    state = lake.now._states[0]
    assert not state.reader_features
    assert 10 not in {piece.kind for piece in state.pieces}
    lake.do(evolve(add={"b": INT}))
    lake.do(evolve(drop=["b"]), checkpoint=True)
    upgrades = [
        action
        for action in _actions(lake)
        if action.WhichOneof("kind") == "upgrade"
    ]  # fmt: skip
    assert len(upgrades) == 1
    assert 10 in {piece.kind for piece in lake.now._states[0].pieces}


def _actions(lake: Lake):
    from lakelog.catalog.read.log_reader import LogReader

    log = LogReader(lake.catalog.store, "w", "db")
    names = log.names().transactions
    return [a for revision in names for a in log.transaction(names[revision][0]).message.actions]
