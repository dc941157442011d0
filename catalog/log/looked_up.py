"""What was looked up of a state path by path and table by table, see `lookup`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .known_schemas import KnownSchemas

if TYPE_CHECKING:
    from ..format.objects import DecodedCheckpoint, DecodedTransaction
    from .files import Files
    from .part import Part


@dataclass(slots=True)
class LookedUp:
    """What was read of a state so far.

    Attributes:
        base: The checkpoint it was read from.
        parts: Pieces of it by their places, with the rows that are dead in the checkpoint.
        files: Of these pieces and all transactions since; None: not asked yet. It knows nothing
            but the paths that the pieces were chosen for.
        schemas: Of the tables asked for; others may be missing.
        tables: Those asked for.
    """

    base: DecodedCheckpoint | None = None
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    files: Files | None = None
    schemas: KnownSchemas = field(default_factory=KnownSchemas)
    tables: set[str] = field(default_factory=set)

    def copy(self) -> LookedUp:
        """An independent copy; rows are shared, being immutable."""
        return LookedUp(
            self.base,
            dict(self.parts),
            self.files and self.files.copy(),
            self.schemas.copy(),
            set(self.tables),
        )

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        if self.files is not None:
            self.files.apply(transaction)
        self.schemas.apply(transaction)
