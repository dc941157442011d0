"""From the last bytes of a Parquet file to what the log keeps of it. Pure, but not safe.

The Parquet library can abort the whole process on a malformed footer: `parse_footer` is for bytes
of known origin, or for a child process (`pool`). The rest touches no library.

Source: docs/format.md, sections 5.1 and 8.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...format.footer import FooterMetadata, decode_footer, encode_footer
from ...format.schema import (
    check_writable,
    encode_schema,
    pack_schema,
    unpack_schema,
)
from ...wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FOOTER_BYTES: Final = 64 << 20
TAIL_BYTES: Final = 64 << 10
_MIN_FILE_BYTES: Final = 12
_TRAILER_BYTES: Final = 8


class NotParquet(ValueError):
    """The bytes are not the end of a Parquet file that can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class ParsedFooter:
    """What a Parquet file's footer says.

    Attributes:
        schema: Arrow schema with the ids of columns, as lakelog keeps it.
        facts: Its `Add` without path, table, partition, clocks and what it replaces.
        meta: What lakelog wrote into it; None for a foreign file. Its `floats` are no part of
            `facts`: they count only in a file that is where its footer says.
        problem: Why its lakelog metadata can't be used, if it claims to have any; else empty.
        unfit: Why its rows can't be read right, so that it must not be taken into a log; else
            empty.
    """

    schema: pa.Schema
    facts: wire.Add
    meta: FooterMetadata | None
    problem: str = ""
    unfit: str = ""


def footer_length(end: bytes, size_bytes: int) -> int:
    """Returns how many bytes at the end of a file its footer takes, with the trailer of 8 bytes.
    Raises `NotParquet` if no footer ends there.

    Args:
        end: The last 8 bytes of the file, or more.
        size_bytes: Of the whole file.
    """
    if size_bytes < _MIN_FILE_BYTES or len(end) < _TRAILER_BYTES:
        raise NotParquet(f"it is only {size_bytes} bytes long")
    magic = end[-4:]
    if magic == b"PARE":
        raise NotParquet("its footer is encrypted")
    if magic != b"PAR1":
        raise NotParquet(
            "it doesn't end as a Parquet file does: it is something else, or cut short"
        )
    length = int.from_bytes(end[-8:-4], "little") + _TRAILER_BYTES
    if length > size_bytes - 4:
        raise NotParquet(f"its footer would be {length} bytes long, in a file of {size_bytes}")
    if length > MAX_FOOTER_BYTES:
        raise NotParquet(f"its footer of {length} bytes is over the limit of {MAX_FOOTER_BYTES}")
    return length


_ENCRYPTION: Final = 8  # the field of FileMetaData that says how columns are encrypted
_SMALL_BYTES: Final = 1 << 20
_VARINT_BITS: Final = 64


def is_encrypted(tail: bytes, size_bytes: int) -> bool:
    """Checks whether a plain footer has encrypted columns, on which the Parquet library aborts.
    False for a malformed footer, and for one too large to be looked through here."""
    try:
        footer = tail[-footer_length(tail, size_bytes) : -_TRAILER_BYTES]
        return len(footer) <= _SMALL_BYTES and _ENCRYPTION in _struct(footer, 0)[0]
    except (NotParquet, ValueError, IndexError, RecursionError):
        return False


def _struct(body: bytes, at: int) -> tuple[set[int], int]:
    """The numbers of the fields of a struct, and the place behind it."""
    found: set[int] = set()
    number = 0
    while (head := body[at]) != 0:
        step, at = head >> 4, at + 1
        if step:
            number += step
        else:
            raw, at = _varint(body, at)
            number = (raw >> 1) ^ -(raw & 1)
        found.add(number)
        at = at if head & 15 in _BOOLEANS else _behind(body, at, head & 15)
    return found, at + 1


_BOOLEANS: Final = (1, 2)  # in a struct they are their types
_SIZES: Final = {1: 1, 2: 1, 3: 1, 7: 8}


def _behind(body: bytes, at: int, kind: int) -> int:
    """The place behind a value of a type."""
    if kind in _SIZES:
        return at + _SIZES[kind]
    if kind in (4, 5, 6):
        return _varint(body, at)[1]
    if kind == 8:
        length, at = _varint(body, at)
        return at + length
    if kind in (9, 10):
        count, inner = body[at] >> 4, body[at] & 15
        at += 1
        if count == 15:
            count, at = _varint(body, at)
        if count > len(body) - at:  # each item has a byte at least
            raise ValueError("a list beyond the end")
        for _ in range(count):
            at = _behind(body, at, inner)
        return at
    if kind == 12:
        return _struct(body, at)[1]
    raise ValueError(f"a value of type {kind}")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > _VARINT_BITS:
            raise ValueError("a number beyond 64 bits")


def parse_footer(tail: bytes, size_bytes: int) -> ParsedFooter:
    """Reads a footer. On malformed bytes this can end the process. Raises `NotParquet`, with the
    reason, if it can't be used.

    Args:
        tail: The end of the file, with the whole footer in it.
        size_bytes: Of the whole file.
    """
    from ..parquet import footer_digest, proven_floats

    length = footer_length(tail, size_bytes)
    metadata = metadata_reader()(pa.BufferReader(tail[-length:]))
    _check_places(metadata, size_bytes - length)
    schema = metadata.schema.to_arrow_schema()
    check_writable(schema)
    meta, problem = _own_metadata(metadata.metadata, schema)
    # Ids that others have written are none of a log's columns.
    bare = pa.schema([field.remove_metadata() for field in schema])
    identity = bare if meta is None else meta.schema
    facts = _facts(metadata, identity, size_bytes, is_foreign=meta is None)
    if meta is not None:
        meta = replace(meta, floats=proven_floats(meta, metadata, facts))
    facts.footer_bytes, facts.footer_digest = length, footer_digest(tail[-length:])
    return ParsedFooter(identity, facts, meta, problem, _unfit(metadata))


def _unfit(metadata: Any) -> str:
    """INT96 has no zone, and Arrow's nanoseconds begin in 1677: each reader makes other times of
    it."""
    columns = metadata.schema
    for index in range(len(columns)):
        leaf = columns.column(index)
        if leaf.physical_type == "INT96":
            return f"column {leaf.path!r} is a timestamp in INT96, which readers disagree on"
    return other_calendar(metadata)


# --- Dates and times of the calendar before 1582, which some readers move and others don't --------

_FIRST_DAY: Final = -141_427  # 1582-10-15: from then on calendars agree
FIRST_SECOND: Final = -2_177_452_800  # 1901-01-01: Spark moves times for zones' odd offsets, too
_IN_A_SECOND: Final = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def other_calendar(metadata: Any) -> str:
    """Why dates or times of a file mean another day to some readers; empty if none do."""
    pairs = metadata.metadata or {}
    version = pairs.get(b"org.apache.spark.version")  # as Spark itself judges its files
    if version is not None and version < b"3.0.0":
        writer = f"Spark {version.decode(errors='replace')[:20]}"
    elif version is not None and b"org.apache.spark.legacyDateTime" in pairs:
        writer = "Spark with datetimeRebaseModeInWrite=LEGACY"
    elif pairs.get(b"writer.date.proleptic", b"").lower() == b"false":
        writer = "Hive without hive.parquet.date.proleptic.gregorian"
    else:
        return ""
    for index in range(len(metadata.schema)):
        leaf = metadata.schema.column(index)
        first = _first_of_today(leaf)
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        if first is not None and any(
            _begins_before(group.column(index), first) for group in groups
        ):
            return (
                f"{writer} has written it in the calendar that ended in 1582, its column "
                f"{leaf.path!r} may hold days of before, and readers disagree on these"
            )
    return ""


def moves_int96(metadata: Any) -> bool:
    """Whether Spark moves times in INT96 of before 1900 when it reads a file."""
    pairs = metadata.metadata or {}
    version = pairs.get(b"org.apache.spark.version", b"")
    return bool(version) and (version < b"3.1.0" or b"org.apache.spark.legacyINT96" in pairs)


def _first_of_today(leaf: Any) -> int | None:
    """The first value of a column that is the same in all calendars; None: it holds no such."""
    kind = leaf.logical_type.type
    if kind == "DATE":
        return _FIRST_DAY
    if kind == "TIMESTAMP":
        return FIRST_SECOND * _IN_A_SECOND[json.loads(leaf.logical_type.to_json())["timeUnit"]]
    return None


def _begins_before(chunk: Any, first: int) -> bool:
    """Whether a value may be less; only bounds prove that none is."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        has_none = statistics is not None and statistics.null_count == chunk.num_values
        return chunk.num_values > 0 and not has_none
    least: int = statistics.min_raw
    return least < first


def metadata_reader() -> Callable[[pa.BufferReader], Any]:
    """`pyarrow.parquet.read_metadata`, but without that package: it loads all of Arrow's file
    systems."""
    try:
        from pyarrow._parquet import ParquetReader  # what `pyarrow.parquet` itself calls
    except ImportError:
        from pyarrow import parquet

        return parquet.read_metadata  # type: ignore[no-any-return]

    def read(source: pa.BufferReader) -> Any:
        reader = ParquetReader()
        reader.open(source)
        return reader.metadata

    return read


def _check_places(metadata: Any, end_of_data: int) -> None:
    """Whether the rows add up and every column chunk lies inside the file, before the footer."""
    rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0:
            raise NotParquet(f"row group {number} has {group.num_rows} rows")
        rows += group.num_rows
        for index in range(group.num_columns):
            chunk = group.column(index)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            if chunk.file_path:
                raise NotParquet("its columns lie in another file")
            least = 4 if chunk.num_values else 0  # pages of no values begin at 0, Arrow says
            if start < least or start + max(0, chunk.total_compressed_size) > end_of_data:
                raise NotParquet(f"column {index} of row group {number} lies outside of the file")
    if rows != metadata.num_rows:
        raise NotParquet(f"it counts {metadata.num_rows} rows and its row groups {rows}")


def _own_metadata(
    pairs: dict[bytes, bytes] | None, schema: pa.Schema
) -> tuple[FooterMetadata | None, str]:
    try:
        meta = decode_footer(pairs)
    except (ValueError, TypeError) as error:
        return None, f"its lakelog metadata can't be read: {error}"
    if meta is None:
        return None, ""
    claimed = [(field.name, shape(field.type)) for field in meta.schema]
    if claimed != [(field.name, shape(field.type)) for field in schema]:
        return None, "its lakelog metadata describes other columns than the file has"
    return meta, ""


def shape(kind: pa.DataType) -> str:
    """A type as far as Parquet keeps it: units, widths of offsets, encodings and names of list
    items may come back otherwise."""
    types = pa.types
    if types.is_dictionary(kind):
        return shape(kind.value_type)
    if types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        return f"struct<{[(field.name, shape(field.type)) for field in inner]}>"
    if types.is_map(kind):
        return f"map<{shape(kind.key_type)},{shape(kind.item_type)}>"
    if kind.num_fields == 1:
        return f"list<{shape(kind.field(0).type)}>"
    if types.is_decimal(kind):
        return f"decimal<{kind.precision},{kind.scale}>"
    if types.is_timestamp(kind):
        return f"timestamp<{kind.tz is not None}>"
    for name, test in (("date", types.is_date), ("time", types.is_time)):
        if test(kind):
            return name
    return str(kind).removeprefix("large_").removesuffix("_view")


def _facts(metadata: Any, schema: pa.Schema, size_bytes: int, *, is_foreign: bool) -> wire.Add:
    from ..parquet import file_facts

    fingerprint = encode_schema(schema).fingerprint
    read = partial(file_facts, metadata, schema, size_bytes, fingerprint=fingerprint)
    try:
        return read(is_foreign=is_foreign)
    except (ValueError, TypeError, NotImplementedError, OSError, pa.ArrowException):
        # Statistics that can't be read are unknown: the rows may be as good as ever.
        return read(statistics=False)


def encode_parsed(parsed: ParsedFooter) -> bytes:
    """The bytes of a result, for a pipe."""
    own = None if parsed.meta is None else encode_footer(parsed.meta)
    return json.dumps(
        {
            "schema": _text(pack_schema(parsed.schema)),
            "facts": _text(parsed.facts.SerializeToString()),
            "meta": own,
            "problem": parsed.problem,
            "unfit": parsed.unfit,
        }
    ).encode()


def decode_parsed(data: bytes) -> ParsedFooter:
    """Decodes `encode_parsed`. Raises `ValueError` for other bytes."""
    found = json.loads(data)
    own = found["meta"]
    meta = None
    if own is not None:
        meta = decode_footer({key.encode(): value.encode() for key, value in own.items()})
    schema = unpack_schema(base64.b64decode(found["schema"]))
    facts = wire.Add.FromString(base64.b64decode(found["facts"]))
    return ParsedFooter(schema, facts, meta, found["problem"], found["unfit"])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
