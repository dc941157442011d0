"""Which tests share a process, and which begin: a plugin of pytest, with a scheduler for xdist.

Tests of one group run one after the other in one worker; any other test runs wherever there is
room. What takes long comes first, so that no core idles at the end while another works on the last
long test.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# By the beginning of a test's name, the longest group first. The controller of xdist knows of a
# test only this name, no marks.
GROUPS = {
    # One session, and so one JVM, for all of them; others start a Spark of their own.
    "tests/docs/test_docs.py": "spark session",
    "tests/docs/test_demo.py": "spark session",
    "tests/docs/test_notebook.py": "spark processes",
    "tests/spark/test_spark_connect.py": "spark processes",
    "tests/spark/test_spark_pipeline.py": "spark processes",
    "tests/spark/test_spark_cluster.py": "spark processes",
    "tests/spark/test_spark_executors.py": "spark processes",
    "tests/spark/test_spark_s3a.py": "spark processes",
    "tests/spark/test_spark_wheel.py": "spark processes",
    "tests/spark/": "spark session",
    # Two tests ask for what is explored once.
    "tests/model/test_model.py::test_model_": "models",
    # Clocks, kills and timeouts: the fewer of them at a time, the less they are late.
    "tests/faults/test_http_faults.py": "timing",
    "tests/faults/test_kill_9.py": "timing",
    "tests/faults/test_split_brain.py": "timing",
    "tests/gc/test_gc_races.py::test_races_never": "timing",
    "tests/layout/test_import_time.py": "timing",
    # One catalog, built once.
    "tests/rebuild/test_drill.py": "drill",
    # Each server is started once.
    "tests/store/test_built_servers.py": "servers",
    "tests/store/test_whole_life.py": "servers",
    "tests/store/test_gcs_store.py": "servers",
    # They look at the same syntax trees, which are parsed once.
    "tests/layout/": "layout",
}
FIRST = list(dict.fromkeys(GROUPS.values()))


def group_of(name: str) -> str | None:
    """The group that a test belongs to, if it can't run just anywhere."""
    return next((group for start, group in GROUPS.items() if name.startswith(start)), None)


def rank(name: str, is_slow: bool) -> int:
    """A test's place in the order; tests of one rank stay in the order of their files."""
    group = group_of(name)
    return FIRST.index(group) if group else len(FIRST) + (not is_slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank(item.nodeid, item.get_closest_marker("slow") is not None))


def pytest_collection_finish() -> None:
    """What was collected lives to the end: the garbage collector need not look at it each time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class Groups(LoadScopeScheduling):
    """Hands out a group as a whole, in the order of the collection.

    xdist's own `loadgroup` finds no groups under pytest 9.2: it sets names that are not read.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    config.option.loadscopereorder = False  # the order is that of `rank`
    return Groups(config, log)
