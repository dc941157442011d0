"""Which files that no retained revision names are orphans: rules A and B of `collect`. Pure.

Source: docs/maintenance.md; docs/format.md, section 10.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import DataFile, parse_data_file
from .context import is_old, span_text
from .plan import is_data_path

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from ..catalog.margins import Margins
    from ..store import ObjectInfo

_MADE_BY_US_SLASHES: Final = 3  # data/<partition>/<table>/<file>
_UNKNOWN: Final = "unknown name: no Parquet file by its name"
_INNER: Final = "of a log that lies below this data folder: move that catalog elsewhere"
_OTHER_LOG: Final = (
    "of an epoch that this log has not come to: written for another log, or this log was lost and "
    "begun anew (then rebuild it)"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules A and B on what a look found.

    Attributes:
        epoch: Of the head.
        first_epoch: Of lower epochs nothing is known, since a rebuild; None: of none is.
        exclusive: Whether the store has put-if-absent; without it epochs prove nothing.
        now: The time to judge ages by.
        margins: With the grace period.
        committed: Revisions of committed transactions, by id, as far as the history goes back.
        inner: Folders of other logs below data/: nothing in them is this log's.
    """

    epoch: int
    first_epoch: int | None
    exclusive: bool
    now: dt.datetime
    margins: Margins
    committed: Mapping[bytes, int]
    inner: tuple[str, ...] = ()

    def judge(self, info: ObjectInfo, path: str) -> tuple[bool, str]:
        """Whether a file that no retained revision names is an orphan, and why or why not.

        Args:
            path: Its path relative to `<writer>/<database>/`.
        """
        if path.startswith(self.inner):
            return False, _INNER
        if not is_data_path(path):
            return False, _UNKNOWN
        name = parse_data_file(path) if path.count("/") == _MADE_BY_US_SLASHES else None
        if name is not None and name.epoch > self.epoch + 1:
            return False, _OTHER_LOG
        told = self.first_epoch is not None and name is not None and name.epoch >= self.first_epoch
        if self.exclusive and name is not None and told and name.epoch < self.epoch:
            when = f"written under epoch {name.epoch}, superseded by {self.epoch}"
            return True, self._reason(name, when)
        grace = span_text(self.margins.gc_grace_s)
        if is_old(info, self.now, self.margins.gc_grace_s):
            return True, self._reason(name, f"written at least {grace} ago")
        return False, f"young: written within the grace period of {grace}, or at a time not known"

    def _reason(self, name: DataFile | None, when: str) -> str:
        """Why an orphan may go: taken out of its table, or never in it."""
        revision = None if name is None else self.committed.get(name.transaction_id)
        if revision is not None:
            return f"removed: committed in revision {revision}, named by no retained one; {when}"
        whose = "named by no retained revision" if name is None else "of no commit in the history"
        return f"left over: {whose}; {when}"
