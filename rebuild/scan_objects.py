"""What lies below `data/` beside data files: objects of row deletes and of actions, each with what
it says of its transaction.

Source: docs/format.md, sections 5.7 and 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.format.actions_object import decode_actions
from ..catalog.format.deletes_object import decode_deletes
from ..catalog.format.names import actions_path, deletes_path, parse_actions_file
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptObject, ObjectNotFound, UnsupportedFeature
from .scanned import OwnObject, micros

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ..catalog.format.footer import FooterMetadata
    from ..catalog.parallel import Engine
    from ..store import ObjectInfo, Store, WideStore


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """What reading one object gave.

    Attributes:
        info: As listed.
        meta: What it says of its transaction; None if it can't be used.
        found: All of it.
        problem: Why not, in words.
    """

    info: ObjectInfo
    meta: FooterMetadata | None = None
    found: OwnObject | None = None
    problem: str = ""


def read_objects(
    engine: Engine, store: WideStore, infos: Sequence[ObjectInfo], folder: str
) -> Generator[ObjectOf, None, None]:
    """Read the objects, in order.

    Args:
        engine: Who reads them.
        folder: What paths are relative to.
    Raises:
        StorageError: The store failed.
        UnsupportedFeature: A later version wrote one: a log without what it says would be wrong.
    Requests: 1 GET an object.
    """
    return engine.each(partial(_reader, folder), (store,), infos, len(infos))


def _reader(folder: str, store: Store) -> Callable[[ObjectInfo], ObjectOf]:
    return partial(_read_one, folder, store)


def _read_one(folder: str, store: Store, info: ObjectInfo) -> ObjectOf:
    try:
        return _read(info, info.key[len(folder) :], store.get(info.key))
    except UnsupportedFeature:
        raise
    except CorruptObject as error:
        return ObjectOf(info, problem=error.message)
    except ObjectNotFound:
        return ObjectOf(info, problem="it was there when it was listed and is gone now")


def own_path(meta: FooterMetadata, path: str) -> str:
    """Where an object says that it lies.

    Args:
        path: Where it was found.
    Raises:
        InvalidName: It names what can't be.
    """
    of = actions_path if parse_actions_file(path) is not None else deletes_path
    return of(meta.table, meta.epoch, meta.transaction_id, meta.number)


def _read(info: ObjectInfo, path: str, body: bytes) -> ObjectOf:
    if parse_actions_file(path) is None:
        meta, deletes = decode_deletes(body, info.key)
        actions = []
        for item in deletes.files:
            item.object = path
            actions.append(wire.Action(row_deletes=item))
        return ObjectOf(info, meta, _own(info, path, meta, actions))
    meta, message = decode_actions(body, info.key)
    found = _own(
        info,
        path,
        meta,
        list(message.actions),
        objects=message.objects,
        definition_before=message.definition_before,
        head=(message.head_revision, message.head_transaction_id),
    )
    return ObjectOf(info, meta, found)


def _own(
    info: ObjectInfo,
    path: str,
    meta: FooterMetadata,
    actions: Sequence[wire.Action],
    *,
    objects: int = 0,
    definition_before: bytes = b"",
    head: tuple[int, bytes] = (-1, b""),
) -> OwnObject:
    return OwnObject(
        path=path,
        size_bytes=info.size_bytes,
        modified_at_us=micros(info.modified_at),
        table=meta.table,
        transaction_id=meta.transaction_id,
        number=meta.number,
        base_revision=meta.base_revision,
        base_transaction_id=meta.base_transaction_id,
        epoch=meta.epoch,
        last_clock=meta.last_clock,
        log_id=meta.log_id,
        incarnation=meta.incarnation,
        slot_seed=meta.slot_seed,
        app_id=meta.app_id,
        app_version=meta.app_version,
        base_app_version=meta.base_app_version,
        operation=meta.operation,
        actions=tuple(actions),
        objects=objects,
        definition_before=definition_before,
        head=head,
    )
