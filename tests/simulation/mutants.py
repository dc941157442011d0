"""Planted bugs in the real code, for the simulator to catch.

`python tests/simulation/mutants.py` plants one after the other and says at which seed it was
caught, or that it was not. Those that CI runs are caught within 200 histories; the others need
thousands, and not all have been seen caught here (the models in `tests/model` catch their like).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from lakelog.catalog import commit, listing, log
from lakelog.catalog.commit import Committer
from lakelog.errors import MissingTransaction, ObjectExists
from lakelog.gc import collect
from lakelog.testing.histories import Outcome, run_history

LIMIT = 6_000
Patch = Callable[[], Any]


def no_read_back() -> Any:
    """'exists' is taken for a success without looking whose it is."""

    def put(self: Committer, key: str, body: bytes, ids: Any) -> bool:
        try:
            self.log.store.put(key, body, if_absent=True)
        except ObjectExists:
            return True
        return True

    return mock.patch.object(Committer, "_put_exclusive", put)


def no_settling() -> Any:
    """After a doubt, nobody looks whether the transaction stands already."""
    return mock.patch.object(Committer, "_settle", return_value=None)


def no_fencing() -> Any:
    """An owner goes on after losing to a higher epoch."""
    return mock.patch.object(Committer, "_check_fencing", return_value=None)


def overwrites() -> Any:
    """The transaction is put without put-if-absent."""

    def put(self: Committer, key: str, body: bytes, ids: Any) -> bool:
        self.log.store.put(key, body)
        return True

    return mock.patch.object(Committer, "_put_exclusive", put)


def never_lists_again() -> Any:
    """A committer that was idle for long neither lists before the put nor after it."""
    return mock.patch.object(Committer, "is_idle", return_value=False)


def acknowledges_doubt() -> Any:
    """No answer is taken for a success."""

    def put(self: Committer, key: str, body: bytes, ids: Any) -> bool:
        try:
            self.log.store.put(key, body, if_absent=True)
        except ObjectExists:
            return self._read_back(key, ids) == body
        except commit.StorageError:
            return True
        return True

    return mock.patch.object(Committer, "_put_exclusive", put)


def guest_keeps_old_files() -> Any:
    """A guest goes on under a new epoch with files of the old one."""
    real = Committer._admit

    def admit(self: Committer, pending: Any, results: Any) -> Any:
        for intent in pending:
            intent.epoch = self.current_epoch()
        return real(self, pending, results)

    return mock.patch.object(Committer, "_admit", admit)


def epoch_not_bumped() -> Any:
    """An owner opens with the highest epoch seen."""
    real = Committer.__init__

    def init(self: Committer, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self.epoch = max(1, self.state.epoch)

    return mock.patch.object(Committer, "__init__", init)


def reader_skips_gap() -> Any:
    """A listing with a hole is replayed as if nothing were missing."""
    real = listing.plan_read

    def plan(found: Any, target: int | None = None) -> Any:
        try:
            return real(found, target)
        except MissingTransaction:
            below = found.run_start(found.head) - 2
            return real(found, max(below, 0))

    return mock.patch.object(log, "plan_read", plan)


def gc_takes_live_epoch() -> Any:
    """gc gives files of the live epoch no grace."""
    return mock.patch.object(collect.Rules, "judge", return_value=(True, "planted"))


def digest_unchecked() -> Any:
    """A body is taken as it comes."""
    from lakelog.catalog import frame

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


MUTANTS: dict[str, Patch] = {
    function.__name__: function
    for function in (
        no_read_back,
        no_settling,
        no_fencing,
        overwrites,
        never_lists_again,
        acknowledges_doubt,
        guest_keeps_old_files,
        epoch_not_bumped,
        reader_skips_gap,
        gc_takes_live_epoch,
        digest_unchecked,
    )
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    with MUTANTS[name]():
        yield


def first_violation(name: str, limit: int = LIMIT) -> Outcome | None:
    """The first history in which the planted bug shows, or None."""
    with planted(name):
        for seed in range(limit):
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
