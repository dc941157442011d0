"""Keys against plain Python: random tables, writes, upserts, deletes, removes and checkpoints by
three writers whose clocks jump. Every engine gives the newest row of each key, at every point in
time."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from key_model import Model
from lakelog.catalog.commit import upserting
from lakelog.catalog.data import key_rows
from sample import examples

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler


@settings(max_examples=examples(3), deadline=None, phases=PHASES,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(seed=st.integers(0, 1 << 32))
def test_every_engine_reads_the_newest_row_of_each_key(seed, tmp_path_factory, monkeypatch):
    """Several engines at several points in time, a table each: some seconds."""
    rng = random.Random(seed)
    monkeypatch.setattr(key_rows, "MOST_ROWS", rng.choice([3, 10, 1 << 20]))
    monkeypatch.setattr(key_rows, "_FEW", rng.choice([0, 1, 4]))
    monkeypatch.setattr(key_rows, "_PIECE", rng.choice([1, 5, 1 << 20]))
    monkeypatch.setattr(upserting, "_PIECE", rng.choice([1, 5, 1 << 20]))
    folder: Path = tmp_path_factory.mktemp("keys")
    model = Model(rng, folder)
    for _ in range(12):
        model.step()
    model.check()
