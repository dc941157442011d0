"""Of files that several attempts at one task of a transaction have written, those of one attempt.
Pure.

Many processes may write the files of one transaction, and a task may be tried several times: its
rows are in the files of each attempt, and one attempt was committed. That is the one of which the
old log, or a later footer, knows a file. Else the fullest stands, by rows, then by files, then the
last: a committed one is whole, and a dead one may have been cut short.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .values import LeftOut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .evidence import TransactionId
    from .scanned import OwnFile
    from .values import FileName


def one_attempt_each(
    files: Iterable[OwnFile], known: Collection[FileName]
) -> tuple[list[OwnFile], list[LeftOut]]:
    """The files that count, and the others.

    Args:
        known: Tables and paths that the old log names.
    """
    found = list(files)
    attempts: dict[tuple[TransactionId, int], dict[int, list[OwnFile]]] = {}
    for file in found:
        if file.task >= 0:
            tried = attempts.setdefault((file.transaction_id, file.task), defaultdict(list))
            tried[file.attempt].append(file)
    several = {task: tried for task, tried in attempts.items() if len(tried) > 1}
    if not several:
        return found, []
    told = {*known, *(name for file in found for name in file.replaces)}
    out: dict[str, LeftOut] = {}
    for (transaction_id, task), tried in several.items():
        best = max(tried, key=lambda attempt: _strength(attempt, tried[attempt], told))
        reason = f"another attempt at task {task} of its transaction stands: {tried[best][0].path}"
        for attempt, others in tried.items():
            for file in others if attempt != best else ():
                out[file.path] = LeftOut(
                    file.path, file.size_bytes, "undecided", reason, transaction_id.hex()
                )
    return [file for file in found if file.path not in out], list(out.values())


def _strength(
    attempt: int, files: list[OwnFile], told: Collection[FileName]
) -> tuple[int, int, int, int]:
    known = sum((file.table, file.path) in told for file in files)
    return known, sum(file.row_count for file in files), len(files), attempt
