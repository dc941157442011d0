"""Refuses to delete where data files were begun on a revision that the log doesn't have.

A bucket that was set back to an earlier state, log and mirror alike, holds a sound log of that
time; the files of what was committed later look like those of attempts that failed. But each footer
names the log and the revision that its transaction was begun on. Of the files that no revision
names, the newest of each epoch are asked.

What this can't see: that only the very last transaction was lost, which was begun on the head.

Source: docs/format.md, section 8; docs/protocol.md, section 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.deletes import decode_deletes
from ..catalog.format.names import parse_deletes_file, parse_own_file
from ..errors import CorruptError, InvalidParquet, LostTail, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..catalog.format.footer import FooterMetadata
    from ..catalog.log.state import State
    from ..store import ObjectInfo, Store
    from .context import MaintenanceContext

_MOST: Final = 32


def refuse_set_back(
    context: MaintenanceContext,
    state: State,
    going: Sequence[ObjectInfo],
    staying: Sequence[ObjectInfo],
) -> None:
    """Refuses if a footer names a revision that the log doesn't have.

    Args:
        state: At the head.
        going: Files that would be deleted, written by no transaction of the history.
        staying: Others that no revision names. Of these only footers of this log count: young files
            of another one may be on their way.
    Raises:
        LostTail: Names the file.
    Requests: 1 or 2 GET for up to 32 transactions of each, but of those that go at least 1 an
        epoch.
    """
    assert state.log is not None
    asked = _newest(going, each_epoch=True)
    for info, meta in _footers(context.store, asked):
        if meta.log_id != state.log.log_id:
            raise _lost(state, info, f"for the log {meta.log_id.hex()}, and this is another one")
    metas = _footers(context.store, [*asked, *_newest(staying, each_epoch=False)])
    here = [(info, meta) for info, meta in metas if meta.log_id == state.log.log_id]
    bases = {meta.base_transaction_id for _, meta in here}
    rows = state.history.of_transactions(bases)
    for info, meta in here:
        base, row = meta.base_revision, rows.get(meta.base_transaction_id)
        if meta.incarnation > state.log.incarnation:
            raise _lost(state, info, f"in incarnation {meta.incarnation} of the log")
        if meta.incarnation < state.log.incarnation:
            continue
        is_base = row is not None and row["revision"] == base
        is_other = not is_base and state.history.holds(base)
        if base > state.revision or (is_other and not _stands(state, base, meta)):
            raise _lost(state, info, f"on a revision {base} that the log doesn't have")


def _stands(state: State, revision: int, meta: FooterMetadata) -> bool:
    """Whether a revision holds a transaction: a process and its double draw one id for two."""
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
    from ..catalog.data.footers.read import read_footer

    try:
        if info.key.endswith(".parquet"):
            return read_footer(store, info.key, info.size_bytes).meta
        if parse_deletes_file(info.key) is not None:
            return decode_deletes(store.get(info.key), info.key)[0]
    except (InvalidParquet, CorruptError, ObjectNotFound):
        pass
    return None


def _lost(state: State, info: ObjectInfo, how: str) -> LostTail:
    return LostTail(
        f"The log of {state.writer}/{state.database}, whose newest revision is {state.revision}, "
        f"was set back, or is not the log of these files: {info.key} was written {how}",
        key=info.key,
        hint="Nothing was deleted. Restore the log and its mirror as they were, or plan `lakelog "
        f"rebuild URL {state.database} --writer {state.writer}`: its plan shows what the data "
        "files hold. If the files came from elsewhere and are not needed, move them away",
    )
