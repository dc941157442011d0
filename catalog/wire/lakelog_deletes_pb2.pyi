from . import lakelog_transaction_pb2 as _lakelog_transaction_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeletesObject(_message.Message):
    __slots__ = ("writer", "database", "table", "transaction_id", "number", "base_revision", "base_transaction_id", "epoch", "slot_seed", "files", "app_id", "app_version", "operation", "clock")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BASE_REVISION_FIELD_NUMBER: _ClassVar[int]
    BASE_TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SLOT_SEED_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    APP_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    writer: str
    database: str
    table: str
    transaction_id: bytes
    number: int
    base_revision: int
    base_transaction_id: bytes
    epoch: int
    slot_seed: bytes
    files: _containers.RepeatedCompositeFieldContainer[_lakelog_transaction_pb2.RowDeletes]
    app_id: str
    app_version: int
    operation: str
    clock: int
    def __init__(self, writer: _Optional[str] = ..., database: _Optional[str] = ..., table: _Optional[str] = ..., transaction_id: _Optional[bytes] = ..., number: _Optional[int] = ..., base_revision: _Optional[int] = ..., base_transaction_id: _Optional[bytes] = ..., epoch: _Optional[int] = ..., slot_seed: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[_lakelog_transaction_pb2.RowDeletes, _Mapping]]] = ..., app_id: _Optional[str] = ..., app_version: _Optional[int] = ..., operation: _Optional[str] = ..., clock: _Optional[int] = ...) -> None: ...
