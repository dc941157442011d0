"""Objects of actions: what a transaction did that no footer of its data files tells, beside what a
footer would say of the transaction itself. No log names them; a rebuild finds them below `data/`.
Pure.

Source: docs/format.md, section 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject
from ..wire import lakelog_actions_pb2 as wire
from .frame import FrameKind, LogIdentity, decode_frame, encode_frame
from .messages import parse_message
from .objects import CHECKS, MAX_APP_ID_BYTES, OPERATIONS, check_known
from .own_objects import is_told, metadata_of, tell_metadata
from .segments import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire import lakelog_transaction_pb2 as transaction_wire
    from .footer import FooterMetadata

# Of which tables an action is.
_TABLES: Final[dict[str, Callable[[Any], set[str]]]] = {
    "add": lambda found: {found.table},
    "remove": lambda found: {found.table},
    "schema": lambda found: {found.table},
    "tombstone": lambda found: {found.table},
    "definition": lambda found: {found.table},
    "location": lambda found: set(),
    "forget": lambda found: {*found.tables, *(item.table for item in found.schemas)},
}
_MAX_OBJECTS: Final = 1_000_000_000


def tables_of(action: transaction_wire.Action) -> set[str] | None:
    """The tables that an action is of; None if it is of a kind that such an object doesn't hold."""
    kind = action.WhichOneof("kind")
    of = _TABLES.get(kind or "")
    return None if of is None else of(getattr(action, kind or ""))


def encode_actions(
    meta: FooterMetadata,
    actions: Sequence[transaction_wire.Action],
    objects: int,
    head: tuple[int, bytes],
    definition_before: bytes = b"",
) -> bytes:
    """An object of actions.

    Args:
        meta: As of a data file of the transaction; its table is that of all actions.
        objects: How many such objects the transaction has.
        head: The newest revision that is known, and the id of its last transaction.
        definition_before: Name of the definition that one of the actions takes the place of.
    """
    message = wire.ActionsObject(
        objects=objects,
        definition_before=definition_before,
        head_revision=head[0],
        head_transaction_id=head[1],
        actions=actions,
    )
    tell_metadata(message, meta)
    log = LogIdentity(meta.log_id, meta.incarnation)
    return encode_frame(FrameKind.ACTIONS, log, message.SerializeToString(deterministic=True))[0]


def decode_actions(data: bytes, key: str) -> tuple[FooterMetadata, wire.ActionsObject]:
    """What an object of actions says of its transaction, and the whole message.

    Raises:
        CorruptObject: It is damaged, or none.
        UnsupportedFeature: It holds what only a later version knows.
    """
    frame = decode_frame(data, FrameKind.ACTIONS, key)
    message = wire.ActionsObject()
    parse_message(message, frame.message, key)
    for action in message.actions:
        check_known(action, key)
    problem = _problem(message)
    if problem or len(frame.attachments):
        raise CorruptObject(f"{key} {problem or 'has attachments'}", key=key)
    for action in message.actions:
        kind = action.WhichOneof("kind")
        if kind is None:
            continue  # optional, of a later version
        tables = tables_of(action)
        if tables is None or not tables <= {message.table}:
            raise CorruptObject(f"{key} holds an action that isn't its own: {kind}", key=key)
        CHECKS[kind](getattr(action, kind), key)
    return metadata_of(message, frame.log), message


def _problem(message: wire.ActionsObject) -> str:
    """What can't be in the head of such an object; empty if nothing is wrong."""
    if not is_told(message):
        return "doesn't say what transaction it was written for"
    if not 1 <= message.objects <= _MAX_OBJECTS:
        return f"says that it is one of {message.objects} objects"
    if message.app_version >= MAX_NUMBER or len(message.app_id.encode()) > MAX_APP_ID_BYTES:
        return "has an absurd application id or version"
    if len(message.definition_before) not in (0, 16):
        return "names a definition by a wrong name"
    if len(message.head_transaction_id) not in (0, 16):
        return "names a transaction by a wrong id"
    if message.operation not in OPERATIONS:
        return f"has the operation {message.operation!r}"
    return ""
