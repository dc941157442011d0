"""What lakelog writes into the footer of each Parquet file, so that a lost log can be rebuilt from
the files. Pure.

Source: docs/format.md, section 8; seed 002, section 2.6.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .schema import decode_schema, encode_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

PREFIX: Final = "lakelog."
VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class FooterMetadata:
    """The lakelog part of a Parquet file's key-value metadata.

    Attributes:
        writer, database, table, partition: Where the file belongs.
        transaction_id: Of the attempt to commit that wrote it, 16 bytes.
        number: Of the file within the transaction.
        base_revision: The head that the transaction was begun on; -1 for none.
        base_transaction_id: Of the last transaction at that head: proof that that one was
            committed. Empty for none.
        epoch: Of the committer.
        first_clock, last_clock: Logical clock of the first and last row.
        schema: With column identity.
        replaces: Paths removed by the same transaction.
        app_id, app_version: Idempotence; empty and 0 for none.
        operation: As far as it was known when the file was written.
    """

    writer: str
    database: str
    table: str
    partition: str
    transaction_id: bytes
    number: int
    base_revision: int
    base_transaction_id: bytes
    epoch: int
    first_clock: int
    last_clock: int
    schema: pa.Schema
    replaces: tuple[str, ...] = ()
    app_id: str = ""
    app_version: int = 0
    operation: str = "append"


def encode_footer(meta: FooterMetadata) -> dict[str, str]:
    """Key-value metadata for the file."""
    values = {
        "version": VERSION,
        "writer": meta.writer,
        "database": meta.database,
        "table": meta.table,
        "partition": meta.partition,
        "transaction_id": meta.transaction_id.hex(),
        "number": str(meta.number),
        "base_revision": str(meta.base_revision),
        "base_transaction_id": meta.base_transaction_id.hex(),
        "epoch": str(meta.epoch),
        "first_clock": str(meta.first_clock),
        "last_clock": str(meta.last_clock),
        "schema": base64.b64encode(encode_schema(meta.schema)[1]).decode(),
        "replaces": json.dumps(list(meta.replaces), ensure_ascii=False),
        "app_id": meta.app_id,
        "app_version": str(meta.app_version),
        "operation": meta.operation,
    }
    return {PREFIX + key: value for key, value in values.items()}


def decode_footer(metadata: Mapping[bytes, bytes] | None) -> FooterMetadata | None:
    """The lakelog part of a file's metadata; None for a file that lakelog didn't write.

    Raises:
        ValueError: lakelog wrote it, or claims to have, and a value can't be read.
    """
    own = {
        key[len(PREFIX) :].decode("utf-8", "replace"): value.decode("utf-8", "strict")
        for key, value in (metadata or {}).items()
        if key.startswith(PREFIX.encode())
    }
    if "version" not in own:
        return None
    if own["version"] != VERSION:
        raise ValueError(f"footer version {own['version']}, this lakelog reads {VERSION}")
    try:
        replaces = json.loads(own["replaces"])
        if not isinstance(replaces, list) or not all(isinstance(path, str) for path in replaces):
            raise ValueError("replaced paths of a wrong form")
        transaction_id = bytes.fromhex(own["transaction_id"])
        if len(transaction_id) != 16:
            raise ValueError("transaction id of a wrong form")
        return FooterMetadata(
            writer=own["writer"],
            database=own["database"],
            table=own["table"],
            partition=own["partition"],
            transaction_id=transaction_id,
            number=int(own["number"]),
            base_revision=int(own["base_revision"]),
            base_transaction_id=bytes.fromhex(own["base_transaction_id"]),
            epoch=int(own["epoch"]),
            first_clock=int(own["first_clock"]),
            last_clock=int(own["last_clock"]),
            schema=decode_schema(base64.b64decode(own["schema"], validate=True)),
            replaces=tuple(replaces),
            app_id=own["app_id"],
            app_version=int(own["app_version"]),
            operation=own["operation"],
        )
    except KeyError as error:
        raise ValueError(f"footer without {error}") from error
    except RecursionError as error:
        raise ValueError("replaced paths nested absurdly deep") from error
