"""The one schema of a cut, and rows brought into it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lakelog.catalog.data.unify import FileSchema, conform, distinct, shown, unify
from lakelog.catalog.format.schema import column_of
from lakelog.errors import SchemaConflict

# --- The schema of a cut --------------------------------------------------------------------------


def files(*schemas):
    return [FileSchema(schema, f"w{number}") for number, schema in enumerate(schemas)]


def column(name, kind, number=0):
    return column_of(name, kind, number)


def test_columns_come_in_the_order_first_seen_with_the_widest_type():
    first = pa.schema([column("b", pa.int32()), column("a", pa.string())])
    second = pa.schema([column("c", pa.bool_()), column("b", pa.int64())])
    found = unify(files(first, second), "t")
    assert found == pa.schema([("b", pa.int64()), ("a", pa.string()), ("c", pa.bool_())])


def test_all_columns_of_a_cut_are_nullable():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert unify(files(schema), "t").field("a").nullable


def test_large_and_dictionary_types_become_plain():
    schema = pa.schema([("a", pa.large_string()), ("d", pa.dictionary(pa.int8(), pa.string()))])
    assert unify(files(schema), "t").types == [pa.string(), pa.string()]


def test_a_conflict_names_the_column_the_types_and_the_writers():
    schemas = files(
        pa.schema([("a", pa.string()), ("b", pa.int64())]),
        pa.schema([("a", pa.string())]),
        pa.schema([("b", pa.float64())]),
    )
    with pytest.raises(SchemaConflict) as caught:
        unify(schemas, "hourly")
    error = caught.value
    assert error.writers == ("w0", "w2")
    assert error.key == "b"
    assert error.exit_code == 4
    for word in ("'b'", "'hourly'", "int64", "double", "'w0'", "'w2'", "without_conflicts"):
        assert word in str(error)


def test_columns_unite_by_name_whatever_their_ids():
    """Ids are a log's own."""
    one = pa.schema([column("a", pa.int64(), 1), column("b", pa.int32(), 2)])
    two = pa.schema([column("b", pa.int64(), 1), column("c", pa.int64(), 2)])
    target = unify(files(one, two), "t")
    assert target == pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    assert all(field.metadata is None for field in target)
    assert list(shown(one, None).found(target).stored) == ["a", "b"]
    assert list(shown(two, None).found(target).stored) == ["b", "c"]


def test_schemas_without_repeats_keep_their_order():
    a, b = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())])
    found = distinct(files(a, b, a, b))
    assert [(item.schema, item.writer) for item in found] == [(a, "w0"), (b, "w1")]


# --- Rows into the cut's schema -------------------------------------------------------------------


def test_missing_columns_are_null_and_the_others_in_the_order_of_the_cut():
    batch = pa.RecordBatch.from_pydict({"b": [1, 2], "x": [9, 9]})
    target = pa.schema([("a", pa.string()), ("b", pa.float64())])
    assert conform(batch, target).to_pylist() == [{"a": None, "b": 1.0}, {"a": None, "b": 2.0}]


def test_no_columns_at_all_keep_the_number_of_rows():
    batch = pa.RecordBatch.from_pydict({"b": [1, 2, 3]})
    assert conform(batch, pa.schema([])).num_rows == 3


def test_structs_are_conformed_by_name():
    kind = pa.struct([("y", pa.int8()), ("x", pa.int8())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"y": 1, "x": 2}, None], kind)], names=["s"])
    wide = pa.struct([("x", pa.int64()), ("new", pa.string()), ("y", pa.int64())])
    found = conform(batch, pa.schema([("s", wide)]))
    assert found.to_pylist() == [{"s": {"x": 2, "new": None, "y": 1}}, {"s": None}]


@pytest.mark.parametrize("wrap", [pa.list_, lambda kind: pa.struct([("inner", kind)])])
def test_structs_inside_others_are_conformed_by_name(wrap):
    kind = wrap(pa.struct([("y", pa.int8()), ("x", pa.int8())]))
    wide = wrap(pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    row = {"y": 1, "x": 2}
    value = [row, None] if pa.types.is_list(kind) else {"inner": row}
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], kind)], names=["s"])
    found = conform(batch, pa.schema([("s", wide)])).column(0)
    assert found.type == wide
    assert found.to_pylist() == [value, None]


def test_a_time_out_of_the_finer_units_range_is_an_error_and_not_another_time():
    batch = pa.RecordBatch.from_arrays(
        [pa.array([2**55], pa.int64()).cast(pa.timestamp("s"))], names=["t"]
    )
    with pytest.raises(pa.ArrowInvalid):
        conform(batch, pa.schema([("t", pa.timestamp("ns"))]))


@given(st.lists(st.sampled_from(["a", "b", "c"]), unique=True), st.integers(0, 3))
def test_a_batch_that_fits_already_is_passed_on(names, rows):
    assume(names)
    batch = pa.RecordBatch.from_pydict({name: [1] * rows for name in names})
    found = conform(batch, batch.schema)
    assert found.equals(batch)
