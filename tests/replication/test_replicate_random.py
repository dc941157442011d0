"""A replica of any history, read at every cut that was replicated: see `followed.py`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from followed import Followed

sys.path.append(str(Path(__file__).parents[1] / "running"))
from seeds import base_seed


@pytest.mark.slow("two histories, and what every engine reads of their replicas")
@pytest.mark.parametrize("number", range(2))
def test_a_replica_of_any_history_reads_as_its_source(number):
    run(number, steps=10)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(500))
def test_a_replica_of_any_long_history_reads_as_its_source(number):
    run(number, steps=25)


def run(number, steps):
    seed = random.Random(f"{base_seed()} {number}").randrange(1 << 32)
    history = Followed(seed)
    try:
        history.run(steps)
        history.check_replica()
    except Exception as error:
        error.add_note(f"seed {seed}, --steps {steps}:\n" + "\n".join(history.told))
        raise
