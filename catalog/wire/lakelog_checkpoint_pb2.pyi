from . import lakelog_segment_pb2 as _lakelog_segment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Checkpoint(_message.Message):
    __slots__ = ("revision", "uuid", "successor_uuid", "digest", "epoch", "committed_at_us", "transaction_id", "required_reader_features", "required_writer_features", "writer", "database", "counts", "references", "first_epoch", "begun_at_us", "locations")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_UUID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_READER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_WRITER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    FIRST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AT_US_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    uuid: bytes
    successor_uuid: bytes
    digest: bytes
    epoch: int
    committed_at_us: int
    transaction_id: bytes
    required_reader_features: _containers.RepeatedScalarFieldContainer[str]
    required_writer_features: _containers.RepeatedScalarFieldContainer[str]
    writer: str
    database: str
    counts: Counts
    references: _lakelog_segment_pb2.SegmentRef
    first_epoch: int
    begun_at_us: int
    locations: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., uuid: _Optional[bytes] = ..., successor_uuid: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., epoch: _Optional[int] = ..., committed_at_us: _Optional[int] = ..., transaction_id: _Optional[bytes] = ..., required_reader_features: _Optional[_Iterable[str]] = ..., required_writer_features: _Optional[_Iterable[str]] = ..., writer: _Optional[str] = ..., database: _Optional[str] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., references: _Optional[_Union[_lakelog_segment_pb2.SegmentRef, _Mapping]] = ..., first_epoch: _Optional[int] = ..., begun_at_us: _Optional[int] = ..., locations: _Optional[_Iterable[str]] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("files", "rows", "bytes")
    FILES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    files: int
    rows: int
    bytes: int
    def __init__(self, files: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...
