"""A transaction that nobody committed: its user is told, as of a file that nobody closed."""

from __future__ import annotations

import warnings


def warn_dropped(where: str, changes: int, source: object) -> None:
    """Warn of changes that were made and lost.

    Args:
        where: Writer and database.
        changes: How many files were to be added or removed.
    """
    if changes:
        warnings.warn(
            f"A transaction of {where} was dropped with {changes} "
            f"change{'s' if changes > 1 else ''} that nobody committed: call commit() or "
            "discard(), or use it as a context manager",
            ResourceWarning,
            stacklevel=3,
            source=source,
        )
