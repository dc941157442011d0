"""Deletes in the files of all writers against plain Python: random histories of three writers who
write, delete, write anew, rename columns and are rebuilt. Every engine reads the same rows, now, at
earlier points, and in cuts that have some writers as they were earlier."""

from __future__ import annotations

import random
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cut_model import Model
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler


def run(seed: int, folder: Path) -> None:
    model = Model(random.Random(seed), folder)
    model.look()
    for _ in range(14):
        model.step()
    model.check()


@pytest.mark.slow("ten histories, each read by every engine in some cuts")
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(st.integers(0, 2**32))
def test_every_engine_reads_what_the_deletes_of_a_cut_leave(tmp_path_factory, seed: int) -> None:
    run(seed, tmp_path_factory.mktemp("lake"))


if __name__ == "__main__":  # python tests/others/test_cut_model.py FIRST COUNT
    first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        with TemporaryDirectory() as place:
            try:
                run(number, Path(place))
            except Exception:
                print("seed", number)
                traceback.print_exc()
