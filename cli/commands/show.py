"""`lakelog show`: one object of a log, decoded: a transaction, a checkpoint or a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject, NotFoundError, RevisionNotFound, UsageError
from .. import options, output
from ..command_list import Command
from ..opening import existing_log, only_writer, open_catalog, revision_fields
from ..output import Column, columns
from ..text import many, size
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.catalog import Catalog
    from ...catalog.format.names import LogObject
    from ...catalog.format.pieces import Piece
    from ...catalog.log.listing import Listing
    from ...catalog.read.log_reader import LogReader

_REFERENCES: Final = columns(
    *("kind", "part", "run", "row_count", "dead_rows", "length", "first_table", "first_path"),
    *("last_table", "last_path", "min_partition", "max_partition", "columns", "first_revision"),
    *("last_revision", "total_rows", "total_bytes", "name", "offset"),
)
_REFERENCES_TEXT: Final = (
    Column("kind"),
    *columns("part", "run", style="count"),
    Column("row_count", "ROWS", style="count"),
    Column("dead_rows", "DEAD", style="count"),
    Column("length", "SIZE", style="size"),
    Column("holds"),
    Column("place", "WHERE"),
)
_HEAD: Final = (
    *("log_id", "incarnation", "revision", "committed_at", "begun_at", "epoch", "first_epoch"),
    *("uuid", "digest", "successor_uuid", "transaction_id"),
    *("required_reader_features", "required_writer_features"),
)
_HEX: Final = frozenset({"fingerprint", "schema_fingerprint", "footer_digest", "uuid", "digest"})
_NAMED: Final = 4


def _show(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    if "/" in args.database:
        log, item = _by_key(catalog, args)
    else:
        writer = only_writer(catalog, args.database, args.writer)
        log, listing = existing_log(catalog, writer, args.database)
        item = _pick(log, listing, args.revision, args.checkpoint)
    if isinstance(item, str):
        _show_segment(args, log, item)
    elif item.kind == "checkpoint":
        _show_checkpoint(args, log, item)
    else:
        from ..describe import show_transaction

        show_transaction(args, log, item)
    return 0


def _by_key(catalog: Catalog, args: argparse.Namespace) -> tuple[LogReader, LogObject | str]:
    """The log, and the object in `transactions/` or the name of a segment."""
    from ...catalog.format.names import is_id, parse_log_object, parse_segment_name
    from ...catalog.read.log_reader import LogReader
    from ...store.base import check_key

    if args.writer is not None or args.revision is not None or args.checkpoint:
        raise UsageError(
            "A key names one object", hint="Leave out --writer, --revision and --checkpoint"
        )
    parts = check_key(args.database).split("/")
    item: LogObject | str | None = None
    if len(parts) == 4 and is_id(parts[0]) and is_id(parts[1]):
        if parts[2] == "transactions":
            item = parse_log_object(parts[3])
        elif parts[2] == "segments" and parse_segment_name(parts[3]) is not None:
            item = parts[3]
    if item is None:
        raise UsageError(
            "Not the key of a transaction, checkpoint or segment",
            key=args.database,
            hint="Its form is WRITER/DATABASE/transactions/NAME.transaction or .checkpoint, or "
            "WRITER/DATABASE/segments/NAME.segment, as `lakelog show` and errors give it",
        )
    return LogReader(catalog.store, parts[0], parts[1]), item


def _pick(log: LogReader, listing: Listing, revision: int | None, checkpoint: bool) -> LogObject:
    from ...catalog.log.listing import fork_error

    objects = listing.checkpoints if checkpoint else listing.transactions
    if checkpoint:
        top = listing.head if revision is None else revision
        number = max((n for n in objects if n <= top), default=-1)
    else:
        number = max(objects, default=-1) if revision is None else revision
    if number not in objects:
        raise _absent(log, listing, revision, checkpoint)
    if len(objects[number]) > 1:
        if not checkpoint:
            raise fork_error(listing, number)
        raise UsageError(
            f"Revision {number} has {len(objects[number])} checkpoints",
            key=" and ".join(listing.key(item) for item in objects[number]),
            hint="Give the key of one",
        )
    return objects[number][0]


def _absent(
    log: LogReader, listing: Listing, revision: int | None, checkpoint: bool
) -> NotFoundError:
    where = f"{log.writer}/{log.database}"
    if checkpoint:
        numbers = ", ".join(map(str, sorted(listing.checkpoints))) or "none"
        upto = "" if revision is None else f" up to revision {revision}"
        return RevisionNotFound(
            f"{where} has no checkpoint{upto}",
            key=where,
            hint=f"It has: {numbers}. `lakelog checkpoint --execute` writes one",
        )
    return RevisionNotFound(
        f"{where} has no transaction {'at all' if revision is None else revision}",
        key=where,
        hint=f"Its newest revision is {listing.head}; readable are {listing.readable()}",
    )


# --- Checkpoints ----------------------------------------------------------------------------------


def _show_checkpoint(args: argparse.Namespace, log: LogReader, item: LogObject) -> None:
    fields = _describe_checkpoint(log, item)
    if args.output != "text":
        output.object_or_rows(args.output, fields, _REFERENCES, fields["references"])
        return
    counts = fields["counts"]
    live = (
        f"{many(counts['files'], 'file')}, {many(counts['rows'], 'row')}, {size(counts['bytes'])}"
    )
    output.pairs(
        [
            ("checkpoint", fields["key"]),
            ("log", f"{fields['writer']}/{fields['database']}"),
            ("size", size(fields["size_bytes"])),
            *output.named(fields, *_HEAD),
            ("external files in", ", ".join(fields["locations"])),
            ("live", live),
        ]
    )
    output.line()
    rows = [
        {**one, "holds": _holds(one), "place": one["name"] or "inline"}
        for one in fields["references"]
    ]
    output.rows("text", _REFERENCES_TEXT, rows)


def _describe_checkpoint(log: LogReader, item: LogObject) -> dict[str, Any]:
    """Every field of a checkpoint's header, and its references.

    Requests: 1 GET; 1 more if the references are an object of their own.
    """
    from ...catalog.format.objects import decode_checkpoint
    from ...catalog.format.pieces import decode_references
    from ..describe import message_fields

    key = log.folder + item.name
    body = log.store.get(key)
    decoded = decode_checkpoint(body, key)
    message, first = decoded.message, decoded.references
    data = first.inline if first.inline is not None else log.read_pieces([first], decoded.log)[0]
    pieces = decode_references(data, first.rows, decoded.attachments, key, "")
    return {
        "kind": "checkpoint",
        "key": key,
        "log_id": decoded.log.log_id.hex(),
        "incarnation": decoded.log.incarnation,
        "size_bytes": len(body),
        **message_fields(message, "references"),
        **revision_fields(log, decoded.log, message.revision, message.digest),
        "references": [_reference(piece) for piece in (first, *pieces)],
    }


def _segment_fields(segment: Any) -> dict[str, Any]:
    """The fields of a segment; None for those that its kind doesn't have."""
    from ...catalog.format.segments import FILES, HISTORY, NAMES, SCHEMAS

    kind = int(segment.kind)
    fields = {"kind": NAMES[kind].lower(), "row_count": segment.row_count}
    fields |= {"columns": list(segment.columns) or None}
    of_files = ("first_path", "last_path", "min_partition", "max_partition")
    for kinds, names in (
        ((FILES, SCHEMAS), ("first_table", "last_table")),
        ((FILES,), (*of_files, "total_rows", "total_bytes")),
        ((HISTORY,), ("first_revision", "last_revision")),
    ):
        fields |= {name: getattr(segment, name) if kind in kinds else None for name in names}
    return fields


def _reference(piece: Piece) -> dict[str, Any]:
    return {
        **_segment_fields(piece.segment),
        "part": None if piece.part < 0 else piece.part,
        "run": None if piece.run < 0 else piece.run,
        "dead_rows": piece.dead_rows if piece.run >= 0 else None,
        "length": piece.length,
        "name": piece.name or None,
        "offset": None if piece.name else piece.offset,
    }


def _holds(fields: dict[str, Any]) -> str | None:
    """The tables, columns or revisions of a segment, in words."""
    if fields["columns"]:
        names = fields["columns"]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more
    for first, last in (("first_table", "last_table"), ("first_revision", "last_revision")):
        if fields[first] is not None:
            low, high = fields[first], fields[last]
            return f"{low}" if low == high else f"{low} to {high}"
    return None


# --- Segments -------------------------------------------------------------------------------------


def _show_segment(args: argparse.Namespace, log: LogReader, name: str) -> None:
    fields = _describe_segment(log, name)
    if args.output != "text":
        rows = fields["rows"]
        output.object_or_rows(args.output, fields, columns(*(rows[0] if rows else ())), rows)
        return
    about = _holds(fields)
    output.pairs(
        [
            ("segment", fields["key"]),
            *output.named(fields, "log_id", "incarnation", "digest"),
            ("size", size(fields["size_bytes"])),
            ("holds", f"{fields['holds']}: {about}" if about else fields["holds"]),
            ("rows", many(fields["row_count"], "row")),
        ]
    )
    output.line("\n--output json or csv shows the rows")


def _describe_segment(log: LogReader, name: str) -> dict[str, Any]:
    """The fields of a segment, and its rows.

    Raises:
        CorruptObject: It is damaged, or its name has another digest.
    Requests: 1 GET.
    """
    from ...catalog.format.frame import FrameKind, decode_frame
    from ...catalog.format.names import parse_segment_name, segments_folder
    from ...catalog.format.pieces import check_kind
    from ...catalog.wire.lakelog_segment_pb2 import Segment

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
    fields = _segment_fields(message)
    return {
        "kind": "segment",
        "key": key,
        "log_id": frame.log.log_id.hex(),
        "incarnation": frame.log.incarnation,
        "size_bytes": len(body),
        "digest": frame.digest.hex(),
        "holds": fields.pop("kind"),
        **fields,
        "rows": _rows(_decoded(frame.attachments, message, key)),
    }


def _decoded(data: memoryview, message: Any, key: str) -> pa.Table:
    from ...catalog.format.pieces import OF_A_PART, Piece, has_sound_columns
    from ...catalog.format.segments import decode_segment
    from ...catalog.log.checkpoint_files import decode_describing

    piece = Piece(message, b"", len(data), key)
    if piece.kind not in OF_A_PART:
        return decode_segment(data, piece.kind, piece.rows, key)
    if not has_sound_columns(piece):
        raise CorruptObject(f"{key} holds statistics of columns that can't be", key=key)
    return decode_describing(data, piece)


def _rows(rows: pa.Table) -> list[dict[str, Any]]:
    columns = [_values(name, rows.column(name)) for name in rows.schema.names]
    return [dict(zip(rows.schema.names, row)) for row in zip(*columns, strict=True)]


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; identities in hex, as everywhere else."""
    from ...catalog.wire.lakelog_transaction_pb2 import Definition
    from ..describe import definition_form

    if name in _HEX:
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if name == "definition":
        return [definition_form(Definition.FromString(data)) for data in column.to_pylist()]
    if name == "transaction_ids":
        return [[value.hex() for value in values] for values in column.to_pylist()]
    return plain(column)


SHOW: Final = Command(
    """\
Decode one transaction, or with --checkpoint one checkpoint, and print every field: the newest one
without --revision. Without --writer the database must have only one writer. Instead of DATABASE you
can give the key of an object, as errors name it, also of a segment that a checkpoint refers to;
then nothing else is read first.

json and csv have every file of a transaction with its statistics, and every row of a segment; text
leaves those out, except for the statistics with --statistics.""",
    """
lakelog show s3://lake/catalog weather --writer EWR
lakelog show ./catalog weather --writer EWR --revision 12 --statistics
lakelog show ./catalog weather --writer EWR --checkpoint --output json
lakelog show ./catalog EWR/weather/transactions/998-999999999987-12.bdb70c0a.transaction
""",
    (
        *options.CATALOG,
        options.argument("database", "DATABASE|KEY", "a database, or the key of an object"),
        options.writer("the writer of the log"),
        options.argument(
            "-r --revision",
            "N",
            "the revision; with --checkpoint the newest one at or before it. Default: the newest",
            type=options.whole_number,
        ),
        options.flag("--checkpoint", "a checkpoint, not a transaction"),
        options.flag("--statistics", "in text, also the statistics of each file"),
    ),
    _show,
)
