from . import lakelog_segment_pb2 as _lakelog_segment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Transaction(_message.Message):
    __slots__ = ("revision", "uuid", "previous_uuid", "previous_digest", "epoch", "guest", "actions", "commit")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_UUID_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    uuid: bytes
    previous_uuid: bytes
    previous_digest: bytes
    epoch: int
    guest: bool
    actions: _containers.RepeatedCompositeFieldContainer[Action]
    commit: Commit
    def __init__(self, revision: _Optional[int] = ..., uuid: _Optional[bytes] = ..., previous_uuid: _Optional[bytes] = ..., previous_digest: _Optional[bytes] = ..., epoch: _Optional[int] = ..., guest: _Optional[bool] = ..., actions: _Optional[_Iterable[_Union[Action, _Mapping]]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ...) -> None: ...

class Action(_message.Message):
    __slots__ = ("add", "remove", "schema", "upgrade", "add_batch", "tombstone", "identity", "seal", "forget", "location", "definition", "row_deletes", "optional")
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_FIELD_NUMBER: _ClassVar[int]
    ADD_BATCH_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    ROW_DELETES_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    add: Add
    remove: Remove
    schema: Schema
    upgrade: Upgrade
    add_batch: AddBatch
    tombstone: Tombstone
    identity: Identity
    seal: Seal
    forget: Forget
    location: Location
    definition: Definition
    row_deletes: RowDeletes
    optional: bool
    def __init__(self, add: _Optional[_Union[Add, _Mapping]] = ..., remove: _Optional[_Union[Remove, _Mapping]] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., upgrade: _Optional[_Union[Upgrade, _Mapping]] = ..., add_batch: _Optional[_Union[AddBatch, _Mapping]] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., identity: _Optional[_Union[Identity, _Mapping]] = ..., seal: _Optional[_Union[Seal, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., location: _Optional[_Union[Location, _Mapping]] = ..., definition: _Optional[_Union[Definition, _Mapping]] = ..., row_deletes: _Optional[_Union[RowDeletes, _Mapping]] = ..., optional: _Optional[bool] = ...) -> None: ...

class Add(_message.Message):
    __slots__ = ("path", "table", "partition", "size_bytes", "row_count", "schema_fingerprint", "first_clock", "last_clock", "footer_bytes", "footer_digest", "row_groups", "original_revision")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FIRST_CLOCK_FIELD_NUMBER: _ClassVar[int]
    LAST_CLOCK_FIELD_NUMBER: _ClassVar[int]
    FOOTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    FOOTER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_REVISION_FIELD_NUMBER: _ClassVar[int]
    path: str
    table: str
    partition: str
    size_bytes: int
    row_count: int
    schema_fingerprint: bytes
    first_clock: int
    last_clock: int
    footer_bytes: int
    footer_digest: bytes
    row_groups: _containers.RepeatedCompositeFieldContainer[RowGroup]
    original_revision: int
    def __init__(self, path: _Optional[str] = ..., table: _Optional[str] = ..., partition: _Optional[str] = ..., size_bytes: _Optional[int] = ..., row_count: _Optional[int] = ..., schema_fingerprint: _Optional[bytes] = ..., first_clock: _Optional[int] = ..., last_clock: _Optional[int] = ..., footer_bytes: _Optional[int] = ..., footer_digest: _Optional[bytes] = ..., row_groups: _Optional[_Iterable[_Union[RowGroup, _Mapping]]] = ..., original_revision: _Optional[int] = ...) -> None: ...

class RowGroup(_message.Message):
    __slots__ = ("row_count", "columns")
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    row_count: int
    columns: _containers.RepeatedCompositeFieldContainer[ColumnStatistics]
    def __init__(self, row_count: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[ColumnStatistics, _Mapping]]] = ...) -> None: ...

class ColumnStatistics(_message.Message):
    __slots__ = ("column", "null_count", "min", "max", "min_exact", "max_exact", "bloom_offset", "bloom_bytes", "no_nan")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_EXACT_FIELD_NUMBER: _ClassVar[int]
    MAX_EXACT_FIELD_NUMBER: _ClassVar[int]
    BLOOM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BLOOM_BYTES_FIELD_NUMBER: _ClassVar[int]
    NO_NAN_FIELD_NUMBER: _ClassVar[int]
    column: int
    null_count: int
    min: bytes
    max: bytes
    min_exact: bool
    max_exact: bool
    bloom_offset: int
    bloom_bytes: int
    no_nan: bool
    def __init__(self, column: _Optional[int] = ..., null_count: _Optional[int] = ..., min: _Optional[bytes] = ..., max: _Optional[bytes] = ..., min_exact: _Optional[bool] = ..., max_exact: _Optional[bool] = ..., bloom_offset: _Optional[int] = ..., bloom_bytes: _Optional[int] = ..., no_nan: _Optional[bool] = ...) -> None: ...

class AddBatch(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_lakelog_segment_pb2.SegmentRef]
    def __init__(self, segments: _Optional[_Iterable[_Union[_lakelog_segment_pb2.SegmentRef, _Mapping]]] = ...) -> None: ...

class Remove(_message.Message):
    __slots__ = ("path", "table")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    path: str
    table: str
    def __init__(self, path: _Optional[str] = ..., table: _Optional[str] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("table", "predicate", "columns", "paths")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    table: str
    predicate: str
    columns: Definition
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., predicate: _Optional[str] = ..., columns: _Optional[_Union[Definition, _Mapping]] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class RowDeletes(_message.Message):
    __slots__ = ("table", "path", "object", "offset", "length", "cardinality", "digest", "covers_below")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    COVERS_BELOW_FIELD_NUMBER: _ClassVar[int]
    table: str
    path: str
    object: str
    offset: int
    length: int
    cardinality: int
    digest: bytes
    covers_below: int
    def __init__(self, table: _Optional[str] = ..., path: _Optional[str] = ..., object: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., cardinality: _Optional[int] = ..., digest: _Optional[bytes] = ..., covers_below: _Optional[int] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("table", "fingerprint", "arrow_schema", "key", "sort_order")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_FIELD_NUMBER: _ClassVar[int]
    table: str
    fingerprint: bytes
    arrow_schema: bytes
    key: _containers.RepeatedScalarFieldContainer[str]
    sort_order: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., fingerprint: _Optional[bytes] = ..., arrow_schema: _Optional[bytes] = ..., key: _Optional[_Iterable[str]] = ..., sort_order: _Optional[_Iterable[str]] = ...) -> None: ...

class Definition(_message.Message):
    __slots__ = ("table", "arrow_schema", "columns", "last_id", "key")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LAST_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    table: str
    arrow_schema: bytes
    columns: _containers.RepeatedCompositeFieldContainer[DefinedColumn]
    last_id: int
    key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., arrow_schema: _Optional[bytes] = ..., columns: _Optional[_Iterable[_Union[DefinedColumn, _Mapping]]] = ..., last_id: _Optional[int] = ..., key: _Optional[_Iterable[str]] = ...) -> None: ...

class DefinedColumn(_message.Message):
    __slots__ = ("id", "name", "default")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    default: bytes
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., default: _Optional[bytes] = ...) -> None: ...

class Upgrade(_message.Message):
    __slots__ = ("required_reader_features", "required_writer_features")
    REQUIRED_READER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_WRITER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    required_reader_features: _containers.RepeatedScalarFieldContainer[str]
    required_writer_features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, required_reader_features: _Optional[_Iterable[str]] = ..., required_writer_features: _Optional[_Iterable[str]] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("writer", "database", "begun_at_us")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AT_US_FIELD_NUMBER: _ClassVar[int]
    writer: str
    database: str
    begun_at_us: int
    def __init__(self, writer: _Optional[str] = ..., database: _Optional[str] = ..., begun_at_us: _Optional[int] = ...) -> None: ...

class Seal(_message.Message):
    __slots__ = ("next_incarnation", "rebuild_id")
    NEXT_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REBUILD_ID_FIELD_NUMBER: _ClassVar[int]
    next_incarnation: int
    rebuild_id: bytes
    def __init__(self, next_incarnation: _Optional[int] = ..., rebuild_id: _Optional[bytes] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ("applications_before_us", "tables", "schemas")
    APPLICATIONS_BEFORE_US_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    applications_before_us: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    schemas: _containers.RepeatedCompositeFieldContainer[SchemaName]
    def __init__(self, applications_before_us: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., schemas: _Optional[_Iterable[_Union[SchemaName, _Mapping]]] = ...) -> None: ...

class SchemaName(_message.Message):
    __slots__ = ("table", "fingerprint")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    table: str
    fingerprint: bytes
    def __init__(self, table: _Optional[str] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class Location(_message.Message):
    __slots__ = ("url",)
    URL_FIELD_NUMBER: _ClassVar[int]
    url: str
    def __init__(self, url: _Optional[str] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("members", "committed_at_us", "successor_uuid", "slot_seed")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_UUID_FIELD_NUMBER: _ClassVar[int]
    SLOT_SEED_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    committed_at_us: int
    successor_uuid: bytes
    slot_seed: bytes
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., committed_at_us: _Optional[int] = ..., successor_uuid: _Optional[bytes] = ..., slot_seed: _Optional[bytes] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("transaction_id", "operation", "app_id", "app_version", "summary", "action_count")
    class SummaryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    APP_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ACTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    transaction_id: bytes
    operation: str
    app_id: str
    app_version: int
    summary: _containers.ScalarMap[str, str]
    action_count: int
    def __init__(self, transaction_id: _Optional[bytes] = ..., operation: _Optional[str] = ..., app_id: _Optional[str] = ..., app_version: _Optional[int] = ..., summary: _Optional[_Mapping[str, str]] = ..., action_count: _Optional[int] = ...) -> None: ...
