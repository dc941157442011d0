"""Files that came to be live, or were taken out, after all that the old log tells of them: by what
it doesn't hold any more. What it holds it has told the end of. Pure, but for the pieces of the
state.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.format.columns import column
from .gaps import head_below, last_revision, own_revision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .evidence import FoundTransaction, TransactionId
    from .known_log import KnownLog
    from .moments import Moments
    from .values import FileName


def added_later(name: FileName, moments: Moments, known: KnownLog) -> bool:
    """Whether a file was made live after all that the old log tells of it."""
    start = moments.result.lives[name][-1][0]
    if start >= len(moments.ordered):
        return False
    item = moments.ordered[start]
    own = own_revision(item, moments.evidence, known)
    if item.transaction_id in known.committed or own is None:
        return False
    return own > known.removed.get(name, known.state.revision)


class _Replacer(NamedTuple):
    """The last revision that a transaction can have been, and its id."""

    last: int
    transaction_id: TransactionId


class ReplacedLater:
    """Which live files of the old log were replaced after all that it tells of them, by what was
    begun when they had come to be live for the last time: a file that was removed and added again
    is live.

    Args:
        names: Those that the other transactions don't make live.
    """

    def __init__(self, moments: Moments, names: Collection[FileName], known: KnownLog) -> None:
        self._highest: dict[FileName, int] = {}  # the highest revision below what replaces it
        self._last: dict[FileName, _Replacer] = {}
        written = _written(moments.ordered, names, known)
        for item in moments.ordered:
            head = head_below(item, moments.evidence, known)
            if item.transaction_id in known.committed or head is None:
                continue
            last = last_revision(item, moments.evidence, known)
            for name in item.replaces.intersection(names):
                # Who takes a file out comes after who wrote it, on whatever it was begun.
                below = max(head, written.get(name, -1))
                self._highest[name] = max(below, self._highest.get(name, -1))
                one = _Replacer(last, item.transaction_id)
                self._last[name] = max(one, self._last.get(name, one))
        self._since = _since(self._highest, known)
        self.names = {one for one, head in self._highest.items() if head >= self._began(one)}

    def doubts(self) -> list[str]:
        """Of the files that stay live those that may have been replaced later, in words."""
        return [
            f"Whether {name[1]} came to be live for the last time before transaction "
            f"{one.transaction_id.hex()} took it out, nothing tells: it is live"
            for name, one in sorted(self._last.items())
            if name not in self.names and one.last > self._began(name)
        ]

    def _began(self, name: FileName) -> int:
        return self._since.get(name, -1)


def _written(
    ordered: Iterable[FoundTransaction], names: Collection[FileName], known: KnownLog
) -> dict[FileName, int]:
    """Revisions that wrote files, as far as the old log holds them."""
    return {
        name: known.committed[item.transaction_id][0]
        for item in ordered
        if item.transaction_id in known.committed
        for name in ((file.table, file.path) for file in item.files)
        if name in names
    }


def _since(names: Collection[FileName], known: KnownLog) -> dict[FileName, int]:
    """Since which revision files are live, as the old log has it."""
    since = {name: known.since[name] for name in names if name in known.since}
    for table in {name[0] for name in names if name not in since}:
        rows = known.state.files.table(table, whole=True)
        paths = column([path for found, path in names if found == table], pa.string())
        rows = rows.filter(pc.is_in(rows.column("path"), paths)).select(["path", "revision"])
        since = {(table, row["path"]): row["revision"] for row in rows.to_pylist()} | since
    return since
