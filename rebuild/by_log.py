"""What an old log says of when its live files came to be live, as what a transaction says of them:
where footers and objects say otherwise, or are lost, the file is added again at its revision. So a
rebuild has files in the order of the log, and with the clocks and partitions that it gives them.
Pure, but for the pieces of the state.

Source: docs/format.md, section 8: what a log says of a file counts, whatever its footer says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ..catalog.wire import lakelog_transaction_pb2 as wire
from .evidence import FoundTransaction, of_kind
from .known_log import LiveFile, live_files, same_log
from .old_state import LIVE_IN_LOG
from .values import derived_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .evidence import Evidence, TransactionId
    from .known_log import KnownLog
    from .scanned import OwnFile
    from .values import FileName


class _Maker(NamedTuple):
    """A transaction that makes a file live: it wrote it, or its object adds it."""

    item: FoundTransaction
    wrote: OwnFile | None


def tell_by_log(
    transactions: Mapping[TransactionId, FoundTransaction],
    evidence: Evidence,
    known: KnownLog,
    usable: Collection[str],
    rebuild_id: bytes,
) -> dict[TransactionId, FoundTransaction]:
    """The transactions, with what the log says of its live files and they don't.

    Args:
        evidence: The revisions of transactions that the history holds no more are put in.
        usable: Paths of files that are there and sound.
    """
    told = _Told(transactions, evidence, known, rebuild_id)
    for file in live_files(known):
        if file.path in usable:
            told.place(file)
    return dict(transactions) | told.enriched()


class _Told:
    def __init__(
        self,
        transactions: Mapping[TransactionId, FoundTransaction],
        evidence: Evidence,
        known: KnownLog,
        rebuild_id: bytes,
    ) -> None:
        self._transactions = transactions
        self._evidence = evidence
        self._known = known
        self._rebuild_id = rebuild_id
        self._added: dict[TransactionId, list[LiveFile]] = defaultdict(list)
        self._at: dict[int, list[TransactionId]] = defaultdict(list)
        for transaction_id, (revision, _) in known.committed.items():
            self._at[revision].append(transaction_id)
        self._makers: dict[FileName, list[_Maker]] = defaultdict(list)
        for item in transactions.values():
            for file in item.files:
                self._makers[file.table, file.path].append(_Maker(item, file))
            for add in of_kind(item.actions, "add"):
                self._makers[add.table, add.path].append(_Maker(item, None))

    def place(self, file: LiveFile) -> None:
        """See that a transaction makes a file live at its revision."""
        makers = self._makers.get((file.table, file.path), [])
        there = self._at.get(file.revision)
        if there:
            if not any(maker.item.transaction_id in there for maker in makers):
                self._added[there[-1]].append(file)
            return
        likely = [maker for maker in makers if self._can_be(maker, file)]
        if not likely:
            lost_id = derived_id(self._rebuild_id, f"revision {file.revision}")
            self._added[lost_id].append(file)
            return
        item = max(likely, key=lambda maker: (maker.wrote is None, maker.item.age)).item
        self._evidence.revisions.setdefault(item.transaction_id, file.revision)
        self._evidence.proofs.setdefault(item.transaction_id, LIVE_IN_LOG)

    def _can_be(self, maker: _Maker, file: LiveFile) -> bool:
        """Whether a transaction that the history holds no more may have been that revision."""
        item = maker.item
        if item.transaction_id in self._known.committed or not same_log(item, self._known.state):
            return False
        said = self._evidence.revisions.get(item.transaction_id)
        if item.head_revision >= file.revision or said not in (None, file.revision):
            return False
        return maker.wrote is None or _says_as_log(maker.wrote, file)

    def enriched(self) -> dict[TransactionId, FoundTransaction]:
        """The transactions that add files by the log, which may be lost themselves."""
        found = {}
        epochs = self._epochs()
        for transaction_id, files in self._added.items():
            revision = files[0].revision
            self._evidence.proofs.setdefault(transaction_id, LIVE_IN_LOG)
            self._evidence.revisions.setdefault(transaction_id, revision)
            item = self._transactions.get(transaction_id)
            if item is None:
                place = bisect_right(epochs, revision, key=lambda one: one[0])
                item = self._lost(transaction_id, revision, epochs[place - 1][1] if place else 1)
            actions = (
                wire.Action(add=wire.Add(path=file.path, table=file.table, **file.facts))
                for file in files
            )
            found[transaction_id] = replace(
                item,
                actions=(*item.actions, *actions),
                touches=item.touches.union((file.table, file.path) for file in files),
            )
        return found

    def _epochs(self) -> list[tuple[int, int]]:
        """Revisions, ascending, each with the highest epoch up to it, as footers count epochs."""
        revisions = self._evidence.revisions | {
            one: revision for one, (revision, _) in self._known.committed.items()
        }
        found = sorted(
            (revisions[one], item.epoch)
            for one, item in self._transactions.items()
            if one in revisions
        )
        highest = accumulate((epoch for _, epoch in found), max)
        return [(revision, epoch) for (revision, _), epoch in zip(found, highest, strict=True)]

    def _lost(self, transaction_id: TransactionId, revision: int, epoch: int) -> FoundTransaction:
        """A transaction of which nothing is left but what the log says."""
        log = self._known.state.log
        assert log is not None
        return FoundTransaction(
            transaction_id=transaction_id,
            files=[],
            said=[],
            log_id=log.log_id,
            incarnation=log.incarnation,
            epoch=epoch,
            base_revision=revision - 1,
            base_transaction_id=b"",
            app_id="",
            app_version=0,
            base_app_version=-1,
            operation="maintenance",
            head_revision=revision - 1,
            clock=0,
            replaces=frozenset(),
            unnamed=0,
            actions=(),
            lost_objects=0,
            touches=frozenset(),
        )


def _says_as_log(wrote: OwnFile, file: LiveFile) -> bool:
    add = wire.Add.FromString(wrote.add)
    facts: dict[str, Any] = {name: getattr(add, name) for name in file.facts}
    return facts == file.facts
