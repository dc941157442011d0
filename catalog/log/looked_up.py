"""What was looked up of a state path by path and table by table, see `lookup`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..format.segments import FILES
from .known_schemas import KnownSchemas
from .part import Part, dead_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..format.objects import DecodedCheckpoint, DecodedTransaction
    from ..format.pieces import Piece
    from .files import Files


@dataclass(slots=True)
class LookedUp:
    """What was read of a state so far.

    Attributes:
        base: The checkpoint it was read from.
        parts: Pieces of it by their places, with the rows that are dead in the checkpoint; nobody
            asks them for what describes their rows.
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

    def rebased(self, base: DecodedCheckpoint, pieces: Iterable[Piece]) -> LookedUp:
        """What holds after the next checkpoint, too: rows of segments that it refers to again. A
        committer that writes one every few commits would read them anew each time."""
        kept = {
            piece.place: Part(self.parts[piece.place].run, (), dead_rows(piece), piece.run)
            for piece in pieces
            if piece.kind == FILES and piece.place in self.parts
        }
        return LookedUp(base, kept)

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        if self.files is not None:
            self.files.apply(transaction)
        self.schemas.apply(transaction)
