"""Telling, below `data/`, what a transaction does that no footer of its data files tells: before
the commit, so that a log which is lost later can be rebuilt with it.

Source: docs/format.md, section 8.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import FencedError, ObjectExists
from ..format.actions_object import decode_actions, encode_actions
from ..format.names import actions_path, base_folder
from ..log.build import Told
from ..log.untold import untold
from .data_file import put_data
from .file_footer import footer_of
from .uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..log.build import Intent
    from ..wire import lakelog_transaction_pb2 as wire
    from .home import Home

_IN_ONE: Final = 20_000  # actions in one object
_BYTES_IN_ONE: Final = 4 << 20


def tell(session: Home, intent: Intent) -> None:
    """Put the objects of actions of a transaction: none if its footers tell all; without any
    footer or object of deletes at least one, since that says at least when it was.

    Called again, it puts the same ones under the same names.

    Raises:
        ObjectExists: A copy of this process has told something else of it.
        CorruptObject: One is damaged, or was read so. Nothing was committed.
        StorageError: One could not be put.
    Requests: 1 PUT for each table whose actions are untold; 1 or 2 GET more for each that is there.
    """
    if not intent.actions and not intent.again and not intent.app_id:
        return
    found = untold(intent)
    if not found and intent.files == 0:
        found = {"": []}
    if not found or not _may_be_committed(session, intent):
        return
    if intent.told is None:
        base = session.base(intent.app_id)
        intent.base = intent.base or base
        intent.told = Told(base[:2], session.clock(), session.log)
    assert intent.base is not None
    parts = [(table, part) for table in sorted(found) for part in _in_parts(found[table])]
    folder = base_folder(session.writer_id, session.database)
    uploads = Uploads(partial(_put, session), in_background=session.in_background)
    none = pa.schema([])
    for number, (table, part) in enumerate(parts, intent.files):
        meta = footer_of(session, intent, intent.base, table, none, intent.told.clock)
        meta = replace(
            meta,
            number=number,
            operation=intent.said_operation,
            log_id=intent.told.log.log_id,
            incarnation=intent.told.log.incarnation,
        )
        path = actions_path(table, intent.epoch, intent.transaction_id, number)
        defines = any(action.WhichOneof("kind") == "definition" for action in part)
        before = intent.columns_of.get(table, b"") if defines else b""
        uploads.add(folder + path, encode_actions(meta, part, len(parts), intent.told.head, before))
    uploads.wait()


def _put(session: Home, key: str, body: bytes) -> None:
    """Put an object. That another one is there is believed of what is sound: what was damaged on
    its way tells of no copy of this process.

    Raises:
        ObjectExists: Another one is there.
        CorruptObject: What is there is damaged, or what was read of it.
    """
    try:
        put_data(session, key, body)
    except ObjectExists:
        found = session.store.get(key)
        if found != body:
            decode_actions(found, key)
            raise


def _may_be_committed(session: Home, intent: Intent) -> bool:
    """Whether a commit can still succeed that hasn't yet: else what is put would be an orphan."""
    try:
        session.refuse_fenced()
    except FencedError:
        return False
    if not intent.app_id:
        return True
    return session.base(intent.app_id)[2] < intent.app_version


def _in_parts(actions: Sequence[wire.Action]) -> Iterator[list[wire.Action]]:
    """What goes into one object; one without actions for none."""
    some: list[wire.Action] = []
    size = 0
    for action in actions:
        size += action.ByteSize()
        if some and (len(some) == _IN_ONE or size > _BYTES_IN_ONE):
            yield some
            some, size = [], action.ByteSize()
        some.append(action)
    yield some
