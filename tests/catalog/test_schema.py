"""Schemas: which types unite, that no value is lost on the way, and what a cut's schema is."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import itertools
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lakelog.catalog.data.unify import FileSchema, conform, distinct, readable_columns, unify, widen
from lakelog.catalog.format.schema import (
    GENERATION,
    check_writable,
    decode_schema,
    encode_schema,
    fingerprint,
    generation,
    pack_schema,
    unpack_schema,
)
from lakelog.errors import InvalidSchema, SchemaConflict

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UINTS = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal128(5, 2),
    pa.decimal128(9, 0),
    pa.decimal128(20, 10),
    pa.decimal128(38, 38),
    pa.decimal128(38, 0),
    pa.decimal256(60, 30),
]
TIMES = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("us", "UTC"),
    pa.duration("s"),
    pa.duration("us"),
]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(4),
    pa.dictionary(pa.int8(), pa.string()),
    pa.bool_(),
    pa.null(),
]
NESTED = [
    pa.list_(pa.int8()),
    pa.list_(pa.int64()),
    pa.large_list(pa.float32()),
    pa.list_(pa.string()),
    pa.struct([("x", pa.int8())]),
    pa.struct([("x", pa.int64()), ("y", pa.string())]),
    pa.struct([("y", pa.large_string()), ("x", pa.int16())]),
    pa.struct([("z", pa.list_(pa.int32()))]),
    pa.map_(pa.string(), pa.int32()),
]
TYPES = [*INTS, *UINTS, *FLOATS, *DECIMALS, *TIMES, *TEXTS, *NESTED]
PAIRS = list(itertools.combinations_with_replacement(TYPES, 2))


def unordered(kind):
    """A type with the fields of its structs sorted: their order is that of the first one seen."""
    if kind is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct(
            [(f.name, unordered(f.type)) for f in sorted(fields, key=lambda f: f.name)]
        )
    if pa.types.is_list(kind):
        return pa.list_(unordered(kind.value_type))
    return kind


def test_widening_is_commutative():
    for left, right in PAIRS:
        assert unordered(widen(left, right)) == unordered(widen(right, left)), (left, right)


def test_widening_to_itself_changes_nothing():
    for kind in TYPES:
        assert widen(kind, kind) == kind


def test_what_is_wider_than_both_stays_so():
    """Widening again with either side changes nothing: the result doesn't depend on repeats."""
    for left, right in PAIRS:
        both = widen(left, right)
        if both is not None:
            assert widen(both, left) == both, (left, right)
            assert widen(both, right) == both, (left, right)


@given(st.permutations([*INTS, *UINTS[:3], pa.float64()]), st.integers(2, 4))
def test_the_order_of_files_doesnt_matter_for_numbers(kinds, count):
    """As far as they unite at all: a pair in the middle may already have no common type. (With
    decimals it does: int16 and uint16 make an int32, which has more digits than either. So the
    format fixes the order.)
    """
    chosen = kinds[:count]
    results = set()
    for order in itertools.permutations(chosen):
        found = order[0]
        for kind in order[1:]:
            found = None if found is None else widen(found, kind)
        results.add(found)
    assert len(results - {None}) <= 1


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint16(), pa.int64(), pa.int64()),
        (pa.uint32(), pa.int8(), pa.int64()),
        (pa.int16(), pa.float32(), pa.float32()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.uint32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(5, 4), pa.decimal128(7, 4)),
        (pa.decimal128(5, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(38, 10), pa.int64(), pa.decimal128(38, 10)),
        (pa.decimal128(38, 30), pa.int64(), pa.decimal256(49, 30)),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.time32("s"), pa.time64("us"), pa.time64("us")),
        (pa.null(), pa.string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string()),
        (pa.list_(pa.int8()), pa.large_list(pa.int16()), pa.list_(pa.int16())),
    ],
)
def test_types_that_unite(left, right, both):
    assert widen(left, right) == both


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.float64()),
        (pa.uint64(), pa.int64()),
        (pa.uint64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.int32()),
        (pa.time32("s"), pa.timestamp("s")),
        (pa.decimal128(9, 2), pa.float64()),
        (pa.decimal256(76, 70), pa.decimal128(38, 0)),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.string())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_types_that_do_not_unite(left, right):
    assert widen(left, right) is None
    assert widen(right, left) is None


def test_a_struct_with_one_name_twice_unites_with_nothing_else():
    twice = pa.struct([pa.field("x", pa.int8()), pa.field("x", pa.string())])
    assert widen(twice, pa.struct([("x", pa.int8())])) is None
    assert widen(pa.struct([("y", pa.int8())]), twice) is None
    assert widen(twice, twice) == twice


# --- No value is lost ---------------------------------------------------------------------------


def some_value(draw, kind):
    """A random value of a type as pyarrow takes it, or None."""
    types = pa.types
    if types.is_null(kind) or draw(st.integers(0, 5)) == 0:
        return None
    if types.is_dictionary(kind):
        return some_value(draw, kind.value_type)
    if types.is_boolean(kind):
        return draw(st.booleans())
    if types.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if types.is_signed_integer(kind) else 0
        return draw(st.one_of(st.sampled_from([low, 0, low + 2**kind.bit_width - 1]),
                              st.integers(low, low + 2**kind.bit_width - 1)))  # fmt: skip
    if types.is_floating(kind):
        return draw(st.floats(width=kind.bit_width, allow_nan=False))
    if types.is_decimal(kind):
        top = 10**kind.precision - 1
        unscaled = draw(st.one_of(st.sampled_from([top, -top]), st.integers(-top, top)))
        digits = tuple(int(char) for char in str(abs(unscaled)))
        return decimal.Decimal((int(unscaled < 0), digits, -kind.scale))
    if types.is_date(kind):
        return dt.date(1970, 1, 1) + dt.timedelta(days=draw(st.integers(-20_000, 20_000)))
    if types.is_time(kind):
        return dt.time(draw(st.integers(0, 23)), draw(st.integers(0, 59)), 7)
    if types.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(
            seconds=draw(st.integers(-9 * 10**9, 9 * 10**9))
        )
    if types.is_duration(kind):
        return dt.timedelta(seconds=draw(st.integers(-(10**9), 10**9)))
    if types.is_string(kind) or types.is_large_string(kind):
        return draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
    if types.is_fixed_size_binary(kind):
        return draw(st.binary(min_size=kind.byte_width, max_size=kind.byte_width))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return draw(st.binary(max_size=4))
    if types.is_map(kind):
        return [("k", some_value(draw, kind.item_type))]
    if types.is_list(kind) or types.is_large_list(kind):
        return [some_value(draw, kind.value_type) for _ in range(draw(st.integers(0, 2)))]
    assert types.is_struct(kind), kind
    return {
        kind.field(i).name: some_value(draw, kind.field(i).type) for i in range(kind.num_fields)
    }


def same(before, after):
    """Whether a value is unchanged; a struct may have gained fields that are null."""
    if before is None or after is None:
        return before is after
    if isinstance(before, dict):
        return (
            all(
                same(before[key], after[key]) if key in before else after[key] is None
                for key in after
            )
            and before.keys() <= after.keys()
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    if type(before) is dt.date and isinstance(after, dt.datetime):
        return after == dt.datetime(before.year, before.month, before.day)
    if isinstance(before, float):
        return before == after and math.copysign(1, before) == math.copysign(1, after)
    return before == after


@pytest.mark.parametrize("left", TYPES, ids=str)
def test_no_value_is_lost_by_widening(left):
    targets = [kind for kind in (widen(left, right) for right in TYPES) if kind is not None]
    assert targets

    @given(st.data())
    def check(data):
        both = data.draw(st.sampled_from(targets))
        values = [some_value(data.draw, left) for _ in range(3)]
        column = pa.array(values, left)
        before = column.to_pylist()
        batch = pa.RecordBatch.from_arrays([column], names=["c"])
        after = conform(batch, pa.schema([pa.field("c", both)]))
        assert after.schema.field("c").type == both
        after.validate(full=True)
        assert all(map(same, before, after.column(0).to_pylist())), (before, after.to_pylist())

    check()


# --- Fingerprints -------------------------------------------------------------------------------


def test_schemas_round_trip_with_their_generations():
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.string(), metadata={GENERATION: "2", "other": "x"}),
            pa.field("日本", pa.list_(pa.struct([("x", pa.decimal128(9, 2))]))),
        ],
        metadata={"pandas": "{}"},
    )
    encoded = encode_schema(schema)
    found = decode_schema(encoded.message, encoded.generations)
    assert len(encoded.fingerprint) == 16
    assert encoded.generations == (("b", 2),)
    assert found.metadata is None
    assert [generation(field) for field in found] == [0, 2, 0]
    assert found.field("b").metadata == {GENERATION: b"2"}
    assert [field.type for field in found] == [field.type for field in schema]
    assert encode_schema(found) == encoded
    assert generation(decode_schema(encoded.message).field("b")) == 0
    packed = unpack_schema(pack_schema(found))
    assert packed.equals(found, check_metadata=True)


def test_generations_ascend_by_bytes_and_those_of_no_column_are_ignored():
    names = ["z", "ü", "a", "🦆", "\uffff"]
    mark = {GENERATION: "1"}
    schema = pa.schema([pa.field(name, pa.int8(), metadata=mark) for name in names])
    found = encode_schema(schema).generations
    assert [name for name, _ in found] == sorted(names, key=str.encode)
    plain = encode_schema(pa.schema([("a", pa.int8())])).message
    assert [generation(f) for f in decode_schema(plain, [("gone", 7)])] == [0]


def test_a_fingerprint_knows_name_type_order_and_generation_but_no_metadata():
    base = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    mark = encode_schema(base).fingerprint
    assert encode_schema(base.with_metadata({"x": "y"})).fingerprint == mark
    others = [
        base.set(0, pa.field("c", pa.int64())),
        base.set(0, pa.field("a", pa.int32())),
        base.set(0, pa.field("a", pa.int64(), nullable=False)),
        base.set(0, pa.field("a", pa.int64(), metadata={GENERATION: "1"})),
        pa.schema(list(base)[::-1]),
    ]
    assert len({mark, *(encode_schema(other).fingerprint for other in others)}) == 6


def test_a_fingerprint_is_that_of_the_text():
    message, generations = b"any bytes", [("ü", 3), ("🦆", 999_999_999)]
    body = struct.pack("<I", 9) + message
    body += struct.pack("<I", 2) + "ü".encode() + struct.pack("<I", 3)
    body += struct.pack("<I", 4) + "🦆".encode() + struct.pack("<I", 999_999_999)
    assert fingerprint(message, generations) == hashlib.sha256(body).digest()[:16]
    plain = hashlib.sha256(struct.pack("<I", 9) + message).digest()[:16]
    assert fingerprint(message) == plain


@pytest.mark.parametrize("bad", [b"", b"x", bytes(100), b"\xff" * 50])
def test_what_is_no_schema_is_refused(bad):
    with pytest.raises(ValueError):
        decode_schema(bad)


MESSAGE = encode_schema(pa.schema([("a", pa.int64())])).message


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(MESSAGE[4:], id="without the marker"),
        pytest.param(MESSAGE + b"\xff\xff\xff\xff\0\0\0\0", id="end of stream behind"),
        pytest.param(MESSAGE + bytes(8), id="zeros behind"),
        pytest.param(MESSAGE + b"x", id="a byte behind"),
        pytest.param(MESSAGE[:-8], id="cut short"),
        pytest.param(pa.record_batch({"a": [1]}).serialize().to_pybytes(), id="a record batch"),
        pytest.param(
            pa.schema([("a", pa.int64()), ("a", pa.int8())]).serialize().to_pybytes(),
            id="a name twice",
        ),
    ],
)
def test_other_forms_of_a_schema_are_refused(bad):
    """Arrow takes some of them."""
    assert decode_schema(MESSAGE).names == ["a"]
    with pytest.raises(ValueError):
        decode_schema(bad)


def test_a_schema_of_metadata_version_4_is_refused():
    at = MESSAGE.index(b"\x04\x00", 12)
    root = 8 + struct.unpack_from("<I", MESSAGE, 8)[0]
    table = root - struct.unpack_from("<i", MESSAGE, root)[0]
    version = root + struct.unpack_from("<H", MESSAGE, table + 4)[0]
    assert at <= version
    assert MESSAGE[version : version + 2] == b"\x04\x00"
    with pytest.raises(ValueError):
        decode_schema(MESSAGE[:version] + b"\x03\x00" + MESSAGE[version + 2 :])


# --- What can be written ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*TYPES, pa.list_(pa.list_(pa.int8())), pa.list_(pa.int8(), 3)])
def test_ordinary_types_can_be_written(kind):
    check_writable(pa.schema([pa.field("c", kind)]))


EMPTY = pa.struct([])
UNION = pa.union([pa.field("x", pa.int8())], mode="dense")


@pytest.mark.parametrize(
    "kind",
    [
        EMPTY,
        pa.list_(EMPTY),
        pa.struct([("inner", EMPTY)]),
        pa.map_(pa.string(), EMPTY),
        UNION,
        pa.list_(UNION),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_types_without_a_parquet_form_are_refused(kind):
    with pytest.raises(InvalidSchema, match="'c'") as caught:
        check_writable(pa.schema([pa.field("c", kind)]))
    assert caught.value.hint


@pytest.mark.parametrize("names", [[], [""], ["a", "a"], ["a", "b", "a"]], ids=str)
def test_columns_that_no_reader_could_name_are_refused(names):
    with pytest.raises(InvalidSchema):
        check_writable(pa.schema([pa.field(name, pa.int64()) for name in names]))


def test_names_that_differ_in_case_alone_are_two():
    check_writable(pa.schema([pa.field("a", pa.int64()), pa.field("A", pa.int64())]))


# --- The schema of a cut ------------------------------------------------------------------------


def files(*schemas):
    return [FileSchema(schema, f"w{number}") for number, schema in enumerate(schemas)]


def column(name, kind, number=0):
    return pa.field(name, kind, metadata={GENERATION: str(number)} if number else None)


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
    for word in ("'b'", "'hourly'", "int64", "double", "'w0'", "'w2'"):
        assert word in str(error)


def test_only_the_newest_generation_of_a_column_counts():
    old = pa.schema([column("b", pa.string()), column("a", pa.int64())])
    new = pa.schema([column("a", pa.int64()), column("b", pa.int64(), 1)])
    for order in ((old, new), (new, old)):
        found = unify(files(*order), "t")
        assert found.field("b").type == pa.int64()
        assert generation(found.field("b")) == 1


def test_a_file_of_an_older_generation_doesnt_lend_its_column():
    old = pa.schema([column("a", pa.int64()), column("b", pa.int64())])
    new = pa.schema([column("b", pa.int64(), 1), column("c", pa.int64())])
    target = unify(files(old, new), "t")
    assert target.names == ["a", "b", "c"]
    assert readable_columns(old, target) == ["a"]
    assert readable_columns(new, target) == ["b", "c"]


def test_schemas_without_repeats_keep_their_order():
    a, b = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())])
    found = distinct(files(a, b, a, b))
    assert [(item.schema, item.writer) for item in found] == [(a, "w0"), (b, "w1")]


# --- Rows into the cut's schema -----------------------------------------------------------------


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
