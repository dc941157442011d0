"""Whether data files prove that a log was longer than it is, or that they are another log's.

A log that has lost its last transactions is a sound log of an earlier time. To who deletes, the
files of the lost ones look like leftovers of attempts that never committed. But each footer names
the head that its transaction was begun on, and an object of actions that of the moment when it was
written besides: a head that the log doesn't have was lost. And a footer or object may name a file
that its transaction took out, or deleted rows of: only what is live can be taken out, so who wrote
it had committed it. If the history goes back to that and doesn't hold it, it was lost.

An attempt that never committed proves all that as well, for it too saw what stood. Nothing is
proven by what was taken out of its own transaction, or of an earlier life of the log, or was
written by one that may have been trimmed from the history. Nor need a file that was added as it lay
be told apart: one that lakelog named is not, unless the log knows its transaction.

What can't be told apart: the files of the very last transaction, if that one was lost, and those
of an attempt that never committed. Both were begun on a revision that stands.

Source: docs/format.md, sections 8 and 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import LostTail
from ..format import compute as pc
from ..format.columns import column
from ..format.locations import is_in_place
from ..format.names import DataFile, base_folder, parse_data_file, parse_own_file
from ..log.lookup import files_with
from .own_words import read_own_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...store import ObjectInfo, Store
    from ..format.footer import FooterMetadata
    from ..log.history import Row
    from ..log.state import State
    from .own_words import OwnWords

    _Said = tuple[ObjectInfo, OwnWords]
    _Writer = tuple[int, bytes]  # epoch and transaction id

MOST_FOOTERS: Final = 32
_AT_ONCE: Final = 1 << 20
_ID_BYTES: Final = 16


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
    Requests: for each of up to 32 transactions of each, 1 or 2 GET if it has a data file there, 1
        if it has an object of row deletes, 1 if it has one of actions; with `each_epoch` for one an
        epoch at least.
    """
    assert state.log is not None
    infos, others = list(infos), list(others)
    chosen = newest(infos, each_epoch=each_epoch)
    said = _read(store, _of_each_kind(chosen, infos))
    for info, words in said:
        number = max(words.stood)[0]
        if number >= 0 and words.meta.log_id != state.log.log_id:
            raise _another_log(state, info, words.meta.log_id, number)
    said += _read(store, _of_each_kind(chosen, others))
    asked = _transactions(chosen).keys()
    rest = [info for info in others if not _transactions([info]).keys() <= asked]
    said += _read(store, _of_each_kind(newest(rest), rest))
    here = list(_of_this_life(state, said))
    _refuse_other_heads(state, here)
    _refuse_unknown_files(state, here)


def _of_this_life(state: State, said: Iterable[_Said]) -> Iterator[_Said]:
    """What was said of the incarnation in use, by who was begun on it or has seen it.

    Raises:
        LostTail: Something was said of a higher one.
    """
    assert state.log is not None
    for info, words in said:
        meta = words.meta
        if max(words.stood)[0] < 0 or meta.log_id != state.log.log_id:
            continue
        if meta.incarnation > state.log.incarnation:
            raise _lost_incarnation(state, info, meta)
        if meta.incarnation == state.log.incarnation:
            yield info, words


def _refuse_other_heads(state: State, here: Sequence[_Said]) -> None:
    """Raise if a revision is said to have stood that the log doesn't have."""
    heads = {head for _, words in here for head in words.stood if head[0] >= 0}
    rows = state.history.of_transactions({own for _, own in heads if len(own) == _ID_BYTES})
    for info, words in here:
        for number, own in words.stood:
            row = rows.get(own)
            stands = row is not None and row["revision"] == number
            if number > state.revision or (state.history.holds(number) and not stands):
                raise _lost(state, info, number)


def _refuse_unknown_files(state: State, here: Sequence[_Said]) -> None:
    """Raise if a file is said to have been live that no transaction of the history wrote, though it
    would be in there."""
    assert state.log is not None
    begun: dict[_Writer, int] = {}
    for _, words in here:
        meta = words.meta
        begun[meta.epoch, meta.transaction_id] = meta.base_revision
    taken = [
        (info, file, name)
        for info, words in here
        for file in words.taken
        if (name := _taken_name(file[1])) is not None
        and name.transaction_id != words.meta.transaction_id  # of its own: it was never live
        and name.epoch >= state.first_epoch
    ]
    rows = state.history.of_transactions({name.transaction_id for _, _, name in taken})
    unknown = [
        (info, file)
        for info, file, name in taken
        if name.transaction_id not in rows
        and _is_covered(state, name, begun.get((name.epoch, name.transaction_id), -1))
    ]
    live = files_with(state, [path for _, (_, path) in unknown]) if unknown else None
    for info, (table, path) in unknown:
        if live is not None and not live.is_live(table, path):
            raise _lost_file(state, info, path)


def _is_covered(state: State, name: DataFile, base: int) -> bool:
    """Whether the history would hold the transaction that wrote a file of this incarnation.

    Args:
        base: What it was begun on, where that is known; else -1.
    """
    first = state.history.first()
    return base + 1 >= first or name.epoch > state.history.first_epoch()


def _taken_name(path: str) -> DataFile | None:
    return None if is_in_place(path) else parse_data_file(path)


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


def _of_each_kind(chosen: Iterable[ObjectInfo], infos: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """Of each of the transactions of some files the first of its data files there, which tells most
    often what it replaces, and of its objects of row deletes and of actions, in the same order."""
    wanted = _transactions(chosen)
    first: dict[tuple[_Writer, str], tuple[int, ObjectInfo]] = {}
    for info in infos:
        name = parse_own_file(info.key)
        if name is None or (writer := (name.epoch, name.transaction_id)) not in wanted:
            continue
        kind = writer, info.key.rpartition(".")[2]
        if kind not in first or name.number < first[kind][0]:
            first[kind] = name.number, info
    place = {writer: number for number, writer in enumerate(wanted)}
    ranked = sorted(first.items(), key=lambda item: (place[item[0][0]], item[0][1]))
    return [info for _, (_, info) in ranked]


def _transactions(infos: Iterable[ObjectInfo]) -> dict[_Writer, None]:
    """The transactions of some files, each with the epoch in the name; in order."""
    names = (parse_own_file(info.key) for info in infos)
    return dict.fromkeys((name.epoch, name.transaction_id) for name in names if name is not None)


def _read(store: Store, infos: Iterable[ObjectInfo]) -> list[_Said]:
    found = ((info, read_own_words(store, info)) for info in infos)
    return [(info, words) for info, words in found if words is not None]


def read_meta(store: Store, info: ObjectInfo) -> FooterMetadata | None:
    """What lakelog wrote into a file's footer, or an object of row deletes or of actions; None if
    it can't be read, or there is nothing.

    Requests: 1 or 2 GET.
    """
    words = read_own_words(store, info)
    return None if words is None else words.meta


def _time(info: ObjectInfo) -> float:
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()


def _lost(state: State, info: ObjectInfo, base: int) -> LostTail:
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"The log of {where} has lost its end: {info.key} was written when another revision {base} "
        f"stood than the log, whose newest is {state.revision}, has",
        key=info.key,
        hint=_hint(state),
    )


def _hint(state: State) -> str:
    return (
        "Nothing was deleted. Restore the lost transactions from a copy, or plan `lakelog rebuild "
        f"URL {state.database} --writer {state.writer}`: its plan shows what the data files say"
    )


def _lost_file(state: State, info: ObjectInfo, path: str) -> LostTail:
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"The log of {where} has lost its end: {info.key} takes out {path}, or rows of it, which "
        f"was live then, and the log, whose newest revision is {state.revision}, doesn't know who "
        "committed it",
        key=info.key,
        hint=_hint(state),
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


def _another_log(state: State, info: ObjectInfo, log_id: bytes, number: int) -> LostTail:
    assert state.log is not None
    where = f"{state.writer}/{state.database}"
    return LostTail(
        f"{info.key} was written for the log {log_id.hex()}, which had revision {number} "
        f"then, and the log of {where} is {state.log.log_id.hex()}",
        key=info.key,
        hint="Nothing was deleted. If this log was put here in the place of that one, put that one "
        f"back, or plan `lakelog rebuild URL {state.database} --writer {state.writer}`. If the "
        "files came from elsewhere and are not needed, move them away",
    )
