from . import lakelog_cut_pb2 as _lakelog_cut_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RefKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REF_KIND_UNSPECIFIED: _ClassVar[RefKind]
    TAG: _ClassVar[RefKind]
    PUBLISHED: _ClassVar[RefKind]
    REMOVED: _ClassVar[RefKind]
REF_KIND_UNSPECIFIED: RefKind
TAG: RefKind
PUBLISHED: RefKind
REMOVED: RefKind

class Ref(_message.Message):
    __slots__ = ("name", "number", "id", "kind", "cuts", "created_at_us", "expires_at_us", "keep_s", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_US_FIELD_NUMBER: _ClassVar[int]
    KEEP_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    id: bytes
    kind: RefKind
    cuts: _containers.RepeatedCompositeFieldContainer[_lakelog_cut_pb2.Cut]
    created_at_us: int
    expires_at_us: int
    keep_s: int
    message: str
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., id: _Optional[bytes] = ..., kind: _Optional[_Union[RefKind, str]] = ..., cuts: _Optional[_Iterable[_Union[_lakelog_cut_pb2.Cut, _Mapping]]] = ..., created_at_us: _Optional[int] = ..., expires_at_us: _Optional[int] = ..., keep_s: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Opening(_message.Message):
    __slots__ = ("logs",)
    LOGS_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[OpeningLog]
    def __init__(self, logs: _Optional[_Iterable[_Union[OpeningLog, _Mapping]]] = ...) -> None: ...

class OpeningLog(_message.Message):
    __slots__ = ("writer", "objects")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    writer: str
    objects: _containers.RepeatedCompositeFieldContainer[OpeningObject]
    def __init__(self, writer: _Optional[str] = ..., objects: _Optional[_Iterable[_Union[OpeningObject, _Mapping]]] = ...) -> None: ...

class OpeningObject(_message.Message):
    __slots__ = ("revision", "uuid4", "is_checkpoint", "length")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UUID4_FIELD_NUMBER: _ClassVar[int]
    IS_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    revision: int
    uuid4: bytes
    is_checkpoint: bool
    length: int
    def __init__(self, revision: _Optional[int] = ..., uuid4: _Optional[bytes] = ..., is_checkpoint: _Optional[bool] = ..., length: _Optional[int] = ...) -> None: ...
