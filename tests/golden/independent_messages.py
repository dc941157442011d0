"""The messages of proto/*.proto as tables, for the independent reader. See `independent_wire`."""

from __future__ import annotations

from typing import Any

from independent_wire import BOOL, BYTES, ENUM, SINT, TEXT, UINT, UINT32, Field, Shape

FILES, ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS = 1, 2, 3, 4
SCHEMAS, APPLICATIONS, HISTORY, REFERENCES = 5, 6, 7, 8
ROW_DELETES, DEFINITIONS, TOMBSTONES = 9, 10, 11
SEGMENTS = frozenset(range(1, 12))


def shape(choice: tuple[int, ...] = (), /, **fields: tuple[Any, ...]) -> Shape:
    """A message by its fields: name = (number, type) or (number, type, how often)."""
    made = {}
    for name, (number, kind, *often) in fields.items():
        made[number] = Field(name, kind, *often)
    return Shape(made, choice)


SEGMENT = shape(
    kind=(1, ENUM), row_count=(2, UINT), first_table=(3, TEXT), first_path=(4, TEXT),
    last_table=(5, TEXT), last_path=(6, TEXT), columns=(7, TEXT, "many"),
    first_revision=(8, UINT), last_revision=(9, UINT), total_rows=(10, UINT),
    total_bytes=(11, UINT), min_partition=(12, TEXT), max_partition=(13, TEXT),
)  # fmt: skip
SEGMENT_REF = shape(segment=(1, SEGMENT), offset=(2, UINT), length=(3, UINT), digest=(4, BYTES))
COUNTS = shape(files=(1, UINT), rows=(2, UINT), bytes=(3, UINT))
CHECKPOINT = shape(
    revision=(1, UINT), uuid=(2, BYTES), successor_uuid=(3, BYTES), digest=(4, BYTES),
    epoch=(5, UINT), committed_at_us=(6, SINT), transaction_id=(7, BYTES),
    required_reader_features=(8, TEXT, "many"), required_writer_features=(9, TEXT, "many"),
    writer=(10, TEXT), database=(11, TEXT), counts=(12, COUNTS), references=(13, SEGMENT_REF),
    first_epoch=(14, UINT), begun_at_us=(15, SINT), locations=(16, TEXT, "many"),
)  # fmt: skip

COLUMN_STATISTICS = shape(
    column=(1, UINT32), null_count=(2, UINT), min=(3, BYTES), max=(4, BYTES), min_exact=(5, BOOL),
    max_exact=(6, BOOL), bloom_offset=(7, UINT), bloom_bytes=(8, UINT), no_nan=(9, BOOL),
)  # fmt: skip
ROW_GROUP = shape(row_count=(1, UINT), columns=(2, COLUMN_STATISTICS, "many"))
ADD = shape(
    path=(1, TEXT), table=(2, TEXT), partition=(3, TEXT), size_bytes=(4, UINT), row_count=(5, UINT),
    schema_fingerprint=(6, BYTES), first_clock=(7, SINT), last_clock=(8, SINT),
    footer_bytes=(9, UINT), footer_digest=(10, BYTES), row_groups=(11, ROW_GROUP, "many"),
    original_revision=(12, SINT),
)  # fmt: skip
ADD_BATCH = shape(segments=(1, SEGMENT_REF, "many"))
REMOVE = shape(path=(1, TEXT), table=(2, TEXT))
SCHEMA = shape(
    table=(1, TEXT), fingerprint=(2, BYTES), arrow_schema=(3, BYTES), key=(4, TEXT, "many"),
    sort_order=(5, TEXT, "many"),
)  # fmt: skip
UPGRADE = shape(
    required_reader_features=(1, TEXT, "many"), required_writer_features=(2, TEXT, "many")
)
IDENTITY = shape(writer=(1, TEXT), database=(2, TEXT), begun_at_us=(3, SINT))
SEAL = shape(next_incarnation=(1, UINT32), rebuild_id=(2, BYTES))
SCHEMA_NAME = shape(table=(1, TEXT), fingerprint=(2, BYTES))
FORGET = shape(
    applications_before_us=(1, SINT), tables=(2, TEXT, "many"), schemas=(3, SCHEMA_NAME, "many")
)
LOCATION = shape(url=(1, TEXT))
DEFINED_COLUMN = shape(id=(1, UINT32), name=(2, TEXT), default=(3, BYTES))
DEFINITION = shape(
    table=(1, TEXT), arrow_schema=(2, BYTES), columns=(3, DEFINED_COLUMN, "many"),
    last_id=(4, UINT32), key=(5, TEXT, "many"),
)  # fmt: skip
TOMBSTONE = shape(
    table=(1, TEXT), predicate=(2, TEXT), columns=(3, DEFINITION), paths=(4, TEXT, "many"),
)  # fmt: skip
ROW_DELETES_OF = shape(
    table=(1, TEXT), path=(2, TEXT), object=(3, TEXT), offset=(4, UINT), length=(5, UINT),
    cardinality=(6, UINT), digest=(7, BYTES), covers_below=(8, UINT),
)  # fmt: skip
KINDS = tuple(range(1, 13))
ACTION = shape(
    KINDS,
    add=(1, ADD), remove=(2, REMOVE), schema=(3, SCHEMA), upgrade=(4, UPGRADE),
    add_batch=(5, ADD_BATCH), tombstone=(6, TOMBSTONE), identity=(7, IDENTITY), seal=(8, SEAL),
    forget=(9, FORGET), location=(10, LOCATION), definition=(11, DEFINITION),
    row_deletes=(12, ROW_DELETES_OF), optional=(15, BOOL),
)  # fmt: skip
ENTRY = shape(key=(1, TEXT), value=(2, TEXT))
MEMBER = shape(
    transaction_id=(1, BYTES), operation=(2, TEXT), app_id=(3, TEXT), app_version=(4, UINT),
    summary=(5, ENTRY, "map"), action_count=(6, UINT32),
)  # fmt: skip
COMMIT = shape(
    members=(1, MEMBER, "many"), committed_at_us=(2, SINT), successor_uuid=(3, BYTES),
    slot_seed=(4, BYTES),
)  # fmt: skip
TRANSACTION = shape(
    revision=(1, UINT), uuid=(2, BYTES), previous_uuid=(3, BYTES), previous_digest=(4, BYTES),
    epoch=(5, UINT), guest=(6, BOOL), actions=(7, ACTION, "many"), commit=(15, COMMIT),
)  # fmt: skip

DELETES_OBJECT = shape(
    writer=(1, TEXT), database=(2, TEXT), table=(3, TEXT), transaction_id=(4, BYTES),
    number=(5, UINT32), base_revision=(6, SINT), base_transaction_id=(7, BYTES), epoch=(8, UINT),
    slot_seed=(9, BYTES), files=(10, ROW_DELETES_OF, "many"), app_id=(11, TEXT),
    app_version=(12, UINT), operation=(13, TEXT), clock=(14, SINT),
)  # fmt: skip

WRITER_REVISION = shape(
    writer=(1, TEXT), revision=(2, UINT), digest=(3, BYTES), log_id=(4, BYTES),
    incarnation=(5, UINT32),
)  # fmt: skip
CUT = shape(database=(1, TEXT), writers=(2, WRITER_REVISION, "many"))
