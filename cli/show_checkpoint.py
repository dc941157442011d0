"""A checkpoint as JSON-ready values and as text, for `lakelog show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import output
from .opening import revision_fields
from .output import Column
from .text import many, size

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.format.pieces import Piece
    from ..catalog.read.log_reader import LogReader

ROWS: Final = "references"
COLUMNS: Final[tuple[Column, ...]] = (
    *(Column("kind"), Column("part"), Column("run"), Column("row_count"), Column("dead_rows")),
    *(Column("length"), Column("first_table"), Column("first_path"), Column("last_table")),
    *(Column("last_path"), Column("min_partition"), Column("max_partition"), Column("columns")),
    *(Column("first_revision"), Column("last_revision"), Column("total_rows")),
    *(Column("total_bytes"), Column("name"), Column("offset")),
)
_TEXT: Final = (
    Column("kind"),
    Column("part", style="count"),
    Column("run", style="count"),
    Column("row_count", "ROWS", style="count"),
    Column("dead_rows", "DEAD", style="count"),
    Column("length", "SIZE", style="size"),
    Column("holds"),
    Column("place", "WHERE"),
)
_NAMED: Final = 4


def describe(log: LogReader, item: LogObject) -> dict[str, Any]:
    """Every field of a checkpoint's header, and what it refers to.

    Requests: 1 GET; 1 more if the references are an object of their own.
    """
    from ..catalog.format.objects import decode_checkpoint
    from ..catalog.format.pieces import decode_references

    key = log.folder + item.name
    body = log.store.get(key)
    decoded = decode_checkpoint(body, key)
    message, first = decoded.message, decoded.references
    data = first.inline if first.inline is not None else log.read_pieces([first], decoded.log)[0]
    pieces = decode_references(data, first.rows, decoded.attachments, key, "")
    return {
        "kind": "checkpoint",
        "key": key,
        "writer": message.writer,
        "database": message.database,
        "log_id": decoded.log.log_id.hex(),
        "incarnation": decoded.log.incarnation,
        "size_bytes": len(body),
        "revision": message.revision,
        "committed_at": output.utc_from_us(message.committed_at_us),
        "epoch": message.epoch,
        "uuid": message.uuid.hex(),
        "digest": message.digest.hex(),
        "successor_uuid": message.successor_uuid.hex(),
        "transaction_id": message.transaction_id.hex(),
        **revision_fields(log, decoded.log, message.revision, message.digest),
        "required_reader_features": list(message.required_reader_features),
        "required_writer_features": list(message.required_writer_features),
        "locations": list(message.locations),
        "counts": {
            "files": message.counts.files,
            "rows": message.counts.rows,
            "bytes": message.counts.bytes,
        },
        ROWS: [_reference(piece) for piece in (first, *pieces)],
    }


def segment_fields(segment: Any) -> dict[str, Any]:
    """What a segment says of itself; None for what doesn't belong to its kind."""
    from ..catalog.format.segments import FILES, HISTORY, NAMES, SCHEMAS

    kind = int(segment.kind)
    files, ranged, history = kind == FILES, kind in (FILES, SCHEMAS), kind == HISTORY
    return {
        "kind": NAMES[kind].lower(),
        "row_count": segment.row_count,
        "first_table": segment.first_table if ranged else None,
        "first_path": segment.first_path if files else None,
        "last_table": segment.last_table if ranged else None,
        "last_path": segment.last_path if files else None,
        "min_partition": segment.min_partition if files else None,
        "max_partition": segment.max_partition if files else None,
        "columns": list(segment.columns) or None,
        "first_revision": segment.first_revision if history else None,
        "last_revision": segment.last_revision if history else None,
        "total_rows": segment.total_rows if files else None,
        "total_bytes": segment.total_bytes if files else None,
    }


def _reference(piece: Piece) -> dict[str, Any]:
    return {
        **segment_fields(piece.segment),
        "part": None if piece.part < 0 else piece.part,
        "run": None if piece.run < 0 else piece.run,
        "dead_rows": piece.dead_rows if piece.run >= 0 else None,
        "length": piece.length,
        "name": piece.name or None,
        "offset": None if piece.name else piece.offset,
    }


def holds(found: dict[str, Any]) -> str | None:
    """In words what a segment is about: tables, columns or revisions."""
    if found["columns"]:
        names = found["columns"]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more
    for first, last in (("first_table", "last_table"), ("first_revision", "last_revision")):
        if found[first] is not None:
            low, high = found[first], found[last]
            return f"{low}" if low == high else f"{low} to {high}"
    return None


def print_text(found: dict[str, Any], *, statistics: bool) -> None:
    """Print a described checkpoint for people."""
    del statistics  # they are in the segments, which are not read here
    counts = found["counts"]
    live = (
        f"{many(counts['files'], 'file')}, {many(counts['rows'], 'row')}, {size(counts['bytes'])}"
    )
    output.pairs(
        [
            ("checkpoint", found["key"]),
            ("log", f"{found['writer']}/{found['database']}"),
            ("log id", found["log_id"]),
            ("incarnation", str(found["incarnation"])),
            ("size", size(found["size_bytes"])),
            ("revision", str(found["revision"])),
            ("committed at", found["committed_at"]),
            ("epoch", str(found["epoch"])),
            ("uuid", found["uuid"]),
            ("digest", found["digest"]),
            ("successor uuid", found["successor_uuid"]),
            ("transaction", found["transaction_id"]),
            ("readers need", ", ".join(found["required_reader_features"])),
            ("writers need", ", ".join(found["required_writer_features"])),
            ("files elsewhere", ", ".join(found["locations"])),
            ("live", live),
        ]
    )
    output.line()
    records = [
        {**item, "holds": holds(item), "place": item["name"] or "inline"} for item in found[ROWS]
    ]
    output.rows("text", _TEXT, records)
