"""Messages, statistics and transactions of a log as JSON-ready values, and as text."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, CorruptObject, LakelogError
from . import output
from .opening import revision_fields
from .output import columns
from .text import cell, count, many, size
from .values import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ..catalog.format.names import LogObject
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.format.pieces import Piece
    from ..catalog.read.log_reader import LogReader
    from ..catalog.wire import lakelog_transaction_pb2 as wire

    # The files of each segment, and their statistics.
    Batch = Sequence[tuple[pa.Table, Sequence[pa.Table]]]

_ACTIONS_SHOWN: Final = 50
_FIELDS: Final = (
    *("table", "path", "partition", "row_count", "size_bytes", "schema_fingerprint"),
    *("first_clock", "last_clock", "footer_bytes", "footer_digest", "original_revision"),
    *("row_groups", "statistics", "fields"),
)
_COLUMNS: Final = columns("action", "kind", *_FIELDS)
_HEAD: Final = (
    *("log_id", "incarnation", "revision", "committed_at", "epoch", "guest", "uuid", "digest"),
    *("previous_uuid", "previous_digest", "successor_uuid"),
)
_INDENT: Final = " " * 8


# --- Messages -------------------------------------------------------------------------------------


def message_fields(message: Any, *without: str) -> dict[str, Any]:
    """The fields of a message by name, `without` some: bytes in hex, times in text, what is not set
    as None."""
    fields: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        name, value = field.name, getattr(message, field.name)
        if name in without:
            continue
        if field.has_presence and not message.HasField(name):
            fields[name] = None
        elif name.endswith("_us"):
            fields[name.removesuffix("_us")] = output.utc_from_us(value) if value else None
        else:
            fields[name] = _plain_field(value)
    return fields


def _plain_field(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex() if any(value) else None
    if hasattr(value, "DESCRIPTOR"):
        is_definition = value.DESCRIPTOR.name == "Definition"
        return definition_form(value) if is_definition else message_fields(value)
    if hasattr(value, "items"):
        return dict(sorted(value.items()))
    return value if isinstance(value, (str, int)) else [_plain_field(item) for item in value]


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


# --- A transaction --------------------------------------------------------------------------------


def show_transaction(args: argparse.Namespace, log: LogReader, item: LogObject) -> None:
    """Print a transaction object."""
    fields = _describe(log, item)
    if args.output == "text":
        _print_text(fields, statistics=args.statistics)
    else:
        output.object_or_rows(args.output, fields, _COLUMNS, fields["actions"])


def _describe(log: LogReader, item: LogObject) -> dict[str, Any]:
    """Every field of a transaction object.

    Requests: 1 GET; if a file's schema isn't in this transaction, those of reading the log up to it
        as well.
    """
    decoded = log.transaction(item)
    message = decoded.message
    batches = {number: _decode(decoded.batches[number]) for number in decoded.batches}
    schemas = _schemas(log, decoded, batches)
    return {
        "kind": "transaction",
        "key": log.folder + item.name,
        "writer": log.writer,
        "database": log.database,
        "log_id": decoded.log.log_id.hex(),
        "incarnation": decoded.log.incarnation,
        **message_fields(message, "actions", "commit"),
        "digest": decoded.digest.hex(),
        **message_fields(message.commit, "members"),
        **revision_fields(log, decoded.log, message.revision, decoded.digest),
        "members": [_member(member) for member in message.commit.members],
        "actions": [
            {"action": number, **dict.fromkeys(("kind", *_FIELDS)), **record}
            for number, action in enumerate(message.actions)
            for record in _action(action, batches.get(number, ()), schemas)
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
    log: LogReader, decoded: DecodedTransaction, batches: Mapping[int, Batch]
) -> dict[bytes, pa.Schema]:
    """Schemas by fingerprint: those in the transaction, and if files need others, also those of the
    log before it.
    """
    from ..catalog.format.schema import decode_schema

    schemas: dict[bytes, pa.Schema] = {}
    needed: set[bytes] = set()
    for action in decoded.message.actions:
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
            state = log.load(decoded.message.revision, incarnation=decoded.log.incarnation)
            known = state.schemas.arrow_schemas(state.schemas.entries)
            schemas |= {fingerprint: schema for (_, fingerprint), schema in known.items()}
    return schemas


def _member(member: wire.Member) -> dict[str, Any]:
    application = {} if member.app_id else {"app_id": None, "app_version": None}
    return {**message_fields(member), **application}


def _action(
    action: wire.Action, batch: Batch, schemas: dict[bytes, pa.Schema]
) -> list[dict[str, Any]]:
    """An action as one record; a batch of files as one a file."""
    kind = action.WhichOneof("kind")
    if kind is None:
        return [{"kind": "unknown"}]
    if kind == "add_batch":
        return [record for files, tables in batch for record in _batch(files, tables, schemas)]
    inner = getattr(action, kind)
    if kind == "add":
        statistics = of_add(inner, schemas.get(inner.schema_fingerprint))
        groups = {"row_groups": len(inner.row_groups), "statistics": statistics}
        return [{"kind": kind, **message_fields(inner, "row_groups"), **groups}]
    if kind == "remove":
        return [{"kind": kind, **message_fields(inner)}]
    if kind == "schema":
        return [{"kind": kind, **_schema(inner)}]
    fields = _plain_field(inner)
    if kind == "location":
        from ..catalog.format.names import location_id

        fields["id"] = location_id(inner.url)
    fields.pop("table", None)
    return [{"kind": kind, "table": getattr(inner, "table", None), "fields": fields}]


def _batch(
    files: pa.Table, tables: Sequence[pa.Table], schemas: Mapping[bytes, pa.Schema]
) -> list[dict[str, Any]]:
    statistics = of_batch(files, tables, schemas)
    names = [name for name in files.schema.names if name in _FIELDS]
    values = [
        [_plain_field(value) for value in files.column(name).to_pylist()]
        if name in ("schema_fingerprint", "footer_digest")
        else plain(files.column(name))
        for name in names
    ]
    records = [dict(zip(names, row)) for row in zip(*values, strict=True)]
    for record in records:
        record["statistics"] = statistics.get((record["table"], record["path"]))
    return [{"kind": "add_batch", **record} for record in records]


def _schema(schema: wire.Schema) -> dict[str, Any]:
    from ..catalog.format.schema import column_id, decode_schema

    try:
        decoded = decode_schema(schema.arrow_schema)
        columns = {field.name: str(field.type) for field in decoded}
        ids = {field.name: column_id(field) for field in decoded}
    except ValueError:
        columns, ids = {}, {}
    return {
        "table": schema.table,
        "schema_fingerprint": schema.fingerprint.hex(),
        "fields": {
            "columns": columns,
            "ids": ids,
            **message_fields(schema, "table", "fingerprint", "arrow_schema"),
        },
    }


# --- Text -----------------------------------------------------------------------------------------


def _print_text(fields: dict[str, Any], *, statistics: bool) -> None:
    guest = "yes" if fields["guest"] else ""
    output.pairs(
        [("transaction", fields["key"]), *output.named({**fields, "guest": guest}, *_HEAD)]
    )
    for member in fields["members"]:
        app = f"{member['app_id']} version {member['app_version']}" if member["app_id"] else ""
        output.line()
        output.line(f"{member['operation']}, {many(member['action_count'], 'action')}")
        output.pairs(
            [
                ("transaction id", member["transaction_id"]),
                ("application", app),
                ("summary", _words(member["summary"], ": ")),
            ],
            indent="  ",
        )
    output.line()
    if not fields["actions"]:
        output.line("no actions")
    for record in fields["actions"][:_ACTIONS_SHOWN]:
        if record["kind"] in ("add", "add_batch"):
            _print_file(record, statistics)
        else:
            _print_action(record)
    more = len(fields["actions"]) - _ACTIONS_SHOWN
    if more > 0:
        output.line(f"and {count(more)} more; --output csv lists them all")


def _print_action(record: dict[str, Any]) -> None:
    subject = record["path"] or record["table"] or ""
    output.line(f"{record['kind']:<6}  {cell(subject)}".rstrip())
    pairs = [("table", record["table"])] if record["path"] else []
    pairs += [("fingerprint", record["schema_fingerprint"])]
    pairs += [(name.replace("_", " "), value) for name, value in (record["fields"] or {}).items()]
    output.pairs([(name, _words(value)) for name, value in pairs], indent=_INDENT)


def _words(value: Any, between: str = " ") -> str:
    """A value of a message in words; empty for what is not set."""
    if isinstance(value, dict) and "column" in value:
        return column_text(value)
    if isinstance(value, dict) and "columns" in value:
        return _words(value["columns"])
    if isinstance(value, dict):
        return ", ".join(f"{name}{between}{_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return "" if value is None else str(value)


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
            ("first added", "" if original is None else f"by revision {original}"),
            ("schema", record["schema_fingerprint"]),
            ("statistics", f"of {many(len(known), 'column')}" if known else "none"),
        ],
        indent=_INDENT,
    )
    if statistics and known:
        shown = [item["no_nan"] for item in known]
        heads = ["COLUMN", "NULLS", "MIN", "MAX", *(["NO NAN"] if any(shown) else [])]
        rows = [
            [
                *(cell(item["column"]), _value(item["nulls"])),
                *(_bound(item, "min"), _bound(item, "max"), "yes" if item["no_nan"] else "-"),
            ][: len(heads)]
            for item in known
        ]
        output.table(heads, rows, [name == "NULLS" for name in heads], indent=_INDENT)


def _value(value: Any) -> str:
    return "-" if value is None else cell(str(value))


def _bound(item: dict[str, Any], name: str) -> str:
    """A bound, with `~` if no row need have that very value."""
    return _value(item[name]) + ("~" if item[f"{name}_exact"] is False else "")


# --- Statistics of files --------------------------------------------------------------------------


Records = list[dict[str, Any]]
_BOUNDS: Final = ("min", "max")


def of_add(add: wire.Add, schema: pa.Schema | None) -> Records | None:
    """The statistics of a whole file; None if they or the schema aren't known."""
    from ..catalog.format.statistics_rows import merge_row_groups

    if schema is None or not add.row_groups:
        return None
    merged = merge_row_groups(add.row_groups, schema)
    return [_column(item, schema) for item in merged if item.column < len(schema)]


def _column(item: wire.ColumnStatistics, schema: pa.Schema) -> dict[str, Any]:
    from ..catalog.format.statistics import bound_type, decode_bounds, has_nan

    field = schema.field(item.column)
    kind = bound_type(field.type)
    low = high = None
    if kind is not None:
        raw = [getattr(item, name) if item.HasField(name) else None for name in _BOUNDS]
        low, high = plain(decode_bounds(raw, kind))
    return _record(
        {
            "column": field.name,
            "null_count": item.null_count if item.HasField("null_count") else None,
            **{"min": low, "max": high, "min_exact": item.min_exact, "max_exact": item.max_exact},
            "no_nan": item.no_nan and has_nan(field.type),
        }
    )


def of_batch(
    files: pa.Table, statistics: Sequence[pa.Table], schemas: Mapping[bytes, pa.Schema]
) -> dict[tuple[str, str], Records]:
    """The statistics of the files of FILES, by table and path, without files that have none."""
    import pyarrow as pa

    from ..catalog.format.columns import column
    from ..catalog.read.statistics import statistics_of_batch

    if not statistics:
        return {}
    by_path: dict[tuple[str, str], Records] = {}
    # A path can be in two tables: each is read by itself, its rows keep their numbers.
    tables = files.column("table").to_pylist()
    rows = pa.concat_tables(statistics)
    places = rows.column("row").to_pylist()
    for table in dict.fromkeys(tables):
        own = [at < len(tables) and tables[at] == table for at in places]
        of_table = column(own, pa.bool_())
        records = statistics_records(statistics_of_batch(files, rows.filter(of_table), schemas))
        for item in records:
            by_path.setdefault((table, item["path"]), []).append(_record(item))
    return by_path


def statistics_records(statistics: pa.Table) -> Records:
    """Rows of `Snapshot.statistics` with bounds as values, in their order."""
    from ..catalog.format.statistics import decode_bounds, parse_bound_type

    kinds = statistics.column("bound_type").to_pylist()
    columns = {
        name: statistics.column(name).to_pylist()
        for name in statistics.schema.names
        if name not in _BOUNDS
    }
    for name in _BOUNDS:
        raw = statistics.column(name).to_pylist()
        columns[name] = [None] * len(raw)
        for text in set(kinds):
            kind = parse_bound_type(text)
            at = [place for place, other in enumerate(kinds) if other == text]
            if kind is not None:
                values = plain(decode_bounds([raw[place] for place in at], kind))
                for place, value in zip(at, values, strict=True):
                    columns[name][place] = value
    return [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]


def _record(item: Mapping[str, Any]) -> dict[str, Any]:
    exact = {f"{n}_exact": None if item[n] is None else item[f"{n}_exact"] for n in _BOUNDS}
    record = {"column": item["column"], "nulls": item["null_count"]}
    return {**record, **{n: item[n] for n in _BOUNDS}, **exact, "no_nan": item["no_nan"]}
