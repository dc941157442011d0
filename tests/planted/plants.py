"""Bugs to plant into the real code, and the tests that must fail of each.

Loaded into pytest with `-p plants`, it plants the one that `LAKELOG_PLANTED` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock


class Plant(NamedTuple):
    """A bug.

    Attributes:
        what: In words.
        tests: What must fail of it, as for pytest.
        patch: Plants it.
    """

    what: str
    tests: str
    patch: Callable[[], Any]


PLANTS: dict[str, Plant] = {}


def plant(tests: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """A function that plants a bug, and what must fail of it."""

    def register(patch: Callable[[], Any]) -> Callable[[], Any]:
        PLANTS[patch.__name__] = Plant(patch.__doc__ or "", tests, patch)
        return patch

    return register


@plant("tests/store/test_local_store.py")
def local_put_overwrites() -> Any:
    """Put-if-absent overwrites on local disk."""
    from lakelog.store.local import LocalStore

    real = LocalStore._put
    return mock.patch.object(
        LocalStore, "_put", lambda self, key, body, _: real(self, key, body, False)
    )


@plant("tests/catalog/test_plain_commits.py")
def plain_believes_its_put() -> Any:
    """A plain store's commit stands on the PUT's answer."""
    from lakelog.catalog.commit.publish import Publisher

    def put(self: Any, attempt: Any) -> bool:
        self._attempts.sends(attempt)
        self._log.store.put(attempt.key, attempt.body)
        return True

    return mock.patch.object(Publisher, "_plain", put)


@plant("tests/catalog/test_lost_answers.py")
def exclusive_never_reads_back() -> Any:
    """'exists' after a lost answer is a lost race."""
    from lakelog.catalog.commit.publish import Publisher

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


@plant("tests/catalog/test_checkpointing.py")
def checkpoint_fails_the_commit() -> Any:
    """A failed checkpoint fails the commit."""
    from lakelog.catalog.commit.checkpointer import Checkpointer

    def try_it(self: Any, revision: int) -> None:
        self.written(self._write())

    return mock.patch.object(Checkpointer, "_try", try_it)


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
    from lakelog.catalog.format import segment_bytes

    return mock.patch.object(segment_bytes, "check_ipc_sizes", return_value=None)


@plant("tests/catalog/test_points_in_time.py")
def time_is_rounded_up() -> Any:
    """A time finds the revision after it."""
    from lakelog.catalog.log.history import History

    real = History.revision_at

    def at(self: Any, at_us: int) -> Any:
        found = real(self, at_us)
        return found + 1 if found is not None and self.holds(found + 1) else found

    return mock.patch.object(History, "revision_at", at)


@plant("tests/gc/test_gc_prune_doubt.py")
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


@plant("tests/faults/test_crash_points.py")
def checkpoint_before_its_segments() -> Any:
    """A checkpoint is put before the segments that it names."""
    from lakelog.catalog.commit import checkpointer

    real = checkpointer.put_segments

    def put(log: Any, encoded: Any, **options: Any) -> None:
        log.store.put(log.folder + encoded.name, encoded.body)
        real(log, encoded, **options)

    return mock.patch.object(checkpointer, "put_segments", put)


@plant("tests/faults/test_crash_points.py")
def no_answer_is_a_refusal() -> Any:
    """A put without an answer is taken for one that wrote nothing."""
    from lakelog.catalog.commit.publish import Publisher

    def no_answer(self: Any, error: Any, unsent: Any, key: str, **_: Any) -> None:
        self._attempts.refused(unsent)
        raise error

    return mock.patch.object(Publisher, "_no_answer", no_answer)


@plant("tests/faults/test_interrupts.py")
def interrupted_leaders_take_results_along() -> Any:
    """Who was taken by a leader that was interrupted isn't committed, nor told."""
    from lakelog.catalog.commit.queue import CommitQueue

    real, entered = CommitQueue._enter, set()

    def enter(self: Any, waiter: Any) -> None:
        if waiter not in entered:
            entered.add(waiter)
            real(self, waiter)

    return mock.patch.object(CommitQueue, "_enter", enter)


@plant("tests/gc/test_gc_collect.py")
def gc_takes_unknown_names() -> Any:
    """Gc deletes what it doesn't know."""
    from lakelog.gc import rules

    return mock.patch.object(rules, "is_data_path", return_value=True)


@plant("tests/rebuild/test_rebuild_plan.py")
def rebuild_revives_replaced_files() -> Any:
    """Rebuild revives what was replaced."""
    from lakelog.rebuild import assemble

    real = assemble._files

    def files(item: Any, live: set[str], *rest: Any) -> Any:
        return real(item, set(), *rest)

    return mock.patch.object(assemble, "_files", files)


@plant("tests/catalog/test_room.py")
def room_without_end() -> Any:
    """What doesn't fit into a transaction is found out at the commit, after the uploads."""
    from lakelog.catalog.commit.room import Room

    return mock.patch.object(Room, "check", return_value=(0, 0))


@plant("tests/store/test_store_secrets.py")
def secrets_shown() -> Any:
    """Errors show credentials."""
    from lakelog.store.secret import SecretOptions

    return mock.patch.object(SecretOptions, "redact", lambda self, text: text)


def pytest_configure() -> None:
    """Plant the bug, for the whole run."""
    name = os.environ.get("LAKELOG_PLANTED")
    if name:
        PLANTS[name].patch().start()
