"""Reading a log, and what check finds."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/catalog/test_damaged_log.py")
def chain_unchecked() -> Any:
    """A transaction that follows another object is applied."""
    from lakelog.catalog.log import replay

    return mock.patch.object(replay, "check_link", return_value=None)


@plant("tests/catalog/test_damage_of_the_ancestor.py")
def features_unchecked() -> Any:
    """An unknown required feature is read all the same."""
    from lakelog.catalog.format import objects

    return mock.patch.object(objects, "READER_FEATURES", frozenset({"time-machine"}))


@plant("tests/hostile/test_paths.py")
def paths_unchecked() -> Any:
    """A path may climb out of the writer's prefix."""
    from lakelog.catalog.format import names

    return mock.patch.object(names, "_path_problem", return_value="")


@plant("tests/catalog/test_ipc_guard.py")
def bombs_unchecked() -> Any:
    """A segment may decode to any size."""
    from lakelog.catalog.format import segments

    return mock.patch.object(segments, "check_ipc_sizes", return_value=None)


@plant("tests/catalog/test_points_in_time.py")
def time_is_rounded_up() -> Any:
    """A time finds the revision after it."""
    from lakelog.catalog.log.history import History

    real = History.revision_at

    def at(self: Any, at_us: int) -> Any:
        found = real(self, at_us)
        return found + 1 if found is not None and self.holds(found + 1) else found

    return mock.patch.object(History, "revision_at", at)


# --- Replaced and lost logs -----------------------------------------------------------------------


@plant("tests/catalog/test_own_transaction.py")
def checkpoints_of_another_history() -> Any:
    """A checkpoint counts whose own transaction was lost and committed anew: a zombie's."""
    from lakelog.catalog.read import log_reader

    return mock.patch.object(log_reader, "refuse_other_history", return_value=None)


@plant("tests/catalog/test_log_identity.py::test_a_checkpoint_of_another_log_is_passed_over")
def broken_chains_have_one_base() -> Any:
    """A chain that breaks right above a base is the end, though another base would serve."""
    from lakelog.catalog.read import log_reader

    return mock.patch.object(log_reader, "is_right_above", return_value=False)


@plant("tests/catalog/test_log_identity.py tests/catalog/test_pruned_while_open.py")
def refresh_ignores_its_head() -> Any:
    """Refresh goes on from a head that the log doesn't have any more."""
    from lakelog.catalog.read import log_reader

    return mock.patch.object(log_reader, "stands", return_value=True)


@plant("tests/catalog/test_log_identity.py")
def one_revision_0_is_like_another() -> Any:
    """Refresh stays with the first revision of a log that was replaced by another."""
    from lakelog.catalog.read.log_reader import LogReader

    return mock.patch.object(LogReader, "_is_another_first", return_value=False)


@plant("tests/catalog/test_losses.py")
def lost_logs_are_left_out() -> Any:
    """A writer's log that is lost beside others vanishes from snapshots without a word."""
    from lakelog.catalog.catalog import Catalog

    return mock.patch.object(Catalog, "_lost_logs", return_value=[])


@plant("tests/catalog/test_losses.py")
def lost_ends_are_silent() -> Any:
    """A refresh keeps what it has of a log that lost its end, and tells nobody."""
    from lakelog.catalog.read import log_reader

    return mock.patch.object(log_reader, "lost_end", return_value=None)


@plant("tests/catalog/test_log_identity.py")
def one_log_counts_twice() -> Any:
    """A copied folder of a writer doubles the rows."""
    from lakelog.catalog import catalog

    return mock.patch.object(catalog, "refuse_twins", return_value=None)


# --- What check finds -----------------------------------------------------------------------------


@plant("tests/rebuild/test_check_and_repair.py::test_a_checkpoint_that_lies_is_found")
def check_believes_checkpoints() -> Any:
    """Check calls a checkpoint sound that lies under a right digest."""
    from lakelog.rebuild import check

    return mock.patch.object(check, "all_differences", return_value=[])


@plant("tests/rebuild/test_check_and_repair.py::test_a_data_file_that_has_another_size_is_found")
def check_looks_for_no_data() -> Any:
    """Check calls a log sound whose live files are not what it says."""
    from lakelog.rebuild import check

    return mock.patch.object(check._LogCheck, "check_files")


@plant(
    "tests/rebuild/test_check_and_repair.py::test_deletion_vectors_that_are_not_what_the_log_says"
)
def check_looks_at_no_bitmaps() -> Any:
    """Check calls deletion vectors sound that are those of other rows."""
    from lakelog.rebuild import check

    return mock.patch.object(check, "Bitmaps")
