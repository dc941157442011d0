"""Replication."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/replication/test_replicate.py")
def replica_of_anything() -> Any:
    """Replication goes on in a log in which somebody else has committed."""
    from lakelog.replication import one_log

    return mock.patch.object(one_log, "_refuse_other")


@plant("tests/replication/test_replicate.py")
def files_are_copied_unseen() -> Any:
    """Nobody holds a file against the log before it is put."""
    from lakelog.replication import transfer

    return mock.patch.object(transfer, "check_body")


@plant("tests/replication/test_replicate.py")
def row_deletes_are_forgotten() -> Any:
    """Objects of row deletes don't come along."""
    from dataclasses import replace

    from lakelog.replication import one_log

    real = one_log.needs_of
    return mock.patch.object(one_log, "needs_of", lambda found: replace(real(found), deletes=()))


@plant("tests/replication/test_replicate_broken_off.py")
def commits_come_first() -> Any:
    """Transactions are put before the files that they name."""
    from lakelog.replication.one_log import OneLog

    real, copy_files = OneLog._copy_range, OneLog._copy_files

    def copy_range(self: Any, some: Any) -> None:
        needed = []

        def later(self: Any, needs: Any, *, look: bool, renew: bool = False) -> list[Any]:
            needed.append(needs)
            return []

        with mock.patch.object(OneLog, "_copy_files", later):
            real(self, some)
        for needs in needed:
            copy_files(self, needs, look=True)

    return mock.patch.object(OneLog, "_copy_range", copy_range)


@plant("tests/replication/test_replicate_broken_off.py")
def files_that_were_there_are_believed() -> Any:
    """Whether gc has taken a file until its commit is not looked at."""
    from lakelog.replication.one_log import OneLog

    return mock.patch.object(OneLog, "_look_again")


@plant("tests/replication/test_replicate_broken_off.py")
def old_files_stay_old() -> Any:
    """A file that a run brought long ago stays one that gc may be about to take."""
    from lakelog.replication.transfer import Copier

    return mock.patch.object(Copier, "since_s", return_value=0.0)


@plant("tests/replication/test_replicate_selected.py")
def a_part_keeps_deleted_rows() -> Any:
    """The name of a file of a part doesn't follow from what hides its rows."""
    from dataclasses import replace

    from lakelog.replication import selected

    real = selected._digest

    def digest(chosen: Any, part: Any, *more: Any) -> str:
        return real(chosen, replace(part, hidden=None), *more)

    return mock.patch.object(selected, "_digest", digest)


@plant("tests/replication/test_replicate_selected.py")
def a_part_keeps_what_it_had() -> Any:
    """Files that the source has no more stay in a replica of a part."""
    from lakelog.replication.selected import Selected

    real = Selected._difference

    def difference(self: Any, *asked: Any) -> Any:
        found = real(self, *asked)
        found.gone.clear()
        return found

    return mock.patch.object(Selected, "_difference", difference)


@plant("tests/replication/test_replicate_stopped.py")
def a_checkpoint_is_never_copied_again() -> Any:
    """A run that ends between a checkpoint and its copy leaves it without one for good."""
    from lakelog.replication import one_log

    return mock.patch.object(one_log, "copy_checkpoint")
