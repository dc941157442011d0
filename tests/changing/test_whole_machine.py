"""The same as `test_whole.py`, as a state machine: Hypothesis chooses the steps and what they draw,
and makes what fails small."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from whole_changes import History
from whole_model import TABLES

sys.path.append(str(Path(__file__).parents[1] / "running"))
from sample import EVERY

BY_CATALOG = {"race", "remove", "evolve", "restore", "drop", "rebuild", "delete_of_all"}
ROWS = ["write", "upsert", "delete", "delete_of_all", "overwrite", "rewrite", "remove", "race"]
LOG = ["evolve", "restore", "drop", "checkpoint", "prune", "gc", "rebuild"]
chosen = st.randoms(use_true_random=False)


class Whole(RuleBasedStateMachine):
    """Three writers, each with an owner and two guests."""

    history: History

    @initialize(drawn=chosen)
    def begin(self, drawn: random.Random) -> None:
        self.history = History(0)
        self.history.rng = drawn
        for name in TABLES:
            self.history.begin(name)
        self.history.look()

    @rule(drawn=chosen, name=st.sampled_from(ROWS))
    def rows_change(self, drawn: random.Random, name: str) -> None:
        self._step(drawn, name)

    @rule(drawn=chosen, name=st.sampled_from(LOG))
    def log_changes(self, drawn: random.Random, name: str) -> None:
        self._step(drawn, name)

    @rule(drawn=chosen, net=st.booleans())
    def changes_lead_from_one_point_to_another(self, drawn: random.Random, net: bool) -> None:
        self.history.rng = drawn
        if self.history.points:
            self.history.check_changes(net=net)

    def _step(self, drawn: random.Random, name: str) -> None:
        history = self.history
        history.rng = drawn
        history.world.clock.now_s += 60
        history.say(name)
        if name in BY_CATALOG:
            history.last.clear()
        getattr(history, name)()
        history.look()

    @invariant()
    def some_retained_point_reads_as_it_did(self) -> None:
        if hasattr(self, "history"):
            self.history.check_points(1)

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        history = self.history
        try:
            history.rng = random.Random(0)
            history.check_points(len(history.points), engines=True)
            now: Any = history.catalog.snapshot("weather")
            history.check_at(now, history.tables, engines=True)
        finally:
            history.close()


@pytest.mark.slow("two histories, and each retained point of time of them read by every engine")
@pytest.mark.parametrize("count", [2, EVERY])
def test_every_engine_reads_every_retained_point(count: int | None) -> None:
    run = settings(
        max_examples=count or 100,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(Whole, settings=run)
