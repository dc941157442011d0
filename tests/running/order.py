"""Which tests share a process, and which begin: a plugin of pytest, for `--dist loadgroup`.

Tests of one group run one after the other in one worker. What takes long comes first, so that no
core idles at the end while another works on the last long test.
"""

from __future__ import annotations

import pytest

# One session, and so one JVM, for all of them; it is the longest group.
SESSION = "spark session"
# Each starts a JVM in a child of its own and waits for it: two at a time would be too many.
PROCESSES = "spark processes"
# Clocks, kills and timeouts: the fewer of them at a time, the less they are late.
TIMING = "timing"
FIRST = [SESSION, PROCESSES, TIMING]


def group_of(item: pytest.Item) -> str | None:
    """The group that a test belongs to, if it can't run just anywhere."""
    own = item.get_closest_marker("xdist_group")
    if own is not None:
        return str(own.args[0])
    if item.get_closest_marker("spark"):
        in_process = "spark" in getattr(item, "fixturenames", ()) or "docs" in item.path.parts
        return SESSION if in_process else PROCESSES
    return TIMING if item.get_closest_marker("timing") else None


def rank(item: pytest.Item) -> int:
    """Its place in the order; tests of one rank stay in the order of their files."""
    group = group_of(item)
    if group in FIRST:
        return FIRST.index(group)
    return len(FIRST) + (item.get_closest_marker("slow") is None)


@pytest.hookimpl(tryfirst=True)  # before xdist looks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        group = group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=rank)
