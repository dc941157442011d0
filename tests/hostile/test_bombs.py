"""Objects that would grow are refused before they cost anything, or cost in proportion to what a
reader allows: each in a process of its own, with its memory and processor time. See `bombs.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bombs import ARROW, BITMAPS, BOMBS, MESSAGES, STATES, ZSTD
from sample import EVERY, some

SCRIPT = Path(__file__).with_name("bombs.py")
# MiB and seconds of processor time. What is refused by its header costs nothing; what must be
# parsed or decoded for it, in proportion to the limits of docs/format.md, section 11.
AT_ONCE, PARSED = (8, 1.0), (480, 5.0)
LIMITS = {
    **dict.fromkeys(ZSTD, AT_ONCE),
    **dict.fromkeys(MESSAGES, PARSED),
    **dict.fromkeys(ARROW, AT_ONCE),
    "a million files of one path": (256, 5.0),
    "a million files in order": (256, 5.0),
    "300,000 tables": (384, 12.0),
    "a million schemas": (256, 5.0),
    "a schema of 40,000 columns": (64, 3.0),
    **dict.fromkeys(STATES, (64, 8.0)),
    **dict.fromkeys(BITMAPS, AT_ONCE),
}
ACCEPTED = {
    "a million files in order", "300,000 tables", "a type 60 deep", "a schema of 40,000 columns",
    "tables to forget, one action each", "schemas to forget, one action each",
    "forgetting applications", "adding and removing",
}  # fmt: skip
REFUSED = {"CorruptObject", "UnsupportedFeature", "ValueError"}


@pytest.fixture(scope="module")
def bomber() -> Iterator[subprocess.Popen[str]]:
    """Told the name of a bomb, it says what it came to."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure")
@pytest.mark.parametrize("count", [16, EVERY])
def test_a_bomb_costs_no_more_than_it_may(count, bomber):
    """Some with each change, others with each commit; `make soak` tries every one."""
    for name in some("bombs", BOMBS, count):
        bomber.stdin.write(f"{name}\n")
        bomber.stdin.flush()
        found = json.loads(bomber.stdout.readline())
        assert found["ended"] in ({"accepted"} if name in ACCEPTED else REFUSED), name
        most_mib, most_s = LIMITS[name]
        assert found["mib"] < most_mib, name
        assert found["seconds"] < most_s, name


def test_every_bomb_has_limits():
    assert set(BOMBS) == set(LIMITS) >= ACCEPTED
