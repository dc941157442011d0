"""`tx.add` of Parquet files whose columns have types that Parquet gives back under another name:
maps, lists of structs, large types, dictionaries, extension types."""

from __future__ import annotations

import io
import uuid
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import SchemaConflict
from own_files import add_own


class Celsius(pa.ExtensionType):
    """A type of our own over a number."""

    def __init__(self):
        super().__init__(pa.int64(), "lakelog.tests.celsius")

    def __arrow_ext_serialize__(self):
        return b"C"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@contextmanager
def registered():
    pa.register_extension_type(Celsius())
    try:
        yield
    finally:
        pa.unregister_extension_type("lakelog.tests.celsius")


def _tensors():
    return pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2]], pa.list_(pa.int32(), 2))
    )


COLUMNS = {
    "map": pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())),
    "map of values that are never null": pa.array(
        [[("a", 1)]], pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    ),
    "sorted map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64(), keys_sorted=True)),
    "map of maps": pa.array(
        [[("a", [(1, "x")])]], pa.map_(pa.string(), pa.map_(pa.int32(), pa.large_string()))
    ),
    "map in a struct": pa.array(
        [{"m": [("a", 1)]}], pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    ),
    "list of struct": pa.array([[{"a": 1, "b": "x"}, None]]),
    "list with a name of its own": pa.array([[1]], pa.list_(pa.field("entry", pa.int8()))),
    "list of fixed size": pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
    "large list": pa.array([[["a"]]], pa.large_list(pa.list_(pa.large_string()))),
    "large string": pa.array(["x"], pa.large_string()),
    "large binary": pa.array([b"x"], pa.large_binary()),
    "string view": pa.array(["x"], pa.string_view()),
    "dictionary": pa.array(["x"]).dictionary_encode(),
    "ordered dictionary of numbers": pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int8()), pa.array([7]), ordered=True
    ),
    "seconds": pa.array([1], pa.timestamp("s", "Europe/Oslo")),
    "duration": pa.array([1], pa.duration("ms")),
    "uuid": pa.array([uuid.UUID(int=1).bytes], pa.uuid()),
    "json": pa.array(["{}"], pa.json_()),
    "tensor": _tensors(),
    "our own": pa.ExtensionArray.from_storage(Celsius(), pa.array([20])),
    "list of our own": pa.ListArray.from_arrays(
        pa.array([0, 1], pa.int32()), pa.ExtensionArray.from_storage(Celsius(), pa.array([20]))
    ),
}


def add(store, column, name="t", **options):
    """A table of one foreign file with this column, committed."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "c": column}), sink, **options)
    store.put(f"w/db/data/foreign/{name}.parquet", sink.getvalue())
    with Catalog(store).writer("w", "db", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            add_own(tx, name, f"data/foreign/{name}.parquet")
        writer.checkpoint()


@pytest.mark.parametrize("arrow_schema", [True, False], ids=["by Arrow", "by another writer"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_foreign_file_is_added_and_read_back(store, name, arrow_schema):
    """From the transaction, and from the checkpoint behind it, in a catalog that knows nothing."""
    column = COLUMNS[name]
    add(store, column, store_schema=arrow_schema)
    snapshot = Catalog(store).snapshot("db")
    (part,) = snapshot.file_parts("t")
    used = snapshot.files("t", details=True).column("schema_fingerprint").to_pylist()
    assert used == [part.fingerprint]
    storage = [column.type.storage_type if name == "our own" else column.type]
    expected = pa.table({"id": [1], "c": column.cast(storage[0])}).to_pylist()
    found = snapshot.to_arrow("t").to_pylist()
    if arrow_schema or name not in {"seconds", "duration", "uuid", "json", "tensor"}:
        assert _plain(found) == _plain(expected)


@pytest.mark.parametrize("name", ["seconds", "large string", "dictionary", "list of struct"])
def test_a_foreign_file_without_rows_is_added_and_read_back(store, name):
    """Arrow says of the dictionaries of its columns that they lie at 4, and their pages at 0."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "c": COLUMNS[name]}).slice(0, 0), sink)
    store.put("w/db/data/foreign/t.parquet", sink.getvalue())
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", "data/foreign/t.parquet")
    snapshot = Catalog(store).snapshot("db")
    assert snapshot.to_arrow("t").num_rows == snapshot.to_arrow("t", where="id > 0").num_rows == 0


@pytest.mark.parametrize("name", ["our own", "list of our own"])
def test_who_knows_an_extension_type_and_who_does_not_read_one_log(store, name):
    """The fingerprint is of what stands in the log, whether or not Python knows the type."""
    add(store, COLUMNS[name], "before")
    with registered():
        add(store, COLUMNS[name], "after")
        knows = Catalog(store).snapshot("db")
        prints = [knows.file_parts(table)[0].fingerprint for table in ("before", "after")]
        assert knows.to_arrow("before").num_rows == knows.to_arrow("after").num_rows == 1
    plain = Catalog(store).snapshot("db")
    assert [plain.file_parts(table)[0].fingerprint for table in ("before", "after")] == prints
    assert plain.to_arrow("before").num_rows == plain.to_arrow("after").num_rows == 1


# A written map has plain strings and no sorted keys, and two maps that differ have no common type.
MAPS_THAT_DIFFER = ("sorted map", "map of maps")


@pytest.mark.parametrize("name", [n for n in COLUMNS if n not in MAPS_THAT_DIFFER])
def test_a_written_and_an_added_file_make_one_table(store, name):
    snapshot = _both(store, COLUMNS[name])
    assert snapshot.to_arrow("t").num_rows == 2
    assert snapshot.schema("t").names == ["id", "c"]


@pytest.mark.parametrize("name", MAPS_THAT_DIFFER)
def test_maps_that_differ_are_a_conflict_not_an_unknown_schema(store, name):
    with pytest.raises(SchemaConflict, match="'c'"):
        _both(store, COLUMNS[name])
    snapshot = _both(store, COLUMNS[name], on_conflict="allow", name="u")
    assert snapshot.files("u").num_rows == 2
    with pytest.raises(SchemaConflict, match="'c'"):
        snapshot.schema("u")


def _both(store, column, name="t", **options):
    """A table of a file that was added and one that was written."""
    add(store, column, name)
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        tx.write(name, pa.table({"id": [1], "c": column}), **options)
    return Catalog(store).snapshot("db")


def _plain(rows):
    return [{key: str(value) for key, value in row.items()} for row in rows]
