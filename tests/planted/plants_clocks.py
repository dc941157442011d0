"""Clocks that jump, run ahead or stand still, and what is believed of ages."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/catalog/test_stood_still.py")
def ages_by_the_steady_clock_alone() -> Any:
    """A machine that was paused takes what it knows of the log for fresh."""
    from lakelog.catalog.log.build import Moment

    return mock.patch.object(Moment, "age_s", lambda self, now: now.steady_s - self.steady_s)


@plant("tests/catalog/test_stood_still.py")
def ages_by_both_own_clocks() -> Any:
    """The store's clock is not asked how long a machine was away whose own clocks stood still."""
    from lakelog.catalog.log.build import Moment

    def age_s(self: Moment, now: Moment) -> float:
        return max(now.steady_s - self.steady_s, now.wall_s - self.wall_s)

    return mock.patch.object(Moment, "age_s", age_s)


@plant("tests/catalog/test_stood_still.py")
def ages_are_not_asked_for_after_the_put() -> Any:
    """A put that landed under a pruned name is acknowledged, if the pause was during it."""
    from lakelog.catalog.commit.committer import Committer

    real = Committer._send

    def send(self: Any, *rest: Any) -> Any:
        with mock.patch.object(Committer, "is_idle", return_value=False):
            return real(self, *rest)

    return mock.patch.object(Committer, "_send", send)


@plant("tests/catalog/test_stood_still.py")
def files_that_are_gone_are_committed() -> Any:
    """A commit is acknowledged although gc has taken its files meanwhile."""
    from lakelog.catalog.commit.committer import Verification

    return mock.patch.object(Verification, "_gone", return_value=[])


@plant("tests/catalog/test_stood_still.py tests/catalog/test_checkpointing.py")
def late_checkpoints_are_built_upon() -> Any:
    """A checkpoint that came after a prune of its segments is the base of the next one."""
    from lakelog.catalog.commit import checkpointer

    return mock.patch.object(checkpointer, "_refuse_stale", return_value=None)


@plant("tests/catalog/test_stood_still.py")
def adopted_files_are_new() -> Any:
    """The age of a file that is added is counted from the adding."""
    from lakelog.catalog.commit.clocks import Clocks

    return mock.patch.object(Clocks, "written", lambda self, _: self.now())


@plant("tests/catalog/test_births.py")
def clocks_ahead_commit() -> Any:
    """A clock that is a year ahead stamps commits, and all later ones with it."""
    from lakelog.catalog.commit.clocks import Clocks

    return mock.patch.object(Clocks, "refuse_ahead", return_value=None)


@plant("tests/catalog/test_points_in_time.py")
def the_future_is_left_out_silently() -> Any:
    """As of now, all that is stamped in the future is missing without a word."""
    from lakelog.catalog.read import points_in_time

    return mock.patch.object(points_in_time, "_tell_of_future", return_value=None)


@plant("tests/gc/test_gc_collect.py")
def gc_asks_its_own_clock() -> Any:
    """An execution of gc by a clock that runs ahead takes young files."""
    from lakelog.gc.context import MaintenanceContext

    return mock.patch.object(MaintenanceContext, "store_now", MaintenanceContext.now)


@plant("tests/store/test_local_store.py::test_a_file_is_as_old_as_its_arrival")
def files_are_as_old_as_their_bytes() -> Any:
    """A file that was just moved in is as old as the day it was written on."""
    from lakelog.store import local

    return mock.patch.object(local, "arrived_s", lambda status: status.st_mtime)


@plant("tests/catalog/test_checkpointing.py::test_a_checkpoint_is_too_old_though_only_its_base_is")
def old_bases_are_new() -> Any:
    """A checkpoint refers to pieces of a base that prune has taken since it was read."""
    from lakelog.catalog.commit.committer import Committer

    real = Committer.checkpointable
    return mock.patch.object(
        Committer, "checkpointable", lambda self: (real(self)[0], self._seen_at)
    )


@plant("tests/catalog/test_stood_still.py::test_of_adopted_files_the_oldest_counts")
def the_last_adopted_file_counts() -> Any:
    """Of the files that are added only the last one's age is asked for at the commit."""
    from lakelog.catalog.log.build import Moment

    return mock.patch.object(Moment, "or_before", lambda self, other: self)


@plant("tests/catalog/test_writer_files.py::test_clocks_ascend_over_openings")
def clocks_step_back() -> Any:
    """A writer's logical clock begins anew with each opening."""
    from lakelog.catalog.commit.session import Session

    real, begun = Session.clock, set[int]()

    def clock(self: Any) -> Any:
        if id(self) not in begun:
            begun.add(id(self))
            self._clock_us = 0
        return real(self)

    return mock.patch.object(Session, "clock", clock)
