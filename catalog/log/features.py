"""The features that a log requires of those who write to it. Pure.

Source: docs/format.md, section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UnsupportedFeature
from ..format.objects import (
    READER_FEATURES,
    WRITER_FEATURES,
    DecodedTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..format.pieces import Piece
    from .state import State

    Fetch = Callable[[Sequence[Piece]], list[memoryview]]
    Tail = list[DecodedTransaction]
    _Place = tuple[str, int]


def check_writer_features(state: State) -> None:
    """Refuse to write to a log that requires what this lakelog doesn't know.

    Raises:
        UnsupportedFeature: Names the features.
    """
    unknown = (state.reader_features - READER_FEATURES) | (state.writer_features - WRITER_FEATURES)
    if unknown:
        where = f"{state.writer}/{state.database}"
        raise UnsupportedFeature(
            f"The log of {where} requires {', '.join(sorted(unknown))}",
            key=where,
            hint="Upgrade lakelog, or read a point in time before the feature came in",
        )
