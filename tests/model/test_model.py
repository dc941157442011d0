"""The models of the protocol: each clean at its small size, each planted bug caught.

The models are a specification in themselves and import nothing of lakelog; docs/protocol.md
explains them. Its table of planted bugs, and the tables of README.md in this folder, are held
against what is explored here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from explorer import Step, explore, report
from rows import caught_rows, model_row, mutant_row
from suite import MUTANTS, REACHED, large, small

PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
TABLES = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")


@cache
def explored(kind, number):
    """What is found in one of the small models of a kind; two tests ask for it."""
    return explore([model for model in small() if type(model) is kind][number], time_limit_s=120)


def numbered():
    """Each small model's kind, and its number within it."""
    models = [[model for model in small() if type(model) is kind] for kind in REACHED]
    return [
        pytest.param(type(m), n, id=m.name.replace(" ", "-"))
        for found in models
        for n, m in enumerate(found)
    ]


@pytest.mark.parametrize(("kind", "number"), numbered())
def test_model_is_clean(kind, number):
    result = explored(kind, number)
    assert result.violation is None, report(result)
    assert result.complete, report(result)
    row = model_row(result)
    assert row in TABLES, f"README.md lacks: {row}"


@pytest.mark.parametrize("kind", REACHED, ids=lambda kind: kind.__name__)
def test_model_reaches_what_it_claims_to_cover(kind):
    count = sum(type(model) is kind for model in small())
    fired = {step for number in range(count) for step in explored(kind, number).fired}
    assert REACHED[kind] - fired == set()


def test_each_small_model_is_explored():
    assert len(numbered()) == len(small())


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name):
    mutant = MUTANTS[name]
    result = explore(mutant.model(name), time_limit_s=120)
    assert result.violation == mutant.catches, report(result)
    assert result.trace
    row = mutant_row(name, result)
    assert row in TABLES, f"README.md lacks: {row}"


def test_the_protocol_names_each_planted_bug():
    """Beside the rule that prevents it, and in the table."""
    rows = caught_rows()
    assert "\n".join(rows) in PROTOCOL
    rules = PROTOCOL
    for row in rows:
        rules = rules.replace(row, "")
    assert [name for name in MUTANTS if f"`{name}`" not in rules] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("model", large(), ids=lambda model: model.name.replace(" ", "-"))
def test_model_is_clean_at_its_large_size(model):
    result = explore(model, time_limit_s=3600)
    assert result.violation is None, report(result)
    assert result.complete, report(result)
    row = f"{model_row(result)} clean |"
    assert row in TABLES, f"README.md lacks: {row}"


class Counter:
    """A toy to test the explorer by: two counters that must never both reach the limit."""

    name = "counter"

    def __init__(self, limit):
        self.limit = limit

    def initial(self):
        return (0, 0)

    def steps(self, state):
        for side in (0, 1):
            if state[side] < 3:
                after = tuple(n + (side == i) for i, n in enumerate(state))
                yield Step("adds", f"to {side}", after)

    def broken(self, state):
        return "both" if min(state) >= self.limit else None


def test_explorer_counts_every_state_and_transition():
    result = explore(Counter(limit=4))
    assert (result.states, result.transitions, result.depth) == (16, 24, 6)
    assert result.complete
    assert result.fired == {"adds": 24}


def test_explorer_finds_a_shortest_counterexample():
    result = explore(Counter(limit=2))
    assert result.violation == "both"
    assert len(result.trace) == 4
    assert sorted(result.trace) == ["adds: to 0", "adds: to 0", "adds: to 1", "adds: to 1"]
    assert not result.complete


def test_explorer_says_when_it_did_not_finish():
    result = explore(Counter(limit=4), max_states=3)
    assert not result.complete
    assert "NOT FINISHED" in report(result)
