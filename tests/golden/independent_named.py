"""Up to which revision a tombstone holds of a log's files, for the independent reader:
docs/format.md, section 5.6. Of what a log says of itself; not of other logs of a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from independent_wire import need

if TYPE_CHECKING:
    from independent_content import Entry
    from independent_state import State
    from independent_wire import Message

NONE = -1  # below all revisions


def last_held(state: State, entry: Entry) -> int:
    """The last revision of a log of whose files one of its own tombstones holds."""
    logs = entry.facts["logs"]
    if not logs:
        return entry.revision - 1
    own = [at for at in logs if at.log_id == state.head.log_id]
    return last_named(state, own[0]) if own else NONE


def last_named(state: State, at: Message) -> int:
    """The revision of a state up to which its log is named."""
    head = state.head
    if head.incarnation == at.incarnation and head.committed_at_us <= at.committed_at_us:
        return head.revision
    rows: list[dict[str, Any]] = state.history()
    said = [row["revision"] for row in rows if at.transaction_id in row["transaction_ids"]]
    older = [row["revision"] for row in rows if row["committed_at"] <= at.committed_at_us]
    for found in (said, older):
        if found:
            return int(found[-1])
    first = int(rows[0]["revision"])
    if first == 0:
        return NONE
    need(at.incarnation == head.incarnation, "up to where a log is named can't be told")
    return min(int(at.revision), first - 1)
