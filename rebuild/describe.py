"""A rebuild plan as rows, for whoever shows it. Pure."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from ..plans.contract import Field, Group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..catalog.format.frame import LogIdentity
    from .values import LeftOut, RebuiltTransaction, SealPlan

_TRANSACTION: Final = (
    Field("revision", style="count"),
    Field("committed_at"),
    Field("operation"),
    Field("epoch", shown=False),
    Field("original_revision", shown=False),
    Field("files_added", "FILES+", style="count"),
    Field("files_removed", "FILES-", style="count"),
    Field("rows_added", "ROWS", style="count"),
    Field("bytes_added", "SIZE", style="size"),
    Field("transaction_id", shown=False),
    Field("proof"),
    Field("why", shown=False),
)
_UNPROVEN_TITLE: Final = (
    "unproven: written, but nothing says that it was committed; exclude leaves one out"
)
_UNPROVEN: Final = (Field("transaction_id"), Field("revision", style="count"), Field("why"))
_UNDECIDED_TITLE: Final = (
    "undecided: not live, and nothing tells whether it should be; gc takes none of them by itself"
)
_UNDECIDED: Final = (Field("path"), Field("reason"))
_LEFT_OUT: Final = (
    Field("kind"),
    Field("path"),
    Field("size_bytes", "SIZE", style="size"),
    Field("transaction_id", shown=False),
    Field("reason"),
)
_INCARNATION: Final = (Field("incarnation"), Field("objects", style="count"), Field("reason"))


def _row(item: RebuiltTransaction) -> dict[str, Any]:
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=item.committed_at_us)
    return {
        "revision": item.revision,
        "committed_at": at,
        "operation": item.operation,
        "epoch": item.epoch,
        "original_revision": item.original_revision,
        "files_added": len(item.files),
        "files_removed": len(item.removes),
        "rows_added": sum(file.row_count for file in item.files),
        "bytes_added": sum(file.size_bytes for file in item.files),
        "transaction_id": item.transaction_id,
        "proof": item.proof,
        "why": item.why,
    }


def describe_transactions(transactions: Iterable[RebuiltTransaction]) -> Group:
    """The new log, a revision a row."""
    return Group("transactions", "", _TRANSACTION, tuple(map(_row, transactions)))


def describe_unproven(transactions: Iterable[RebuiltTransaction]) -> Group:
    """Transactions that may have been written and never committed."""
    rows = tuple(
        {"transaction_id": item.transaction_id, "revision": item.revision, "why": item.why}
        for item in transactions
        if item.proof == "unproven"
    )
    return Group("unproven", _UNPROVEN_TITLE, _UNPROVEN, rows)


def describe_undecided(undecided: Mapping[str, str]) -> Group:
    """Files that won't be live and may have been."""
    rows = tuple({"path": path, "reason": undecided[path]} for path in sorted(undecided))
    return Group("undecided", _UNDECIDED_TITLE, _UNDECIDED, rows)


def describe_left_out(left_out: Iterable[LeftOut]) -> Group:
    """What the new log won't name, by path."""
    rows = tuple(
        {
            "kind": item.kind,
            "path": item.path,
            "size_bytes": item.size_bytes,
            "transaction_id": item.transaction_id or None,
            "reason": item.reason,
        }
        for item in sorted(left_out, key=lambda item: item.path.encode())
    )
    return Group("left_out", "left out", _LEFT_OUT, rows)


def describe_incarnations(log: LogIdentity, seal: SealPlan, old_objects: int) -> Group:
    """What becomes of the old log, and which one comes after.

    Args:
        log: The rebuilt one.
        seal: How the present incarnation is ended.
        old_objects: How many objects there are of the old log.
    """
    sealed = "is sealed" if seal.stands else "will be sealed"
    rows: list[dict[str, Any]] = [
        {"incarnation": log.incarnation, "objects": None, "reason": "the rebuilt log"}
    ]
    if old_objects:
        old = {
            "incarnation": seal.log.incarnation,
            "objects": old_objects,
            "reason": f"{sealed}; the objects of the old log stay",
        }
        rows.insert(0, old)
    return Group("incarnations", "incarnations", _INCARNATION, tuple(rows))
