"""Whether what lies below `data/` proves that a log was longer than what is left of it. Pure.

A log that has lost its end is a sound log of an earlier time. What was written in this very life of
it tells the head that it was begun on, and objects that of when they were put: a head that the log
doesn't have was lost. So was a transaction whose files another one took out, or deleted rows of by
number, where the log holds neither: the files were live then.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .evidence import of_kind
from .scanned import OwnFile, OwnObject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from .evidence import TransactionId
    from .scanned import Writing
    from .values import FileName


def outgrown(
    history: Mapping[int, Collection[TransactionId]],
    live: Collection[FileName],
    own: Sequence[Writing],
) -> tuple[bool, list[int]]:
    """Whether a log was longer, and which of its revisions were another transaction when something
    was written: there it went on otherwise.

    Args:
        history: Transaction ids by revision, up to the head.
        live: Tables and paths of its live files.
        own: What was written in this life of the log.
    """
    head = max(history)
    splits: set[int] = set()
    is_longer = _lost_two(history, live, own)
    for item in own:
        for revision, transaction_id in _heads(item):
            ids = history.get(revision)
            is_longer = is_longer or revision > head
            if ids is not None and transaction_id and transaction_id not in ids:
                splits.add(revision)
    return is_longer, sorted(splits)


def _heads(item: Writing) -> Iterator[tuple[int, TransactionId]]:
    yield item.base_revision, item.base_transaction_id
    if isinstance(item, OwnObject):
        yield item.head


def _lost_two(
    history: Mapping[int, Collection[TransactionId]],
    live: Collection[FileName],
    own: Sequence[Writing],
) -> bool:
    """Whether one transaction that the history would hold, and doesn't, took out files of another
    such one, or deleted rows of them by number. What the log has was added by somebody else."""
    held = {one for ids in history.values() for one in ids}
    lost = [one for one in own if one.transaction_id not in held]
    lost = [one for one in lost if one.base_revision + 1 >= min(history)]
    makers = {(one.table, one.path): one for one in lost if isinstance(one, OwnFile)}
    return any(
        name in makers and makers[name].transaction_id != one.transaction_id
        for one in lost
        for name in _met(one)
        if name not in live
    )


def _met(item: Writing) -> Iterator[FileName]:
    """Files that something takes out, or deletes rows of."""
    if isinstance(item, OwnFile):
        yield from item.replaces
    else:
        for found in of_kind(item.actions, "remove", "row_deletes"):
            yield found.table, found.path
