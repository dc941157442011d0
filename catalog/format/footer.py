"""What lakelog writes into the footer of each Parquet file, so that a lost log can be rebuilt from
the files. Pure.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from .names import MAX_INCARNATION
from .schema import decode_schema, encode_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from .schema import EncodedSchema

PREFIX: Final = "lakelog."
VERSION: Final = "1"
MAX_FILE_EPOCH: Final = 1 << 61  # room is left for epochs above it
MAX_BASE_REVISION: Final = 100_000_000_000  # the same for revisions
_MAX_CLOCK: Final = 1 << 63
_MAX_VERSION: Final = 1 << 62
# Of new files alone: older ones have the others, and statistics of floats.
FLOATS: Final = {PREFIX + "float_statistics": "none"}
WITHOUT_FLOATS: Final = (PREFIX + "float_statistics").encode()


class BaseRevision(NamedTuple):
    """The head that a transaction was begun on.

    Attributes:
        revision: -1 for none.
        transaction_id: Of the last transaction in it; empty for none.
        app_version: Of the transaction's application at that head; -1 for none.
    """

    revision: int
    transaction_id: bytes
    app_version: int


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
        log_id, incarnation: Of the log; 16 bytes, and its number.
        slot_seed: Of the opening that wrote the file, 16 bytes: the names that it may still commit
            under follow from it.
        replaces: Tables and paths that the transaction removed since its file before.
        app_id, app_version: Idempotence; empty and 0 for none.
        operation: As far as it was known when the file was written.
        floats: What the log knows of columns of floats (see `floats`); empty for nothing.
        task, attempt: Of a transaction whose files many processes write: which share of the data
            it is, and which try at it; -1 and 0 for none.
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
    log_id: bytes
    incarnation: int
    slot_seed: bytes
    replaces: tuple[tuple[str, str], ...] = ()
    app_id: str = ""
    app_version: int = 0
    operation: str = "append"
    floats: bytes = b""
    task: int = -1
    attempt: int = 0


def encode_footer(meta: FooterMetadata, encoded: EncodedSchema | None = None) -> dict[str, str]:
    """Key-value metadata for the file.

    Args:
        encoded: The schema as the log keeps it, if it is known.
    """
    schema = encoded or encode_schema(meta.schema)
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
        "schema": base64.b64encode(schema.message).decode(),
        "log_id": meta.log_id.hex(),
        "incarnation": str(meta.incarnation),
        "slot_seed": meta.slot_seed.hex(),
        "replaces": json.dumps(list(meta.replaces), ensure_ascii=False),
        "app_id": meta.app_id,
        "app_version": str(meta.app_version),
        "operation": meta.operation,
        "floats": base64.b64encode(meta.floats).decode(),
    }
    if meta.task >= 0:
        values |= {"task": str(meta.task), "attempt": str(meta.attempt)}
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
        replaces = _replaces(own["replaces"])
        transaction_id = bytes.fromhex(own["transaction_id"])
        log_id, slot_seed = bytes.fromhex(own["log_id"]), bytes.fromhex(own["slot_seed"])
        if {len(transaction_id), len(log_id), len(slot_seed)} != {16}:
            raise ValueError("an id of a wrong length")
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
            log_id=log_id,
            incarnation=int(own["incarnation"]),
            slot_seed=slot_seed,
            replaces=replaces,
            app_id=own["app_id"],
            app_version=int(own["app_version"]),
            operation=own["operation"],
            floats=_floats(own.get("floats", "")),
            task=_task(own.get("task")),
            attempt=int(own["attempt"]) if "task" in own else 0,
        )
    except KeyError as error:
        raise ValueError(f"footer without {error}") from error
    except RecursionError as error:
        raise ValueError("replaced paths nested absurdly deep") from error


def _task(text: str | None) -> int:
    if text is None:
        return -1
    if not text.isascii() or not text.isdigit():
        raise ValueError("a task that is no number")
    return int(text)


def _floats(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""  # statistics that can't be read are unknown, and cost nothing else


def _replaces(text: str) -> tuple[tuple[str, str], ...]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(map(_is_file, found)):
        raise ValueError("replaced files of a wrong form")
    return tuple((table, path) for table, path in found)


def _is_file(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)


def out_of_range(meta: FooterMetadata) -> str:
    """Returns the name of a value that no footer can have; empty if there is none."""
    clocks = (meta.first_clock, meta.last_clock)
    values = {
        "epoch": 1 <= meta.epoch < MAX_FILE_EPOCH,
        "base revision": -1 <= meta.base_revision < MAX_BASE_REVISION,
        "incarnation": 1 <= meta.incarnation <= MAX_INCARNATION,
        "base transaction": len(meta.base_transaction_id) in {0, 16},
        "number": meta.number >= 0,
        "task": -1 <= meta.task < _MAX_VERSION and 0 <= meta.attempt < _MAX_VERSION,
        "clock": all(-_MAX_CLOCK <= clock < _MAX_CLOCK for clock in clocks),
        "application version": 0 <= meta.app_version < _MAX_VERSION,
    }
    return next((name for name, is_right in values.items() if not is_right), "")
