"""Finds data files that were begun on a revision which the log doesn't have.

A bucket that was set back to an earlier state, log and mirror alike, holds a sound log of that
time; the files of what was committed later look like those of attempts that failed. But each footer
names the log and the revision that its transaction was begun on. Of the files that no revision
names, the newest of each epoch are read.

What this can't see: that only the very last transaction was lost, which was begun on the head.

Source: docs/format.md, section 8; docs/protocol.md, section 2.9.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import CorruptError, InvalidParquet, ObjectNotFound
from ..format.deletes import decode_deletes
from ..format.names import base_folder, parse_deletes_file, parse_own_file
from ..log.state import empty_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...store import ObjectInfo, Store
    from ..format.footer import FooterMetadata
    from ..log.state import State

_MOST: Final = 32
_LEFT_FILES: Final = 1_000  # that are listed of a log that is gone


class LostBase(NamedTuple):
    """A data file whose transaction was begun on what the log doesn't have.

    Attributes:
        key: The file.
        begun: On what, in words that follow "was begun".
        is_foreign: Whether it is of another writer or database.
    """

    key: str
    begun: str
    is_foreign: bool = False


def lost_bases(
    store: Store, state: State, going: Sequence[ObjectInfo], staying: Sequence[ObjectInfo] = ()
) -> Iterator[LostBase]:
    """Yields files that were begun on a revision which the log doesn't have.

    Args:
        state: At the head; the empty one if the log is gone.
        going: Files that no revision names, written by no transaction of the history.
        staying: More of these, of which only those of this log count: young files of another one
            may be on their way.
    Requests: 1 or 2 GET for up to 32 transactions of each, but of `going` at least 1 an epoch.
    """
    first = _newest(going, each_epoch=True)
    own_id = b"" if state.log is None else state.log.log_id
    metas = _footers(store, first)
    for info, meta in metas:
        if own_id and meta.log_id != own_id:
            other = f"on the log {meta.log_id.hex()}, and this is another one"
            names = meta.writer, meta.database
            yield LostBase(info.key, other, names != (state.writer, state.database))
    metas += _footers(store, _newest(staying, each_epoch=False))
    here = [(info, meta) for info, meta in metas if not own_id or meta.log_id == own_id]
    rows = state.history.of_transactions({meta.base_transaction_id for _, meta in here})
    incarnation = 0 if state.log is None else state.log.incarnation
    for info, meta in here:
        base, row = meta.base_revision, rows.get(meta.base_transaction_id)
        if meta.incarnation > incarnation > 0:
            yield LostBase(info.key, f"in incarnation {meta.incarnation} of the log")
        if 0 < meta.incarnation < incarnation:
            continue
        is_base = row is not None and row["revision"] == base
        is_other = not is_base and state.history.holds(base)
        if base > state.revision or (is_other and not _is_in(state, base, meta)):
            yield LostBase(info.key, f"on a revision {base} that the log doesn't have")


def left_file(store: Store, writer: str, database: str) -> LostBase | None:
    """Returns a data file that was begun on a revision of a log that is gone. None: there is none,
    as where a first commit is under way.

    Requests: 1 LIST; then, until one is found, 1 or 2 GET for the newest file of each of up to 32
        transactions, but at least 1 an epoch.
    """
    state = empty_state(writer, database)
    files = itertools.islice(store.list(f"{base_folder(writer, database)}data/"), _LEFT_FILES)
    for info in _newest(files, each_epoch=True):
        for one in lost_bases(store, state, [info]):
            return one
    return None


def _is_in(state: State, revision: int, meta: FooterMetadata) -> bool:
    """Checks whether a revision holds a base: a process and its double draw one id for two."""
    rows = state.history.after(revision - 1)
    ids = (row["transaction_ids"] for row in rows if row["revision"] == revision)
    return any(meta.base_transaction_id in one for one in ids)


def _newest(infos: Iterable[ObjectInfo], *, each_epoch: bool) -> list[ObjectInfo]:
    """Returns one file for each of some transactions: of each epoch the newest, then of each the
    second newest, and so on, up to 32.

    Args:
        each_epoch: Take the newest of each epoch even if these are more.
    """
    one_each: dict[tuple[int, bytes], ObjectInfo] = {}
    for info in sorted(infos, key=_time):
        name = parse_own_file(info.key)
        if name is not None:
            one_each[name.epoch, name.transaction_id] = info
    by_epoch: dict[int, list[ObjectInfo]] = {}
    for (epoch, _), info in one_each.items():
        by_epoch.setdefault(epoch, []).append(info)
    ranked = [
        (rank, -epoch, info)
        for epoch, files in by_epoch.items()
        for rank, info in enumerate(sorted(files, key=_time, reverse=True))
    ]
    ranked.sort(key=lambda item: item[:2])
    most = max(_MOST, len(by_epoch)) if each_epoch else _MOST
    return [info for _, _, info in ranked[:most]]


def _time(info: ObjectInfo) -> float:
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()


def _footers(store: Store, infos: list[ObjectInfo]) -> list[tuple[ObjectInfo, FooterMetadata]]:
    """Returns what lakelog wrote into files, of those that can be read and were begun on a
    revision."""
    pairs = [(info, _footer(store, info)) for info in infos]
    return [(info, meta) for info, meta in pairs if meta is not None and meta.base_revision >= 0]


def _footer(store: Store, info: ObjectInfo) -> FooterMetadata | None:
    from ..data.footers.read import read_footer

    try:
        if info.key.endswith(".parquet"):
            return read_footer(store, info.key, info.size_bytes).meta
        if parse_deletes_file(info.key) is not None:
            return decode_deletes(store.get(info.key), info.key)[0]
    except (InvalidParquet, CorruptError, ObjectNotFound):
        pass
    return None
