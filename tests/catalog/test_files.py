"""Live files of many tables: pieces and overlay together say what a plain dictionary would."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.pieces import Piece, describe
from lakelog.catalog.format.run import Run, files_rows
from lakelog.catalog.format.segments import FILES, FILES_COLUMNS, encode_ipc, sorted_rows
from lakelog.catalog.log import build
from lakelog.catalog.log import files as files_module
from lakelog.catalog.log import part as part_module
from lakelog.catalog.log.files import Files
from lakelog.catalog.log.part import Part, check_range, check_revisions
from lakelog.catalog.parallel import parallel
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action

PATHS = [f"data/{name}" for name in ["a", "b", "c", "d", "ü", "🦆", "a.b", "a/b", "a-b", "B"]]
TABLES = ["t", "ü", "T"]
FILE = st.tuples(st.sampled_from(TABLES), st.sampled_from(PATHS))


def an_add(table, path, rows=10, partition=""):
    return add_action(path, table, row_count=rows, partition=partition).add


def a_run(adds, revision, raw=True):
    rows = sorted_rows(files_rows(adds, [revision] * len(adds)), FILES)
    if raw:
        return Run.of_segment(encode_ipc(rows), len(adds), f"key {revision}")
    return Run.of_table(rows, f"key {revision}")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "batch", "remove"]),
        st.lists(FILE, min_size=1, max_size=5, unique=True),
    ),
    max_size=8,
)


@given(STEPS, st.sampled_from([1, 256]), st.booleans())
def test_parts_and_overlay_say_what_a_dictionary_says(steps, many, raw):
    with (
        mock.patch.object(files_module, "MANY_PATHS", many),
        mock.patch.object(files_module, "MANY_TABLES", many),
        mock.patch.object(part_module, "MANY_TABLES", many),
        mock.patch.object(part_module, "MANY_PATHS", many),
    ):
        files, model = Files(), {}
        for revision, (kind, named) in enumerate(steps):
            rows = 10 * (revision + 1)
            fresh = [file for file in named if file not in model]
            if kind == "remove":
                assert sorted(files.take_out(named)) == sorted(set(named) - model.keys())
                for file in named:
                    model.pop(file, None)
            elif kind == "add":
                for table, path in fresh:
                    files.added.setdefault(table, {})[path] = an_add(table, path, rows), revision
            elif fresh:
                adds = [an_add(table, path, rows) for table, path in fresh]
                files.parts.append(Part(a_run(adds, revision, raw)))
            if kind != "remove":
                model |= dict.fromkeys(fresh, (rows, revision))
            compare(files, model)
            compare(files.copy(), model)


def compare(files, model):
    assert files.count == len(model)
    for table in TABLES:
        found = {r["path"]: (r["row_count"], r["revision"]) for r in files.table(table).to_pylist()}
        assert found == {path: facts for (name, path), facts in model.items() if name == table}
        whole = files.table(table, whole=True)
        assert whole.schema.names == [name for name in FILES_COLUMNS.names if name != "table"]
        assert sorted(whole["path"].to_pylist()) == sorted(found)
        assert files.fingerprints(table) == (
            {an_add(table, "x").schema_fingerprint} if found else set()
        )
        for path in PATHS:
            assert files.is_live(table, path) == ((table, path) in model)
    assert files.tables() == sorted({table for table, _ in model}, key=str.encode)
    live = {path for _, path in model}
    assert files.live_among(PATHS) == live
    assert sorted(path for chunk in files.paths() for path in chunk.to_pylist()) == sorted(
        path for _, path in model
    )
    for path in PATHS:
        assert sorted(files.tables_of(path)) == sorted(t for t, p in model if p == path)


def test_a_copy_is_independent():
    files = Files()
    files.parts.append(Part(a_run([an_add("t", "data/a"), an_add("t", "data/b")], 1)))
    files.added["t"] = {"data/c": (an_add("t", "data/c"), 2)}
    copy = files.copy()
    copy.take_out([("t", "data/a"), ("t", "data/c")])
    assert files.live_among(PATHS) == {"data/a", "data/b", "data/c"}
    assert copy.live_among(PATHS) == {"data/b"}


@given(st.lists(FILE, unique=True, min_size=1), FILE)
def test_finding_a_file_in_a_run(named, wanted):
    run = a_run([an_add(*file) for file in named], 1, raw=False)
    ordered = sorted(named, key=lambda file: (file[0].encode(), file[1].encode()))
    assert run.find(*wanted) == (ordered.index(wanted) if wanted in ordered else -1)


def test_columns_that_listing_does_not_need_are_checked_all_the_same():
    rows = files_rows([an_add("t", "data/a")], [1])
    place = rows.schema.get_field_index("first_clock")
    broken = rows.set_column(place, "first_clock", pa.array([None], pa.int64()))
    with pytest.raises(CorruptObject, match="first_clock"):
        Run.of_segment(encode_ipc(broken), 1, "key")


def test_other_columns_are_read_again_when_they_are_asked_for():
    rows = files_rows([an_add("t", "data/a")], [1])
    data, asked = encode_ipc(rows), []
    run = Run.of_segment(data, 1, "key", lambda: asked.append(1) or data)
    assert run.find("t", "data/a") == 0
    assert asked == []
    assert run.full().equals(rows)
    assert asked == [1]


# --- What a piece must be -------------------------------------------------------------------------


def a_piece(**lies):
    adds = [an_add(table, "data/a", partition=p) for table, p in zip(TABLES, "lnm", strict=True)]
    rows = sorted_rows(files_rows(adds, [3] * 3), FILES)
    segment = describe(FILES, rows)
    for name, value in lies.items():
        setattr(segment, name, value)
    return Run.of_table(rows, "key"), Piece(segment, b"", 0, "key")


def test_a_piece_that_is_what_its_reference_says():
    run, piece = a_piece()
    check_range(run, piece)
    check_revisions(run, 3)
    assert [piece.may_hold(t) for t in ("A", "T", "Z", "t", "u", "ü", "ý", "🦆")] == [
        False, True, True, True, True, True, False, False,
    ]  # fmt: skip
    partitions = ("", "k", "l", "lü", "n", "na", "🦆")
    assert [piece.may_hold_partition(p) for p in partitions] == [
        False, False, True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lies",
    [
        {"first_table": "S"}, {"last_table": "v"}, {"first_path": "data/"}, {"last_path": "data/b"},
        {"total_rows": 31}, {"total_bytes": 0}, {"min_partition": ""}, {"min_partition": "m"},
        {"max_partition": "x"}, {"max_partition": "m"},
    ],
    ids=str,
)  # fmt: skip
def test_a_piece_that_is_not_what_its_reference_says_is_refused(lies):
    with pytest.raises(CorruptObject):
        check_range(*a_piece(**lies))


def test_a_file_of_a_revision_to_come_is_refused():
    with pytest.raises(CorruptObject):
        check_revisions(a_piece()[0], 2)


# --- What fits ------------------------------------------------------------------------------------


def test_a_path_in_two_runs_of_a_checkpoint_breaks_its_table_alone():
    one, two = (a_run([an_add("t", "data/a"), an_add("u", f"data/{n}")], n) for n in (1, 2))
    files = Files(None, [Part(one, in_run=0), Part(two, in_run=1)])
    with pytest.raises(CorruptObject, match="another piece holds too"):
        files.table("t")
    assert files.table("u").num_rows == 2
    dead = np.array([True, False])
    files = Files(None, [Part(one, (), dead, 0, dead), Part(two, in_run=1)])
    assert files.table("t")["revision"].to_pylist() == [2]


def test_what_is_removed_after_a_checkpoint_makes_it_fit_no_better():
    one, two = (a_run([an_add("t", "data/a"), an_add("u", f"data/{n}")], n) for n in (1, 2))
    files = Files(None, [Part(one, in_run=0), Part(two, in_run=1)])
    files.parts[0].kill(0)
    with pytest.raises(CorruptObject, match="another piece holds too"):
        files.table("t")


def test_a_live_file_of_an_unknown_schema_breaks_its_table_alone():
    run = a_run([an_add("t", "data/a"), an_add("u", "data/b")], 1)
    fingerprint = an_add("t", "x").schema_fingerprint
    files = Files(None, [Part(run, in_run=0)], known={"u": {fingerprint}})
    with pytest.raises(CorruptObject, match="doesn't know"):
        files.table("t")
    assert files.table("u").num_rows == 1
    files.parts[0].kill(0)
    with pytest.raises(CorruptObject, match="doesn't know"):
        files.table("t")
    dead = np.array([True, False])
    files = Files(None, [Part(run, (), dead, 0, dead)], known={"u": {fingerprint}})
    assert files.table("t").num_rows == 0


def test_a_schema_that_is_known_later_is_of_no_use_to_a_checkpoint():
    log = LogBuilder()
    log.commit(schema_action())
    files = Files(None, [Part(a_run([an_add("t", "data/a")], 1), in_run=0)], known={})
    files.apply(log.state.tail[0])
    with pytest.raises(CorruptObject, match="doesn't know there"):
        files.table("t")


def test_a_schema_that_is_forgotten_later_was_known_to_a_checkpoint():
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/a"))
    log.commit(remove_action("data/a"))
    fingerprint = an_add("t", "data/a").schema_fingerprint
    gone = wire.SchemaName(table="t", fingerprint=fingerprint)
    log.commit(wire.Action(forget=wire.Forget(schemas=[gone])))
    run = a_run([an_add("t", "data/a")], 0)
    files = Files(None, [Part(run, in_run=0)], known={"t": {fingerprint}})
    for transaction in log.state.tail[1:]:
        files.apply(transaction)
    assert files.known == {"t": set()}
    assert files.table("t").num_rows == 0


@pytest.mark.parametrize("of", ["adds", "a batch"])
def test_schemas_are_still_asked_for_after_an_own_checkpoint(of):
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/a"))
    assert log.state.files.count == 1
    log.checkpoint()
    with mock.patch.object(build, "BATCH_FROM_FILES", 1 if of == "a batch" else 99):
        log.commit(add_action("data/b", schema=pa.schema([("other", pa.string())])))
    with pytest.raises(CorruptObject, match="doesn't know"):
        log.state.table_of("t")[0]


@pytest.mark.parametrize("count", [3, 300])
def test_a_batch_that_adds_what_is_live_breaks_its_table(count):
    paths = [f"data/{number:03d}" for number in range(count)]
    for first in (1, 300):
        log = LogBuilder()
        log.commit(schema_action(), schema_action("u"), add_action("data/u", "u"))
        log.commit(*map(add_action, paths[:first]))
        more = [f"data/more/{number}" for number in range(300)]
        log.commit(*map(add_action, [*more, paths[0]]))
        with pytest.raises(CorruptObject, match="live already"):
            log.state.table_of("t")[0]
        assert log.state.table_of("u")[0].table("u").num_rows == 1


def test_what_is_broken_stays_so():
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/a"))
    bad = log.commit(remove_action("data/b"))
    log.commit(add_action("data/b"))
    log.commit(remove_action("data/a"), remove_action("data/b"))
    with pytest.raises(CorruptObject) as caught:
        log.state.table_of("t")[0]
    assert caught.value.key == bad.key


def test_parallel_keeps_the_order_and_raises_the_first_error():
    assert parallel(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    assert parallel(lambda n: n, []) == []
    with pytest.raises(ZeroDivisionError):
        parallel(lambda n: 1 // n, [1, 0, 2])
