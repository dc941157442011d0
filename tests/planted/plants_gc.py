"""Prune and gc."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/gc/test_gc_collect.py")
def gc_takes_unknown_names() -> Any:
    """Gc deletes what it doesn't know."""
    from lakelog.gc import rules

    return mock.patch.object(rules, "is_data_path", return_value=True)


@plant("tests/gc/test_gc_proof.py")
def prune_trusts_the_checkpoint() -> Any:
    """Prune doesn't compare the checkpoint with the log."""
    from lakelog.gc import prune_verify

    return mock.patch.object(prune_verify, "_compare_with_log", return_value="")


@plant("tests/faults/test_crash_points.py")
def prune_backwards() -> Any:
    """Prune deletes segments before the checkpoints that name them."""
    from dataclasses import replace

    from lakelog.gc import prune

    real = prune.select

    def select(*args: Any) -> Any:
        found = real(*args)
        return replace(found, actions=found.actions[::-1])

    return mock.patch.object(prune, "select", select)


# --- What gc may take -----------------------------------------------------------------------------


@plant("tests/gc/test_gc_folding.py")
def gc_compares_names_exactly() -> Any:
    """On a store that folds names gc deletes live files, listed in another spelling."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "folded_among", return_value=set())


@plant("tests/gc/test_gc_lost_tail.py")
def gc_believes_a_short_log() -> Any:
    """Gc deletes the files of the transactions that a log has lost."""
    from lakelog.gc import footers

    return mock.patch.object(footers, "refuse_lost_tail", return_value=None)


_LOST = "tests/gc/test_gc_lost_successors.py::"


@plant(f"{_LOST}test_nothing_is_taken")
def gc_asks_no_object_of_actions_what_it_saw() -> Any:
    """That a head was lost is told by bases alone."""
    from dataclasses import replace

    from lakelog.catalog.read import own_words

    real = own_words._of_actions

    def planted(*args: Any) -> Any:
        found = real(*args)
        return replace(found, stood=found.stood[:1])

    return mock.patch.object(own_words, "_of_actions", planted)


@plant(f"{_LOST}test_nothing_is_taken")
def gc_asks_no_file_what_it_took_the_place_of() -> Any:
    """What was taken out, and written by nobody that the log knows, proves nothing."""
    from lakelog.catalog.read import lost_tail

    return mock.patch.object(lost_tail, "_refuse_unknown_files", return_value=None)


@plant(f"{_LOST}test_what_took_out_a_file_of_a_trimmed_revision_goes")
def gc_stops_at_what_the_history_is_too_short_for() -> Any:
    """A file that nobody of a trimmed history wrote counts as one of a lost end."""
    from lakelog.catalog.read import lost_tail

    return mock.patch.object(lost_tail, "_is_covered", return_value=True)


@plant("tests/gc/test_gc_lost_tail.py::test_a_file_with_the_id_of_another_commit_proves_it_too")
def gc_takes_a_file_for_that_of_another_with_its_id() -> Any:
    """A file of a doubled process counts as one of the commit that has its id."""
    from lakelog.gc import footers

    return mock.patch.object(footers, "is_written_by", lambda row, name: row is not None)


@plant(
    "tests/gc/test_gc_incarnations.py"
    "::test_after_a_rebuild_files_of_epochs_before_it_go_only_if_asked_for"
)
def gc_takes_what_a_rebuild_left_out() -> Any:
    """After a rebuild files of older epochs are orphans at once."""
    from dataclasses import replace

    from lakelog.gc.rules import Rules

    real = Rules._doubt
    return mock.patch.object(
        Rules, "_doubt", lambda self, *rest: real(replace(self, first_epoch=0), *rest)
    )


@plant("tests/gc/test_gc_undecided.py")
def gc_takes_files_older_than_the_log() -> Any:
    """Files that a lost log had adopted are orphans of the one that was begun in its place."""
    from lakelog.gc.rules import Rules

    return mock.patch.object(Rules, "is_older", return_value=False)


@plant("tests/gc/test_gc_undecided.py")
def gc_takes_a_lost_first_commit() -> Any:
    """Files of a lost first commit are orphans of the log that was begun anew."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "strangers", return_value=set())


@plant("tests/gc/test_gc_foreign_log.py")
def gc_believes_any_log() -> Any:
    """A log that was restored to the wrong place makes gc delete all that it finds there."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "refuse_foreign_log", return_value=None)


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

    return mock.patch.object(retained, "other_incarnations", return_value=[])


@plant("tests/gc/test_gc_nested.py")
def gc_takes_an_inner_catalog() -> Any:
    """The files of a catalog below a data folder are orphans of the outer one."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "logs_below", return_value=())


@plant("tests/gc/test_gc_ends.py")
def gc_believes_a_listing() -> Any:
    """What a listing missed at the beginning of a log is taken for pruned."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "check_beginning", return_value=None)


@plant("tests/gc/test_gc_together.py")
def deletions_of_others_are_reported() -> Any:
    """Two jobs at once report the same deletions as theirs."""
    from lakelog.gc.deleted import Deleted

    real = Deleted.add
    return mock.patch.object(Deleted, "add", lambda self, asked, gone: real(self, asked, set()))


@plant("tests/gc/test_gc_prune_doubt.py")
def refs_are_overlooked() -> Any:
    """Only a folder below `_refs/` stops prune and gc, a file doesn't."""
    from lakelog.gc import context
    from lakelog.plans import refuse_refs

    def refuse(store: Any) -> None:
        if store.list_folders("_refs/"):
            refuse_refs(store)

    return mock.patch.object(context, "refuse_refs", refuse)


@plant("tests/gc/test_gc_proof.py")
def prune_compares_no_statistics() -> Any:
    """A checkpoint with wrong statistics becomes the only base of a log."""
    from lakelog.catalog.log.differences import differences
    from lakelog.gc import prune_verify

    return mock.patch.object(prune_verify, "all_differences", differences)


@plant("tests/gc/test_gc_ends.py")
def gc_believes_where_a_listing_ends() -> Any:
    """The files of the newest transaction, which a listing missed, are orphans."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "beyond", return_value=None)


@plant("tests/gc/test_gc_ends.py")
def prune_believes_a_listing() -> Any:
    """The segments of a checkpoint that a listing missed are taken."""
    from lakelog.gc import prune_verify

    return mock.patch.object(prune_verify, "check_checkpoints", return_value=None)


@plant("tests/gc/test_gc_collect_execute.py::test_batches_look_again_before_each")
def gc_looks_once() -> Any:
    """What is committed while gc deletes is deleted with the rest."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "follow", lambda context, retained: retained)


@plant(
    "tests/changing/test_lost_afterwards.py"
    "::test_a_file_says_what_it_replaced_as_long_as_that_is_there"
)
def who_tells_what_was_replaced_goes() -> Any:
    """A file goes though only its footer says that another one, which stays, was taken out."""
    from lakelog.gc import collect

    return mock.patch.object(collect, "judge_by_tellers", lambda *args: args[-1])


@plant(
    "tests/changing/test_lost_afterwards.py"
    "::test_a_gc_that_is_broken_off_has_deleted_what_was_replaced_first"
)
def newer_files_are_deleted_first() -> Any:
    """A file is deleted before those that its footer says were taken out."""
    from lakelog.gc import collect

    real = collect.arrival_s
    return mock.patch.object(collect, "arrival_s", lambda info: -real(info))


@plant(
    "tests/changing/test_lost_afterwards.py::test_rows_that_came_after_a_delete_of_all_writers_stay"
)
def times_of_a_rebuilt_log_are_believed() -> Any:
    """Up to where a log is named is told by commit times, though it was lost and rebuilt since."""
    from lakelog.catalog.read import scopes

    real = scopes._last_of

    def last_of(state: Any, tombstone: Any, at: Any) -> Any:
        if state.committed_at_us <= at.committed_at_us:
            return state.revision
        return real(state, tombstone, at)

    return mock.patch.object(scopes, "_last_of", last_of)


_AFTER_GC = "tests/changing/test_lost_after_gc.py::"


@plant(_AFTER_GC + "test_what_took_out_a_file_elsewhere_is_known_as_long_as_what_added_it")
def what_took_out_files_elsewhere_goes() -> Any:
    """What says that a file elsewhere was taken out goes, though what added it stays."""
    from lakelog.gc import actions

    return mock.patch.object(actions, "_added_of", return_value=set())


@plant(_AFTER_GC + "test_what_took_out_a_file_elsewhere_is_known_as_long_as_what_added_it")
def footers_alone_tell_that_files_elsewhere_went() -> Any:
    """That a file elsewhere was replaced is said only by the footer of what took its place."""
    from lakelog.catalog.log import untold

    return mock.patch.object(untold, "is_in_place", return_value=False)


@plant(_AFTER_GC + "test_what_took_out_a_file_elsewhere_goes_after_what_added_it")
def what_cant_be_read_adds_nothing_elsewhere() -> Any:
    """What took out a file elsewhere goes though what may have added it can't be read just now."""
    from lakelog.gc import actions

    real, real_messages = actions._added_of, actions._messages

    def messages(*args: Any) -> Any:
        return [(key, said) for key, said in real_messages(*args) if said is not None]

    def added_of(*args: Any) -> Any:
        with mock.patch.object(actions, "_messages", messages):
            return real(*args)

    return mock.patch.object(actions, "_added_of", added_of)


@plant(_AFTER_GC + "test_a_file_of_a_commit_that_was_trimmed_says_what_it_replaced")
def gc_takes_a_trimmed_history_for_all() -> Any:
    """What a file replaced whose commit the history doesn't hold any more is live again."""
    from lakelog.gc import taken_out

    return mock.patch.object(taken_out, "_may_be_trimmed", return_value=False)


@plant(_AFTER_GC + "test_a_file_that_was_begun_later_than_what_was_trimmed_has_failed")
def gc_keeps_what_failed_after_the_trimmed_history() -> Any:
    """A file that can't have been committed stays for what it says that it replaced."""
    from lakelog.gc import taken_out

    return mock.patch.object(taken_out, "_may_be_trimmed", return_value=True)


@plant(_AFTER_GC + "test_a_file_of_a_commit_that_was_trimmed_decides_nothing")
def what_may_have_been_committed_decides() -> Any:
    """A file of which nobody knows whether it was committed decides that another one goes."""
    from lakelog.gc import taken_out

    return mock.patch.object(taken_out, "_is_committed", lambda key, _: bool(taken_out._own(key)))


@plant("tests/changing/test_lost_after_gc.py::test_it_was_committed_if_one_that_was_took_its_place")
def a_chain_of_replaced_files_is_left_for_good() -> Any:
    """Of a commit that the history doesn't hold any more no later file tells."""
    from lakelog.gc import taken_out

    def planted(says: Any, _: Any, rules: Any, __: Any) -> set[str]:
        return {key for key in says if taken_out._is_committed(key, rules)}

    return mock.patch.object(taken_out, "_of_this_life", planted)
