"""Which files that no retained revision names are orphans: rules A, B and C of `collect`. Pure.

Source: docs/maintenance.md; docs/format.md, section 10.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ..catalog.format.names import DataFile, parse_own_file, place_of
from .context import is_old, span_text
from .plan import is_data_path

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Mapping

    from ..catalog.log.history import Row
    from ..catalog.margins import Margins
    from ..store import ObjectInfo

_UNKNOWN: Final = "unknown name: no Parquet file by its name"
_INNER: Final = "of a log that lies below this data folder: move that catalog elsewhere"
_OTHER_LOG: Final = (
    "of an epoch that this log has not come to: written for another log, or this log was lost and "
    "begun anew (then rebuild it)"
)
_ASK: Final = "; `lakelog gc --undecided` plans these"


class Verdict(NamedTuple):
    """What becomes of a file.

    Attributes:
        goes: Whether it is to be deleted.
        why: In words.
        asked: Whether it goes only because undecided files were asked for.
    """

    goes: bool
    why: str
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules A, B and C on what a look found.

    Attributes:
        epoch: Of the head.
        superseded_at: When that epoch began, by the store's clock; None: nobody knows any more.
        first_epoch, begun_at: Of the incarnation: the epoch of its revision 0, and when it began.
        incarnation: Its number.
        exclusive: Whether the store has put-if-absent; without it epochs prove nothing.
        now: The time to judge ages by.
        margins: With the grace period.
        committed: History rows of committed transactions, by id, as far as the history goes back.
        undecided: Whether to delete, once they are old, what may have been committed in a life of
            the log that nobody can read any more.
        inner: Folders of other logs below data/: nothing in them is this log's.
        strangers: Transaction ids of files that are older than the incarnation, and of which
            nothing says that they were written for it.
    """

    epoch: int
    superseded_at: dt.datetime | None
    first_epoch: int
    begun_at: dt.datetime
    incarnation: int
    exclusive: bool
    now: dt.datetime
    margins: Margins
    committed: Mapping[bytes, Row]
    undecided: bool = False
    inner: tuple[str, ...] = ()
    strangers: Collection[bytes] = frozenset()

    def judge(self, info: ObjectInfo, path: str) -> Verdict:
        """What becomes of a file that no retained revision names.

        Args:
            path: Its path relative to `<writer>/<database>/`.
        """
        if path.startswith(self.inner):
            return Verdict(False, _INNER)
        if not is_data_path(path):
            return Verdict(False, _UNKNOWN)
        name = own_name(path)
        if name is not None and name.epoch > self.epoch + 1:
            return Verdict(False, _OTHER_LOG)
        doubt = self._doubt(info, name)
        if doubt and not self.undecided:
            return Verdict(False, doubt + _ASK)
        if not doubt and name is not None and self._is_superseded(info, name):
            when = f"written under epoch {name.epoch}, superseded by {self.epoch}"
            return Verdict(True, self._reason(name, when))
        grace = span_text(self.margins.gc_grace_s)
        if not is_old(info, self.now, self.margins.gc_grace_s):
            young = f"young: written within the grace period of {grace}, or at a time not known"
            return Verdict(False, young)
        if doubt:
            return Verdict(True, f"asked for: {doubt}", asked=True)
        return Verdict(True, self._reason(name, f"written at least {grace} ago"))

    def _is_superseded(self, info: ObjectInfo, name: DataFile) -> bool:
        """Whether no transaction to come can name a file. What came here when a higher epoch had
        begun may be what a replication brought: it names files whatever their epoch."""
        if not self.exclusive or name.epoch >= self.epoch or self.superseded_at is None:
            return False
        return info.modified_at is not None and info.modified_at < self.superseded_at

    def is_older(self, info: ObjectInfo) -> bool:
        """Whether a file may be older than the incarnation: it was not surely written since."""
        return info.modified_at is None or info.modified_at <= self.begun_at

    def _doubt(self, info: ObjectInfo, name: DataFile | None) -> str:
        """Why nobody knows whether a file was ever committed; empty if that is known."""
        since = "the rebuild" if self.incarnation > 1 else "the log began"
        if name is not None and name.epoch < self.first_epoch:
            return f"undecided since {since}: of an epoch before {self.first_epoch}, its first"
        if name is not None and name.transaction_id in self.strangers:
            return f"undecided since {since}: older, and nothing says that it is of this log"
        if name is None and self.is_older(info):
            return f"undecided since {since}: older, and not of lakelog's making"
        return ""

    def _reason(self, name: DataFile | None, when: str) -> str:
        """Why an orphan may go: taken out of its table, or never in it."""
        row = None if name is None else self.committed.get(name.transaction_id)
        if row is not None:
            where = f"committed in revision {row['revision']}"
            return f"removed: {where}, named by no retained one; {when}"
        whose = "named by no retained revision" if name is None else "of no commit in the history"
        return f"left over: {whose}; {when}"


def own_name(path: str) -> DataFile | None:
    """What the name of a file says that lies where lakelog puts its own."""
    return None if place_of(path) is None else parse_own_file(path)
