"""Changes to the tables of segments, for damaged logs. See `hand_damage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_messages import HISTORY, REFERENCES, ROW_DELETES, SCHEMAS, TOMBSTONES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from hand_objects import Form


def change_table(
    rng: random.Random, kind: int, table: pa.Table, form: Form
) -> tuple[pa.Table, str]:
    """A table of a segment that is a little different, and how."""
    changes: list[Callable[..., tuple[pa.Table, str]]] = [
        drop_column, twice, other_type, with_null, value, value, value, value, rows, order, further,
        columns_in_another_order, shape, renamed, dictionary,
    ]  # fmt: skip
    if kind in (REFERENCES, SCHEMAS, HISTORY, ROW_DELETES, TOMBSTONES):
        changes += [value] * 6
    try:
        return rng.choice(changes)(rng, table, form)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, NotImplementedError):
        return table.slice(0, max(1, table.num_rows - 1)), "a row less"


def drop_column(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    name = rng.choice(table.schema.names)
    return table.drop_columns([name]), f"without {name}"


def twice(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    name = rng.choice(table.schema.names)
    return table.append_column(table.schema.field(name), table.column(name)), f"{name} twice"


def other_type(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    name = rng.choice(table.schema.names)
    kind = table.schema.field(name).type
    other = {
        "string": pa.large_string(), "int64": pa.uint64(), "int32": pa.int64(),
        "binary": pa.large_binary(), "uint8": pa.int8(), "bool": pa.int8(),
        "fixed_size_binary[16]": pa.binary(), "fixed_size_binary[32]": pa.binary(),
        "timestamp[us, tz=UTC]": pa.timestamp("us"),
        "list<item: string>": pa.large_list(pa.string()),
    }.get(str(kind), pa.string())  # fmt: skip
    return replace_column(table, name, table.column(name).cast(other)), f"{name} as {other}"


def with_null(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    name = rng.choice(table.schema.names)
    items = table.column(name).to_pylist()
    items[rng.randrange(len(items))] = None
    return retyped(table, name, items), f"a null in {name}"


def value(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    name = rng.choice(table.schema.names)
    kind = table.schema.field(name).type
    column = table.column(name)
    items = (column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_pylist()
    place = rng.randrange(len(items))
    items[place] = other_value(rng, kind, items[place])
    array = pa.array(items, pa.int64() if pa.types.is_timestamp(kind) else kind)
    changed = replace_column(table, name, array.cast(kind))
    return changed, f"another value in {name}"


def other_value(rng: random.Random, kind: pa.DataType, old: Any) -> Any:
    if pa.types.is_boolean(kind):
        return not old
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        near = [(old or 0) + step for step in (-1, 1, -1, 1, -1, 1)]
        wide = [0, -1, 7, 8, 12, 255, (1 << 31) - 1, (1 << 62) - 1, 1 << 62, -(1 << 62)]
        low, high = {"uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}.get(
            str(kind), (-(1 << 63), (1 << 63) - 1)
        )
        return rng.choice([n for n in (*near, *wide) if low <= n <= high])
    if pa.types.is_string(kind):
        return rng.choice(["", (old or "") + "x", (old or "")[:-1], "é" * 200, "data/..", "temp"])
    if pa.types.is_fixed_size_binary(kind):
        return rng.choice(
            [None if old is None else bytes(len(old)), rng.randbytes(kind.byte_width)]
        )
    if pa.types.is_binary(kind):
        return rng.choice([b"", (old or b"") + b"\0", (old or b"\1")[:-1], b"\1", b"\xff" * 8])
    if pa.types.is_list(kind):
        return rng.choice([[], None, [*(old or []), *(old or [])[:1]], [None], (old or [])[1:]])
    return old


def rows(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    if table.num_rows > 1 and rng.random() < 0.5:
        place = rng.randrange(table.num_rows)
        kept = [table.slice(0, place), table.slice(place + 1)]
        return pa.concat_tables(kept), "a row less"
    place = rng.randrange(table.num_rows)
    parts = [table.slice(0, place), table.slice(place, 1), table.slice(place)]
    return pa.concat_tables(parts), "a row twice"


def order(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    places = list(range(table.num_rows))
    rng.shuffle(places)
    return table.take(places), "rows in another order"


def further(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    extra = pa.array([rng.randrange(9)] * table.num_rows, pa.int64())
    return table.append_column(rng.choice(["later", "", "zz"]), extra), "a further column"


def columns_in_another_order(
    rng: random.Random, table: pa.Table, form: Form
) -> tuple[pa.Table, str]:
    names = list(table.schema.names)
    rng.shuffle(names)
    return table.select(names).replace_schema_metadata({"a": "b"}), "columns in another order"


def shape(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    what = rng.randrange(4)
    if what == 0:
        form.compression = rng.choice(["lz4", "zstd"])
    elif what == 1:
        form.batches = 2
    elif what == 2:
        form.stream = True
    else:
        form.version = pa.ipc.MetadataVersion.V4
    return table, f"another form: {form}"


def renamed(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    names = list(table.schema.names)
    names[place := rng.randrange(len(names))] += "_"
    return table.rename_columns(names), f"{names[place]} renamed"


def dictionary(rng: random.Random, table: pa.Table, form: Form) -> tuple[pa.Table, str]:
    if rng.random() < 0.5:
        extra = pa.array(["x"] * table.num_rows).dictionary_encode()
        return table.append_column("later", extra), "a further dictionary"
    name = rng.choice(table.schema.names)
    encoded = table.column(name).combine_chunks().dictionary_encode()
    return replace_column(table, name, encoded), f"{name} as a dictionary"


def retyped(table: pa.Table, name: str, items: list[Any]) -> pa.Table:
    return replace_column(table, name, pa.array(items, table.schema.field(name).type))


def replace_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, pa.field(name, column.type), column)
