"""Tests that take turns: a quarter of them, drawn by the run's seed, runs with each commit, and all
of them by `make soak` or with LAKELOG_TURNS=every. A plugin of pytest, which marks all tests of
Spark as such.

Those are files of tests of Spark, whole, for what a file sets up is dear; and single tests of the
files that take longest.
"""

from __future__ import annotations

import os

import pytest
from sample import some
from seeds import ROOT

# What Spark is used for most.
EACH_TIME = {
    "test_spark_reads.py",
    "test_spark_session.py",
    "test_spark_sql.py",
    "test_spark_versions.py",
    "test_spark_write.py",
}
PAGES = ("tests/docs/test_notebook.py", "tests/docs/test_docs.py::test_examples_run[spark.md]")

# Each takes 10 s or more, most of them hold one rule on many stores, histories or places to fail.
SINGLY = (
    "tests/catalog/test_dropped.py::test_what_came_to_an_end_is_silent",
    "tests/catalog/test_ipc_guard.py::test_a_bomb_is_refused_before_arrow_allocates",
    "tests/catalog/test_statistics.py::test_bounds_contain_every_value",
    "tests/catalog/test_widening.py::test_no_value_is_lost_by_widening",
    "tests/changing/test_all_writers.py::test_random_changes_in_all_engines",
    "tests/changing/test_whole.py",
    "tests/cli/test_cli_process.py",
    "tests/cli/test_cli_round_trip.py::test_scan_into_write_gives_the_same_table",
    "tests/cli/test_cli_write.py::test_what_comes_through_a_pipe_is_written",
    "tests/cli/test_cli_write_types.py::test_types_are_found_over_all_files",
    "tests/engines/test_bare_files.py",
    "tests/engines/test_same_rows.py",
    "tests/engines/test_streams_at_exit.py",
    "tests/faults/test_crash_changes.py",
    "tests/faults/test_crash_going_back.py",
    "tests/faults/test_crash_points.py",
    "tests/faults/test_http_faults.py",
    "tests/faults/test_interrupts.py",
    "tests/faults/test_plain_store.py",
    "tests/faults/test_split_brain.py",
    "tests/gc/test_gc_crash.py",
    "tests/gc/test_gc_proof.py::test_a_checkpoint_that_lies_in_one_value_is_found",
    "tests/gc/test_gc_prune.py",
    "tests/gc/test_gc_races.py",
    "tests/gc/test_gc_rows.py::test_random_histories_with_prune_and_gc_between",
    "tests/golden/test_both_readers.py",
    "tests/golden/test_independent_reader.py",
    "tests/golden/test_readers_of_histories.py",
    "tests/hostile/test_bombs.py",
    "tests/hostile/test_damage.py",
    "tests/hostile/test_damage_in_store.py",
    "tests/hostile/test_fuzz.py",
    "tests/hostile/test_references_in_store.py",
    "tests/hostile/test_signed_in_store.py",
    "tests/keys/test_keys.py",
    "tests/layout/test_extras.py",
    "tests/model/test_model.py",
    "tests/rebuild/test_check_and_repair.py"
    "::test_a_repair_that_is_stopped_after_any_request_can_be_run_again",
    "tests/rebuild/test_footer_pool.py",
    "tests/rebuild/test_rebuild_execute.py"
    "::test_a_death_at_any_request_is_repaired_by_running_it_again",
    "tests/rebuild/test_salvage.py",
    "tests/replication/test_replicate_broken_off.py",
    "tests/replication/test_replicate_random.py",
    "tests/replication/test_replicate_stopped.py",
    "tests/simulation/test_simulation.py::test_a_planted_bug_is_caught",
    "tests/spark/test_spark_reads.py",
    "tests/spark/test_spark_sql.py",
    "tests/spark/test_spark_write.py",
    "tests/store/test_built_servers.py",
    "tests/store/test_conformance.py",
    "tests/store/test_conformance_listing.py",
    "tests/store/test_lazy_list.py",
    "tests/store/test_nested_catalog.py",
    "tests/store/test_s3_listing.py",
    "tests/store/test_s3_servers.py",
    "tests/store/test_s3_store.py",
    "tests/where/test_blooms.py",
    "tests/where/test_skipping_store.py",
    "tests/where/test_where_parse.py",
)


def taking_turns() -> list[str]:
    """What the names of tests begin with that take turns together: files of Spark's, and pages."""
    found = sorted((ROOT / "tests" / "spark").glob("test_*.py"))
    return [f"tests/spark/{path.name}" for path in found if path.name not in EACH_TIME] + [*PAGES]


def quarter(name: str, items: list[str]) -> set[str]:
    """Those whose turn it is, by the run's seed; at least one."""
    if os.environ.get("LAKELOG_TURNS") == "every":
        return set(items)
    return set(some(name, items, -(-len(items) // 4)))


def waiting(names: list[str]) -> set[str]:
    """Of the names of all tests, those whose turn it isn't."""
    together = taking_turns()
    running = tuple(quarter("turns", together))
    left = {
        name for name in names if name.startswith(tuple(together)) and not name.startswith(running)
    }
    for file in SINGLY:
        own = [name for name in names if name.startswith(file)]
        left |= set(own) - quarter(file, own)
    return left


@pytest.hookimpl(tryfirst=True)  # before `-m "not long"` looks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    others = waiting([item.nodeid for item in items if "long" not in item.keywords])
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.spark)
        if item.nodeid in others:
            item.add_marker(pytest.mark.long)


def pytest_report_header() -> str:
    names = sorted(quarter("turns", taking_turns()))
    return "of Spark's tests that take turns: " + ", ".join(n.rpartition("/")[2] for n in names)
