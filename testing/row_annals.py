"""Which rows one table shows after each transaction object that stood, whatever became of its log:
for histories of upheavals (`annals.py`), by the digests of the objects.

Invariants:
    R1, R2  as in `changing.py`
    R3      a rebuild of a whole log changes no row, and nothing of the columns
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .changes import unlike_rows
from .shown_rows import BORN, Asked, File, Shown, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..catalog.ambient import Ambient
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State
    from ..store.base import Store

CHANGED = "c"


@dataclass(slots=True)
class RowAnnals:
    """The table at all transaction objects.

    Attributes:
        asked: What committers asked for, by transaction id: a process and its double may draw one.
        meant: Of an object: which of these it is.
        shown: By the digest of an object; None where it can't be told.
        kinds, numbers: See `Changes`.
    """

    asked: dict[bytes, list[Asked]] = field(default_factory=dict)
    meant: dict[bytes, list[Asked]] = field(default_factory=dict)
    shown: dict[bytes, Shown | None] = field(default_factory=lambda: {b"": Shown()})
    kinds: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(len(BORN)))

    def landed(self, found: DecodedTransaction, body_of: Callable[[str], bytes]) -> str:
        """One more object; what it does to the rows though nobody asked for it."""
        message = found.message
        before = self.shown.get(message.previous_digest)
        kinds = ((action, action.WhichOneof("kind") or "") for action in message.actions)
        tables = {getattr(getattr(action, kind), "table", "") for action, kind in kinds}
        if CHANGED not in tables:  # a process may change it, and its double something else
            self.meant[found.digest], self.shown[found.digest] = [], before
            return ""
        asked = self.asked.get(message.commit.members[0].transaction_id, [Asked()])
        results = [(one, *outcome(before, found, CHANGED, one, body_of)) for one in asked]
        good = [(one, after) for one, after, problem in results if not problem]
        self.meant[found.digest] = [one for one, _ in good]
        self.shown[found.digest] = good[0][1] if good else None
        return "" if good else results[0][2]

    def objects(self, digest: bytes) -> frozenset[str]:
        """The objects of row deletes that it takes to read the table."""
        shown = self.shown.get(digest)
        return shown.objects() if shown is not None else frozenset()

    def problem(self, state: State) -> str:
        """In what a reader's state differs; empty for nothing."""
        shown = self.shown.get(state.digest)
        found = "" if shown is None else shown.problem(state, CHANGED)
        return f"R2 a reader of revision {state.revision} sees {found}" if found else ""

    def unlike(self, store: Store, state: State, ambient: Ambient) -> str:
        """How the rows that are read of a state differ; empty if they don't."""
        shown = self.shown.get(state.digest)
        if shown is None or not shown.files:
            return ""
        return unlike_rows(store, state, CHANGED, shown, ambient)

    def rebuilt(self, old: bytes, state: State, store: Store, ambient: Ambient) -> str:
        """A whole log was rebuilt; what is another than it was.

        Args:
            old: The digest of its head.
            state: At the head of the rebuilt one.
        """
        before = self.shown.get(old)
        if before is None:
            return ""
        rows = state.files.table(CHANGED)
        names = ("path", "revision")
        revisions = dict(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
        if revisions.keys() != before.files.keys():
            return "R3 a rebuild changes which files there are"
        files = {
            path: File(file.rows, file.hidden, (file.order[0], revisions[path], n))
            for n, (path, file) in enumerate(sorted(before.files.items(), key=_by_order))
        }
        deletes = state.deletes
        needs = {
            path: tuple(sorted((entry.revision, entry.object) for entry in entries))
            for path, entries in deletes.rows_of(CHANGED).items()
        }
        tombstones = tuple((one.revision, one.number) for one in deletes.of_table(CHANGED))
        after = replace(before, files=files, needs=needs, tombstones=tombstones)
        self.shown[state.digest] = after
        problem = self.problem(state) or self.unlike(store, state, ambient)
        return f"R3 a rebuild: {problem}" if problem else ""


def _by_order(item: tuple[str, File]) -> tuple[int, int, int]:
    return item[1].order
