"""Whether what others committed since an operation looked at the log meets what it relies on, and
who they are. Pure: how files are judged is handed in.

Every operation that is let through has the effect that it would have had if it had begun after all
that stands before it in the log: commits of one log are serializable, but for the rows that an
upsert, or a delete by row numbers, looked up before others came. An append relies on nothing. A
delete and a rewrite rely on the files that they take out: these must be live still. What reads
rows and writes them anew relies, beside these, on that no rows of the table were deleted since; an
overwrite also on that no file came that may hold rows which it replaces. So does a delete by
predicate of which the log holds no predicate, as it found no file to be read with it.

Source: docs/format.md, section 10; docs/changing.md, "Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ...errors import FileNotLive, InputRemoved, OperationConflict
from ..format.names import is_in_place, parse_data_file
from .files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..wire import lakelog_transaction_pb2 as wire
    from .build import Claim, Intent
    from .state import State

_HINT = "Nothing was committed. Run the transaction again: it then sees what the other one did"


class Other(NamedTuple):
    """Who committed what an operation meets; what isn't known is empty.

    Attributes:
        revision: Where it stands.
        transaction_id: Hex.
        operation: As its commit says.
        app_id: Of its application.
    """

    revision: int | None = None
    transaction_id: str = ""
    operation: str = ""
    app_id: str = ""

    def __str__(self) -> str:
        if self.revision is None:
            return "another transaction, which the log tells nothing of any more,"
        who = f"{self.operation or 'transaction'} {self.transaction_id}".strip()
        of = f" of {self.app_id!r}" if self.app_id else ""
        return f"{who}{of} (revision {self.revision})"


def refuse_conflict(state: State, intent: Intent) -> None:
    """Raises `OperationConflict`, with the other transaction, if what an intent relies on doesn't
    fit the state that it would be committed onto."""
    for claim in intent.claims:
        if claim.base_revision < state.revision:
            _hold(state, intent, claim)
    for (table, path), revision in intent.counted.items():
        if revision < state.revision:
            _refuse_again(state, intent, table, [path], revision)
    for fits in intent.fits:
        fits(state)


def has_to_wait(intent: Intent, earlier: Sequence[Intent]) -> bool:
    """Whether an intent relies on tables that some change which are to be committed with it: what
    it meets is known once these stand. A tombstone holds of files of lower revisions alone, so not
    of one that comes in the same object."""
    tables = {claim.table for claim in intent.claims} | {
        action.tombstone.table
        for action in intent.actions
        if action.WhichOneof("kind") == "tombstone"
    }
    return bool(tables) and any(not tables.isdisjoint(_touched(one)) for one in earlier)


def told_by_whom(state: State, intent: Intent, error: FileNotLive) -> FileNotLive:
    """The error of an intent that takes out a file which is not live, as one that names whoever
    took it out, if that shows: the given one else."""
    removed = _removed_by(state, error.key or "")
    if removed is None:
        return error
    table, other = removed
    return InputRemoved(
        f"{error.key}, which transaction {intent.transaction_id.hex()} takes out, or deletes rows "
        f"of, is not live any more at revision {state.revision}: {other} has taken it out before",
        key=error.key,
        table=table,
        hint=_HINT,
        **other._asdict(),
    )


def _removed_by(state: State, path: str) -> tuple[str, Other] | None:
    """From which table a path was taken out, and by whom; None if the log shows that nobody did."""
    for transaction in reversed(state.tail):
        for place, action in enumerate(transaction.message.actions):
            if action.WhichOneof("kind") == "remove" and action.remove.path == path:
                return action.remove.table, _member(transaction.message, place, None)
    return None if state.base is None else ("", Other())


def _hold(state: State, intent: Intent, claim: Claim) -> None:
    if not claim.only_deletes:
        puts_in = _puts_in(intent, claim.table)
        if not (claim.has_read or puts_in):
            return
        if claim.may_hold is not None or puts_in:
            _hold_deletes(state, intent, claim)
        removed = [a.remove.path for a in intent.actions if a.remove.table == claim.table]
        _refuse_again(state, intent, claim.table, removed, claim.base_revision)
    if claim.may_hold is None:
        return
    if not claim.only_deletes:
        _hold_passing(state, intent, claim)
    if claim.has_key is None:
        _hold_files(state, intent, claim, claim.may_hold)
    else:
        _hold_newer(state, intent, claim, claim.may_hold, claim.has_key)


def _hold_files(
    state: State,
    intent: Intent,
    claim: Claim,
    may_hold: Callable[[State, Files], Sequence[str]],
) -> None:
    """Rows that came since would stay beside those that take their place, or undeleted."""
    files = files_since(state, claim.table, claim.base_revision)
    met = {path: revision_of(files, claim.table, path) for path in may_hold(state, files)}
    new = {path: at for path, at in met.items() if at > claim.base_revision}
    if not new:
        return
    path = min(new, key=lambda one: (new[one], one))
    other = _committed_by(state, new[path], path)
    more = f" and {len(new) - 1:,} more" if len(new) > 1 else ""
    does = intent.said_operation if intent.actions else "delete"  # that nothing else is done by
    raise OperationConflict(
        f"The {does} of table {claim.table!r} looked at revision "
        f"{claim.base_revision}, and {other} has added {path}{more} since, which may hold rows "
        f"that it {'deletes' if claim.only_deletes else 'replaces'}: {claim.words}",
        key=path,
        table=claim.table,
        hint=_HINT,
        **other._asdict(),
    )


def _hold_passing(state: State, intent: Intent, claim: Claim) -> None:
    """Rows that came since, and went again, may have been read for those that come now."""
    files = Files(frozenset({claim.table}))
    for transaction in state.tail:
        if transaction.message.revision <= claim.base_revision:
            continue
        for path, other in _taken_out(transaction.message, claim.table):
            if files.is_live(claim.table, path):
                raise _gone_error(intent.said_operation, claim.table, claim.base_revision, other)
        files.apply(transaction)


def refuse_taken_out(state: State, operation: str, table: str, begun_at: int) -> None:
    """Raises `OperationConflict` if others have taken files out of a table since a transaction
    began: it may have read rows of them, and an operation that begins now doesn't see that they are
    gone. A rewrite keeps the rows."""
    if state.revision <= begun_at:
        return
    others = [
        other
        for transaction in state.tail
        if transaction.message.revision > begun_at
        for _, other in _taken_out(transaction.message, table)
    ]
    based_at = -1 if state.base is None else state.base.message.revision
    if based_at > begun_at:  # the transactions since are not at hand: of whatever table
        others += [
            Other(row["revision"], "", row["operation"])
            for row in state.history.after(begun_at)
            if row["files_removed"] and row["operation"] != "rewrite"
        ]
    if others:
        raise _gone_error(operation, table, begun_at, others[0])


def _taken_out(message: wire.Transaction, table: str) -> Iterator[tuple[str, Other]]:
    """The paths that a transaction takes out of a table, each with whose they are, but for those of
    rewrites."""
    for place, action in enumerate(message.actions):
        if action.WhichOneof("kind") == "remove" and action.remove.table == table:
            other = _member(message, place, None)
            if other.operation != "rewrite":
                yield action.remove.path, other


def _gone_error(operation: str, table: str, begun_at: int, other: Other) -> OperationConflict:
    return OperationConflict(
        f"The {operation} of table {table!r} is of a transaction that began at revision "
        f"{begun_at}, and {other} has removed files since, and it may have read rows of these",
        key=table,
        table=table,
        hint=_HINT,
        **other._asdict(),
    )


def _hold_newer(
    state: State,
    intent: Intent,
    claim: Claim,
    may_hold: Callable[[State, Files], Sequence[str]],
    has_key: Callable[[State], bool],
) -> None:
    """Newer rows that came since are deleted as well, and would hide those that come: of one key
    the newest row counts, be it deleted."""
    table, base = claim.table, claim.base_revision
    adds = [action.add for action in intent.actions if action.WhichOneof("kind") == "add"]
    clocks = [add.last_clock for add in adds if add.table == table]
    if not clocks:
        return
    files = files_since(state, table, base)
    late = [
        path
        for path in may_hold(state, files)
        if _fact_of(files, table, path, "revision") > base
        and _fact_of(files, table, path, "last_clock") > min(clocks)
    ]
    own = (a.definition for a in intent.actions if a.WhichOneof("kind") == "definition")
    gives_key = any(one.table == table and one.key for one in own)
    if late and (gives_key or has_key(state)):
        path = min(late)
        other = _committed_by(state, revision_of(files, table, path), path)
        raise OperationConflict(
            f"The {intent.said_operation} of table {table!r} looked at revision {base}, and "
            f"{other} has added {path} since, which may hold {claim.words}, newer than the rows "
            "that come: the table has a key, and deleted rows that are newer hide older ones",
            key=path,
            table=table,
            hint=_HINT,
            **other._asdict(),
        )


def _puts_in(intent: Intent, table: str) -> bool:
    return any(action.add.table == table for action in intent.actions if action.HasField("add"))


def _hold_deletes(state: State, intent: Intent, claim: Claim) -> None:
    """Rows that were deleted since would come back with the rewritten files."""
    table, base = claim.table, claim.base_revision
    found = [item.revision for item in state.deletes.of_table(table)]
    found += [e.revision for entries in state.deletes.rows_of(table).values() for e in entries]
    since = [revision for revision in found if revision > max(base, claim.deletes_until)]
    if since:
        other = _committed_by(state, min(since), "")
        raise OperationConflict(
            f"The {intent.said_operation} of table {table!r} looked at revision {base}, and "
            f"{other} has deleted rows since",
            key=table,
            table=table,
            hint=_HINT,
            **other._asdict(),
        )


def _refuse_again(
    state: State, intent: Intent, table: str, paths: Sequence[str], base: int
) -> None:
    """Files that were added again since have rows again that were deleted before: they would go
    with those."""
    files = files_since(state, table, base) if paths else Files()
    added = {path: at for path in paths if (at := revision_of(files, table, path)) > base}
    gone = _removed_since(state, table, base) if added else None
    for path, revision in added.items():
        if gone is None or path in gone:  # else it is a new one, which came since
            other = _committed_by(state, revision, "")
            raise OperationConflict(
                f"The {intent.said_operation} of table {table!r} looked at revision {base}, and "
                f"{other} has added {path} again since, perhaps with rows that were deleted before",
                key=path,
                table=table,
                hint=_HINT,
                **other._asdict(),
            )


def _removed_since(state: State, table: str, revision: int) -> set[str] | None:
    """The files that were taken out of a table after a revision; None if that can't be told."""
    if state.base is not None and state.base.message.revision > revision:
        return None
    later = [one.message for one in state.tail if one.message.revision > revision]
    removes = [a.remove for one in later for a in one.actions if a.WhichOneof("kind") == "remove"]
    return {remove.path for remove in removes if remove.table == table}


def files_since(state: State, table: str, revision: int) -> Files:
    """Returns the live files of a table, or only those added after a revision, where the
    transactions since are at hand. Raises `CorruptError` if they can't be read."""
    based_at = -1 if state.base is None else state.base.message.revision
    if based_at > revision:
        return state.table_of(table)[0]
    files = Files(frozenset({table}))
    for transaction in state.tail:
        if transaction.message.revision > revision:
            files.apply(transaction)
    for piece, error in files.broken_ranges:
        if piece.may_hold(table):
            raise error
    return files


def revision_of(files: Files, table: str, path: str) -> int:
    """The revision that added a live file; -1 if it isn't one."""
    return _fact_of(files, table, path, "revision")


def _fact_of(files: Files, table: str, path: str, name: Literal["revision", "last_clock"]) -> int:
    """What the log says of a live file; -1 if it isn't one."""
    known = files.added.get(table, {}).get(path)
    if known is not None:
        return known[1] if name == "revision" else known[0].last_clock
    for part in files.parts:
        row = part.find(table, path)
        if row >= 0:
            held = part.run.core if name == "revision" else part.run.full()
            return int(held.column(name)[row].as_py())
    return -1


def _committed_by(state: State, revision: int, path: str) -> Other:
    """Who committed a revision, or, of several in one object, who added a file."""
    for transaction in state.tail:
        message = transaction.message
        if message.revision == revision:
            place = next((n for n, a in enumerate(message.actions) if a.add.path == path), -1)
            return _member(message, place, path)
    for row in state.history.after(revision - 1):
        if row["revision"] == revision:
            ids = [one.hex() for one in row["transaction_ids"]]
            return Other(revision, ids[0] if len(ids) == 1 else "", row["operation"])
    return Other()


def _member(message: wire.Transaction, place: int, path: str | None) -> Other:
    """The member of a transaction object that an action is of.

    Args:
        place: Of the action; -1: in a batch, which tells no members.
        path: Of a file that it adds, whose name may say it.
    """
    members = message.commit.members
    name = None if path is None or is_in_place(path) else parse_data_file(path)
    own = [one for one in members if name and one.transaction_id == name.transaction_id]
    counted = 0
    for member in members:
        counted += member.action_count
        if own or len(members) == 1 or 0 <= place < counted:
            found = own[0] if own else member
            transaction_id = found.transaction_id.hex()
            return Other(message.revision, transaction_id, found.operation, found.app_id)
    return Other(message.revision)


def _touched(intent: Intent) -> Iterator[str]:
    """The tables whose files an intent changes."""
    for action in intent.actions:
        kind = action.WhichOneof("kind")
        if kind in ("add", "remove", "tombstone", "row_deletes"):
            yield getattr(action, kind).table
