"""How one more transaction changes a state: state(n+1) = apply(state(n), transaction n+1). Pure.

It checks that the transaction is the next link of the chain: that alone decides whether its
revision exists. Whether files and schemas fit is asked when they are used.

Source: docs/format.md, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import (
    BrokenChain,
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    UnknownSchema,
    UsageError,
)
from ..format import compute as pc
from ..format.columns import column
from ..format.names import MAX_LOCATIONS, Places, is_in_place, parse_data_file
from ..format.objects import MAX_FEATURES, DecodedTransaction
from ..format.path_column import fold, folded_among
from .lookup import files_with, live_in, schemas_with
from .part import Part, batch_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ..format.pieces import Piece
    from ..wire import lakelog_transaction_pb2 as wire
    from .state import State

    Fetch = Callable[[Sequence[Piece]], list[memoryview]]
    Tail = list[DecodedTransaction]


# --- Rules that a commit is held to ---------------------------------------------------------------

_File = tuple[str, str]


def validate(
    state: State,
    actions: Sequence[wire.Action],
    own: Collection[bytes] = frozenset(),
    *,
    folds_names: bool = False,
) -> None:
    """Check actions against a state without changing it.

    A file whose name carries the id of its own transaction can't be there already, so a plain
    append needs no file of the log.

    Args:
        actions: Of one transaction, in order.
        own: The transaction ids under which they are committed.
        folds_names: Whether the store may take two paths for one file.
    Raises:
        DuplicateFile: A path that is live already, in any table; or, where names are folded, one
            that the store may take for a live one.
        FileNotLive: A file that is not live at that point.
        UnknownSchema: A file without a schema.
        UsageError: Forgetting a table that has files; or too many locations.
    """
    _check_locations(state, actions)
    live = _live_among(state, actions, own)
    live_paths = {path for _, path in live}
    schemas = _Schemas(state, {a.add.table for a in actions if a.WhichOneof("kind") == "add"})
    fate: dict[_File, bool] = {}
    paths: dict[str, bool] = {}
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind == "add":
            add = action.add
            if not schemas.knows(add.table, add.schema_fingerprint):
                raise UnknownSchema(
                    f"{add.path} has a schema that {state.writer}/{state.database} doesn't know: "
                    f"table {add.table!r} was dropped since the file was written",
                    key=add.path,
                    hint="Nothing was committed. Begin another transaction, if there is to be such "
                    "a table",
                )
            if paths.get(add.path, add.path in live_paths):
                raise _doubled(_told(state, actions, add.path), add.path, live, fate)
            fate[add.table, add.path] = paths[add.path] = True
        elif kind == "remove":
            file = (action.remove.table, action.remove.path)
            if not fate.get(file, file in live):
                told = _told(state, actions, file[1])
                raise FileNotLive(
                    f"{told} is not live in table {file[0]!r} of {state.writer}/"
                    f"{state.database} at revision {state.revision}",
                    key=told,
                    hint="List the live files with `lakelog files`; it may have been removed "
                    "meanwhile",
                )
            fate[file] = paths[file[1]] = False
        elif kind == "row_deletes":
            _check_row_deletes(state, action.row_deletes, fate, live)
        else:
            _check_names(state, action, fate, schemas)
    if folds_names:
        _refuse_twins(state, [path for path, live in paths.items() if live], paths, own)


def _told(state: State, actions: Sequence[wire.Action], path: str) -> str:
    """A path as users name the file: one that lies elsewhere by its URL."""
    if not is_in_place(path):
        return path
    where = f"{state.writer}/{state.database}"
    try:
        return Places(state.locations | locations_of(actions), where).url(path)
    except CorruptObject:
        return path


def _doubled(
    told: str, path: str, live: Collection[_File], fate: Mapping[_File, bool]
) -> DuplicateFile:
    """Returns the error of a file that is added, and live in a table; `told` is the path as users
    name it."""
    holders = {file: True for file in live} | dict(fate)
    table = min(name for (name, each), there in holders.items() if there and each == path)
    return DuplicateFile(
        f"{told} is in the log already, in table {table!r}",
        key=told,
        hint="A file is of one table, once: leave it out, or remove it first. Another file needs "
        "another name",
    )


def _check_names(
    state: State, action: wire.Action, fate: Mapping[_File, bool], schemas: _Schemas
) -> None:
    kind = action.WhichOneof("kind")
    if kind == "schema":
        schemas.named.add((action.schema.table, action.schema.fingerprint))
    elif kind == "forget":
        _check_forget(state, action.forget, {table for table, _ in fate})
        schemas.forget(action.forget)


def _check_row_deletes(
    state: State, item: wire.RowDeletes, fate: Mapping[_File, bool], live: Collection[_File]
) -> None:
    file = (item.table, item.path)
    if not fate.get(file, file in live) or (file not in fate and _is_newer(state, item)):
        raise FileNotLive(
            f"{item.path} is no longer the file of table {item.table!r} whose rows are deleted, "
            f"at revision {state.revision} of {state.writer}/{state.database}",
            key=item.path,
            hint="It was removed or rewritten meanwhile: begin the delete anew",
        )


def _is_newer(state: State, item: wire.RowDeletes) -> bool:
    """Whether a file was added again after its rows were counted."""
    if not item.covers_below:
        return False
    files = files_with(state, [item.path])
    known = files.added.get(item.table, {}).get(item.path)
    if known is not None:
        return known[1] >= item.covers_below
    found = ((part.run, part.find(item.table, item.path)) for part in files.parts)
    revisions = (run.core.column("revision")[row].as_py() for run, row in found if row >= 0)
    return any(revision >= item.covers_below for revision in revisions)


def _refuse_twins(
    state: State, added: Sequence[str], touched: Collection[str], own: Collection[bytes]
) -> None:
    """Refuse an adopted path that differs from another live one in nothing that the store tells
    apart: it would be the same file twice.

    Args:
        added: Paths that the actions leave live.
        touched: Paths whose fate the actions decide.
    """
    adopted = {fold(path): path for path in added if not is_own_file(path, own)}
    if not adopted:
        return
    gone = column(sorted(touched), pa.string())
    live = (chunk.filter(pc.invert(pc.is_in(chunk, gone))) for chunk in state.files.paths())
    twins = folded_among(live, adopted)
    twins |= {fold(path) for path in added if adopted.get(fold(path), path) != path}
    if twins:
        path = adopted[min(twins)]
        raise DuplicateFile(
            f"{path} differs from a file that is in the log only in case, normal form, or dots and "
            "spaces at an end: this store takes both for one",
            key=path,
            hint="Add it as the log spells it (`lakelog files`), or give the file another name",
        )


@dataclass(slots=True)
class _Schemas:
    """Which schemas are known at a point in the actions."""

    state: State
    tables: set[str]
    named: set[tuple[str, bytes]] = field(default_factory=set)
    lost: list[wire.Forget] = field(default_factory=list)

    def knows(self, table: str, fingerprint: bytes) -> bool:
        identity = (table, fingerprint)
        if identity in self.named:
            return True
        lost = any(_forgets(forget, *identity) for forget in self.lost)
        return not lost and identity in schemas_with(self.state, self.tables)

    def forget(self, forget: wire.Forget) -> None:
        self.lost.append(forget)
        self.named = {identity for identity in self.named if not _forgets(forget, *identity)}


def _forgets(forget: wire.Forget, table: str, fingerprint: bytes) -> bool:
    return table in forget.tables or any(
        (item.table, item.fingerprint) == (table, fingerprint) for item in forget.schemas
    )


def check_written(state: State, transaction: DecodedTransaction) -> None:
    """Checks an admitted transaction as readers will, without changing anything: a committer does
    so before the put. Raises `BrokenChain` or `CorruptObject`."""
    check_link(state, transaction)
    for pieces in transaction.batches.values():
        for part, _ in batch_parts(pieces):
            if not isinstance(part, Part):
                raise part


def _live_among(state: State, actions: Sequence[wire.Action], own: Collection[bytes]) -> set[_File]:
    """Which of the files that actions name are live now. The log's files are read only if a name
    doesn't say itself that it is new."""
    removed = [
        (item.table, item.path)
        for action in actions
        for kind in [action.WhichOneof("kind")]
        if kind in ("remove", "row_deletes")
        for item in [getattr(action, kind)]
    ]
    foreign = [
        action.add.path
        for action in actions
        if action.WhichOneof("kind") == "add" and not is_own_file(action.add.path, own)
    ]
    if not removed and not foreign:
        return set()
    files = files_with(state, [*foreign, *(path for _, path in removed)])
    there = files.live_among(foreign) if foreign else set()
    by_table: dict[str, list[str]] = {}
    for table, path in removed:
        by_table.setdefault(table, []).append(path)
    found = {
        (table, path) for table, paths in by_table.items() for path in live_in(files, table, paths)
    }
    return found | {(table, path) for path in there for table in files.tables_of(path)}


def is_own_file(path: str, own: Collection[bytes]) -> bool:
    """Whether a file's name carries one of these transaction ids."""
    if not any(one.hex() in path for one in own):
        return False  # most are others': seen at once
    name = None if is_in_place(path) else parse_data_file(path)
    return name is not None and name.transaction_id in own


def _check_locations(state: State, actions: Sequence[wire.Action]) -> None:
    if len(state.locations | locations_of(actions)) > MAX_LOCATIONS:
        raise UsageError(
            f"The log of {state.writer}/{state.database} can't name more than {MAX_LOCATIONS} "
            "places of files",
            hint="Copy the files to a bucket that the log names already",
        )


def _check_forget(state: State, forget: wire.Forget, touched: set[str]) -> None:
    """Tables that the same transaction adds to or removes from are forgotten in a later one."""
    files = state.files
    held = touched.union(files.tables())
    for table in forget.tables:
        if table in held:
            raise UsageError(
                f"Table {table!r} has files and can't be forgotten",
                key=table,
                hint="Remove its files first",
            )
    for item in forget.schemas:
        if item.table in touched or item.fingerprint in files.fingerprints(item.table):
            raise UsageError(
                f"A schema of table {item.table!r} is that of live files and can't be forgotten",
                key=item.table,
            )


# --- Replay ---------------------------------------------------------------------------------------

OPEN_AGAIN: Final = (
    "If the log was rebuilt or restored since it was opened here, only open it again"
)


def apply(state: State, transaction: DecodedTransaction) -> None:
    """Move a state one revision on, in place. An error leaves the state as it was.

    Raises:
        BrokenChain: Not the next link: log, revision, uuid, digest, epoch or commit time don't
            follow, or the log was sealed.
    Source: docs/format.md, section 4.2.
    """
    message = transaction.message
    check_link(state, transaction)
    for part in state.loaded_parts():
        part.apply(transaction)
    state.tail.append(transaction)
    state.log = transaction.log
    if message.revision == 0:
        said_us = next(
            action.identity.begun_at_us
            for action in message.actions
            if action.WhichOneof("kind") == "identity"
        )
        state.first_epoch = message.epoch
        state.begun_at_us = max(message.commit.committed_at_us, said_us)
    state.revision = message.revision
    state.uuid = message.uuid
    state.successor_uuid = message.commit.successor_uuid
    state.digest = transaction.digest
    state.epoch = message.epoch
    state.committed_at_us = message.commit.committed_at_us
    state.transaction_id = message.commit.members[-1].transaction_id
    state.reader_features, state.writer_features = _features_after(state, transaction)
    for action in message.actions:
        _apply_to_head(state, action)


def _features_after(
    state: State, transaction: DecodedTransaction
) -> tuple[frozenset[str], frozenset[str]]:
    """The features that readers, and writers, must know after a transaction."""
    found = [a.upgrade for a in transaction.message.actions if a.WhichOneof("kind") == "upgrade"]
    return (
        state.reader_features.union(*(item.required_reader_features for item in found)),
        state.writer_features.union(*(item.required_writer_features for item in found)),
    )


def locations_of(actions: Iterable[wire.Action]) -> set[str]:
    """The locations that actions name."""
    return {a.location.url for a in actions if a.WhichOneof("kind") == "location"}


def _apply_to_head(state: State, action: wire.Action) -> None:
    kind = action.WhichOneof("kind")
    if kind == "identity":
        state.named = (action.identity.writer, action.identity.database)
    elif kind == "location":
        state.locations |= {action.location.url}
    elif kind == "seal":
        state.sealed_for = action.seal.next_incarnation


def _too_much(state: State, transaction: DecodedTransaction) -> str:
    """Which limit of a whole log a transaction goes beyond; empty for none."""
    if any(len(names) > MAX_FEATURES for names in _features_after(state, transaction)):
        return f"requires more than {MAX_FEATURES} features, with those before"
    if len(state.locations | locations_of(transaction.message.actions)) > MAX_LOCATIONS:
        return f"names more than {MAX_LOCATIONS} locations, with those before"
    return ""


def check_link(state: State, transaction: DecodedTransaction) -> None:
    """Raises `BrokenChain` if a transaction is not the next link of the chain."""
    message, key = transaction.message, transaction.key
    problem = ""
    if message.revision != state.revision + 1:
        problem = f"is revision {message.revision}, after {state.revision}"
    elif state.log is not None and transaction.log != state.log:
        problem = (
            f"belongs to the log {transaction.log.log_id.hex()}, incarnation "
            f"{transaction.log.incarnation}, and stands in {state.log.log_id.hex()}, "
            f"{state.log.incarnation}"
        )
    elif state.sealed_for:
        problem = f"follows the seal of incarnation {transaction.log.incarnation}"
    elif message.previous_uuid != state.uuid:
        problem = (
            f"follows {message.previous_uuid.hex()}, but revision {state.revision} is "
            f"{state.uuid.hex()}"
        )
    elif message.previous_digest != state.digest:
        problem = f"follows another object than the one at revision {state.revision}"
    elif message.epoch < state.epoch:
        problem = f"has epoch {message.epoch}, below {state.epoch}"
    elif message.commit.committed_at_us <= state.committed_at_us:
        problem = "was not committed after the one before it"
    problem = problem or _too_much(state, transaction)
    if problem:
        raise BrokenChain(
            f"{key} {problem}",
            key=key,
            hint=f"Revisions up to {state.revision} can still be read: give one as the point in "
            f"time. {OPEN_AGAIN}",
        )
