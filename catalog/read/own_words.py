"""What a file or object that lakelog wrote below `data/` says of its transaction: on what that was
begun, what stood when it was told, and which files of others it took out.

Source: docs/format.md, sections 5.7, 8 and 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import CorruptError, InvalidParquet, ObjectNotFound
from ..format.names import parse_actions_file, parse_deletes_file

if TYPE_CHECKING:
    from ...store import ObjectInfo, Store
    from ..format.footer import FooterMetadata


@dataclass(frozen=True, slots=True)
class OwnWords:
    """What one of them says.

    Attributes:
        meta: What a footer says; an object says the same in its message.
        stood: Revisions that were the head once, each with the id of its last transaction: what the
            transaction was begun on, and the head when an object of actions was written.
        taken: Tables and paths of files that a footer says it replaced, or an object that it
            deletes rows of: each was live by then, perhaps since after what it was begun on. What
            an object of actions takes out is not asked for: that was live at the head it names.
    """

    meta: FooterMetadata
    stood: tuple[tuple[int, bytes], ...]
    taken: tuple[tuple[str, str], ...]


def read_own_words(store: Store, info: ObjectInfo) -> OwnWords | None:
    """What lakelog wrote into a file's footer, or an object of row deletes or of actions; None if
    it can't be read, or there is nothing.

    Requests: 1 or 2 GET of a data file; 1 GET of an object.
    """
    from ..data.footers.read import read_footer

    try:
        if parse_actions_file(info.key) is not None:
            return _of_actions(store.get(info.key), info.key)
        if parse_deletes_file(info.key) is not None:
            return _of_deletes(store.get(info.key), info.key)
        meta = read_footer(store, info.key, info.size_bytes).meta
    except (InvalidParquet, CorruptError, ObjectNotFound):
        return None
    return None if meta is None else OwnWords(meta, (_base(meta),), meta.replaces)


def _of_actions(body: bytes, key: str) -> OwnWords:
    from ..format.actions_object import decode_actions

    meta, message = decode_actions(body, key)
    stood = [_base(meta)]
    if message.head_transaction_id:
        stood.append((message.head_revision, message.head_transaction_id))
    return OwnWords(meta, tuple(stood), ())


def _of_deletes(body: bytes, key: str) -> OwnWords:
    from ..format.deletes_object import decode_deletes

    meta, message = decode_deletes(body, key)
    touched = tuple((item.table, item.path) for item in message.files)
    return OwnWords(meta, (_base(meta),), touched)


def _base(meta: FooterMetadata) -> tuple[int, bytes]:
    return meta.base_revision, meta.base_transaction_id
