"""A transaction as JSON-ready values and as text, for `lakelog show`; so too the definition of a
table's columns.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, CorruptObject, LakelogError
from . import output
from .opening import revision_fields
from .output import columns
from .show_statistics import of_add, of_batch
from .text import cell, count, many, size
from .values import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from ..catalog.format.names import LogObject
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.format.pieces import Piece
    from ..catalog.read.log_reader import LogReader
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from .show_statistics import Records

    # The files of each segment, and their statistics.
    Batch = Sequence[tuple[pa.Table, Sequence[pa.Table]]]

_FILES_SHOWN: Final = 50
_FIELDS: Final = (
    *("table", "path", "partition", "row_count", "size_bytes", "schema_fingerprint"),
    *("first_clock", "last_clock", "footer_bytes", "footer_digest", "row_groups"),
    *("original_revision", "statistics", "fields"),
)
_EMPTY: Final = dict.fromkeys(_FIELDS)
_COLUMNS: Final = columns("action", "kind", *_FIELDS)


def show_transaction(args: argparse.Namespace, log: LogReader, item: LogObject) -> None:
    """Print a transaction object."""
    found = _describe(log, item)
    if args.output == "text":
        _print_text(found, statistics=args.statistics)
    else:
        output.object_or_rows(args.output, found, _COLUMNS, found["actions"])


def _describe(log: LogReader, item: LogObject) -> dict[str, Any]:
    """Every field of a transaction object.

    Requests: 1 GET; if a file's schema isn't in this transaction, those of reading the log up to it
        as well.
    """
    key = log.folder + item.name
    found = log.transaction(item)
    message = found.message
    batches = {number: _decode(found.batches[number]) for number in found.batches}
    schemas = _schemas(log, found, batches)
    return {
        "kind": "transaction",
        "key": key,
        "writer": log.writer,
        "database": log.database,
        "log_id": found.log.log_id.hex(),
        "incarnation": found.log.incarnation,
        "revision": message.revision,
        "committed_at": output.utc_from_us(message.commit.committed_at_us),
        "epoch": message.epoch,
        "guest": message.guest,
        "uuid": message.uuid.hex(),
        "digest": found.digest.hex(),
        "previous_uuid": message.previous_uuid.hex() or None,
        "previous_digest": message.previous_digest.hex() or None,
        "successor_uuid": message.commit.successor_uuid.hex(),
        "slot_seed": message.commit.slot_seed.hex(),
        **revision_fields(log, found.log, message.revision, found.digest),
        "members": [_member(member) for member in message.commit.members],
        "actions": [
            record
            for number, action in enumerate(message.actions)
            for record in _action(number, action, batches.get(number, ()), schemas)
        ],
    }


def _decode(pieces: Sequence[Piece]) -> Batch:
    """The files of a batch, with those of each segment the statistics of whole files."""
    from ..catalog.format.segments import FILES, STATISTICS, decode_segment
    from ..catalog.log.checkpoint_files import decode_describing

    batch: list[tuple[pa.Table, list[pa.Table]]] = []
    for piece in pieces:
        assert piece.inline is not None  # as all pieces of a transaction
        if piece.kind == FILES:
            batch.append((decode_segment(piece.inline, FILES, piece.rows, piece.where), []))
        elif piece.kind == STATISTICS:
            # Statistics that can't be decoded are unknown, to readers as well.
            with contextlib.suppress(CorruptError):
                batch[-1][1].append(decode_describing(piece.inline, piece))
    return batch


def _schemas(
    log: LogReader, found: DecodedTransaction, batches: Mapping[int, Batch]
) -> dict[bytes, pa.Schema]:
    """Schemas by fingerprint: those in the transaction, and if files need others, also those of the
    log before it.
    """
    from ..catalog.format.schema import decode_schema

    schemas: dict[bytes, pa.Schema] = {}
    needed: set[bytes] = set()
    for action in found.message.actions:
        kind = action.WhichOneof("kind")
        if kind == "schema":
            item = action.schema
            with contextlib.suppress(ValueError):
                schemas[item.fingerprint] = decode_schema(item.arrow_schema)
        elif kind == "add":
            needed.add(action.add.schema_fingerprint)
    for batch in batches.values():
        for files, _ in batch:
            needed.update(files.column("schema_fingerprint").to_pylist())
    if needed - set(schemas):
        # Damage further up in the log must not hide this object.
        with contextlib.suppress(LakelogError):
            state = log.load(found.message.revision, incarnation=found.log.incarnation)
            known = state.schemas.arrow_schemas(state.schemas.entries)
            schemas |= {fingerprint: schema for (_, fingerprint), schema in known.items()}
    return schemas


def _member(member: wire.Member) -> dict[str, Any]:
    return {
        "transaction_id": member.transaction_id.hex(),
        "operation": member.operation,
        "app_id": member.app_id or None,
        "app_version": member.app_version if member.app_id else None,
        "action_count": member.action_count,
        "summary": dict(sorted(member.summary.items())),
    }


def _action(
    number: int, action: wire.Action, batch: Batch, schemas: dict[bytes, pa.Schema]
) -> list[dict[str, Any]]:
    """An action as one record; a batch of files as one a file. All have the same keys."""
    kind = action.WhichOneof("kind")
    base = {"action": number, "kind": kind, **_EMPTY}
    if kind == "add":
        return [base | _add(action.add, schemas)]
    if kind == "add_batch":
        return [
            base | record
            for files, statistics in batch
            for record in _batch(files, of_batch(files, statistics, schemas))
        ]
    if kind == "remove":
        return [base | {"table": action.remove.table, "path": action.remove.path}]
    if kind == "schema":
        return [base | _schema(action.schema)]
    if kind in _OWN_FORM:
        item = getattr(action, kind)
        table = getattr(item, "table", None)
        return [base | {"table": table, "fields": _OWN_FORM[kind](item)}]
    from google.protobuf.json_format import MessageToDict

    inner = getattr(action, kind) if kind else None
    fields = None if inner is None else MessageToDict(inner, preserving_proto_field_name=True)
    return [base | {"kind": kind or "unknown", "fields": fields}]


def _add(add: wire.Add, schemas: dict[bytes, pa.Schema]) -> dict[str, Any]:
    return {
        "table": add.table,
        "path": add.path,
        "partition": add.partition,
        "row_count": add.row_count,
        "size_bytes": add.size_bytes,
        "schema_fingerprint": add.schema_fingerprint.hex(),
        "first_clock": add.first_clock,
        "last_clock": add.last_clock,
        "footer_bytes": add.footer_bytes,
        "footer_digest": _known_digest(add.footer_digest),
        "row_groups": len(add.row_groups),
        "original_revision": add.original_revision if add.HasField("original_revision") else None,
        "statistics": of_add(add, schemas.get(add.schema_fingerprint)),
    }


def _known_digest(digest: bytes) -> str | None:
    return digest.hex() if any(digest) else None


def _batch(files: pa.Table, known: Mapping[tuple[str, str], Records]) -> list[dict[str, Any]]:
    """Many files as records.

    Args:
        known: Statistics by table and path.
    """
    by_bytes: dict[str, Callable[[bytes], str | None]] = {
        "schema_fingerprint": lambda value: value.hex(),
        "footer_digest": _known_digest,
    }
    names = [name for name in files.schema.names if name in _EMPTY]
    columns: dict[str, list[Any]] = {
        name: [by_bytes[name](value) for value in files.column(name).to_pylist()]
        if name in by_bytes
        else plain(files.column(name))
        for name in names
    }
    records = [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]
    return [{**row, "statistics": known.get((row["table"], row["path"]))} for row in records]


def _identity(identity: wire.Identity) -> dict[str, Any]:
    return {"writer": identity.writer, "database": identity.database}


def _seal(seal: wire.Seal) -> dict[str, Any]:
    return {"next_incarnation": seal.next_incarnation, "rebuild_id": seal.rebuild_id.hex()}


def _forget(forget: wire.Forget) -> dict[str, Any]:
    before = forget.applications_before_us
    return {
        "applications_before": output.utc_from_us(before) if before else None,
        "tables": list(forget.tables),
        "schemas": [
            {"table": item.table, "fingerprint": item.fingerprint.hex()} for item in forget.schemas
        ],
    }


def _location(location: wire.Location) -> dict[str, Any]:
    from ..catalog.format.names import location_id

    return {"id": location_id(location.url), "url": location.url}


def definition_form(message: wire.Definition) -> dict[str, Any]:
    """The columns with their ids, types and defaults, the highest id so far, and the key. Types
    that this Arrow can't read are empty."""
    import pyarrow as pa

    from ..catalog.format.definitions import decode_definition

    try:
        decoded = decode_definition(message, "the definition")
        types = {field.name: str(field.type) for field in decoded.schema}
        defaults = {name: plain(pa.repeat(value, 1))[0] for name, value in decoded.defaults.items()}
    except CorruptObject:
        types, defaults = {}, {}
    columns = [
        {
            "column": column.name,
            "id": column.id,
            "type": types.get(column.name, ""),
            "default": defaults.get(column.name),
        }
        for column in message.columns
    ]
    return {"columns": columns, "last_id": message.last_id, "key": list(message.key)}


def column_text(column: dict[str, Any]) -> str:
    """A column of a definition as text."""
    text = f"{column['id']} {column['column']} {column['type']}"
    return text if column["default"] is None else f"{text} default {column['default']}"


def _tombstone(item: wire.Tombstone) -> dict[str, Any]:
    columns = definition_form(item.columns)["columns"] if item.HasField("columns") else []
    return {
        "table": item.table,
        "predicate": item.predicate,
        "columns": columns,
        "paths": list(item.paths),
    }


def _row_deletes(item: wire.RowDeletes) -> dict[str, Any]:
    return {
        "table": item.table,
        "path": item.path,
        "rows": item.cardinality,
        "object": item.object,
        "bytes": item.length,
        "digest": item.digest.hex(),
        "covers_below": item.covers_below,
    }


_OWN_FORM: Final[dict[str | None, Callable[[Any], dict[str, Any]]]] = {
    "identity": _identity,
    "seal": _seal,
    "forget": _forget,
    "location": _location,
    "definition": definition_form,
    "tombstone": _tombstone,
    "row_deletes": _row_deletes,
}


def _schema(schema: wire.Schema) -> dict[str, Any]:
    from ..catalog.format.schema import column_id, decode_schema

    try:
        found = decode_schema(schema.arrow_schema)
        columns = {field.name: str(field.type) for field in found}
        ids = {field.name: column_id(field) for field in found}
    except ValueError:
        columns, ids = {}, {}
    return {
        "table": schema.table,
        "schema_fingerprint": schema.fingerprint.hex(),
        "fields": {
            "columns": columns,
            "key": list(schema.key),
            "sort_order": list(schema.sort_order),
            "ids": ids,
        },
    }


# --- Text -----------------------------------------------------------------------------------------


def _print_text(found: dict[str, Any], *, statistics: bool) -> None:
    guest = " (by a guest)" if found["guest"] else ""
    output.pairs(
        [
            ("transaction", found["key"]),
            ("log id", found["log_id"]),
            ("incarnation", f"{found['incarnation']}"),
            ("revision", f"{found['revision']}"),
            ("committed at", found["committed_at"]),
            ("epoch", f"{found['epoch']}{guest}"),
            ("uuid", found["uuid"]),
            ("digest", found["digest"]),
            ("previous uuid", found["previous_uuid"] or "none, it is the first"),
            ("previous digest", found["previous_digest"] or ""),
            ("successor uuid", found["successor_uuid"]),
        ]
    )
    for member in found["members"]:
        app = f"{member['app_id']} version {member['app_version']}" if member["app_id"] else ""
        summary = ", ".join(f"{name}: {value}" for name, value in member["summary"].items())
        output.line()
        output.line(f"{member['operation']}, {many(member['action_count'], 'action')}")
        output.pairs(
            [
                ("transaction id", member["transaction_id"]),
                ("application", app),
                ("summary", summary),
            ],
            indent="  ",
        )
    output.line()
    if not found["actions"]:
        output.line("no actions")
    for record in found["actions"][:_FILES_SHOWN]:
        _print_action(record, statistics)
    more = len(found["actions"]) - _FILES_SHOWN
    if more > 0:
        output.line(f"and {count(more)} more; --output csv lists them all")


def _print_action(record: dict[str, Any], statistics: bool) -> None:
    kind = record["kind"]
    if kind in ("add", "add_batch"):
        _print_file(record, statistics)
    elif kind == "remove":
        output.line(f"remove  {cell(record['path'])}")
        output.pairs([("table", record["table"])], indent="        ")
    elif kind == "schema":
        columns = record["fields"]["columns"]
        shown = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        output.line(f"schema  {cell(record['table'])}, {many(len(columns), 'column')}")
        output.pairs(
            [
                ("fingerprint", record["schema_fingerprint"]),
                ("columns", shown),
                ("key", ", ".join(record["fields"]["key"])),
                ("sort order", ", ".join(record["fields"]["sort_order"])),
            ],
            indent="        ",
        )
    elif kind == "definition":
        output.line(f"definition  {cell(record['table'])}")
        form = record["fields"]
        output.pairs(
            [
                ("columns", ", ".join(map(column_text, form["columns"]))),
                ("key", ", ".join(map(cell, form["key"]))),
            ],
            indent="        ",
        )
    elif kind == "identity":
        output.line(f"identity  {record['fields']['writer']}/{record['fields']['database']}")
    elif kind == "location":
        output.line(f"location  {cell(record['fields']['url'])}")
        output.pairs([("paths", f"at/{record['fields']['id']}/...")], indent="          ")
    elif kind == "seal":
        output.line(f"seal    for incarnation {record['fields']['next_incarnation']}")
        output.pairs([("rebuild id", record["fields"]["rebuild_id"])], indent="        ")
    else:
        output.line(f"{kind}  {output.to_json(record['fields'])}")


def _print_file(record: dict[str, Any], statistics: bool) -> None:
    output.line(f"add     {record['path']}")
    known = record["statistics"]
    groups, original = record["row_groups"], record["original_revision"]
    output.pairs(
        [
            ("table", record["table"]),
            ("partition", record["partition"]),
            ("holds", f"{many(record['row_count'], 'row')}, {size(record['size_bytes'])}"),
            ("row groups", f"{count(groups)}, footer of {count(record['footer_bytes'])} bytes"),
            ("clock", f"{record['first_clock']} to {record['last_clock']}"),
            *([] if original is None else [("first added", f"by revision {original}")]),
            ("schema", record["schema_fingerprint"]),
            ("statistics", f"of {many(len(known), 'column')}" if known else "none"),
        ],
        indent="        ",
    )
    if statistics and known:
        heads = ["COLUMN", "NULLS", "MIN", "MAX"]
        rows = [
            [cell(item["column"]), _value(item["nulls"]), _bound(item, "min"), _bound(item, "max")]
            for item in known
        ]
        if any(item["no_nan"] for item in known):
            heads.append("NO NAN")
            rows = [
                [*row, "yes" if item["no_nan"] else "-"]
                for row, item in zip(rows, known, strict=True)
            ]
        right = [name == "NULLS" for name in heads]
        output.table(heads, rows, right, indent="        ")


def _value(value: Any) -> str:
    return "-" if value is None else cell(str(value))


def _bound(item: dict[str, Any], name: str) -> str:
    """A bound, with `~` if no row need have that very value."""
    return _value(item[name]) + ("~" if item[f"{name}_exact"] is False else "")
