"""What a rebuild can't decide: files that may have been live, and won't be. Pure.

Nothing of it is lost: the files stay where they are, named here with the reason for each, and gc
takes none of them by itself.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .values import LeftOut, RebuiltFile, RebuiltTransaction


_MAY_BE: Final = ("undecided", "foreign")


def live_files(transactions: Iterable[RebuiltTransaction]) -> dict[str, RebuiltFile]:
    """The files that are live after transactions, by path."""
    files: dict[str, RebuiltFile] = {}
    for transaction in transactions:
        for _, path in transaction.removed:
            files.pop(path, None)
        for file in transaction.files:
            for _, path in file.removes:
                files.pop(path, None)
            files[file.path] = file
    return files


def undecided_files(
    transactions: Iterable[RebuiltTransaction], left_out: Iterable[LeftOut], *, is_whole: bool
) -> dict[str, str]:
    """Files that may have been live, by path, each with the reason: those left out that may have
    been committed, or added as they are; and, of a log whose end is lost, all that were taken out
    and are there still: they may have been added again, or what took them out never committed.

    Args:
        is_whole: Whether the old log was read to its end.
    """
    transactions = tuple(transactions)
    found = {item.path: item.reason for item in left_out if item.kind in _MAY_BE}
    if not is_whole:
        live = live_files(transactions)
        for item in transactions:
            for _, path in item.removes:
                if path not in live:
                    found[path] = _taken_out(item)
    return found


def _taken_out(item: RebuiltTransaction) -> str:
    if item.proof == "unproven":
        return f"taken out by {item.transaction_id}, which nothing proves"
    if item.app_id or item.files:
        return f"taken out by {item.transaction_id}; whether it was added again, nothing tells"
    return "taken out, as the old log says; whether it was added again, nothing tells"
