"""A rebuild plan in words. Pure."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plan import LeftOut, LeftOutKind, RebuildPlan, RebuiltTransaction

_KINDS: Final[dict[LeftOutKind, str]] = {
    "quarantined": "quarantined: damaged, or not what name and place say",
    "disproved": "left out: their transactions can't have been committed",
    "conflicting": "left out: another unproven transaction excludes theirs, and was begun later",
    "excluded": "left out on request",
    "foreign": "foreign: no lakelog metadata",
    "ignored": "ignored: no Parquet files",
}


def report(plan: RebuildPlan, *, limit: int = 20) -> str:
    """The plan for people: what the log will be, what is doubtful, left out, and lost.

    Args:
        limit: How many entries of each list; the tables of `plan` hold all.
    """
    lines = [*_summary(plan), ""]
    if plan.unproven:
        lines.append(f"{len(plan.unproven)} unproven: may have been written and never committed")
        lines += _some([_transaction(item) for item in plan.unproven], limit)
        lines.append("")
    by_kind = Counter(item.kind for item in plan.left_out)
    for kind, title in _KINDS.items():
        if by_kind[kind]:
            lines.append(f"{by_kind[kind]} {title}")
            lines += _some([_left_out(i) for i in plan.left_out if i.kind == kind], limit)
            lines.append("")
    lines += [f"Note: {note}." for note in plan.notes]
    return "\n".join(lines)


def _summary(plan: RebuildPlan) -> list[str]:
    live = plan.live.values()
    tables = Counter(file.table for file in live)
    proven = sum(item.proof == "proven" for item in plan.transactions)
    lines = [
        f"Rebuild of {plan.writer}/{plan.database} in {plan.url} from {plan.objects_seen} objects "
        f"({plan.bytes_seen} bytes) below data/",
        f"  transactions: {len(plan.transactions)} ({proven} proven, {len(plan.unproven)} unproven)"
        f", epoch {plan.epoch}",
        f"  live files:   {len(live)}, {sum(file.row_count for file in live)} rows, "
        f"{sum(file.size_bytes for file in live)} bytes, in {len(tables)} tables",
    ]
    if plan.transactions:
        first, last = plan.transactions[0], plan.transactions[-1]
        lines.append(
            f"  time:         {_time(first.committed_at_us)} to {_time(last.committed_at_us)}"
        )
    if plan.old_objects:
        sealed = "is sealed" if plan.seal.stands else "will be sealed"
        lines.append(
            f"  old log:      incarnation {plan.seal.log.incarnation}, {plan.old_objects} objects: "
            f"it {sealed}, and stays"
        )
    lines.append(f"  new log:      incarnation {plan.incarnation}")
    return lines


def _transaction(item: RebuiltTransaction) -> str:
    size = sum(file.size_bytes for file in item.files)
    text = (
        f"  {item.transaction_id}: revision {item.revision}, {len(item.files)} files, {size} bytes"
    )
    if item.removes:
        text += f", replaces {len(item.removes)}"
    return f"{text}; {item.why}"


def _left_out(item: LeftOut) -> str:
    return f"  {item.path} ({item.size_bytes} bytes): {item.reason}"


def _some(lines: Sequence[str], limit: int) -> list[str]:
    more = [f"  and {len(lines) - limit} more"] if len(lines) > limit else []
    return [*lines[:limit], *more]


def _time(at_us: int) -> str:
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at_us)
    return at.isoformat(timespec="seconds")
