"""What an operation relies on when it is committed, though it changes none of it. Pure.

It has read rows of a table, and writes them anew: nobody may have deleted some of them since. Or
it has found no rows to replace, or to delete, beside those of some files: none may have come since.

Source: docs/format.md, section 10; docs/changing.md, "Operations".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .files import Files
    from .state import State


@dataclass(frozen=True, slots=True)
class Claim:
    """That no rows of a table were deleted by others since an operation looked, and that none came
    which it would have replaced or deleted.

    Attributes:
        table: Its name.
        base_revision: The state that it looked at.
        words: Which rows it replaces, for messages.
        may_hold: Of some files of the table, the paths of those that may hold such rows; the state
            is that which they are files of. None: it replaces none.
        has_read: Whether it read the files that it takes out. They may have been named to it: then
            it relies on nothing, unless it puts rows in.
        only_deletes: Whether it writes none anew: it relies on `may_hold`, and on nothing else.
        has_key: Of a delete by a predicate that the log keeps, which holds of what comes as well:
            whether the table has a key, in a state. It relies on nothing, unless rows come with it
            to such a table.
    """

    table: str
    base_revision: int
    words: str = ""
    may_hold: Callable[[State, Files], Sequence[str]] | None = None
    has_read: bool = True
    only_deletes: bool = False
    has_key: Callable[[State], bool] | None = None
