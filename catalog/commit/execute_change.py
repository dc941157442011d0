"""Committing a plan of `change_plan`: one transaction a writer, held against the head that it was
planned for; before it, where that is needed, one that keeps gc from the files that come back
(`keeping`).

Source: docs/protocol.md, section 2.10; docs/changing.md, "Going back".
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from ...errors import (
    LakelogError,
    MissingTransaction,
    NotFoundError,
    ObjectNotFound,
    PlanOutdated,
    SnapshotPruned,
    TransactionExpired,
    UsageError,
    some_names,
)
from ..format import compute as pc
from ..format.columns import column, rows_to_table
from ..format.deletes import ROW_DELETES
from ..format.names import base_folder
from ..log.again import named_for_now, names_again, rows_again, schemas_again
from ..log.build import require_actions
from ..log.compared import live_files
from ..log.definitions import definition_actions
from ..log.listing import plan_read
from ..log.operations import KEEPS, RESTORE
from ..log.outcomes import outdated_error
from ..parallel import AT_ONCE, parallel
from ..read.file_parts import keys_of
from ..read.log_reader import LogReader
from ..wire import lakelog_transaction_pb2 as wire
from .data_files import put_data
from .deleting import deletes_objects
from .plan_change import lost_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...store import WideStore
    from ..ambient import Ambient
    from ..log.build import Intent, Moment
    from ..log.outcomes import CommitInfo
    from ..log.state import State
    from .change_plan import ChangePlan, WriterChange
    from .plan_change import Prepared
    from .session import Session
    from .writer import Writer


# --- Keeping files referenced until the commit ----------------------------------------------------

_AT_ONCE: Final = 40_000  # actions of one transaction: some 4 MB


class Kept(NamedTuple):
    """How long files are surely named: if the commit follows the head of the digest `onto`, for one
    prune floor from `since` on."""

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
    """Raises `TransactionExpired` if the commit took so long that its files may have been unnamed
    before it."""
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
    """Returns the digest of a revision just committed. Raises `PlanOutdated` if it isn't the
    head."""

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


# --- Executing a plan -----------------------------------------------------------------------------

_ASKED: Final = 1_000  # files one by one; more are listed
_LISTED_AT_ONCE: Final = 10_000


class Execution:
    """Commits the parts of one plan.

    Args:
        opened: Opens the log of a writer as a guest.
    """

    def __init__(
        self,
        plan: ChangePlan,
        opened: Callable[[str], Writer],
        wide: WideStore,
        ambient: Ambient,
    ) -> None:
        self._plan = plan
        self._opened = opened
        self._wide = wide
        self._ambient = ambient

    def run(self, prepared: Sequence[Prepared]) -> list[WriterChange]:
        """Commit all parts, each with its own transaction; nothing at all if a file that is to be
        added again is not there.

        Raises:
            ObjectNotFound: A file is gone. Nothing was committed.
            PlanOutdated: Somebody committed since the plan was made.
            SnapshotPruned, TransactionExpired: See `keeping`.
            LakelogError: As for any commit. The error says which writers are done.
        """
        todo = [each for each in prepared if not each.change.is_empty]
        self._refuse_gone(todo)
        done: list[WriterChange] = []
        for each in todo:
            try:
                done.append(replace(each.change, commit=self._commit(each)))
            except LakelogError as error:
                if done:
                    names = some_names([change.writer for change in done])
                    error.hint = f"{error.hint or ''}. Done before: {names}".lstrip(". ")
                raise
        committed = {change.writer: change for change in done}
        return [committed.get(each.change.writer, each.change) for each in prepared]

    def _commit(self, prepared: Prepared) -> CommitInfo | None:
        change, info = prepared.change, None
        with self._opened(change.writer) as writer:
            session = writer._session
            if not replace(change, forgets="").is_empty:
                info = self._commit_files(session, prepared)
            return self._forget(session, change.forgets) if change.forgets else info

    def _commit_files(self, session: Session, prepared: Prepared) -> CommitInfo:
        intent = self._intent(session, prepared)
        self._delete_rows(session, intent, prepared)
        if not intent.again:
            return session.commit(intent)
        log = LogReader(session.store, session.writer_id, session.database, self._ambient)
        kept = keep_files(session, prepared, intent, log)
        intent.onto = kept.onto
        info = session.commit(intent)
        refuse_late(session, kept, info.revision)
        return info

    def _forget(self, session: Session, table: str) -> CommitInfo:
        """Commits that a table without files is no part of the log: a commit of its own, since a
        transaction can't forget what it touches."""
        try:
            return session.forget([table], 0)
        except UsageError as error:
            raise PlanOutdated(
                f"Others have added files to table {table!r} of {session.writer_id}/"
                f"{session.database} after those of the plan were taken out",
                key=table,
                hint="The table stays, with these. Drop it again, if they are to go too",
            ) from error

    def _intent(self, session: Session, prepared: Prepared) -> Intent:
        change, head, back_to = prepared.change, prepared.head, prepared.back_to
        restores = self._plan.kind == "restore"
        intent = session.begin(None, None, "overwrite" if restores else "delete", None)
        intent.onto = head.digest
        if restores:
            intent.summary[RESTORE] = change.to or "nothing"
            intent.actions += schemas_again(head, lost_schemas(head, back_to, self._plan.table))
        features = head.reader_features & head.writer_features
        for message in prepared.definitions:
            intent.actions += definition_actions(features, message)
        gone = change.coming_or_going("removed")
        names = zip(*(gone.column(name).to_pylist() for name in ("table", "path")), strict=True)
        intent.actions += (wire.Action(remove=wire.Remove(table=t, path=p)) for t, p in names)
        back = change.coming_or_going("added")
        if back.num_rows:
            tables = pc.unique(back.column("table")).to_pylist()
            wanted = {table: _paths_of(back, table) for table in tables}
            intent.again = rows_again(back_to, live_files(back_to, self._plan.table), wanted)
        return intent

    def _delete_rows(self, session: Session, intent: Intent, prepared: Prepared) -> None:
        """Delete rows by number, as the plan says; the objects that say which are put now."""
        if not prepared.bitmaps:
            return
        intent.actions += require_actions([ROW_DELETES])
        again = set(names_again(intent.again))
        # Said of them all: the files that come back may be named by a commit in between.
        base, first = session.base(""), 0
        by_table: dict[str, list[tuple[wire.RowDeletes, bytes]]] = {}
        for item, bitmap in prepared.bitmaps:
            by_table.setdefault(item.table, []).append((item, bitmap))
        for bitmaps in by_table.values():
            found = deletes_objects(session, intent, base, first, bitmaps)
            first += len(found.bodies)
            for key, body in found.bodies:
                put_data(session, key, body)
            for action in found.actions:
                file = (action.row_deletes.table, action.row_deletes.path)
                (intent.last if file in again else intent.actions).append(action)

    # --- Files that have to be there --------------------------------------------------------------

    def _refuse_gone(self, todo: Sequence[Prepared]) -> None:
        """Raise if a file that is to be added again is not there.

        Requests: 1 HEAD a file; of more than 1,000 of one log 1 LIST of its data files instead.
        """
        for each in todo:
            gone = self._gone(each, each.change.coming_or_going("added"))
            if gone:
                raise ObjectNotFound(
                    f"{some_names(gone)} of {each.change.writer}/{self._plan.database} would be "
                    "live again, and can't be read: somebody or something deleted what was there",
                    key=gone[0],
                    hint="Nothing was committed. Restore the files from a copy, or go back to "
                    "another point in time",
                )

    def _gone(self, prepared: Prepared, files: pa.Table) -> list[str]:
        """Keys of those that aren't there, or are not as long as the log says."""
        folder = base_folder(prepared.change.writer, self._plan.database)
        own = pc.starts_with(files.column("path"), "data/")
        many = files.num_rows > _ASKED
        asked = pc.filter(files, pc.invert(own)) if many else files
        keys = keys_of(asked.column("path"), folder, prepared.back_to)
        at_once = AT_ONCE if self._ambient.in_background else 1
        there = parallel(self._size, keys, at_once=at_once)
        sizes = asked.column("size_bytes").to_pylist()
        gone = [key for key, size, seen in zip(keys, sizes, there, strict=True) if size != seen]
        if many:
            mine, listed = pc.filter(files, own), self._listed(folder)
            at = pc.index_in(mine.column("path"), value_set=listed.column("path"))
            seen = pc.take(listed.column("size_bytes"), at)
            same = pc.fill_null(pc.equal(mine.column("size_bytes"), seen), False)
            lost = pc.filter(mine.column("path"), pc.invert(same))
            gone += [folder + path for path in lost.to_pylist()]
        return sorted(gone)

    def _size(self, key: str) -> int | None:
        try:
            return self._wide.head(key).size_bytes
        except ObjectNotFound:
            return None

    def _listed(self, folder: str) -> pa.Table:
        """Path and size of all data files of a log."""
        schema = pa.schema([("path", pa.string()), ("size_bytes", pa.int64())])
        infos = iter(self._wide.list(f"{folder}data/"))
        pieces = [schema.empty_table()]
        while some := list(islice(infos, _LISTED_AT_ONCE)):
            rows = [(info.key[len(folder) :], info.size_bytes) for info in some]
            pieces.append(rows_to_table(rows, schema))
        return pa.concat_tables(pieces).combine_chunks()


def _paths_of(rows: pa.Table, table: str) -> pa.Array:
    same = pc.equal(rows.column("table"), column([table], pa.string())[0])
    return pc.filter(rows.column("path"), same).combine_chunks()
