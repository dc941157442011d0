"""Committing: the protocol, transactions, checkpoints; plain stores, forks, doubled processes."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/catalog/test_plain_commits.py")
def plain_believes_its_put() -> Any:
    """A plain store's commit stands on the PUT's answer."""
    from lakelog.catalog.commit.committer import Publisher

    def put(self: Any, attempt: Any) -> bool:
        self._attempts.sends(attempt)
        self._log.store.put(attempt.key, attempt.body)
        return True

    return mock.patch.object(Publisher, "_plain", put)


@plant("tests/catalog/test_lost_answers.py")
def exclusive_never_reads_back() -> Any:
    """'exists' after a lost answer is a lost race."""
    from lakelog.catalog.commit.committer import Publisher

    return mock.patch.object(Publisher, "_read_back", return_value=False)


@plant("tests/catalog/test_commit_protocol.py")
def guests_fence_owners() -> Any:
    """An owner takes a guest for a successor."""
    from lakelog.catalog.commit import committer

    real = committer.fencing_reason

    def why(state: Any, before: int, **rest: Any) -> Any:
        rows, history = state.history.after, mock.Mock()
        history.after = lambda revision: [{**row, "guest": False} for row in rows(revision)]
        return real(
            mock.Mock(history=history, revision=state.revision, epoch=state.epoch), before, **rest
        )

    return mock.patch.object(committer, "fencing_reason", why)


@plant("tests/catalog/test_writer.py")
def exception_commits() -> Any:
    """An exception inside a transaction commits it."""
    from lakelog.catalog.commit.transaction import Transaction

    return mock.patch.object(Transaction, "__exit__", lambda self, *_: self.commit() and None)


@plant("tests/catalog/test_writer.py")
def application_versions_ignored() -> Any:
    """A retried job commits twice."""
    from lakelog.catalog.commit import committer
    from lakelog.catalog.log.applications import Applications

    real = committer.admit

    def admit(state: Any, *rest: Any) -> Any:
        with mock.patch.object(Applications, "version", return_value=-1):
            return real(state, *rest)

    return mock.patch.object(committer, "admit", admit)


@plant("tests/faults/test_crash_points.py")
def no_answer_is_a_refusal() -> Any:
    """A put without an answer is taken for one that wrote nothing."""
    from lakelog.catalog.commit.committer import Publisher

    def no_answer(self: Any, error: Any, unsent: Any, key: str, **_: Any) -> None:
        self._attempts.refused(unsent)
        raise error

    return mock.patch.object(Publisher, "_no_answer", no_answer)


@plant("tests/faults/test_interrupts.py")
def interrupted_leaders_take_results_along() -> Any:
    """Who was taken by a leader that was interrupted isn't committed, nor told."""
    from lakelog.catalog.commit.session import CommitQueue

    real, entered = CommitQueue._enter, set()

    def enter(self: Any, waiter: Any) -> None:
        if waiter not in entered:
            entered.add(waiter)
            real(self, waiter)

    return mock.patch.object(CommitQueue, "_enter", enter)


@plant("tests/catalog/test_checkpointing.py")
def checkpoint_fails_the_commit() -> Any:
    """A failed checkpoint fails the commit."""
    from lakelog.catalog.commit.checkpointer import Recurring

    def try_it(self: Any, revision: int) -> None:
        self.done(self._do())

    return mock.patch.object(Recurring, "_try", try_it)


@plant("tests/faults/test_crash_points.py")
def checkpoint_before_its_segments() -> Any:
    """A checkpoint is put before the segments that it names."""
    from lakelog.catalog.commit import checkpointer

    real = checkpointer.put_segments

    def put(log: Any, encoded: Any, **options: Any) -> None:
        log.store.put(log.folder + encoded.name, encoded.body)
        real(log, encoded, **options)

    return mock.patch.object(checkpointer, "put_segments", put)


# --- Forks, and processes that are doubled --------------------------------------------------------


@plant("tests/catalog/test_forks.py", in_children=True)
def forked_processes_commit() -> Any:
    """A writer is used on both sides of a fork, with one epoch and one seed of names."""
    from lakelog.catalog.commit.session import Session

    return mock.patch.object(Session, "check_process", return_value=None)


@plant("tests/catalog/test_doubled.py::test_copies_write_no_two_files_of_one_name")
def data_files_overwrite() -> Any:
    """Of two transactions with one id the second overwrites the first's data file."""
    from lakelog.catalog.commit import base_transaction

    def put(session: Any, key: str, body: bytes) -> None:
        session.store.put(key, body)

    return mock.patch.object(base_transaction, "put_data", put)


@plant("tests/catalog/test_doubled.py")
def any_transaction_of_the_id_is_ours() -> Any:
    """A doubled process is told of success where its twin has committed something else."""
    from lakelog.catalog.commit.committer import Verification

    return mock.patch.object(Verification, "of_row", Verification.of_own)


@plant("tests/catalog/test_doubled.py")
def twins_go_on() -> Any:
    """A process that has met its twin's commit goes on committing."""
    from lakelog.catalog.commit.committer import Committer

    def found(self: Any, intent: Any, row: Any, results: Any) -> None:
        results[intent.transaction_id] = self._verification.of_row(self.state, intent, row)

    return mock.patch.object(Committer, "_found", found)


@plant("tests/catalog/test_data_puts.py")
def large_data_files_overwrite() -> Any:
    """A data file that goes in parts overwrites another of its name."""
    from lakelog.catalog.commit import data_files

    return mock.patch.object(data_files, "refuse_taken", return_value=None)


# --- Plain stores ---------------------------------------------------------------------------------


@plant("tests/catalog/test_plain_commits.py")
def plain_checkpoints_overwrite() -> Any:
    """A checkpoint on a plain store overwrites the only base of a pruned log."""
    from lakelog.catalog.commit import checkpointer

    def put_new(store: Any, key: str, body: bytes, *, exclusive: bool) -> bool:
        store.put(key, body)
        return True

    return mock.patch.object(checkpointer, "_put_new", put_new)


@plant("tests/catalog/test_checkpointing.py")
def segments_have_names_of_before() -> Any:
    """A checkpoint refers to segments of the same name that prune is about to take."""
    from lakelog.catalog.log import checkpoint

    real = checkpoint.encode_state

    def encode(state: Any, *, salt: bytes, **options: Any) -> Any:
        return real(state, **options)

    return mock.patch.object(checkpoint, "encode_state", encode)


@plant("tests/catalog/test_plain_commits.py")
def plain_heads_are_unrivalled() -> Any:
    """On a plain store a commit follows a head that has a rival by now."""
    from lakelog.catalog.commit.committer import Publisher

    real = Publisher._plain

    def plain(self: Any, attempt: Any) -> bool:
        before = attempt.item.revision - 1
        look = type(self._log).names_down_to

        def names(log: Any, revision: int) -> Any:
            listing = look(log, revision)
            if revision == before:
                listing.transactions.get(before, [])[1:] = []
            return listing

        with mock.patch.object(type(self._log), "names_down_to", names):
            return real(self, attempt)

    return mock.patch.object(Publisher, "_plain", plain)


# --- Handles that are stale, fenced, or of another log --------------------------------------------


@plant("tests/catalog/test_stale_handles.py")
def stale_handles_refuse() -> Any:
    """A handle that was idle says for ever that a file is not live, and never lists again."""
    from lakelog.catalog.commit import committer

    return mock.patch.object(committer, "withdraw_stale", return_value=False)


@plant("tests/catalog/test_stale_handles.py")
def stale_handles_know_all_tables() -> Any:
    """What a handle doesn't know is refused without a look at the log."""
    from lakelog.catalog.commit.session import Session

    return mock.patch.object(Session, "ask_anew", Session.ask)


@plant("tests/catalog/test_fencing.py")
def fenced_writers_upload() -> Any:
    """A writer that is fenced begins transactions, and fills the store with their files."""
    from lakelog.catalog.commit.committer import Committer
    from lakelog.catalog.commit.session import Session

    real = Session.begin

    def begin(self: Any, *args: Any) -> Any:
        with mock.patch.object(Committer, "refuse_fenced", return_value=None):
            return real(self, *args)

    return mock.patch.object(Session, "begin", begin)


@plant("tests/catalog/test_log_identity.py")
def another_log_is_committed_to() -> Any:
    """A committer goes on in a log that was put in the place of its own, or rebuilt."""
    from lakelog.catalog.commit import committer

    return mock.patch.object(committer, "replaced_reason", return_value=None)


@plant("tests/catalog/test_log_identity.py")
def copied_logs_take_commits() -> Any:
    """A copy of a log takes commits under another name, and its rows count twice."""
    from lakelog.catalog.log import admission

    def nobody(state: Any, pending: Any, results: Any) -> Any:
        return list(pending)

    return mock.patch.object(admission, "_refuse_foreign", nobody)


@plant("tests/catalog/test_in_place_adding.py")
def twins_are_added() -> Any:
    """A store that folds names is given two live paths for one file."""
    from lakelog.catalog.commit.session import Session

    return mock.patch.object(Session, "folds_names", return_value=False)


@plant("tests/catalog/test_room.py")
def room_without_end() -> Any:
    """What doesn't fit into a transaction is found out at the commit, after the uploads."""
    from lakelog.catalog.commit.operation_guard import MessageSize

    return mock.patch.object(MessageSize, "check", return_value=0)


@plant("tests/catalog/test_commit_protocol.py")
def guest_keeps_old_files() -> Any:
    """A guest goes on under a new epoch with files of the old one."""
    from lakelog.catalog.commit import committer

    real = committer.admit

    def admit(state: Any, pending: Any, results: Any, terms: Any) -> Any:
        for intent in pending:
            intent.epoch = terms.guest_epoch or intent.epoch
        return real(state, pending, results, terms)

    return mock.patch.object(committer, "admit", admit)
