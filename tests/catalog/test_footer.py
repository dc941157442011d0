"""What lakelog writes into a Parquet footer comes back as it was, or is refused."""

from __future__ import annotations

import base64
import dataclasses
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.footer import FooterMetadata, decode_footer, encode_footer
from lakelog.catalog.format.schema import COLUMN_ID

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NUMBERS = st.integers(-(2**62), 2**62)
SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64()),
        pa.field("b", pa.list_(pa.struct([("x", pa.string())])), metadata={COLUMN_ID: "3"}),
    ]
)
METAS = st.builds(
    FooterMetadata,
    writer=TEXT,
    database=TEXT,
    table=TEXT,
    partition=TEXT,
    transaction_id=st.binary(min_size=16, max_size=16),
    number=st.integers(0, 10**9),
    base_revision=st.integers(-1, 2**62),
    base_transaction_id=st.one_of(st.just(b""), st.binary(min_size=16, max_size=16)),
    epoch=st.integers(1, 2**62),
    first_clock=NUMBERS,
    last_clock=NUMBERS,
    schema=st.just(SCHEMA),
    log_id=st.binary(min_size=16, max_size=16),
    incarnation=st.integers(1, 999),
    slot_seed=st.binary(min_size=16, max_size=16),
    replaces=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    app_id=TEXT,
    app_version=st.integers(0, 2**62),
    operation=st.sampled_from(["append", "overwrite"]),
    task=st.integers(0, 2**40),
    attempt=st.integers(0, 2**40),
)
META = FooterMetadata(
    writer="w", database="db", table="t", partition="", transaction_id=b"\x07" * 16, number=0,
    base_revision=-1, base_transaction_id=b"", epoch=1, first_clock=1, last_clock=2, schema=SCHEMA,
    log_id=b"\x01" * 16, incarnation=1, slot_seed=b"\x02" * 16,
)  # fmt: skip


def raw(values):
    return {key.encode(): value.encode() for key, value in values.items()}


@given(METAS)
def test_footers_round_trip(meta):
    found = decode_footer(raw(encode_footer(meta)))
    assert found == meta
    assert found.schema.equals(SCHEMA, check_metadata=True)


@given(METAS)
def test_other_metadata_of_the_file_doesnt_matter(meta):
    values = {**raw(encode_footer(meta)), b"pandas": b"\xff", b"ARROW:schema": b"x", b"": b""}
    assert decode_footer(values) == meta


@pytest.mark.parametrize("metadata", [None, {}, {b"pandas": b"{}"}, {b"lakelog": b"1"}])
def test_a_foreign_file_has_none(metadata):
    assert decode_footer(metadata) is None


@pytest.mark.parametrize("key", sorted(encode_footer(META).keys() - {"lakelog.floats"}))
def test_a_footer_without_one_of_its_keys_is_refused(key):
    values = encode_footer(META)
    del values[key]
    if key == "lakelog.version":
        assert decode_footer(raw(values)) is None
        return
    with pytest.raises(ValueError, match=key.split(".")[1]):
        decode_footer(raw(values))


@pytest.mark.parametrize("value", [None, "", "!", "é", "AAA"])
def test_what_it_says_of_floats_costs_nothing_else(value):
    meta = dataclasses.replace(META, floats=b"known")
    values = encode_footer(meta)
    assert decode_footer(raw(values)) == meta
    del values["lakelog.floats"]
    values |= {} if value is None else {"lakelog.floats": value}
    assert decode_footer(raw(values)) == dataclasses.replace(META, floats=b"")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "2"),
        ("version", ""),
        ("transaction_id", "00"),
        ("transaction_id", "zz" * 16),
        ("base_transaction_id", "0"),
        ("number", "x"),
        ("base_revision", ""),
        ("epoch", "1.5"),
        ("first_clock", "now"),
        ("schema", "!"),
        ("schema", base64.b64encode(b"no schema").decode()),
        ("log_id", "00"),
        ("log_id", ""),
        ("slot_seed", "zz" * 16),
        ("incarnation", "first"),
        ("replaces", "["),
        ("replaces", "[1]"),
        ("replaces", "5"),
        ("replaces", '"data/x"'),
        ("replaces", "null"),
        ("replaces", '["data/x"]'),
        ("replaces", '[["t"]]'),
        ("replaces", '[["t", 1]]'),
        ("replaces", "[" * 100_000),
        ("replaces", json.dumps({"data/x": 1})),
        ("app_version", "one"),
        ("task", ""),
        ("task", "-1"),
        ("task", "one"),
    ],
)
def test_a_value_that_cannot_be_is_refused(key, value):
    values = {**encode_footer(META), f"lakelog.{key}": value}
    with pytest.raises(ValueError):
        decode_footer(raw(values))


def test_a_file_of_no_task_says_nothing_of_it():
    assert "lakelog.task" not in encode_footer(META)
    assert "lakelog.attempt" not in encode_footer(META)


def test_a_task_without_an_attempt_is_refused():
    values = encode_footer(dataclasses.replace(META, task=3, attempt=5))
    assert (decode_footer(raw(values)).task, decode_footer(raw(values)).attempt) == (3, 5)
    del values["lakelog.attempt"]
    with pytest.raises(ValueError, match="attempt"):
        decode_footer(raw(values))


def test_a_value_that_is_not_utf8_is_refused():
    with pytest.raises(ValueError):
        decode_footer({**raw(encode_footer(META)), b"lakelog.table": b"\xff"})


def test_the_keys_are_those_of_the_text():
    meta = dataclasses.replace(META, task=0)
    assert {key.removeprefix("lakelog.") for key in encode_footer(meta)} == {
        "version", "writer", "database", "table", "partition", "log_id", "incarnation",
        "slot_seed", "transaction_id", "number", "base_revision", "base_transaction_id", "epoch",
        "first_clock", "last_clock", "schema", "replaces", "app_id",
        "app_version", "operation", "floats", "task", "attempt",
    }  # fmt: skip
