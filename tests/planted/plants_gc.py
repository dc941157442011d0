"""Prune and gc."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from planting import Together, plant


@plant("tests/gc/test_gc_collect.py")
def gc_takes_unknown_names() -> Any:
    """Gc deletes what it doesn't know."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "is_own", return_value=True)


@plant("tests/gc/test_gc_proof.py")
def prune_trusts_the_checkpoint() -> Any:
    """Prune doesn't compare the checkpoint with the log."""
    from lakelog.gc import prune

    return mock.patch.object(prune, "_compare_with_log", return_value="")


@plant("tests/faults/test_crash_points.py")
def prune_backwards() -> Any:
    """Prune deletes segments before the checkpoints that name them."""
    from lakelog.gc import prune

    real = prune.select

    def select(*args: Any) -> Any:
        actions, kept = real(*args)
        return actions[::-1], kept

    return mock.patch.object(prune, "select", select)


@plant("tests/gc/test_gc_rows.py")
def prune_mirrors_nothing() -> Any:
    """Prune deletes without having completed the mirror."""
    from lakelog.gc import prune

    return mock.patch.object(prune, "complete_mirror", return_value=None)


@plant("tests/gc/test_gc_prune_execute.py::test_the_mirror_is_complete_before_anything_is_deleted")
def prune_mirrors_afterwards() -> Any:
    """Prune completes the mirror once it has deleted."""
    from lakelog.gc import prune
    from lakelog.gc.plan import Deleted

    real, real_report, waiting = prune.complete_mirror, Deleted.report, []

    def report(self: Any, *args: Any) -> Any:
        while waiting:
            real(*waiting.pop())
        return real_report(self, *args)

    return Together(
        mock.patch.object(prune, "complete_mirror", lambda *args: waiting.append(args)),
        mock.patch.object(Deleted, "report", report),
    )


@plant("tests/gc/test_gc_rows.py")
def prune_leaves_the_mirror_alone() -> Any:
    """The mirror keeps what the log has pruned."""
    from lakelog.gc import prune

    real = prune.select

    def select(*args: Any) -> Any:
        actions, kept = real(*args)
        return tuple(action for action in actions if "/mirror/" not in action.key), kept

    return mock.patch.object(prune, "select", select)


@plant("tests/gc/test_gc_rows.py tests/gc/test_gc_lost_end.py")
def gc_forgets_what_only_the_mirror_has() -> Any:
    """A file goes that only objects in the mirror name."""
    from lakelog.gc import retained

    real = retained._named_besides

    def besides(context: Any, names: Any, oldest: int) -> Any:
        return real(context, replace(names, mirror=names.mirror._replace(objects={})), oldest)

    return mock.patch.object(retained, "_named_besides", besides)


@plant("tests/gc/test_gc_lost_end.py")
def gc_believes_a_log_that_ends_below_its_mirror() -> Any:
    """What the mirror goes on with is not asked."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "goes_further", return_value=False)


# --- What gc may take -----------------------------------------------------------------------------


@plant("tests/gc/test_gc_folding.py")
def gc_compares_names_exactly() -> Any:
    """On a store that folds names gc deletes live files, listed in another spelling."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "folded_among", return_value=set())


@plant("tests/gc/test_gc_lost_end.py")
def gc_believes_a_bucket_that_was_set_back() -> Any:
    """Gc deletes the files of the transactions that both copies of a log have lost."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "_refuse_set_back", return_value=None)


@plant("tests/gc/test_gc_incarnations.py::test_what_a_rebuild_left_out_stays_for_the_grace_period")
def gc_takes_what_a_rebuild_left_out() -> Any:
    """After a rebuild files of older epochs are orphans at once."""
    from lakelog.gc.collect import Rules

    return mock.patch.object(Rules, "_is_left_out", return_value=False)


@plant("tests/gc/test_gc_foreign_log.py tests/gc/test_gc_incarnations.py")
def gc_goes_by_a_log_of_another_name() -> Any:
    """A log that says that it is another writer's is collected by."""
    from lakelog.catalog.log.state import State

    return mock.patch.object(State, "is_foreign", False)


@plant("tests/gc/test_gc_incarnations.py::test_a_sealed_log_is_left_alone")
def gc_works_beside_a_rebuild() -> Any:
    """Gc deletes what a rebuild that is under way reads."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "refuse_untouchable", return_value=None)


@plant("tests/gc/test_gc_incarnations.py::test_gc_keeps_what_a_lower_incarnation_names")
def gc_forgets_lower_incarnations() -> Any:
    """Gc deletes what tokens of before a rebuild name."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "_named_besides", return_value=[])


@plant("tests/gc/test_gc_nested.py")
def gc_takes_an_inner_catalog() -> Any:
    """The files of a catalog below a data folder are orphans of the outer one."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "logs_below", return_value=())


@plant("tests/gc/test_gc_together.py")
def deletions_of_others_are_reported() -> Any:
    """Two jobs at once report the same deletions as theirs."""
    from lakelog.gc.plan import Deleted

    real = Deleted.add
    return mock.patch.object(Deleted, "add", lambda self, asked, gone: real(self, asked, set()))


@plant("tests/gc/test_gc_prune_doubt.py")
def unknown_refs_are_overlooked() -> Any:
    """Prune passes over objects below `_refs/` that it doesn't know."""
    from lakelog.catalog.refs import refs

    real = refs.parse_ref_key
    nothing = refs.parse_ref_key("_refs/none/999999999998-1.ref")
    return mock.patch.object(refs, "parse_ref_key", lambda key: real(key) or nothing)


@plant("tests/gc/test_gc_prune_refs.py")
def a_late_tag_is_not_refused() -> Any:
    """A tag is made of what a prune, which has read the names before, deletes."""
    from lakelog.catalog.refs import refs

    return mock.patch.object(refs, "beginnings", return_value={})


@plant("tests/gc/test_gc_prune_refs.py")
def prune_reads_the_names_only_for_its_plan() -> Any:
    """A tag that is made after the plan is lost."""
    from lakelog.gc import prune

    return mock.patch.object(prune, "_mark", return_value={})


@plant("tests/gc/test_gc_proof.py")
def prune_compares_no_statistics() -> Any:
    """A checkpoint with wrong statistics becomes the only base of a log."""
    from lakelog.catalog.read.statistics import differences
    from lakelog.gc import prune

    return mock.patch.object(prune, "all_differences", differences)


@plant("tests/gc/test_gc_collect_execute.py::test_batches_look_again_before_each")
def gc_looks_once() -> Any:
    """What is committed while gc deletes is deleted with the rest."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "follow", lambda context, retained: retained)
