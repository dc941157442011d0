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
from .shown_rows import BORN, Asked, File, Shown, added_files, outcome

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
        back: To which revision a restore goes, by transaction id.
    """

    asked: dict[bytes, list[Asked]] = field(default_factory=dict)
    meant: dict[bytes, list[Asked]] = field(default_factory=dict)
    shown: dict[bytes, Shown | None] = field(default_factory=lambda: {b"": Shown()})
    kinds: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(len(BORN)))
    back: dict[bytes, int] = field(default_factory=dict)
    _at: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)

    def asks(self, transaction_id: bytes, asked: Asked) -> None:
        """Note what a transaction is for."""
        self.asked.setdefault(transaction_id, []).append(asked)

    def landed(self, found: DecodedTransaction, body_of: Callable[[str], bytes]) -> str:
        """One more object; what it does to the rows though nobody asked for it."""
        message = found.message
        before = self.shown.get(message.previous_digest)
        if not message.revision:
            self._at.clear()  # the log before it was lost, and what is begun anew is another one
        self._at.setdefault((found.log.incarnation, message.revision), []).append(found.digest)
        kinds = [(action, action.WhichOneof("kind") or "") for action in message.actions]
        tables = {getattr(getattr(action, kind), "table", "") for action, kind in kinds}
        for number, (action, _) in enumerate(kinds):
            tables.update(action.forget.tables, (one[0] for one in added_files(found, number)))
        if CHANGED not in tables:  # a process may change it, and its double something else
            self.meant[found.digest], self.shown[found.digest] = [], before
            return ""
        member = message.commit.members[0]
        asked = self.asked.get(member.transaction_id, [Asked()])
        if member.transaction_id in self.back:
            to = self.back[member.transaction_id]
            asked = self._going_back(found.log.incarnation, to)
        elif member.transaction_id not in self.asked and "rebuilt" in member.summary:
            asked = []  # it was given up, and files tell that it may have stood
        if not asked:  # what was asked for can't be told
            self.meant[found.digest], self.shown[found.digest] = [], None
            return ""
        results = [(one, *outcome(before, found, CHANGED, one, body_of)) for one in asked]
        good = [(one, after) for one, after, problem in results if not problem]
        self.meant[found.digest] = [one for one, _ in good]
        self.shown[found.digest] = good[0][1] if good else None
        return "" if good else results[0][2]

    def knows(self, incarnation: int, revision: int) -> bool:
        """Whether a log surely knew the table at a revision: who goes back to before that leaves
        its columns as they are."""
        then = [self.shown.get(digest) for digest in self._at.get((incarnation, revision), ())]
        return bool(then) and all(one and (one.files or one.definition) for one in then)

    def _going_back(self, incarnation: int, to: int) -> list[Asked]:
        """What may be asked for by who goes back to a revision: of one that was lost, and stands
        anew, there are several. None if one of them isn't known."""
        if not self.knows(incarnation, to):
            return []
        then = (self.shown.get(digest) for digest in self._at[incarnation, to])
        return [Asked(columns=one.columns, key=one.key, back=one) for one in then if one]

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
            path: File(file.rows, file.hidden, (file.order[0], revisions[path], n), revisions[path])
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
