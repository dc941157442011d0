"""What footers and objects say of files that no revision names: whether the log was longer, or
whether they were written for another life of it.

Source: docs/format.md, section 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import MAX_EPOCH, base_folder, parse_own_file
from ..catalog.read.lost_tail import (
    find_unnamed,
    is_written_by,
    newest,
    read_meta,
    refuse_lost_tail,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..catalog.log.state import State
    from ..store import ObjectInfo
    from .context import MaintenanceContext
    from .rules import Rules, Verdict


def refuse_by_footers(
    context: MaintenanceContext,
    state: State,
    rules: Rules,
    left: Sequence[ObjectInfo],
    verdicts: Mapping[str, Verdict],
) -> None:
    """Raise if a file that would go, or any other that no revision names, proves that the log was
    longer. Of the first of the lost transactions only files of later ones tell, and where each
    process commits once these are of later epochs: they may be young, or above the head's.

    Requests: none if nothing goes; else for each of up to 64 transactions, but of files that go at
        least 1 an epoch, 1 or 2 GET of a data file, and 1 GET of an object of row deletes and of
        one of actions, where it has these.
    """
    going = {key for key, verdict in verdicts.items() if verdict.goes and not verdict.asked}
    if not going:
        return
    unproven = list(_unproven(left, rules, MAX_EPOCH))
    refuse_lost_tail(
        context.store,
        state,
        (info for info in unproven if info.key in going),
        (info for info in unproven if info.key not in going),
        each_epoch=True,
    )


def strangers(
    context: MaintenanceContext, state: State, rules: Rules, left: Sequence[ObjectInfo]
) -> set[bytes]:
    """Transaction ids of files that are older than the incarnation, and of which no footer says
    that they were written for it.

    Requests: 1 or 2 GET a transaction, up to 32.
    """
    ours = _unproven(left, rules, rules.epoch + 1)
    older = [info for info in ours if rules.is_older(info)]
    found = {name.transaction_id for info in older if (name := parse_own_file(info.key))}
    for info in newest(older):
        meta = read_meta(context.store, info)
        if meta is not None and LogIdentity(meta.log_id, meta.incarnation) == state.log:
            found.discard(meta.transaction_id)
    return found


def _unproven(infos: Iterable[ObjectInfo], rules: Rules, highest: int) -> Iterator[ObjectInfo]:
    """Files of names that lakelog made, of epochs from the incarnation's first to the highest, and
    written by no transaction of the history."""
    for info in infos:
        name = parse_own_file(info.key)
        if (
            name is not None
            and rules.first_epoch <= name.epoch <= highest
            and not is_written_by(rules.committed.get(name.transaction_id), name)
        ):
            yield info


def refuse_to_forget(context: MaintenanceContext, state: State) -> None:
    """Raise if data files prove that the log was longer: prune takes the history that shows it.

    Args:
        state: Of the head, a moment ago.
    Requests: 1 LIST of the data files, 1 of the log and 1 GET a new transaction; for each of up
        to 32 transactions 1 or 2 GET of a data file, and 1 GET of an object of row deletes and of
        one of actions, where it has these.
    """
    listed = list(context.store.list(f"{base_folder(context.writer, context.database)}data/"))
    state = context.log.advance(state)  # a file may have been begun on what was committed meanwhile
    refuse_lost_tail(context.store, state, (), find_unnamed(state, listed))
