"""Whether a transaction in the log has the content of an intent. Pure.

The same actions look different in the log: many adds stand in columns, and several transactions
may share an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .again import names_again
from .part import Part, batch_parts
from .validate import is_own_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece
    from ..wire import lakelog_transaction_pb2 as wire
    from .build import Intent

# What becomes of each file, by table and path; and of what is no file, by its bytes.
_Content = dict[tuple[str, str] | bytes, str]


def stands_for(intent: Intent, found: DecodedTransaction) -> bool:
    """Whether what an intent asked for stands in a transaction of its id, and nothing else under
    that id, as far as members of one object can be told apart.

    Raises:
        CorruptObject: The files that it adds can't be read.
    """
    members = found.message.commit.members
    own = [one for one in members if one.transaction_id == intent.transaction_id]
    if not own or (own[0].app_id, own[0].app_version) != (intent.app_id, intent.app_version):
        return False
    asked = _content([*intent.actions, *intent.last], {})
    asked |= dict.fromkeys(names_again(intent.again), "add")
    there = _content(found.message.actions, found.batches)
    if len(members) == 1:
        return asked == there
    named = {key for key in there if _is_named(key, intent.transaction_id)}
    return asked.items() <= there.items() and named <= asked.keys()


def _is_named(key: tuple[str, str] | bytes, transaction_id: bytes) -> bool:
    return isinstance(key, tuple) and is_own_file(key[1], {transaction_id})


def _content(actions: Iterable[wire.Action], batches: dict[int, tuple[Piece, ...]]) -> _Content:
    content: _Content = {}
    for place, action in enumerate(actions):
        kind = action.WhichOneof("kind") or ""
        if kind == "add":
            content[action.add.table, action.add.path] = kind
        elif kind == "remove":
            content[action.remove.table, action.remove.path] = kind
        elif kind == "add_batch":
            for part, _ in batch_parts(batches[place]):
                if not isinstance(part, Part):
                    raise part
                paths = part.run.core.column("path").to_pylist()
                for table, (start, end) in part.run.ranges.items():
                    content.update(((table, path), "add") for path in paths[start:end])
        elif kind != "identity":  # one is added where a transaction begins a log
            content[action.SerializeToString(deterministic=True)] = kind
    return content
