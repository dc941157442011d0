"""Deletes in the files of all writers against plain Python: random histories of three writers who
write, delete, write anew, rename columns, go back and are rebuilt. Every engine reads the same
rows, now, at earlier points, and in cuts that have some writers as they were earlier; and what is
told to have changed between two cuts is what has."""

from __future__ import annotations

import random
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.append(str(Path(__file__).parents[1] / "running"))

from cut_going import Going
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sample import examples

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler


def run(seed: int, folder: Path) -> None:
    model = Going(random.Random(seed), folder)
    model.look()
    for number in range(16):
        model.step()
        if number % 3 == 2:
            model.check_changes()
    model.check()


@pytest.mark.slow("some histories, each read by every engine in some cuts")
@settings(
    max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
)
@given(st.integers(0, 2**32))
def test_every_engine_reads_what_the_deletes_of_a_cut_leave(tmp_path_factory, seed: int) -> None:
    run(seed, tmp_path_factory.mktemp("lake"))


if __name__ == "__main__":  # python tests/others/test_cut_model.py FIRST COUNT
    first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        with TemporaryDirectory() as place:
            try:
                run(number, Path(place))
            except Exception:  # the others are run all the same
                print("seed", number)
                traceback.print_exc()
