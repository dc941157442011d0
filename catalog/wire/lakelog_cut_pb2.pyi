from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Cut(_message.Message):
    __slots__ = ("database", "writers")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    database: str
    writers: _containers.RepeatedCompositeFieldContainer[WriterRevision]
    def __init__(self, database: _Optional[str] = ..., writers: _Optional[_Iterable[_Union[WriterRevision, _Mapping]]] = ...) -> None: ...

class WriterRevision(_message.Message):
    __slots__ = ("writer", "revision", "digest", "log_id", "incarnation")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    writer: str
    revision: int
    digest: bytes
    log_id: bytes
    incarnation: int
    def __init__(self, writer: _Optional[str] = ..., revision: _Optional[int] = ..., digest: _Optional[bytes] = ..., log_id: _Optional[bytes] = ..., incarnation: _Optional[int] = ...) -> None: ...
