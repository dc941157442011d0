"""Planted bugs of rebuilds: each lets a rule of `rebuild/rules.py` go."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import Together, plant

BUGS = "tests/rebuild/test_review_bugs.py"
ORDER = "tests/changing/test_restored_order.py"
SALVAGE = "tests/rebuild/test_salvage.py"
RULES = "tests/rebuild/test_rules.py"
EXECUTE = "tests/rebuild/test_rebuild_execute.py"


@plant(BUGS + "::test_a_crashed_append_of_an_earlier_owner_does_not_come_back")
def any_revision_may_be_lost() -> Any:
    """An attempt counts though no lost revision is left that it can have been."""
    from lakelog.rebuild import rules

    return mock.patch.object(rules, "_may_have_been", return_value=True)


@plant(ORDER + "::test_a_rebuild_from_footers_orders_files_by_the_revisions_that_these_prove")
def salvaged_files_are_of_one_revision() -> Any:
    """Which of two files of one clock was first isn't known any more."""
    from lakelog.rebuild import build

    real = build._add
    return mock.patch.object(build, "_add", lambda file, original: real(file, None))


@plant(BUGS + "::test_an_overwrite_that_was_not_committed_replaces_nothing")
def what_is_unproven_replaces() -> Any:
    """Every unproven transaction takes out what it replaces, and none is deleted at once."""
    from lakelog.catalog.commit.transaction import Transaction
    from lakelog.rebuild import rules

    return Together(
        mock.patch.object(rules.Attempt, "is_rewrite", property(lambda one: bool(one.replaces))),
        mock.patch.object(rules._Walk, "_why_not", return_value=""),
        mock.patch.object(Transaction, "_take_back"),
    )


@plant(RULES + "::test_what_a_proven_one_replaced_does_not_come_back_with_an_unproven_one")
def what_the_log_removed_comes_back() -> Any:
    """What a proven transaction takes out of an unproven one's files is added all the same."""
    from lakelog.rebuild import rules

    class Nothing(set[Any]):
        def __ior__(self, other: Any) -> Any:
            return self

    real = rules._Walk.__init__

    def init(self: Any, *args: Any) -> None:
        real(self, *args)
        self.replaced = Nothing()

    return mock.patch.object(rules._Walk, "__init__", init)


@plant(BUGS + "::test_no_aborted_append_comes_back")
def what_is_given_up_stays() -> Any:
    """A transaction that is discarded leaves its files."""
    from lakelog.catalog.commit.transaction import Transaction

    return mock.patch.object(Transaction, "_take_back")


@plant(SALVAGE + "::test_everything_but_the_data")
def only_proven_rows_come_back() -> Any:
    """What no footer names is left out."""
    from lakelog.rebuild import rules

    return mock.patch.object(rules, "_may_have_been", return_value=False)


@plant(SALVAGE + "::test_any_one_revision")
def what_stands_above_the_hole_is_forgotten() -> Any:
    """Transactions that can be read above the base do not count."""
    from lakelog.rebuild import old_log

    return mock.patch.object(old_log, "_is_sound", return_value=False)


@plant(EXECUTE + "::test_a_commit_at_any_moment_is_refused_or_it_stops_the_rebuild")
def nothing_is_sealed() -> Any:
    """A rebuild leaves the names free that committers may still use."""
    from lakelog.rebuild import execute

    return mock.patch.object(execute, "_seal")


@plant(EXECUTE + "::test_a_death_at_any_request_is_repaired_by_running_it_again")
def the_switch_is_not_copied() -> Any:
    """The opening checkpoint is not put into the mirror."""
    from lakelog.rebuild import execute

    return mock.patch.object(execute, "copy_checkpoint")


@plant(EXECUTE + "::test_a_live_file_that_a_store_shows_in_another_spelling")
def paths_are_spelled_as_shown() -> Any:
    """A rebuild takes the spelling of a folder that the store shows for the log's."""
    from lakelog.rebuild import scan

    return mock.patch.object(scan, "is_there", return_value=False)
