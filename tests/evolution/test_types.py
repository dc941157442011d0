"""Each type of value that a database has goes in, comes out as it was, and lives through changes of
the columns beside it and of its own."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from evolution_cases import INT, LONG, TEXT, Lake, evolve, write

BOUND = pa.struct([("inclusive", pa.bool_()), ("bound", INT)])
DIMENSIONS = pa.list_(pa.struct([("lower_bound", LONG), ("length", pa.uint64())]))
UTC = dt.UTC
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
# By name its Arrow type, and values.
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numeric": (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-" + "9" * 20), None]),
    "numeric, wide": (pa.decimal256(76, 38), [Decimal("1.5"), Decimal("7" * 38), None]),
    "numeric, any": (
        pa.struct([("lossy", pa.float64()), ("actual", pa.binary())]),
        [{"lossy": 1e30, "actual": b"1e30"}, None],
    ),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "time": (pa.time64("us"), [dt.time(23, 59, 59, 999_999), dt.time(0), None]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1600, 1, 1), dt.datetime(2024, 2, 29), None]),
    "timestamptz": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 2, 29, 1, tzinfo=UTC), None]),
    "interval": (pa.binary(16), [bytes(range(16)), bytes(16), None]),
    "interval, of time": (pa.duration("us"), [dt.timedelta(days=-1, microseconds=3), None]),
    "json": (pa.json_(pa.string()), ['{"a": [1, null]}', "null", None]),
    "json, as text": (TEXT, ['{"a": 1}', None]),
    "uuid": (pa.uuid(), [ID, None]),
    "array": (
        pa.struct([("elements", pa.list_(INT)), ("dimensions", DIMENSIONS)]),
        [{"elements": [2, 3], "dimensions": [{"lower_bound": 1, "length": 2}]}, None],
    ),
    "list": (pa.list_(pa.list_(TEXT)), [[["a"], [], None], None, []]),
    "list, of a fixed length": (pa.list_(INT, 2), [[1, 2], None]),
    "record": (
        pa.struct([("x", INT), ("inner", pa.struct([("y", TEXT)]))]),
        [{"x": 1, "inner": {"y": "a"}}, {"x": None, "inner": None}, None],
    ),
    "map": (pa.map_(TEXT, INT), [[("a", 1), ("b", None)], [], None]),
    "clock": (pa.uint64(), [0, (1 << 64) - 1, None]),
    "range": (
        pa.struct([("lower", BOUND), ("upper", BOUND)]),
        [{"lower": {"inclusive": True, "bound": 1}, "upper": None}, None],
    ),
    "acl item": (
        pa.struct([("grantee", TEXT), ("grantor", TEXT), ("acl_mode", pa.uint64())]),
        [{"grantee": "u1", "grantor": "u2", "acl_mode": 1 << 63}, None],
    ),
    "vector of smallints": (pa.list_(pa.int16()), [[1, -2], None]),
}
by_type = pytest.mark.parametrize("name", TYPES)


@by_type
def test_a_type_comes_out_as_it_went_in_and_lives_through_changes(name: str) -> None:
    kind, values = TYPES[name]
    lake = Lake()
    lake.do(write(v=(kind, values), beside=(INT, list(range(len(values))))))
    assert lake.now.schema("t").field("v").type == kind
    wanted = lake.now.to_arrow("t").column("v")
    assert wanted.to_pylist() == values
    lake.do(evolve(rename={"v": "w"}, drop=["beside"], add={"after": TEXT}), checkpoint=True)
    lake.do(write(w=(kind, values)))
    found = lake.now.to_arrow("t")
    assert found.schema.field("w").type == kind
    assert found.column("w").to_pylist() == values * 2
    assert found.column("after").to_pylist() == [None] * 2 * len(values)
    lake.do(evolve(drop=["w"]))
    lake.do(evolve(add={"w": kind}))
    assert lake.now.schema("t").field("w").type == kind
    assert lake.now.to_arrow("t").column("w").to_pylist() == [None] * 2 * len(values)
    lake.do(write(w=(kind, values)))
    assert lake.now.to_arrow("t").column("w").to_pylist()[-len(values) :] == values


@pytest.mark.parametrize("name", ["json", "uuid"])
def test_an_extension_type_stays_one(name: str) -> None:
    kind, values = TYPES[name]
    lake = Lake()
    lake.do(write(v=(kind, values)))
    lake.do(evolve(order=["v"]))
    found = lake.now.schema("t").field("v").type
    assert isinstance(found, pa.BaseExtensionType)
    assert found.extension_name == {"json": "arrow.json", "uuid": "arrow.uuid"}[name]
    (definition,) = lake.now._states[0].definitions.entries.values()
    assert definition.definition.schema.field("v").type == kind
