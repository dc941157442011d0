"""From ordered transactions to the revisions of the new log. Pure.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.locations import is_in_place
from ..catalog.format.names import parse_data_file
from .evidence import of_kind
from .values import LeftOut, RebuiltFile, RebuiltTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from .evidence import Evidence, FoundTransaction
    from .order import Ordered
    from .scanned import ForeignFile, OwnFile
    from .values import FileName, Proof, SchemaName

# A clock outside of this is no time in µs: users may count clocks as they like.
EARLIEST_US: Final = 946_684_800_000_000  # 2000-01-01
SKEW_US: Final = 86_400_000_000


@dataclass(slots=True)
class Assembled:
    """The revisions of the new log, and what was noticed on the way.

    Attributes:
        transactions: By revision, from 0.
        live: Tables and paths that are live after them.
        left_out: Files that aren't named after all.
        dead: Paths that were named and are not live at the end.
        missing: Replaced paths that are not in the store any more.
        lives: By table and path when each file was live: from which revision, and up to which; None
            where that doesn't end.
        tables: By path the table that each live file is of.
    """

    transactions: list[RebuiltTransaction] = field(default_factory=list)
    live: set[FileName] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    lives: dict[FileName, list[tuple[int, int | None]]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def begin(self, name: FileName, revision: int) -> None:
        """A file becomes live."""
        self.live.add(name)
        self.tables[name[1]] = name[0]
        self.dead.discard(name[1])
        self.lives.setdefault(name, []).append((revision, None))

    def end(self, name: FileName, revision: int) -> None:
        """A live file is taken out."""
        self.live.discard(name)
        self.tables.pop(name[1], None)
        self.dead.add(name[1])
        self.lives[name][-1] = (self.lives[name][-1][0], revision)

    def append(
        self,
        *,
        transaction_id: bytes,
        proof: Proof,
        operation: str,
        not_before_us: int,
        files: tuple[RebuiltFile, ...],
        why: str,
        removed: tuple[FileName, ...] = (),
        schemas: tuple[SchemaName, ...] = (),
        applications: tuple[tuple[str, int], ...] = (),
        forgotten: tuple[SchemaName, ...] = (),
        definitions: tuple[bytes, ...] = (),
        deletes: tuple[bytes, ...] = (),
    ) -> None:
        """One more transaction at the end, that no footer tells of."""
        revision = len(self.transactions)
        before_us = self.transactions[-1].committed_at_us if self.transactions else 0
        self.transactions.append(
            RebuiltTransaction(
                revision=revision,
                transaction_id=transaction_id.hex(),
                proof=proof,
                original_revision=None,
                base_revision=revision - 1,
                epoch=0,
                operation=operation,
                committed_at_us=max(before_us + 1, not_before_us),
                app_id="",
                app_version=0,
                files=files,
                why=why,
                removed=removed,
                schemas=schemas,
                applications=applications,
                forgotten=forgotten,
                definitions=definitions,
                deletes=deletes,
            )
        )
        for name in removed:
            self.end(name, revision)
        for file in files:
            self.begin((file.table, file.path), revision)


def assemble(
    ordered: Ordered,
    evidence: Evidence,
    *,
    known_paths: Collection[str],
    latest_us: int,
    again: Callable[[wire.Add], RebuiltFile | None],
) -> Assembled:
    """Number the transactions, and take out what each replaces; deletes of rows come later.

    Args:
        again: A file that one of them makes live and did not write, if it can be used.
        known_paths: All paths in the store.
        latest_us: Nothing was committed after it.
    """
    result = Assembled()
    before_us = 0
    circular = set(ordered.circular)
    for revision, item in enumerate(ordered.transactions):
        files, removed = _files(item, result, known_paths, revision)
        removed += _removed(item, result, known_paths, revision)
        proof = evidence.proofs.get(item.transaction_id)
        files += _added(item, result, again, revision, is_proven=proof is not None)
        at_us = _time_us(item, evidence, latest_us)
        before_us = max(before_us + 1, at_us)
        is_known = item.transaction_id not in evidence.forgotten
        result.transactions.append(
            RebuiltTransaction(
                revision=revision,
                transaction_id=item.transaction_id.hex(),
                proof="unproven" if proof is None else "proven",
                original_revision=evidence.revisions.get(item.transaction_id),
                base_revision=item.base_revision,
                epoch=item.epoch,
                operation=item.operation,
                committed_at_us=before_us,
                app_id=item.app_id if is_known else "",
                app_version=item.app_version if is_known else 0,
                files=files,
                why=_why(item, evidence, circular=item.transaction_id in circular),
                removed=removed,
                schemas=tuple(
                    dict.fromkeys((s.table, s.fingerprint) for s in of_kind(item.actions, "schema"))
                ),
                definitions=tuple(
                    found.SerializeToString(deterministic=True)
                    for found in of_kind(item.actions, "definition")
                ),
                tables=_forgotten(item, result),
            )
        )
    return result


def _removed(
    item: FoundTransaction, result: Assembled, known_paths: Collection[str], revision: int
) -> tuple[FileName, ...]:
    """The files that a transaction takes out as its objects say, and that are live."""
    found = []
    for name in dict.fromkeys((one.table, one.path) for one in of_kind(item.actions, "remove")):
        result.dead.add(name[1])
        if name in result.live:
            result.end(name, revision)
            found.append(name)
        elif name[1] not in known_paths and not is_in_place(name[1]):
            result.missing.add(name[1])
    return tuple(found)


def _added(
    item: FoundTransaction,
    result: Assembled,
    again: Callable[[wire.Add], RebuiltFile | None],
    revision: int,
    *,
    is_proven: bool,
) -> tuple[RebuiltFile, ...]:
    """The files that a transaction makes live and did not write. One that is live already was taken
    out before, by what is lost or by itself; but one that is live in another table stays there, if
    nothing proves the transaction: it may have been refused for that."""
    found = []
    for add in of_kind(item.actions, "add"):
        file = again(add)
        if file is None:
            continue
        table = result.tables.get(file.path)
        if table is not None:
            if table != file.table and not is_proven:
                continue
            result.end((table, file.path), revision)
            file = replace(file, removes=((table, file.path),))
        result.begin((file.table, file.path), revision)
        found.append(file)
    return tuple(found)


def _forgotten(item: FoundTransaction, result: Assembled) -> tuple[str, ...]:
    """The tables that a transaction forgets, as far as they have no files."""
    wanted = {table for found in of_kind(item.actions, "forget") for table in found.tables}
    touched = {table for table, _ in (*result.live, *item.replaces)} if wanted else set()
    touched.update(file.table for file in item.files)
    return tuple(sorted(wanted - touched))


def _files(
    item: FoundTransaction, result: Assembled, known_paths: Collection[str], revision: int
) -> tuple[tuple[RebuiltFile, ...], tuple[FileName, ...]]:
    """The files of a transaction in the order of writing, each with what it took out. Of those that
    it took out again itself only that counts."""
    done: set[FileName] = set()
    gone = {(one.table, one.path) for one in of_kind(item.actions, "remove")}
    files: list[RebuiltFile] = []
    alone: list[FileName] = []
    for file in item.files:
        removes = []
        for name in file.replaces:
            if name in done:
                continue
            done.add(name)
            result.dead.add(name[1])
            if name in result.live:
                result.end(name, revision)
                removes.append(name)
            elif name[1] not in known_paths and not is_in_place(name[1]):
                result.missing.add(name[1])
        if (file.table, file.path) in gone:
            alone += removes
            why = "its own transaction took it out again"
            own = item.transaction_id.hex()
            result.left_out.append(LeftOut(file.path, file.size_bytes, "disproved", why, own))
            continue
        table = result.tables.get(file.path)
        if table is not None:  # by a transaction that was refused, but for what nothing tells of
            result.end((table, file.path), revision)
            removes.append((table, file.path))
        result.begin((file.table, file.path), revision)
        files.append(rebuilt_file(file, tuple(removes)))
    return tuple(files), tuple(alone)


def rebuilt_file(file: OwnFile | ForeignFile, removes: tuple[FileName, ...] = ()) -> RebuiltFile:
    """A scanned file as a plan holds it."""
    return RebuiltFile(
        file.path, file.table, file.size_bytes, file.row_count, file.fingerprint, file.add, removes
    )


def _time_us(item: FoundTransaction, evidence: Evidence, latest_us: int) -> int:
    """When a transaction was committed, as the old log says, or about: by its clocks; if they are
    no times, by the store's time of its last file; 0 if nothing tells. Before a time that is known
    the store's time goes first, for users may count clocks as they like."""
    known = evidence.times_us.get(item.transaction_id)
    if known is not None:
        return known
    stored = item.stored_us
    before_us = evidence.before_us.get(item.transaction_id)
    if before_us is not None and 0 < stored < before_us:
        return stored
    latest_us = min(latest_us, before_us or latest_us)
    is_time = EARLIEST_US <= item.clock <= latest_us
    return item.clock if is_time else min(stored, latest_us)


def _why(item: FoundTransaction, evidence: Evidence, *, circular: bool) -> str:
    said = evidence.revisions.get(item.transaction_id)
    base = f"begun on revision {item.base_revision}" if item.base_revision >= 0 else "begun first"
    proof = evidence.proofs.get(item.transaction_id)
    if said is not None:
        place = f"revision {said} of the old log: {proof}"
    elif proof is not None:
        place = f"{base}; committed: {proof}"
    else:
        place = f"{base}, epoch {item.epoch}; no later footer speaks of it"
    return f"{place}; footers contradict each other about its place" if circular else place


def doubted(item: LeftOut, strays: Collection[str], *, is_whole: bool) -> LeftOut:
    """What is left out and has a sound file of a name that lakelog gives to none: it may have been
    added as it was, to the log as far as that is lost.

    Args:
        strays: Paths of sound files that are not where they say.
        is_whole: Whether the old log was read to its end.
    """
    if is_whole or item.path not in strays or parse_data_file(item.path) is not None:
        return item
    reason = f"{item.reason}; it may have been added to the log as far as that is lost"
    return replace(item, kind="foreign" if item.kind == "foreign" else "undecided", reason=reason)


def take_foreign(
    result: Assembled,
    foreign: Sequence[ForeignFile],
    *,
    include: bool,
    transaction_id: bytes,
) -> None:
    """Judge the files without lakelog metadata: taken in at the end, or left out.

    Args:
        include: Whether they are wanted.
        transaction_id: That they get.
    """
    live = {path for _, path in result.live}
    taken = []
    for file in sorted(foreign, key=lambda file: file.path.encode()):
        if file.path in live:
            continue
        if file.path in result.dead:
            reason = "no lakelog metadata; a lakelog file says that it replaced this one"
        elif not include:
            reason = "no lakelog metadata: whether it was ever part of the table, nobody knows"
        else:
            taken.append(file)
            continue
        result.left_out.append(LeftOut(file.path, file.size_bytes, "foreign", reason))
    if taken:
        result.append(
            transaction_id=transaction_id,
            proof="foreign",
            operation="append",
            not_before_us=max(file.modified_at_us or 0 for file in taken),
            files=tuple(rebuilt_file(file) for file in taken),
            why="files without lakelog metadata, taken in on request, at the end",
        )
