"""Everything that changes data, together, against plain Python: see `whole_changes.py`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from whole_changes import History

sys.path.append(str(Path(__file__).parents[1] / "running"))
from seeds import base_seed

HISTORIES = 3


@pytest.mark.slow("three histories, read by every engine")
@pytest.mark.parametrize("number", range(HISTORIES))
def test_every_row_is_there_after_any_history(number):
    seed = random.Random(f"{base_seed()} {number}").randrange(1 << 32)
    history = History(seed)
    try:
        history.run(12)
    except Exception as error:
        error.add_note(f"seed {seed}, --steps 12:\n" + "\n".join(history.told))
        raise
