"""Who deleted what: several may execute the same plan at once, and each reports its own.

A local file system says for each file who removed it. S3 answers every deletion alike, whether the
object was there or not, so there a report can only say that the objects are gone now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .plan import Report

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .plan import Deletion, Kept, Plan


@dataclass(slots=True)
class Deleted:
    """What an execution has deleted so far.

    Attributes:
        objects, size_bytes: Deleted by this execution; or by another one meanwhile, if not `exact`.
        gone: Found gone just when they were to be deleted.
        exact: Whether the store said of each object if it was there.
    """

    objects: int = 0
    size_bytes: int = 0
    gone: int = 0
    exact: bool = True

    def add(self, asked: Sequence[Deletion], gone: Collection[str] | None) -> None:
        """One more batch.

        Args:
            asked: What was to be deleted.
            gone: As `Store.delete` answered.
        """
        done = [action for action in asked if gone is None or action.key not in gone]
        self.objects += len(done)
        self.size_bytes += sum(action.size_bytes for action in done)
        self.gone += len(asked) - len(done)
        self.exact = self.exact and (gone is not None or not asked)

    def report(self, plan: Plan, gone: int = 0, kept: tuple[Kept, ...] = ()) -> Report:
        """The report of the whole execution.

        Args:
            gone: Objects of the plan that were gone before.
            kept: Objects of the plan that were left alone.
        """
        return Report(
            plan.kind, plan.writer, plan.database, self.objects, self.size_bytes,
            self.gone + gone, kept, self.exact,
        )  # fmt: skip
