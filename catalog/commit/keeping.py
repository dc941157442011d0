"""Files that come back are never out of gc's sight: from the revision gone back to, up to the
commit that makes them live, some retained revision names them at every moment.

gc takes a file for good once no retained revision names it, by a reading of the log that may be
old when it deletes; and files that come back may be of any epoch and age. So it isn't enough that
they are there. What a revision names stays as long as that is retained, but prune may take it at
any moment once it is older than the floor. Hence:

1. What was removed less than half the floor ago is named for half a floor more: prune keeps all
   that is younger than the floor. Nothing need be done.
2. Else a commit comes before, which adds the files and takes them out again. It changes no row, and
   names them for a floor. Then the log is listed: if the revision gone back to is still retained,
   it named them up to that commit. If not, nothing more is committed.

Source: docs/protocol.md, section 2.10.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import (
    MissingTransaction,
    NotFoundError,
    ObjectNotFound,
    SnapshotPruned,
    TransactionExpired,
)
from ..log.again import named_for_now
from ..log.gist import KEEPS, RESTORE
from ..log.listing import plan_read
from ..log.outcome import outdated_error

if TYPE_CHECKING:
    from ..log.build import Intent
    from ..log.moments import Moment
    from ..log.state import State
    from ..read.log_reader import LogReader
    from .plan_change import Prepared
    from .session import Session

_AT_ONCE: Final = 40_000  # actions of one transaction: some 4 MB


class Kept(NamedTuple):
    """Until when files are surely named.

    Attributes:
        onto: The digest of the head that the commit must follow.
        since: For one prune floor from then on.
    """

    onto: bytes
    since: Moment


def keep_files(session: Session, prepared: Prepared, intent: Intent, log: LogReader) -> Kept:
    """Make sure that the files of an intent are named until it is committed.

    Raises:
        SnapshotPruned: The revision gone back to was pruned meanwhile. No row was changed.
        PlanOutdated: Somebody has committed.
        LakelogError: As for any commit.
    Requests: 1 LIST and 1 HEAD; where the files were removed long ago also 1 PUT for each 20,000
        and 1 LIST.
    """
    since = _removed_at(session, prepared, log)
    if since is not None and not session.clocks.is_idle(since):
        return Kept(prepared.head.digest, since)
    onto, since = prepared.head.digest, session.clocks.now()
    schemas = [action for action in intent.actions if action.WhichOneof("kind") == "schema"]
    live = {a.remove.path for a in intent.actions if a.WhichOneof("kind") == "remove"}
    actions = named_for_now(intent.again, live)
    for start in range(0, len(actions), _AT_ONCE):  # no pair is parted: the number is even
        naming = session.begin(None, None, "maintenance", None)
        naming.onto = onto
        naming.summary[KEEPS] = intent.summary[RESTORE]
        naming.actions += [*(() if start else schemas), *actions[start : start + _AT_ONCE]]
        onto = _digest_after(session, session.commit(naming).revision)
    _refuse_pruned(prepared.back_to, log)
    return Kept(onto, since)


def refuse_late(session: Session, kept: Kept, revision: int) -> None:
    """Raise if the commit took so long that its files may have been out of sight before it stood.

    Raises:
        TransactionExpired: It did.
    """
    if kept.since.age_s(session.clocks.now()) < session.clocks.margins.prune_floor_s:
        return
    raise TransactionExpired(
        f"Revision {revision} of {session.writer_id}/{session.database} stands, but this process "
        "stood still for so long before that gc may be about to take the files that came back",
        key=f"{session.writer_id}/{session.database}",
        hint=f"Go back to revision {revision - 1}, and then copy what is still there",
    )


def _removed_at(session: Session, prepared: Prepared, log: LogReader) -> Moment | None:
    """When the first of the files can have been removed: when the revision after the one gone back
    to was written. None: nothing tells."""
    back_to = prepared.back_to
    assert back_to.log is not None
    listing = log.names_at(back_to.log.incarnation, back_to.revision + 1)
    names = listing.transactions.get(back_to.revision + 1, ())
    try:
        found = [session.store.head(listing.key(name)).modified_at for name in names]
    except ObjectNotFound:
        return None
    times = [at for at in found if at is not None]
    return session.clocks.written(min(times)) if times and len(times) == len(found) else None


def _digest_after(session: Session, revision: int) -> bytes:
    """The digest of a revision that was just committed.

    Raises:
        PlanOutdated: It is the head no more.
    """

    def asked(state: State) -> bytes:
        if state.revision != revision:
            raise outdated_error(state)
        return state.digest

    return session.ask(asked)


def _refuse_pruned(back_to: State, log: LogReader) -> None:
    """Raise if the revision gone back to is no longer retained."""
    assert back_to.log is not None
    listing = log.names(back_to.log.incarnation)
    with contextlib.suppress(MissingTransaction, NotFoundError):
        plan_read(listing, back_to.revision)
        return
    raise SnapshotPruned(
        f"Revision {back_to.revision} of {log.writer}/{log.database} was pruned while it was gone "
        "back to",
        key=f"{log.writer}/{log.database}",
        hint="No row was changed. Go back to a later point in time",
    )
