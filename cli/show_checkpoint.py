"""A checkpoint as JSON-ready values and as text, for `lakelog show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import output
from .output import Column
from .text import many, size

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.read.log_reader import LogReader

COLUMNS: Final[tuple[Column, ...]] = (
    *(Column("kind"), Column("table"), Column("row_count"), Column("length"), Column("name")),
    *(Column("offset"), Column("digest"), Column("first_path"), Column("last_path")),
)
_TEXT: Final = (
    Column("kind"),
    Column("table"),
    Column("row_count", "ROWS", style="count"),
    Column("length", "SIZE", style="size"),
    Column("place", "WHERE"),
)


def describe(log: LogReader, item: LogObject) -> dict[str, Any]:
    """Every field of a checkpoint's header, and its segments.

    Requests: 1 GET.
    """
    from ..catalog.format.objects import decode_checkpoint
    from ..catalog.wire.lakelog_checkpoint_pb2 import SegmentRef

    key = log.folder + item.name
    body = log.store.get(key)
    message = decode_checkpoint(body, key).message
    return {
        "kind": "checkpoint",
        "key": key,
        "writer": log.writer,
        "database": log.database,
        "size_bytes": len(body),
        "revision": message.revision,
        "committed_at": output.utc_from_us(message.committed_at_us),
        "epoch": message.epoch,
        "uuid": message.uuid.hex(),
        "digest": message.digest.hex(),
        "successor_uuid": message.successor_uuid.hex(),
        "transaction_ids": [transaction_id.hex() for transaction_id in message.transaction_ids],
        "required_reader_features": list(message.required_reader_features),
        "required_writer_features": list(message.required_writer_features),
        "app_versions": {item.app_id: item.app_version for item in message.app_versions},
        "counts": {
            "files": message.counts.files,
            "rows": message.counts.rows,
            "bytes": message.counts.bytes,
        },
        "segments": [
            {
                "kind": SegmentRef.Kind.Name(ref.kind).lower(),
                "table": ref.table or None,
                "row_count": ref.row_count,
                "length": ref.length,
                "name": ref.name or None,
                "offset": None if ref.name else ref.offset,
                "digest": ref.digest.hex() or None,
                "first_path": ref.first_path or None,
                "last_path": ref.last_path or None,
            }
            for ref in message.segments
        ],
    }


def print_text(found: dict[str, Any], *, statistics: bool) -> None:
    """Print a described checkpoint for people."""
    del statistics  # they are in the segments, which are not read here
    counts = found["counts"]
    live = (
        f"{many(counts['files'], 'file')}, {many(counts['rows'], 'row')}, {size(counts['bytes'])}"
    )
    apps = ", ".join(f"{name} {version}" for name, version in found["app_versions"].items())
    output.pairs(
        [
            ("checkpoint", found["key"]),
            ("size", size(found["size_bytes"])),
            ("revision", str(found["revision"])),
            ("committed at", found["committed_at"]),
            ("epoch", str(found["epoch"])),
            ("uuid", found["uuid"]),
            ("digest", found["digest"]),
            ("successor uuid", found["successor_uuid"]),
            ("transactions", ", ".join(found["transaction_ids"])),
            ("readers need", ", ".join(found["required_reader_features"])),
            ("writers need", ", ".join(found["required_writer_features"])),
            ("applications", apps),
            ("live", live),
        ]
    )
    output.line()
    records = [{**item, "place": item["name"] or "inline"} for item in found["segments"]]
    output.rows("text", _TEXT, records, empty="no segments")
