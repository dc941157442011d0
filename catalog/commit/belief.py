"""Whether a put that succeeded is a commit: not where the log was lost and rebuilt meanwhile.

Source: docs/format.md, section 10; docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..log.state import State
    from ..read.log_reader import LogReader


def is_still_head(log: LogReader, state: State) -> bool:
    """Whether the revision that was just followed is listed still, in the incarnation in use.

    Requests: 1 LIST.
    """
    listing = log.names_down_to(state.revision)
    return (
        state.log is not None
        and listing.incarnation == state.log.incarnation
        and {item.uuid8 for item in listing.names_at(state.revision)} == {state.uuid[:4].hex()}
        and not listing.forks(state.revision)
    )
