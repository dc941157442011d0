"""The names of the tables of one log, as far as they can be told.

Source: docs/format.md, section 4.7.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import CorruptError, UnsupportedFeature
from ..format.segments import SCHEMAS
from ..log.known_schemas import KnownSchemas, decode_schemas

if TYPE_CHECKING:
    from ..format.pieces import Piece
    from ..log.state import State


class TablesWarning(UserWarning):
    """Names of some tables can't be listed, since what holds them is damaged."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A range of names that can't be listed.

    Attributes:
        first, last: Of the range; no last: without end.
        error: Why.
    """

    first: str
    last: str | None
    error: CorruptError

    def holds(self, name: str) -> bool:
        """Whether a name is in the range."""
        above = self.last is not None and name.encode() > self.last.encode()
        return self.first.encode() <= name.encode() and not above

    def within(self, other: Unlisted) -> Unlisted | None:
        """What both ranges share, or None; the reason is its own, unless the other is too new."""
        first = max(self.first, other.first, key=str.encode)
        ends = [end for end in (self.last, other.last) if end is not None]
        last = min(ends, key=str.encode, default=None)
        is_newer = isinstance(other.error, UnsupportedFeature)
        shared = Unlisted(first, last, other.error if is_newer else self.error)
        return shared if last is None or shared.holds(last) else None


def table_names(state: State) -> set[str]:
    """The tables that a log knows a schema of. What can't be listed is warned of, with its range.

    Raises:
        CorruptError: None can be listed: what names the segments is damaged, or too new.
    """
    names, unlisted = listed_tables(state)
    for one in unlisted:
        if one.last is None:
            raise one.error
        warnings.warn(
            f"The tables of {state.writer}/{state.database} from {one.first!r} to {one.last!r} "
            f"can't all be listed: {one.error.message}",
            TablesWarning,
            stacklevel=3,
        )
    return names


def listed_tables(state: State) -> tuple[set[str], list[Unlisted]]:
    """The tables that a log knows a schema of, and the ranges of names in which there may be more:
    no base tells."""
    try:
        return state.schemas.tables(), []
    except CorruptError as error:
        first = error
    probe = state.copy()
    names, left = _at_base(probe)
    while left and not any(isinstance(one.error, UnsupportedFeature) for one in left):
        try:
            probe.fall_back(first)
        except CorruptError:
            break
        found, faults = _at_base(probe)
        names.update(name for name in found if any(one.holds(name) for one in left))
        left = [both for one in left for fault in faults if (both := one.within(fault))]
    return names, left


def _at_base(state: State) -> tuple[set[str], list[Unlisted]]:
    """What the present base of a state, and the transactions since, say of tables; and what of the
    base can't be used."""
    known = KnownSchemas()
    faults: list[Unlisted] = []
    pieces: list[Piece] = []
    try:
        pieces = state.of_kind(SCHEMAS)
    except CorruptError as error:
        faults.append(Unlisted("", None, error))
    for piece in pieces:
        try:
            assert state.base is not None
            data = state.bytes_of([piece])[0]
            known.load(decode_schemas(data, piece, state.base.message.revision), piece.where)
        except CorruptError as error:
            said = piece.segment
            faults.append(Unlisted(said.first_table, said.last_table, error))
    for transaction in state.tail:
        known.apply(transaction)
    return known.tables(), faults
