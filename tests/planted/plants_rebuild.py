"""Rebuilds, and zombies after them."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import Together, plant


@plant("tests/rebuild/test_rebuild_files.py")
def rebuild_revives_replaced_files() -> Any:
    """Rebuild revives what was replaced."""
    from dataclasses import replace

    from lakelog.rebuild import assemble

    real = assemble._files

    def files(item: Any, result: Any, *rest: Any) -> Any:
        live = set(result.live)
        found, _ = real(item, result, *rest)
        result.live |= live
        return tuple(replace(file, removes=()) for file in found), ()

    return mock.patch.object(assemble, "_files", files)


# --- What proves what -----------------------------------------------------------------------------


@plant("tests/rebuild/test_rebuild_old_log.py tests/rebuild/test_rebuild_maintained.py")
def rebuild_reads_no_log() -> Any:
    """Rebuild goes by footers alone, though the log is there."""
    from lakelog.rebuild import rebuild

    return Together(
        mock.patch.object(rebuild, "known_log", return_value=None),
        mock.patch.object(rebuild, "known_remains", return_value=None),
    )


@plant("tests/rebuild/test_rebuild_remains.py")
def rebuild_stops_at_damage() -> Any:
    """What can be decoded above a damaged transaction proves nothing."""
    from lakelog.rebuild import remains

    return mock.patch.object(remains, "_decodable", return_value=iter(()))


@plant("tests/rebuild/test_rebuild_remains.py")
def rebuild_forgets_applications() -> Any:
    """Versions of applications are lost in a rebuild, so that a job doubles its rows."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "carry_over", return_value=[])


@plant("tests/rebuild/test_rebuild_lying.py")
def rebuild_believes_checkpoints() -> Any:
    """A checkpoint that lies is believed by a rebuild, though the log below it is there."""
    from lakelog.rebuild import old_log, remains

    def load(log: Any, listing: Any, incarnation: int, target: Any, doubts: Any) -> Any:
        return log.load(target, listing, incarnation)

    return Together(
        mock.patch.object(old_log, "believed_state", load),
        mock.patch.object(remains, "believed_state", load),
    )


@plant("tests/rebuild/test_rebuild_undecided.py")
def a_file_is_removed_once() -> Any:
    """A file that was removed and added again is taken out, for a footer says that it was."""
    from lakelog.rebuild import later

    return mock.patch.object(later, "_since", return_value={})


@plant("tests/rebuild/test_rebuild_undecided.py")
def a_file_is_replaced_once() -> Any:
    """Of two that replaced one file one after the other, only one can have been committed."""
    from lakelog.rebuild import rivals

    return mock.patch.object(rivals, "_stood_below", return_value=False)


@plant("tests/rebuild/test_rebuild_undecided.py")
def a_dead_retry_wins() -> Any:
    """Of two attempts at one version the one begun last stands, however little it has."""
    from lakelog.rebuild import rivals

    def strength(item: Any, evidence: Any) -> Any:
        epoch, base, clock, own = item.age
        return item.transaction_id not in evidence.proofs, -epoch, -base, -clock, own

    return mock.patch.object(rivals, "_strength", strength)


@plant("tests/rebuild/test_rebuild_undecided.py")
def two_histories_are_one() -> Any:
    """What was committed before the log lost its end is disproved by what came in its place."""
    from lakelog.rebuild.evidence import Evidence

    return mock.patch.object(Evidence, "split_at", return_value=None)


@plant("tests/rebuild/test_rebuild_replays.py")
def skipped_retries_come_back() -> Any:
    """What a writer had skipped becomes rows."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "rule_out_replays", return_value=None)


@plant("tests/rebuild/test_rebuild_undecided.py")
def rebuild_names_nothing_undecided() -> Any:
    """A plan doesn't name what may have been live and won't be."""
    from lakelog.rebuild import plan

    return mock.patch.object(plan, "undecided_files", return_value={})


@plant("tests/rebuild/test_rebuild_plan.py")
def rebuild_overlooks_refs() -> Any:
    """Refs of a later version don't stop a rebuild."""
    from lakelog.rebuild import execute, rebuild

    return Together(
        mock.patch.object(rebuild, "refuse_refs", return_value=None),
        mock.patch.object(execute, "refuse_refs", return_value=None),
    )


@plant("tests/rebuild/test_rebuild_undecided.py")
def foreign_names_are_left_out_silently() -> Any:
    """Files that a lost log had adopted are left out as if they never were in it."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "doubted", lambda item, strays, *, is_whole: item)


@plant("tests/rebuild/test_rebuild_renamed.py")
def renamed_logs_are_foreign() -> Any:
    """The files of a log that had another name are no part of what is rebuilt."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "claim_renamed", return_value=None)


@plant("tests/rebuild/test_int96.py::test_a_rebuild_does_not_take_it_in")
def rebuild_takes_int96_in() -> Any:
    """Files that add refuses come in by a rebuild."""
    from dataclasses import replace

    from lakelog.rebuild import scan

    real = scan._sort_in_foreign

    def sort_in(found: Any, path: str, info: Any, parsed: Any) -> None:
        real(found, path, info, replace(parsed, unfit=""))

    return mock.patch.object(scan, "_sort_in_foreign", sort_in)


# --- The switch, and who still commits ------------------------------------------------------------


@plant("tests/rebuild/test_rebuild_zombie.py")
def rebuild_seals_nothing() -> Any:
    """Who had the old log open goes on committing there, and is told of success."""
    from lakelog.rebuild import execute

    return mock.patch.object(execute, "_seal", return_value=None)


@plant("tests/rebuild/test_rebuild_zombie_lost.py")
def rebuild_seals_one_name() -> Any:
    """Of a lost log only one name is taken, and not those that footers promise."""
    from lakelog.rebuild import seal_names

    return mock.patch.object(seal_names, "_promised", return_value=())


@plant("tests/rebuild/test_rebuild_zombie_lost.py")
def untold_names_are_believed() -> Any:
    """A put under a name that no footer tells, and no rebuild can take, is a commit."""
    from lakelog.catalog.commit.committer import Committer

    return mock.patch.object(Committer, "_may_believe", return_value=True)


@plant("tests/rebuild/test_rebuild_zombie_lost.py")
def epochs_start_anew() -> Any:
    """A rebuilt log begins below the epochs of files that are there."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "_highest_epoch", return_value=0)


@plant("tests/rebuild/test_rebuild_crash.py")
def rebuild_switches_first() -> Any:
    """The checkpoint that switches the log over is put before the transactions below it."""
    from lakelog.rebuild import execute

    real = execute._put_all

    def put_all(log: Any, plan: Any, *objects: Any, exclusive: bool, **rest: Any) -> None:
        encoded = execute.encode_state(execute.build_objects(plan)[1])
        execute.put_segments(log, encoded, exclusive=exclusive)
        execute.put_once(log.store, log.folder + encoded.name, encoded.body, exclusive=exclusive)
        real(log, plan, *objects, exclusive=exclusive, **rest)

    return mock.patch.object(execute, "_put_all", put_all)


@plant("tests/rebuild/test_rebuild_crash.py::test_what_does_not_read_back_stops_before_the_switch")
def rebuild_reads_nothing_back() -> Any:
    """The log is switched over to what the store has not kept."""
    from lakelog.rebuild import execute

    return mock.patch.object(execute, "_read_back", return_value=None)


@plant("tests/rebuild/test_rebuild_crash.py")
def two_rebuilds_mix() -> Any:
    """Of two rebuilds at once each overwrites objects of the other."""
    from lakelog.rebuild import execute

    def put(store: Any, key: str, body: bytes, *, exclusive: bool = True) -> bool:
        store.put(key, body)
        return True

    return mock.patch.object(execute, "put_once", put)


@plant("tests/rebuild/test_rebuild_plan.py")
def old_plans_are_executed() -> Any:
    """A plan is executed although data files came or went since."""
    from lakelog.rebuild import execute

    return mock.patch.object(execute, "_check", return_value=None)


@plant(
    "tests/rebuild/test_rebuild_deletes.py"
    "::test_what_a_copy_of_a_process_would_have_deleted_by_a_predicate_is_not"
)
def a_rebuild_deletes_what_a_copy_of_a_process_would_have() -> Any:
    """A delete that never came counts, for its object has the id of a transaction that did."""
    from lakelog.rebuild.carried_tombstones import TombstonesPlaced

    return mock.patch.object(TombstonesPlaced, "_is_denied", return_value=False)


@plant("tests/rebuild/test_rebuild_by_log.py")
def a_rebuild_asks_footers_alone_when_files_came() -> Any:
    """A file stands where its footer says, though the log says when it came to be live."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "tell_by_log", lambda transactions, *rest: transactions)


@plant("tests/rebuild/test_rebuild_by_log.py::test_commits_of_several_threads_keep_their_order")
def a_rebuild_orders_the_members_of_a_revision_by_clock() -> Any:
    """Transactions that one object commits stand in another order after a rebuild."""
    from lakelog.rebuild import rebuild

    real = rebuild.prove_by_log

    def planted(transactions: Any, evidence: Any, known: Any) -> None:
        real(transactions, evidence, known)
        evidence.members.clear()

    return mock.patch.object(rebuild, "prove_by_log", planted)


@plant(
    "tests/rebuild/test_rebuild_by_log.py"
    "::test_clocks_are_times_of_events_and_the_transaction_of_a_cut_is_gone"
)
def a_rebuild_takes_any_clock_for_a_time() -> Any:
    """A user's clock is the commit time of a transaction that the history holds no more."""
    from lakelog.rebuild import rebuild

    real = rebuild.prove_by_log

    def planted(transactions: Any, evidence: Any, known: Any) -> None:
        real(transactions, evidence, known)
        evidence.before_us.clear()

    return mock.patch.object(rebuild, "prove_by_log", planted)


@plant("tests/rebuild/test_rebuild_gaps.py")
def what_a_life_before_did_counts_before_all_that_is_left() -> Any:
    """Of a rebuilt log that lost a revision older ones count more than footers that prove it."""
    from lakelog.rebuild import rebuild

    return mock.patch.object(rebuild, "place_in_gaps", return_value=None)


@plant("tests/rebuild/test_rebuild_listing.py")
def a_rebuild_believes_a_listing() -> Any:
    """A live file that one listing lacks is no part of the rebuilt log."""
    from lakelog.rebuild.spelling import Spelling

    return mock.patch.object(Spelling, "_refuse_there", return_value=None)


@plant("tests/rebuild/test_rebuild_undecided.py")
def a_file_is_never_added_again_between_two_that_took_it_out() -> Any:
    """What took out a file that came back is left out for what took it out later."""
    from lakelog.rebuild import rivals

    return mock.patch.object(rivals, "_was_added_between", return_value=False)


# --- Several attempts at one task -----------------------------------------------------------------

_ATTEMPTS = "tests/rebuild/test_rebuild_attempts.py"


@plant(f"{_ATTEMPTS}::test_what_objects_say_of_a_file_tells_which_attempt_counts")
def objects_tell_of_no_attempt() -> Any:
    """What objects say of a file doesn't prove that its attempt was committed."""
    from lakelog.rebuild import attempts

    real = attempts._named
    return mock.patch.object(attempts, "_named", lambda files, said, known: real(files, (), known))


@plant(f"{_ATTEMPTS}::test_a_file_that_is_gone_tells_for_the_others_of_its_attempt")
def a_file_that_is_gone_tells_of_no_attempt() -> Any:
    """Of a committed attempt that has lost a file the rest is left out for a whole one."""
    from lakelog.rebuild import attempts

    return mock.patch.object(attempts, "_blocks", return_value={})


@plant("tests/rebuild/test_rebuild_rivals.py")
def only_footers_tell_revisions() -> Any:
    """Who took out its files is no later than a transaction whose number no footer tells."""
    from lakelog.rebuild import rivals

    return mock.patch.object(rivals, "_bound", return_value=None)


@plant("tests/rebuild/test_rebuild_gaps.py")
def the_end_of_a_rebuilt_log_is_never_lost() -> Any:
    """A transaction of the life before is in no gap above the head."""
    from lakelog.rebuild import gaps

    real = gaps._lost

    def planted(known: Any) -> Any:
        return [gap for gap in real(known) if gap.last != gaps.MAX_NUMBER]

    return mock.patch.object(gaps, "_lost", planted)


@plant(
    "tests/rebuild/test_rebuild_by_log.py::test_of_equal_clocks_the_later_commit_stays_the_newest"
)
def commits_are_in_the_order_of_any_clocks() -> Any:
    """Of a lost log commits stand behind all that have lower clocks, whatever the store tells."""
    from lakelog.rebuild.evidence import FoundTransaction

    return mock.patch.object(FoundTransaction, "stored_us", 0)


@plant(
    "tests/rebuild/test_rebuild_rivals.py::test_of_two_that_nothing_puts_in_order_none_is_disproved"
)
def a_proven_rival_stood_above() -> Any:
    """A transaction is disproved by one of which nothing tells that it came later."""
    from lakelog.rebuild import rivals

    return mock.patch.object(rivals, "_was_above", return_value=True)
