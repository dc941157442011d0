"""The live files of a table: runs under an overlay say what a plain dictionary would."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.run import Batch, Run, batch_rows, sorted_by_path
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segment_bytes import encode_ipc
from lakelog.catalog.log import table_files as files_module
from lakelog.catalog.log.table_files import TableFiles
from lakelog.catalog.parallel import parallel
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.testing.logs import SCHEMA, add_action

SCHEMAS = {encode_schema(SCHEMA)[0]: SCHEMA}
PATHS = [f"data/{name}" for name in ["a", "b", "c", "d", "ü", "🦆", "a.b", "a/b", "a-b", "B"]]


def an_add(path, rows=10, groups=0):
    items = [wire.RowGroup(row_count=rows)] * groups
    return add_action(path, row_count=rows, row_groups=items).add


def a_batch(adds, revision, raw=True):
    rows, groups = batch_rows(adds, revision, SCHEMAS)
    run = Run.of_segment(encode_ipc(rows), len(adds), "key") if raw else Run.of_table(rows, "key")
    kept = (encode_ipc(groups), groups.num_rows, "key") if groups.num_rows else None
    return Batch(run, kept)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "batch", "remove"]),
        st.lists(st.sampled_from(PATHS), min_size=1, max_size=5, unique=True),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(STEPS, st.sampled_from([1, 256]), st.booleans())
def test_runs_and_overlay_say_what_a_dictionary_says(steps, many, raw):
    with mock.patch.object(files_module, "MANY_PATHS", many):
        files, model = TableFiles(), {}
        for revision, (kind, paths, groups) in enumerate(steps):
            rows = 10 * (revision + 1)
            if kind == "remove":
                for path in paths:
                    if path in model:
                        files.remove(path)
                        del model[path]
            elif kind == "add":
                for path in paths:
                    if path not in model:
                        files.added[path] = (an_add(path, rows, groups), revision)
                        model[path] = (rows, revision, groups)
            else:
                batch = a_batch([an_add(path, rows, groups) for path in paths], revision, raw)
                assert files.overlaps(batch.run) == bool(model.keys() & set(paths))
                if not model.keys() & set(paths):
                    files.append(batch)
                    model |= dict.fromkeys(paths, (rows, revision, groups))
            compare(files, model)
            compare(files.copy(), model)


def compare(files, model):
    assert files.count == len(model)
    assert {path for path in PATHS if path in files} == model.keys()
    assert files.live_among(PATHS) == model.keys()
    found = {
        row["path"]: (row["row_count"], row["revision"], row["row_groups"])
        for row in files.table(SCHEMAS).to_pylist()
    }
    assert found == model
    core = files.table()
    assert dict(zip(core["path"].to_pylist(), core["row_count"].to_pylist(), strict=True)) == {
        path: rows for path, (rows, _, _) in model.items()
    }
    groups = files.row_groups_table(SCHEMAS).column("path").to_pylist()
    assert sorted(groups) == sorted(
        path for path, (_, _, number) in model.items() if number > 1 for _ in range(number)
    )
    assert files.fingerprints() == (set(SCHEMAS) if model else set())


def test_a_copy_is_independent():
    files = TableFiles()
    files.append(a_batch([an_add("data/a"), an_add("data/b")], 1))
    files.added["data/c"] = (an_add("data/c"), 2)
    copy = files.copy()
    copy.remove("data/a")
    copy.remove("data/c")
    assert files.live_among(PATHS) == {"data/a", "data/b", "data/c"}
    assert copy.live_among(PATHS) == {"data/b"}


@given(st.lists(st.sampled_from(PATHS), unique=True), st.sampled_from(PATHS))
def test_finding_a_path_in_a_run(paths, wanted):
    run = a_batch([an_add(path) for path in paths], 1, raw=False).run
    ordered = sorted(paths, key=str.encode)
    assert run.find(wanted) == (ordered.index(wanted) if wanted in ordered else -1)


@given(st.lists(st.sampled_from(PATHS), unique=True), st.integers(0, 5))
def test_sorting_is_by_bytes_whatever_the_chunks(paths, border):
    table = pa.table({"path": pa.array(paths, pa.string())})
    parts = pa.concat_tables([table.slice(0, border), table.slice(border)])
    assert sorted_by_path(parts)["path"].to_pylist() == sorted(paths, key=str.encode)


def test_statistics_are_decoded_only_when_they_are_asked_for():
    """What lies behind the core columns may be broken: listing files doesn't notice."""
    rows, _ = batch_rows([an_add("data/a")], 1, SCHEMAS)
    place = rows.schema.get_field_index("first_clock")
    broken = rows.set_column(place, "first_clock", pa.array([None], pa.int64()))
    run = Run.of_segment(encode_ipc(broken), 1, "key")
    assert run.find("data/a") == 0
    with pytest.raises(CorruptObject, match="first_clock"):
        run.full()


def test_parallel_keeps_the_order_and_raises_the_first_error():
    assert parallel(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    assert parallel(lambda n: n, []) == []
    with pytest.raises(ZeroDivisionError):
        parallel(lambda n: 1 // n, [1, 0, 2])
