"""Planted bugs in the real code, for the simulator to catch.

`python tests/simulation/mutants.py` plants one after the other and says at which seed it was
caught, or that it was not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.append(str(Path(__file__).parents[1] / "running"))

from at_speed import at_speed
from lakelog.catalog.commit import base_transaction, committer
from lakelog.catalog.commit.committer import Committer, Publisher
from lakelog.catalog.format import frame
from lakelog.catalog.log import admission, checkpoint, listing, replay
from lakelog.catalog.log.build import Moment
from lakelog.catalog.read import log_reader
from lakelog.errors import ObjectExists, StorageError
from lakelog.gc import collect, prune, retained
from lakelog.rebuild import execute
from lakelog.testing.histories import Outcome, changes_data, is_upheaval, run_history
from mutants_changing import CHANGED_UPHEAVALS, CHANGES

store_probe = import_module("lakelog.store.probe")  # its package has a function of that name
LIMIT = 6_000
Patch = Callable[[], Any]


def no_read_back() -> Any:
    """'exists' is taken for a success without looking whose it is."""

    return mock.patch.object(Publisher, "_read_back", return_value=True)


def no_settling() -> Any:
    """After a doubt, nobody looks whether the transaction stands already."""
    return mock.patch.object(Committer, "_settle", return_value=None)


def overwrites_blindly() -> Any:
    """An overwrite is committed whatever others have added since it looked."""
    return mock.patch.object(admission, "refuse_conflict", return_value=None)


def no_fencing() -> Any:
    """An owner goes on after losing to a higher epoch."""
    return mock.patch.object(Committer, "_check_fencing", return_value=None)


def overwrites() -> Any:
    """The transaction is put without put-if-absent."""

    def put(self: Publisher, attempt: Any) -> bool:
        self._attempts.sends(attempt)
        self._log.store.put(attempt.key, attempt.body)
        return True

    return mock.patch.object(Publisher, "_exclusive", put)


def never_lists_again() -> Any:
    """A committer that was idle for long neither lists before the put nor after it."""
    return mock.patch.object(Committer, "is_idle", return_value=False)


def dates_by_its_own_clock() -> Any:
    """A committer that stood still asks its own clocks alone how long that was."""

    def age_s(self: Moment, now: Moment) -> float:
        return max(now.steady_s - self.steady_s, now.wall_s - self.wall_s)

    return mock.patch.object(Moment, "age_s", age_s)


def acknowledges_doubt() -> Any:
    """No answer is taken for a success."""

    def put(self: Publisher, attempt: Any) -> bool:
        self._attempts.sends(attempt)
        try:
            self._log.store.put(attempt.key, attempt.body, if_absent=True)
        except ObjectExists:
            return self._read_back(attempt)
        except StorageError:
            return True
        return True

    return mock.patch.object(Publisher, "_exclusive", put)


def epoch_not_bumped() -> Any:
    """An owner opens with the highest epoch seen."""
    real = Committer.__init__

    def init(self: Committer, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self.epoch = max(1, self.state.epoch)

    return mock.patch.object(Committer, "__init__", init)


def fences_by_what_is_left() -> Any:
    """An owner judges by the retained revisions alone, though some were pruned unseen."""
    real = committer.fencing_reason

    def why(state: Any, before: int, **rest: Any) -> Any:
        first = next((row["revision"] for row in state.history.after(before)), before + 1)
        return real(state, first - 1, **rest)

    return mock.patch.object(committer, "fencing_reason", why)


@contextmanager
def gap_is_skipped() -> Iterator[None]:
    """A listing with a hole is replayed as if nothing were missing; the chain goes unchecked."""

    def plan(found: Any, target: int | None = None) -> Any:
        goal = found.head if target is None else target
        bases = [found.checkpoints[c][0] for c in found.checkpoints if c <= goal]
        base = max(bases) if bases else None
        first = -1 if base is None else base.revision
        tail = [found.transactions[r][0] for r in sorted(found.transactions) if first < r <= goal]
        return listing.ReadPlan(goal, (base,), tuple(tail))

    with (
        mock.patch.object(log_reader, "plan_read", plan),
        mock.patch.object(replay, "check_link", return_value=None),
    ):
        yield


@contextmanager
def prune_has_no_floor() -> Iterator[None]:
    """Prune takes whatever it is asked for, however young."""

    def floor(names: Any, now: Any, margins: Any) -> int:
        return int(names.listing.head)

    with (
        mock.patch.object(prune, "floor_revision", floor),
        mock.patch.object(prune, "is_old", return_value=True),
    ):
        yield


def checkpoint_forgets() -> Any:
    """A checkpoint leaves out the files added since the one before."""
    real = checkpoint.encode_state

    def encode(found: Any, **rest: Any) -> Any:
        found = found.copy()
        found.files.added.clear()
        return real(found, **rest)

    return mock.patch.object(checkpoint, "encode_state", encode)


def gc_gives_no_grace() -> Any:
    """gc gives no file any grace."""
    return mock.patch.object(collect.Rules, "judge", return_value=collect.Verdict(True, "planted"))


def digest_unchecked() -> Any:
    """A body is taken as it comes."""

    class Same(bytes):
        def __ne__(self, other: object) -> bool:
            return False

    class Hash:
        def __init__(self, data: Any = b"") -> None:
            self._hash = frame.hashlib.__wrapped__.sha256(data)

        def update(self, data: Any) -> None:
            self._hash.update(data)

        def digest(self) -> bytes:
            return Same(self._hash.digest())

    fake = mock.Mock(sha256=Hash)
    fake.__wrapped__ = __import__("hashlib")
    return mock.patch.object(frame, "hashlib", fake)


def gc_compares_exactly() -> Any:
    """gc takes what a store shows in another spelling for a file that nobody names."""

    def references(self: Any, paths: Any) -> list[bool]:
        known = {path for chunk in self.paths for path in chunk.to_pylist()}
        return [path in known for path in paths]

    return mock.patch.object(retained.Retained, "references", references)


def rebuild_seals_nothing() -> Any:
    """A rebuild leaves the names free that committers may still use."""
    return mock.patch.object(execute, "_seal", return_value=None)


def doubles_are_told_alike() -> Any:
    """A double is told that its transaction stands, where that of the other one does."""
    return mock.patch.object(committer.Verification, "of_row", committer.Verification.of_own)


def data_files_overwrite() -> Any:
    """Data files are put whether or not there is one of their name."""

    def put(session: Any, key: str, body: bytes) -> None:
        session.store.put(key, body)

    return mock.patch.object(base_transaction, "put_data", put)


def races_in_turn() -> Any:
    """The probe puts one after the other."""
    return mock.patch("lakelog.store.probe._at_once", lambda calls: [call() for call in calls])


def no_answer_wins_a_race() -> Any:
    """The probe takes a racer that got no answer for one that won."""
    real = store_probe._put

    def put(*args: Any) -> bool:
        return bool(real(*args))

    return mock.patch("lakelog.store.probe._put", put)


MUTANTS: dict[str, Patch] = {
    function.__name__: function
    for function in (
        no_read_back,
        no_settling,
        no_fencing,
        overwrites_blindly,
        overwrites,
        never_lists_again,
        dates_by_its_own_clock,
        fences_by_what_is_left,
        acknowledges_doubt,
        epoch_not_bumped,
        gap_is_skipped,
        prune_has_no_floor,
        checkpoint_forgets,
        gc_gives_no_grace,
        digest_unchecked,
        no_answer_wins_a_race,
    )
}
# Those that only show where a log is rebuilt or loses objects, processes are doubled, or names are
# folded: in histories of that kind.
UPHEAVALS: dict[str, Patch] = {
    function.__name__: function
    for function in (
        gc_compares_exactly,
        rebuild_seals_nothing,
        doubles_are_told_alike,
        data_files_overwrite,
        races_in_turn,
    )
}
MUTANTS |= UPHEAVALS | CHANGES | CHANGED_UPHEAVALS


@contextmanager
def planted(name: str) -> Iterator[None]:
    with MUTANTS[name]():
        yield


# Where those were last caught that take long: looked at first. Should it not show there any more,
# all are gone through.
LAST_CAUGHT = {
    "acknowledges_doubt": 64,
    "data_files_overwrite": 325,
    "dates_by_its_own_clock": 19,
    "digest_unchecked": 516,
    "doubles_are_told_alike": 4185,
    "fences_by_what_is_left": 6200,
    "gap_is_skipped": 24,
    "gc_compares_exactly": 15,
    "gc_gives_no_grace": 3089,
    "never_lists_again": 36,
    "no_fencing": 20,
    "no_settling": 21,
    "overwrites_blindly": 36,
    "prune_has_no_floor": 52,
    "races_in_turn": 3895,
    "rebuild_drops_definitions": 555,
    "rebuild_drops_deletes": 3675,
    "rebuild_seals_nothing": 7695,
    "restore_deletes_nothing": 1176,
    "restore_forgets_a_file": 2625,
    "restore_leaves_columns": 834,
    "restore_leaves_deletes": 144,
    "tombstones_hold_of_later_files": 0,
    "tombstones_hold_of_their_own_files": 51,
    "tombstones_know_no_old_names": 21,
}


def _may_show(name: str, seed: int) -> bool:
    """Whether a planted bug can show in a history."""
    if name in CHANGES:
        return changes_data(seed) and not is_upheaval(seed)
    if name in CHANGED_UPHEAVALS:
        return changes_data(seed) and is_upheaval(seed)
    return is_upheaval(seed) or name not in UPHEAVALS


def first_violation(name: str, limit: int = LIMIT) -> Outcome | None:
    """A history in which the planted bug shows, or None."""
    with planted(name), at_speed():
        seeds = [seed for seed in range(limit) if _may_show(name, seed)]
        for seed in (LAST_CAUGHT.get(name, seeds[0]), *seeds):
            outcome = run_history(seed)
            if outcome.violation:
                return outcome
    return None


def main() -> int:
    missed = 0
    for name, function in MUTANTS.items():
        outcome = first_violation(name)
        missed += outcome is None
        caught = "NOT CAUGHT" if outcome is None else f"seed {outcome.seed}: {outcome.violation}"
        print(f"{name:24} {function.__doc__}\n{'':24} {caught}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
