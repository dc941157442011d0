"""Whether data files prove that a log was longer than it is, or that they are another log's.

A log that has lost its last transactions is a sound log of an earlier time. To who deletes, the
files of the lost ones look like leftovers of attempts that never committed. But each footer names
the head that its transaction was begun on: a head that the log doesn't have was lost.

What can't be told apart: the files of the very last transaction, if that one was lost, and those
of an attempt that never committed. Both were begun on a revision that stands.

Source: docs/format.md, sections 8 and 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptError, InvalidParquet, LostTail, ObjectNotFound
from ..format import compute as pc
from ..format.columns import column
from ..format.names import (
    DataFile,
    base_folder,
    parse_actions_file,
    parse_deletes_file,
    parse_own_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...store import ObjectInfo, Store
    from ..format.footer import FooterMetadata
    from ..log.history import Row
    from ..log.state import State

MOST_FOOTERS: Final = 32
_AT_ONCE: Final = 1 << 20


def refuse_lost_tail(
    store: Store,
    state: State,
    infos: Iterable[ObjectInfo],
    others: Iterable[ObjectInfo] = (),
    *,
    each_epoch: bool = False,
) -> None:
    """Raise if files that the log doesn't name prove that it is not all there was.

    Args:
        infos: Those files; of names that lakelog did not make nothing is asked.
        others: More of them, of which only this log's own footers count: others may lie here.
        each_epoch: Read one of `infos` of every epoch, however many there are.
    Raises:
        LostTail: Names one that proves it.
    Requests: 1 or 2 GET a transaction, up to 32 of each; with `each_epoch` 1 an epoch at least.
    """
    assert state.log is not None
    footers = [(info, read_meta(store, info)) for info in newest(infos, each_epoch=each_epoch)]
    for info, meta in footers:
        if meta is not None and meta.base_revision >= 0 and meta.log_id != state.log.log_id:
            raise _another_log(state, info, meta)
    footers += [(info, read_meta(store, info)) for info in newest(others)]
    here = []
    for info, meta in footers:
        if meta is None or meta.base_revision < 0 or meta.log_id != state.log.log_id:
            continue
        if meta.incarnation > state.log.incarnation:
            raise _lost_incarnation(state, info, meta)
        if meta.incarnation == state.log.incarnation:
            here.append((info, meta))
    rows = state.history.of_transactions({meta.base_transaction_id for _, meta in here})
    for info, meta in here:
        row, base = rows.get(meta.base_transaction_id), meta.base_revision
        stands = row is not None and row["revision"] == base
        if base > state.revision or (state.history.holds(base) and not stands):
            raise _lost(state, info, base)


def find_unnamed(state: State, infos: Sequence[ObjectInfo]) -> Iterator[ObjectInfo]:
    """Data files of lakelog's making that are not live at the head, and that the transactions of
    the history didn't write.

    Args:
        infos: Of all that lies below `data/`, listed before the state was read.
    """
    cut = len(base_folder(state.writer, state.database))
    live = pa.chunked_array([*state.files.paths(), *state.deletes.objects()], pa.string())
    for low in range(0, len(infos), _AT_ONCE):
        some = [info for info in infos[low : low + _AT_ONCE] if parse_own_file(info.key)]
        there = pc.is_in(column([info.key[cut:] for info in some], pa.string()), live).to_pylist()
        left = [info for info, is_live in zip(some, there, strict=True) if not is_live]
        names = {info.key: name for info in left if (name := parse_own_file(info.key))}
        ids = {name.transaction_id for name in names.values()}
        rows = state.history.of_transactions(ids) if ids else {}
        for info in left:
            name = names[info.key]
            row = rows.get(name.transaction_id)
            of_before = row is not None and name.epoch < state.first_epoch
            if not of_before and not is_written_by(row, name):
                yield info


def is_written_by(row: Row | None, name: DataFile) -> bool:
    """Whether the transaction of a history row wrote a file of this incarnation. A process and its
    double may draw one transaction id for two, and then own the log under different epochs.
    """
    return row is not None and row["epoch"] == name.epoch


def newest(infos: Iterable[ObjectInfo], *, each_epoch: bool = False) -> list[ObjectInfo]:
    """One file for each of some transactions: of each epoch the newest, then of each the second
    newest, and so on, up to 32.

    Args:
        each_epoch: Of each epoch the newest, even if these are more.
    """
    one_each: dict[bytes, tuple[int, ObjectInfo]] = {}
    for info in infos:
        name = parse_own_file(info.key)
        if name is None:
            continue
        known = one_each.get(name.transaction_id)
        if known is None or _time(info) > _time(known[1]):
            one_each[name.transaction_id] = (name.epoch, info)
    by_epoch: dict[int, list[ObjectInfo]] = {}
    for epoch, info in one_each.values():
        by_epoch.setdefault(epoch, []).append(info)
    ranked = [
        (rank, -epoch, info)
        for epoch, found in by_epoch.items()
        for rank, info in enumerate(sorted(found, key=_time, reverse=True))
    ]
    ranked.sort(key=lambda item: item[:2])
    most = max(MOST_FOOTERS, len(by_epoch)) if each_epoch else MOST_FOOTERS
    return [info for _, _, info in ranked[:most]]


def read_meta(store: Store, info: ObjectInfo) -> FooterMetadata | None:
    """What lakelog wrote into a file's footer, or an object of row deletes or of actions; None if
    it can't be read, or there is nothing.

    Requests: 1 or 2 GET.
    """
    from ..data.footers.read import read_footer
    from ..format.actions_object import decode_actions
    from ..format.deletes_object import decode_deletes

    try:
        if parse_actions_file(info.key) is not None:
            return decode_actions(store.get(info.key), info.key)[0]
        if parse_deletes_file(info.key) is not None:
            return decode_deletes(store.get(info.key), info.key)[0]
        return read_footer(store, info.key, info.size_bytes).meta
    except (InvalidParquet, CorruptError, ObjectNotFound):
        return None


def _time(info: ObjectInfo) -> float:
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()


def _lost(state: State, info: ObjectInfo, base: int) -> LostTail:
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"The log of {where} has lost its end: {info.key} was written when another revision {base} "
        f"stood than the log, whose newest is {state.revision}, has",
        key=info.key,
        hint="Nothing was deleted. Restore the lost transactions from a copy, or plan `lakelog "
        f"rebuild URL {state.database} --writer {state.writer}`: its plan shows what the data "
        "files say",
    )


def _lost_incarnation(state: State, info: ObjectInfo, meta: FooterMetadata) -> LostTail:
    assert state.log is not None
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"The log of {where} has lost what it was last: {info.key} was written in its "
        f"incarnation {meta.incarnation}, and it is in incarnation {state.log.incarnation}",
        key=info.key,
        hint="Nothing was deleted. If the log was set back to a copy from before a rebuild, put "
        f"back what it was after that, or plan `lakelog rebuild URL {state.database} --writer "
        f"{state.writer}`: its plan shows what the data files say",
    )


def _another_log(state: State, info: ObjectInfo, meta: FooterMetadata) -> LostTail:
    assert state.log is not None
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"{info.key} was written for the log {meta.log_id.hex()}, which had revision "
        f"{meta.base_revision} then, and the log of {where} is {state.log.log_id.hex()}",
        key=info.key,
        hint="Nothing was deleted. If this log was put here in the place of that one, put that one "
        f"back, or plan `lakelog rebuild URL {state.database} --writer {state.writer}`. If the "
        "files came from elsewhere and are not needed, move them away",
    )
