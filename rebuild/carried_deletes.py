"""Deletes of the old log in the rebuilt one: at its end, of the very files that they held of, for
revisions are other ones; those that name logs as they are. Pure, but for the pieces of the state.

Source: docs/format.md, sections 5.6, 5.7 and 10.6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.deletes import ROW_DELETES, TOMBSTONES
from ..catalog.log.build import require_actions
from ..catalog.log.deletes import message_of
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .values import derived_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..catalog.log.deletes import Tombstone
    from .assemble import Assembled
    from .known_log import KnownLog

_PATHS_IN_ONE: Final = 5_000
_BYTES_IN_ONE: Final = 2 << 20
_WHY: Final = "rows that were deleted by the old log"


def carry_deletes(result: Assembled, known: KnownLog, rebuild_id: bytes) -> None:
    """Delete again what the old log had deleted of files that are live."""
    required = b"".join(
        action.SerializeToString() for action in require_actions([TOMBSTONES, ROW_DELETES])
    )
    chunk: list[bytes] = []
    for action in _actions(result, known):
        if chunk and sum(map(len, chunk)) + len(action) > _BYTES_IN_ONE:
            _append(result, known, rebuild_id, (required, *chunk))
            chunk = []
        chunk.append(action)
    if chunk:
        _append(result, known, rebuild_id, (required, *chunk))


def _append(
    result: Assembled, known: KnownLog, rebuild_id: bytes, deletes: tuple[bytes, ...]
) -> None:
    result.append(
        transaction_id=derived_id(rebuild_id, f"deletes {len(result.transactions)}"),
        proof="proven",
        operation="maintenance",
        not_before_us=known.latest_us,
        files=(),
        why=_WHY,
        deletes=deletes,
    )


def _actions(result: Assembled, known: KnownLog) -> Iterator[bytes]:
    """What of the deletes holds of live files, as actions."""
    live: dict[str, set[str]] = {}
    for table, path in result.live:
        live.setdefault(table, set()).add(path)
    for table in sorted(known.deletes.tombstones):
        yield from _tombstones(known, table, live.get(table, set()))
    for table in sorted(live.keys() & known.deletes.tables()):
        for path, entries in sorted(known.deletes.rows_of(table).items()):
            for entry in entries if path in live[table] else ():
                item = wire.RowDeletes(
                    table=table,
                    path=path,
                    object=entry.object,
                    offset=entry.offset,
                    length=entry.length,
                    cardinality=entry.cardinality,
                    digest=entry.digest,
                )
                yield wire.Action(row_deletes=item).SerializeToString()


def _tombstones(known: KnownLog, table: str, live: set[str]) -> Iterator[bytes]:
    revisions = _revisions(known, table) if live else {}
    for tombstone in known.deletes.of_table(table):
        if tombstone.logs:  # they are named so that they are known again after a rebuild
            yield wire.Action(tombstone=message_of(tombstone)).SerializeToString()
            continue
        older = {path for path, revision in revisions.items() if revision < tombstone.revision}
        older &= live
        if tombstone.paths:
            older.intersection_update(tombstone.paths)
        yield from _of_files(tombstone, sorted(older, key=str.encode))


def _of_files(tombstone: Tombstone, paths: list[str]) -> Iterator[bytes]:
    for start in range(0, len(paths), _PATHS_IN_ONE):
        some = replace(tombstone, paths=tuple(paths[start : start + _PATHS_IN_ONE]))
        yield wire.Action(tombstone=message_of(some)).SerializeToString()


def _revisions(known: KnownLog, table: str) -> dict[str, int]:
    """By path the revision that added each file of a table, as the old log has it."""
    found: dict[str, int] = {}
    if known.state.revision >= 0:
        rows = known.state.files.table(table)
        names = ("path", "revision")
        found = dict(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
    return found | {path: at for (own, path), at in known.since.items() if own == table}
