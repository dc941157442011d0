"""From ordered transactions to the revisions of the new log. Pure.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .values import LeftOut, RebuiltFile, RebuiltTransaction

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .evidence import Evidence, Transaction
    from .order import Ordered
    from .scan import ForeignFile, OwnFile

# A clock outside of this is no time in µs: users may count clocks as they like.
EARLIEST_US: Final = 946_684_800_000_000  # 2000-01-01
SKEW_US: Final = 86_400_000_000


@dataclass(slots=True)
class Assembled:
    """The revisions of the new log, and what was noticed on the way.

    Attributes:
        transactions: By revision, from 0.
        left_out: Files that aren't named after all.
        dead: Paths that were named and are not live at the end.
        missing: Replaced paths that are not in the store any more.
    """

    transactions: list[RebuiltTransaction] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)


def assemble(
    ordered: Ordered,
    evidence: Evidence,
    foreign: Sequence[ForeignFile],
    *,
    include_foreign: bool,
    foreign_id: bytes,
    known_paths: Collection[str],
    now_us: int,
) -> Assembled:
    """Number the transactions, and take out what each replaces.

    Args:
        foreign: Files without lakelog metadata.
        foreign_id: The id of the transaction that they get, if they are taken in.
        known_paths: All paths in the store.
        now_us: The clock: nothing was committed after it.
    """
    result = Assembled()
    live: set[str] = set()
    before_us = 0
    circular = set(ordered.circular)
    for revision, item in enumerate(ordered.transactions):
        files = _files(item, live, result, known_paths)
        before_us = max(before_us + 1, _time_us(item, now_us))
        proof = evidence.proofs.get(item.transaction_id)
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
                app_id=item.app_id,
                app_version=item.app_version,
                files=files,
                why=_why(item, evidence, circular=item.transaction_id in circular),
            )
        )
    _take_foreign(
        result,
        foreign,
        include=include_foreign,
        transaction_id=foreign_id,
        before_us=before_us,
        now_us=now_us,
    )
    return result


def _files(
    item: Transaction, live: set[str], result: Assembled, known_paths: Collection[str]
) -> tuple[RebuiltFile, ...]:
    """The files of a transaction in the order of writing, each with what it took out."""
    done: set[str] = set()
    files = []
    for file in item.files:
        removes = []
        for path in file.replaces:
            if path in done:
                continue
            done.add(path)
            result.dead.add(path)
            if path in live:
                live.discard(path)
                removes.append(path)
            elif path not in known_paths:
                result.missing.add(path)
        live.add(file.path)
        result.dead.discard(file.path)
        files.append(_rebuilt(file, tuple(removes)))
    return tuple(files)


def _rebuilt(file: OwnFile | ForeignFile, removes: tuple[str, ...] = ()) -> RebuiltFile:
    return RebuiltFile(
        file.path, file.table, file.size_bytes, file.row_count, file.fingerprint, file.add, removes
    )


def _time_us(item: Transaction, now_us: int) -> int:
    """When a transaction was about committed: by its clocks; if they are no times, by the store's
    time of its last file; 0 if nothing tells."""
    latest_us = now_us + SKEW_US
    if EARLIEST_US <= item.clock <= latest_us:
        return item.clock
    stored = [file.modified_at_us for file in item.files if file.modified_at_us is not None]
    return min(max(stored, default=0), now_us)


def _why(item: Transaction, evidence: Evidence, *, circular: bool) -> str:
    said = evidence.revisions.get(item.transaction_id)
    base = f"begun on revision {item.base_revision}" if item.base_revision >= 0 else "begun first"
    proof = evidence.proofs.get(item.transaction_id)
    if said is not None:
        place = f"revision {said} of the lost log: {proof}"
    elif proof is not None:
        place = f"{base}; committed: {proof}"
    else:
        place = f"{base}, epoch {item.epoch}; no later footer speaks of it"
    return f"{place}; footers contradict each other about its place" if circular else place


def _take_foreign(
    result: Assembled,
    foreign: Sequence[ForeignFile],
    *,
    include: bool,
    transaction_id: bytes,
    before_us: int,
    now_us: int,
) -> None:
    taken = []
    for file in sorted(foreign, key=lambda file: file.path.encode()):
        if file.path in result.dead:
            reason = "no lakelog metadata; a lakelog file says that it replaced this one"
        elif not include:
            reason = "no lakelog metadata: whether it was ever part of the table, nobody knows"
        else:
            taken.append(file)
            continue
        result.left_out.append(LeftOut(file.path, file.size_bytes, "foreign", reason))
    if not taken:
        return
    result.transactions.append(
        RebuiltTransaction(
            revision=len(result.transactions),
            transaction_id=transaction_id.hex(),
            proof="foreign",
            original_revision=None,
            base_revision=len(result.transactions) - 1,
            epoch=0,
            operation="append",
            committed_at_us=max(before_us + 1, now_us),
            app_id="",
            app_version=0,
            files=tuple(_rebuilt(file) for file in taken),
            why="files without lakelog metadata, taken in on request, at the end",
        )
    )
