"""What objects below `data/` that aren't Parquet say of the transaction that they were written for,
as a footer's metadata. Pure.

Source: docs/format.md, sections 5.7 and 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from .footer import FooterMetadata

if TYPE_CHECKING:
    from ..wire import lakelog_actions_pb2, lakelog_deletes_pb2
    from .frame import LogIdentity

    Message: TypeAlias = lakelog_actions_pb2.ActionsObject | lakelog_deletes_pb2.DeletesObject

# The messages have these fields under the names of `FooterMetadata`.
_FIELDS: Final = (
    "writer",
    "database",
    "table",
    "transaction_id",
    "number",
    "base_revision",
    "base_transaction_id",
    "epoch",
    "slot_seed",
    "app_id",
    "app_version",
    "base_app_version",
    "operation",
)


def tell_metadata(message: Message, meta: FooterMetadata) -> None:
    """Set the fields of a message that say what its transaction is."""
    for name in _FIELDS:
        setattr(message, name, getattr(meta, name))
    message.clock = meta.last_clock


def metadata_of(message: Message, log: LogIdentity) -> FooterMetadata:
    """What a message says of its transaction; the schema is empty.

    Args:
        log: Of the object's frame.
    """
    return FooterMetadata(
        **{name: getattr(message, name) for name in _FIELDS},
        partition="",
        first_clock=message.clock,
        last_clock=message.clock,
        schema=pa.schema([]),
        log_id=log.log_id,
        incarnation=log.incarnation,
    )


def is_told(message: Message) -> bool:
    """Whether it says what transaction it was written for at all."""
    return len(message.transaction_id) == 16 and len(message.slot_seed) == 16
