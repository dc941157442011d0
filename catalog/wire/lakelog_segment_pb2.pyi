from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SegmentKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[SegmentKind]
    FILES: _ClassVar[SegmentKind]
    ROW_GROUPS: _ClassVar[SegmentKind]
    STATISTICS: _ClassVar[SegmentKind]
    ROW_GROUP_STATISTICS: _ClassVar[SegmentKind]
    SCHEMAS: _ClassVar[SegmentKind]
    APPLICATIONS: _ClassVar[SegmentKind]
    HISTORY: _ClassVar[SegmentKind]
    REFERENCES: _ClassVar[SegmentKind]
    ROW_DELETES: _ClassVar[SegmentKind]
    DEFINITIONS: _ClassVar[SegmentKind]
    TOMBSTONES: _ClassVar[SegmentKind]
UNKNOWN: SegmentKind
FILES: SegmentKind
ROW_GROUPS: SegmentKind
STATISTICS: SegmentKind
ROW_GROUP_STATISTICS: SegmentKind
SCHEMAS: SegmentKind
APPLICATIONS: SegmentKind
HISTORY: SegmentKind
REFERENCES: SegmentKind
ROW_DELETES: SegmentKind
DEFINITIONS: SegmentKind
TOMBSTONES: SegmentKind

class Segment(_message.Message):
    __slots__ = ("kind", "row_count", "first_table", "first_path", "last_table", "last_path", "columns", "first_revision", "last_revision", "total_rows", "total_bytes", "min_partition", "max_partition")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TABLE_FIELD_NUMBER: _ClassVar[int]
    FIRST_PATH_FIELD_NUMBER: _ClassVar[int]
    LAST_TABLE_FIELD_NUMBER: _ClassVar[int]
    LAST_PATH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_REVISION_FIELD_NUMBER: _ClassVar[int]
    LAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_PARTITION_FIELD_NUMBER: _ClassVar[int]
    MAX_PARTITION_FIELD_NUMBER: _ClassVar[int]
    kind: SegmentKind
    row_count: int
    first_table: str
    first_path: str
    last_table: str
    last_path: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    first_revision: int
    last_revision: int
    total_rows: int
    total_bytes: int
    min_partition: str
    max_partition: str
    def __init__(self, kind: _Optional[_Union[SegmentKind, str]] = ..., row_count: _Optional[int] = ..., first_table: _Optional[str] = ..., first_path: _Optional[str] = ..., last_table: _Optional[str] = ..., last_path: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., first_revision: _Optional[int] = ..., last_revision: _Optional[int] = ..., total_rows: _Optional[int] = ..., total_bytes: _Optional[int] = ..., min_partition: _Optional[str] = ..., max_partition: _Optional[str] = ...) -> None: ...

class SegmentRef(_message.Message):
    __slots__ = ("segment", "offset", "length", "digest")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    segment: Segment
    offset: int
    length: int
    digest: bytes
    def __init__(self, segment: _Optional[_Union[Segment, _Mapping]] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...
