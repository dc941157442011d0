"""Of files that several attempts at one task of a transaction have written, those of one attempt.
Pure.

Many processes may write the files of one transaction, and a task may be tried several times: its
rows are in the files of each attempt, and one attempt was committed. That is the one of which the
old log, a footer or an object of actions or of row deletes knows a file: whoever takes it out, adds
it again or deletes rows of it has seen it live. A file that is gone counts as well, if another one
of its attempt is there, for all of them have numbers of one block. Else the fullest stands, by
rows, then by files, then the last: a committed one is whole, and a dead one may have been cut
short.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.commit.shares import FILES_OF_AN_ATTEMPT
from ..catalog.format.names import parse_data_file
from .evidence import TransactionId, of_kind
from .values import LeftOut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .scanned import OwnFile, OwnObject
    from .values import FileName


class _Attempt(NamedTuple):
    transaction_id: TransactionId
    task: int
    attempt: int


def one_attempt_each(
    files: Iterable[OwnFile], said: Iterable[OwnObject], known: Collection[FileName]
) -> tuple[list[OwnFile], list[LeftOut]]:
    """The files that count, and the others.

    Args:
        said: Objects of row deletes and of actions.
        known: Tables and paths that the old log names.
    """
    found = list(files)
    attempts: dict[tuple[TransactionId, int], dict[_Attempt, list[OwnFile]]] = {}
    for file in found:
        if file.task >= 0:
            own = _attempt_of(file)
            tried = attempts.setdefault((file.transaction_id, file.task), defaultdict(list))
            tried[own].append(file)
    several = {task: tried for task, tried in attempts.items() if len(tried) > 1}
    if not several:
        return found, []
    told = _told(found, _named(found, said, known))
    out: dict[str, LeftOut] = {}
    for (transaction_id, task), tried in several.items():
        best = max(tried, key=lambda one: (told[one], *_fullness(tried[one]), one.attempt))
        reason = f"another attempt at task {task} of its transaction stands: {tried[best][0].path}"
        for attempt, others in tried.items():
            for file in others if attempt != best else ():
                out[file.path] = LeftOut(
                    file.path, file.size_bytes, "undecided", reason, transaction_id.hex()
                )
    return [file for file in found if file.path not in out], list(out.values())


def _attempt_of(file: OwnFile) -> _Attempt:
    return _Attempt(file.transaction_id, file.task, file.attempt)


def _fullness(files: Sequence[OwnFile]) -> tuple[int, int]:
    return sum(file.row_count for file in files), len(files)


def _named(
    files: Iterable[OwnFile], said: Iterable[OwnObject], known: Collection[FileName]
) -> set[str]:
    """Paths of files that were live, whatever table they were of then."""
    names = {path for _, path in known}
    names.update(path for file in files for _, path in file.replaces)
    for item in said:
        names.update(one.path for one in of_kind(item.actions, "remove", "add", "row_deletes"))
        names.update(path for one in of_kind(item.actions, "tombstone") for path in one.paths)
    return names


def _told(files: Iterable[OwnFile], names: Iterable[str]) -> Counter[_Attempt]:
    """How many of these names are of files of each attempt."""
    of_tasks = [file for file in files if file.task >= 0]
    own = {file.path: _attempt_of(file) for file in of_tasks}
    blocks = _blocks(of_tasks)
    told: Counter[_Attempt] = Counter()
    for path in names:
        name = parse_data_file(path)
        attempt = own.get(path)
        if attempt is None and name is not None:
            block = name.epoch, name.transaction_id, name.number // FILES_OF_AN_ATTEMPT
            attempt = blocks.get(block)
        if attempt is not None:
            told[attempt] += 1
    return told


def _blocks(files: Iterable[OwnFile]) -> Mapping[tuple[int, TransactionId, int], _Attempt]:
    """The attempt that has the numbers of each block, by epoch and transaction; of a writer that
    numbers files otherwise there are several, and none is known."""
    found: dict[tuple[int, TransactionId, int], set[_Attempt]] = defaultdict(set)
    for file in files:
        block = file.epoch, file.transaction_id, file.number // FILES_OF_AN_ATTEMPT
        found[block].add(_attempt_of(file))
    return {block: next(iter(some)) for block, some in found.items() if len(some) == 1}
