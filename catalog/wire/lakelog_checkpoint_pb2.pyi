from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Checkpoint(_message.Message):
    __slots__ = ("revision", "uuid", "successor_uuid", "digest", "epoch", "committed_at_us", "transaction_ids", "required_reader_features", "required_writer_features", "app_versions", "segments", "counts")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_UUID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_READER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_WRITER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    APP_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    uuid: bytes
    successor_uuid: bytes
    digest: bytes
    epoch: int
    committed_at_us: int
    transaction_ids: _containers.RepeatedScalarFieldContainer[bytes]
    required_reader_features: _containers.RepeatedScalarFieldContainer[str]
    required_writer_features: _containers.RepeatedScalarFieldContainer[str]
    app_versions: _containers.RepeatedCompositeFieldContainer[AppVersion]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentRef]
    counts: Counts
    def __init__(self, revision: _Optional[int] = ..., uuid: _Optional[bytes] = ..., successor_uuid: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., epoch: _Optional[int] = ..., committed_at_us: _Optional[int] = ..., transaction_ids: _Optional[_Iterable[bytes]] = ..., required_reader_features: _Optional[_Iterable[str]] = ..., required_writer_features: _Optional[_Iterable[str]] = ..., app_versions: _Optional[_Iterable[_Union[AppVersion, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[SegmentRef, _Mapping]]] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ...) -> None: ...

class AppVersion(_message.Message):
    __slots__ = ("app_id", "app_version")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    APP_VERSION_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    app_version: int
    def __init__(self, app_id: _Optional[str] = ..., app_version: _Optional[int] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("files", "rows", "bytes")
    FILES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    files: int
    rows: int
    bytes: int
    def __init__(self, files: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SegmentRef(_message.Message):
    __slots__ = ("kind", "table", "row_count", "offset", "length", "name", "digest", "first_path", "last_path")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SegmentRef.Kind]
        FILES: _ClassVar[SegmentRef.Kind]
        ROW_GROUPS: _ClassVar[SegmentRef.Kind]
        SCHEMAS: _ClassVar[SegmentRef.Kind]
        HISTORY: _ClassVar[SegmentRef.Kind]
        TOMBSTONES: _ClassVar[SegmentRef.Kind]
    UNKNOWN: SegmentRef.Kind
    FILES: SegmentRef.Kind
    ROW_GROUPS: SegmentRef.Kind
    SCHEMAS: SegmentRef.Kind
    HISTORY: SegmentRef.Kind
    TOMBSTONES: SegmentRef.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FIRST_PATH_FIELD_NUMBER: _ClassVar[int]
    LAST_PATH_FIELD_NUMBER: _ClassVar[int]
    kind: SegmentRef.Kind
    table: str
    row_count: int
    offset: int
    length: int
    name: str
    digest: bytes
    first_path: str
    last_path: str
    def __init__(self, kind: _Optional[_Union[SegmentRef.Kind, str]] = ..., table: _Optional[str] = ..., row_count: _Optional[int] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., name: _Optional[str] = ..., digest: _Optional[bytes] = ..., first_path: _Optional[str] = ..., last_path: _Optional[str] = ...) -> None: ...
