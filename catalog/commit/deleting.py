"""Deleting rows within a transaction: files that go as a whole are removed, of others rows are
hidden, by a tombstone or by their numbers.

Source: docs/changing.md, "Deletes"; docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from ...errors import LakelogError, UsageError
from ..data.hidden import Bitmaps
from ..format import deletes as form
from ..format.deletes import encode_deletes
from ..format.names import base_folder, deletes_path, escape_name, is_id
from ..log.build import Claim, require_actions
from ..log.deletes import message_of
from ..parallel import parallel
from ..read.delete_plan import matching_rows, plan_delete, refuse_unfit, visible_rows
from ..read.log_reader import LogReader
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .base_transaction import BaseTransaction, Deleted
from .data_files import footer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..data.file_part import FilePart
    from ..format.footer import BaseRevision
    from ..log.build import Intent
    from ..log.state import State
    from ..read.delete_plan import DeletePlan
    from .session import Session


# --- The other logs of the database ---------------------------------------------------------------


def other_states(session: Session) -> list[State | LakelogError]:
    """Returns the newest states of the other logs of a writer's database; of one that can't be
    read, the error. Raises `StorageError` if the logs can't be listed.

    Requests: those of `Catalog.snapshot`, but for this log.
    """

    def newest(writer: str) -> State | LakelogError | None:
        log = LogReader(session.store, writer, session.database, session._ambient)
        try:
            listing = log.names_for()
            if listing.head < 0 and not listing.others:
                return None
            return log.load(listing=listing)
        except LakelogError as error:
            return error

    names = [name for name in session.store.list_folders("") if is_id(name)]
    others = [name for name in names if name != session.writer_id]
    return [item for item in parallel(newest, others) if item is not None]


def readable_states(session: Session) -> list[State]:
    """Returns the same states. Raises `LakelogError` if one can't be read."""
    states = []
    for item in other_states(session):
        if isinstance(item, LakelogError):
            raise item
        states.append(item)
    return states


def others_give_key(session: Session, table: str) -> bool:
    """Whether another log of the database gives a table a key; also if one can't be read.

    Requests: those of `other_states`.
    """
    states = other_states(session)
    try:
        found = [None if isinstance(s, LakelogError) else s.definitions.of(table) for s in states]
    except LakelogError:
        return True
    unreadable = any(isinstance(item, LakelogError) for item in states)
    return unreadable or any(each is not None and each.key for each in found)


# --- Objects of row deletes -----------------------------------------------------------------------

_IN_ONE: Final = 4_096  # bitmaps in one object
_BYTES_IN_ONE: Final = 32 << 20


class DeletesObjects(NamedTuple):
    """Objects of row deletes to put, by key, and the actions that point to them."""

    bodies: list[tuple[str, bytes]]
    actions: list[wire.Action]


def deletes_objects(
    session: Session,
    intent: Intent,
    base: BaseRevision,
    first: int,
    bitmaps: Sequence[tuple[wire.RowDeletes, bytes]],
) -> DeletesObjects:
    """Bitmaps of files of one table as objects. Their messages learn where they lie.

    Args:
        base: That the transaction was begun on.
        first: The number of the first object among the files of the transaction.
    """
    table = bitmaps[0][0].table
    meta = footer_of(session, intent, base, table, pa.schema([]), session.clock())
    meta = replace(meta, operation=intent.operation or "delete")
    folder = base_folder(session.writer_id, session.database)
    found = DeletesObjects([], [])
    for number, some in enumerate(_in_parts(bitmaps), start=first):
        path = deletes_path(table, intent.epoch, intent.transaction_id, number)
        found.bodies.append((folder + path, encode_deletes(replace(meta, number=number), some)))
        for item, _ in some:
            item.object = path
            found.actions.append(wire.Action(row_deletes=item))
    return found


def _in_parts(
    bitmaps: Iterable[tuple[wire.RowDeletes, bytes]],
) -> Iterator[list[tuple[wire.RowDeletes, bytes]]]:
    """What goes into one object."""
    some: list[tuple[wire.RowDeletes, bytes]] = []
    size = 0
    for item, bitmap in bitmaps:
        if some and (len(some) >= _IN_ONE or size + len(bitmap) > _BYTES_IN_ONE):
            yield some
            some, size = [], 0
        some.append((item, bitmap))
        size += len(bitmap)
    if some:
        yield some


# --- Deletes --------------------------------------------------------------------------------------

Mode = Literal["auto", "predicate", "rows"]
MOST_TOMBSTONES: Final = 8  # of a table, by mode "auto": each is decided on every read


class Deleting(BaseTransaction):
    """The part of a transaction that deletes rows."""

    def delete(self, table: str, where: str, *, mode: Mode = "auto") -> Deleted:
        """Delete the rows of this writer's files that meet a predicate. What is NULL stays. For
        those of all writers there is `Catalog.delete`.

        It holds for files that are committed before: for none of this transaction's, nor for later
        ones. A file of which the log's statistics say that every row goes is removed; of others the
        rows are hidden from readers, and the files stay as they are. Of a table with a key all
        files stay: older rows of their keys would be read again.

        Args:
            where: SQL text (docs/reading.md, "Predicates").
            mode: How rows are hidden. "predicate": the log keeps the predicate, a tombstone, and
                each reader decides it; nothing is read now. "rows": files are read now, and the log
                points to the numbers of their rows. "auto": a predicate, while the table has fewer
                than 8 of them.
        Raises:
            TableNotFound: This writer's log has no such table.
            InvalidPredicate, SchemaConflict: The predicate doesn't fit the table.
            UsageError: The transaction has no room for it, and is as it was; or it has changed the
                table's columns, or written rows of it anew, before.
            FencedError: Another owner has taken the writer over: nothing was written.
            ObjectNotFound, CorruptObject: A file can't be read that must be.
            StorageError: By rows: their numbers can't be put. The transaction is lost.
            FileNotLive (at the commit): A file was removed or rewritten meanwhile.
            OperationConflict (at the commit): By predicate: files came since with types that it
                can't look at; or it found no file that may hold such rows among others, and one
                came since.
            ColumnsChanged (at the commit): By predicate: another commit has changed the columns.
        Requests: 1 LIST, and 1 GET for each new transaction; 1 GET for each piece of statistics of
            the predicate's columns; by rows 1 or more GET a file, and a PUT for 4,096 files.
            Before a file goes as a whole, those of `Catalog.snapshot`: another log may give the
            table a key.
        """
        with self._intent.asking():
            return self._delete(table, where, mode)

    def _delete(self, table: str, where: str, mode: Mode, others: Sequence[State] = ()) -> Deleted:
        """Delete rows of this log's files.

        Args:
            others: Other logs of the cut whose columns the predicate is about: rows go by number
                where it looks at some that this log doesn't have.
        """
        self._check_open("delete")
        self._session.refuse_fenced()
        check_mode(mode)
        table, where = value_of(table), value_of(where)
        escape_name(table, "table")
        self._intent.refuse_begun(table)
        gone = {path for own, path in self._removed if own == table}

        def planned(state: State) -> tuple[DeletePlan, bytes]:
            known = state.definitions.of(table)
            plan = plan_delete(state, table, where, gone, others)
            return plan, b"" if known is None else known.name

        plan, columns = self._session.ask_anew(planned)
        if plan.whole and self._files_stay(table):
            plan = plan.without_whole()
        by_rows = mode == "rows" or plan.tombstone is None
        by_rows = by_rows or (mode == "auto" and plan.live >= MOST_TOMBSTONES)
        found = None
        if by_rows and plan.touched:
            touched_parts = {path: plan.parts[path] for path in plan.touched}
            rows_of = matching_rows(self._session.wide, list(touched_parts.values()), plan.wanted)
            stay = partial(self._files_stay, table)
            found = Rows(
                self._session, table, touched_parts, rows_of, revision=plan.revision, stay=stay
            )
        rows = None
        if not plan.touched or by_rows:
            parts = [plan.parts[path] for path in plan.whole]
            rows = visible_rows(self._session.wide, parts) + (found.rows if found else 0)
        whole = [*plan.whole, *(found.whole if found else ())]
        actions = [wire.Action(remove=wire.Remove(path=path, table=table)) for path in whole]
        bitmaps = found.bitmaps if found else []
        if rows is None and plan.tombstone is not None:
            actions += require_actions([form.TOMBSTONES])
            actions.append(wire.Action(tombstone=message_of(plan.tombstone)))
        if bitmaps:
            actions += require_actions([form.ROW_DELETES])
            # A rebuild believes such an object, whatever the log says.
            before = self._files
            with self._operation_guard.doing("delete", table, lambda: self._files > before):
                actions += self._objects(bitmaps, actions)
        self._message_size.take(actions)  # the last that may be refused
        self._removed.update(dict.fromkeys((table, path) for path in whole))
        if not by_rows:
            self._hold_of_others(table, where, plan, columns, is_kept=rows is None)
        if found:
            self._intent.counted.update({(table, path): plan.revision for path in found.whole})
        self._intent.actions.extend(actions)
        touched = len(bitmaps) if by_rows else len(plan.touched)
        return Deleted(len(whole), touched, int(rows is None), rows)

    def _hold_of_others(
        self, table: str, where: str, plan: DeletePlan, columns: bytes, *, is_kept: bool
    ) -> None:
        """A delete by predicate holds of files that come before the commit, too.

        Args:
            columns: The name of the definition of the table's columns.
            is_kept: Whether the log keeps the predicate.
        """
        # Of the session, not of this transaction: one that is dropped is to be noticed at once.
        has_key = partial(_has_key, self._session, table) if is_kept else None
        claim = Claim(
            table, plan.revision, f"rows with {where}", plan.may_hold,
            only_deletes=True, has_key=has_key,
        )  # fmt: skip
        self._intent.claims.append(claim)
        if is_kept and plan.tombstone is not None:
            self._intent.columns_of.setdefault(table, columns)  # the names that it knows
            self._intent.fits.append(partial(refuse_unfit, plan.tombstone, plan.revision))

    def _files_stay(self, table: str) -> bool:
        """Whether a delete hides all rows of a file instead of letting it go: of a table with a key
        older rows would be read again.

        Requests: none if this log gives it the key; else those of `others_give_key`.
        """
        return bool(self._key_of(table)) or others_give_key(self._session, table)

    def _objects(
        self, bitmaps: Sequence[tuple[wire.RowDeletes, bytes]], before: Sequence[wire.Action]
    ) -> list[wire.Action]:
        """Puts bitmaps; returns the actions that point to them. Raises `UsageError`, before any is
        put, if there is no room for them."""
        found = deletes_objects(self._session, self._intent, self._base, self._files, bitmaps)
        self._message_size.check([*before, *found.actions])
        self._files += len(found.bodies)
        for key, body in found.bodies:
            self._uploads.add(key, body)
        return found.actions


def _has_key(session: Session, table: str, state: State) -> bool:
    """Whether a table has a key, by this log or another one."""
    known = state.definitions.of(table)
    return bool(known is not None and known.key) or others_give_key(session, table)


def check_mode(mode: str) -> None:
    """Raises `UsageError` if there is no such way to hide rows."""
    if mode not in get_args(Mode):
        raise UsageError(f"There is no mode {mode!r}", key=str(mode), hint="auto, predicate, rows")


class Rows:
    """Rows that go, by number.

    Args:
        parts: By path the files that may hold them.
        matching: Per file their numbers, without those that are hidden.
        revision: Of the state that was looked at.
        stay: Tells whether files stay of which no row is left.

    Attributes:
        whole: Files that have no row left, and are removed.
        bitmaps: Of the others that have such rows.
        rows: How many rows are hidden that were not.
        revision: As given.
    """

    def __init__(
        self,
        session: Session,
        table: str,
        parts: Mapping[str, FilePart],
        matching: Sequence[np.ndarray],
        *,
        revision: int,
        stay: Callable[[], bool],
    ) -> None:
        self.whole: list[str] = []
        self.bitmaps: list[tuple[wire.RowDeletes, bytes]] = []
        self.rows = 0
        self.revision = revision
        known = Bitmaps(session.wide)
        for (path, part), new in zip(parts.items(), matching, strict=True):
            if not len(new):
                continue
            if part.row_count > form.MAX_ROWS:
                raise UsageError(
                    f"{part.key} has {part.row_count} rows, more than a bitmap can name",
                    key=part.key,
                    hint='Delete with mode="predicate"',
                )
            self.rows += len(new)
            said = part.hidden.bitmaps if part.hidden else ()
            before = known.rows(said, part.row_count)
            found = np.union1d(new.astype(np.uint32), before)
            if len(found) == part.row_count and not stay():
                self.whole.append(path)
                continue
            item = wire.RowDeletes(
                table=table,
                path=path,
                cardinality=len(found),
                covers_below=revision + 1,
            )
            self.bitmaps.append((item, form.encode_bitmap(found)))
