"""A segment object as JSON-ready values and as text, for `lakelog show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptObject
from . import output
from .show_checkpoint import holds, segment_fields
from .show_definition import definition_form
from .text import many, size
from .values import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from ..catalog.read.log_reader import LogReader

ROWS: Final = "rows"
_HEX: Final = frozenset({"fingerprint", "schema_fingerprint", "footer_digest", "uuid", "digest"})


def describe(log: LogReader, name: str) -> dict[str, Any]:
    """What a segment says of itself, and its rows.

    Raises:
        CorruptObject: Damaged, or not what its name says.
    Requests: 1 GET.
    """
    from ..catalog.format.frame import FrameKind, decode_frame
    from ..catalog.format.names import parse_segment_name, segments_folder
    from ..catalog.format.pieces import check_kind
    from ..catalog.wire.lakelog_segment_pb2 import Segment

    key = segments_folder(log.writer, log.database) + name
    body = log.store.get(key)
    frame = decode_frame(body, FrameKind.SEGMENT, key)
    if frame.digest != parse_segment_name(name):
        raise CorruptObject(f"{key} is not the segment that its name says", key=key)
    message = Segment()
    try:
        message.ParseFromString(frame.message)
    except ValueError as error:
        raise CorruptObject(f"{key} doesn't say what it holds", key=key) from error
    check_kind(int(message.kind), key)
    fields = segment_fields(message)
    return {
        "kind": "segment",
        "key": key,
        "log_id": frame.log.log_id.hex(),
        "incarnation": frame.log.incarnation,
        "size_bytes": len(body),
        "digest": frame.digest.hex(),
        "holds": fields.pop("kind"),
        **fields,
        ROWS: _records(_decoded(frame.attachments, message, key)),
    }


def _decoded(data: memoryview, message: Any, key: str) -> pa.Table:
    from ..catalog.format.pieces import OF_A_PART, Piece, has_sound_columns
    from ..catalog.format.segments import decode_segment
    from ..catalog.log.checkpoint_files import decode_describing

    piece = Piece(message, b"", len(data), key)
    if piece.kind not in OF_A_PART:
        return decode_segment(data, piece.kind, piece.rows, key)
    if not has_sound_columns(piece):
        raise CorruptObject(f"{key} holds statistics of columns that can't be", key=key)
    return decode_describing(data, piece)


def _records(rows: pa.Table) -> list[dict[str, Any]]:
    columns = [_values(name, rows.column(name)) for name in rows.schema.names]
    return [dict(zip(rows.schema.names, row)) for row in zip(*columns, strict=True)]


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; what is named by bytes in hex, as everywhere else."""
    from ..catalog.wire.lakelog_transaction_pb2 import Definition

    if name in _HEX:
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if name == "definition":
        return [definition_form(Definition.FromString(data)) for data in column.to_pylist()]
    if name == "transaction_ids":
        return [[value.hex() for value in values] for values in column.to_pylist()]
    return plain(column)


def print_text(found: dict[str, Any], *, statistics: bool) -> None:
    """Print a described segment for people."""
    del statistics
    about = holds(found)
    output.pairs(
        [
            ("segment", found["key"]),
            ("log id", found["log_id"]),
            ("incarnation", str(found["incarnation"])),
            ("size", size(found["size_bytes"])),
            ("digest", found["digest"]),
            ("holds", f"{found['holds']}: {about}" if about else found["holds"]),
            ("rows", many(found["row_count"], "row")),
        ]
    )
    output.line("\n--output json or csv shows the rows")
