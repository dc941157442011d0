from . import lakelog_transaction_pb2 as _lakelog_transaction_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeletesObject(_message.Message):
    __slots__ = ("writer", "database", "transaction_id", "files")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    writer: str
    database: str
    transaction_id: bytes
    files: _containers.RepeatedCompositeFieldContainer[_lakelog_transaction_pb2.RowDeletes]
    def __init__(self, writer: _Optional[str] = ..., database: _Optional[str] = ..., transaction_id: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[_lakelog_transaction_pb2.RowDeletes, _Mapping]]] = ...) -> None: ...
