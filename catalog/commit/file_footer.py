"""What a transaction says in the footers of the files that it writes.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ..format.footer import FooterMetadata
from ..format.names import data_path
from ..log.operations import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ..format.footer import BaseRevision
    from ..log.build import Intent
    from .session import Session


def footer_of(  # noqa: PLR0917 - as they come
    session: Session,
    intent: Intent,
    base: BaseRevision,
    table: str,
    schema: pa.Schema,
    clock: tuple[int, int],
) -> FooterMetadata:
    """What the first file says, of no partition and with no removals.

    Args:
        base: That the transaction was begun on.
        clock: Of its first and its last row.
    """
    return FooterMetadata(
        writer=session.writer_id,
        database=session.database,
        table=table,
        partition="",
        transaction_id=intent.transaction_id,
        number=0,
        base_revision=base.revision,
        base_transaction_id=base.transaction_id,
        epoch=intent.epoch,
        first_clock=clock[0],
        last_clock=clock[1],
        schema=schema,
        log_id=session.log.log_id,
        incarnation=session.log.incarnation,
        slot_seed=session.slot_seed,
        app_id=intent.app_id,
        app_version=intent.app_version,
    )


def removals(removed: Mapping[tuple[str, str], None], named: int, intent: Intent) -> dict[str, Any]:
    """What the next file says of what the transaction removes: those that no file names yet.

    Args:
        removed: Tables and paths, in order.
        named: How many of them stand in files that were written before.
        intent: The transaction.
    """
    return {
        "replaces": tuple(islice(removed, named, None)),
        "operation": intent.operation or as_written(intent.asked, removes=bool(removed)),
    }


def path_of_data(meta: FooterMetadata) -> str:
    """Where the file lies that says so.

    Raises:
        InvalidName: Its table or partition can't be called so.
    """
    return data_path(meta.partition, meta.table, meta.epoch, meta.transaction_id, meta.number)
