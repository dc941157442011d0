"""What prune compares: a checkpoint that is sound in itself and lies in one value is found out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.data import parquet
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    APPLICATIONS_COLUMNS,
    FILES,
    FILES_COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    SCHEMAS_COLUMNS,
    STATISTICS,
)
from lakelog.catalog.log import checkpoint, checkpoint_files
from lakelog.errors import CorruptObject, ForeignLog, LostTail
from lakelog.gc.prune import execute_prune, plan_prune

DAY_S = 86_400.0
W, D = "EWR", "weather"
LOG = f"{W}/{D}/transactions/"


@pytest.fixture
def log(lake, monkeypatch):
    """A log with all that a checkpoint holds: two schemas of a table, application versions."""
    with lake.writer() as writer:
        for number in range(4):
            with writer.transaction("app", number, summary={"n": str(number)}) as tx:
                columns = {"value": [number], "more": [number]}
                names = ["value", "more"] if number % 2 else ["value"]
                tx.write("hourly", pa.table({name: columns[name] for name in names}))
                if number == 2:  # and one of two row groups
                    with monkeypatch.context() as patch:
                        patch.setattr(parquet, "ROW_GROUP_ROWS", 1)
                        tx.write("hourly", pa.table({"value": [8, 9], "more": [1, None]}))
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    return lake


def put_lie(lake, monkeypatch, kind, change):
    """Write the checkpoint of the newest revision anew, with other rows of one kind."""
    honest = checkpoint_files.PieceSink.write

    def write(self, found, rows, *rest, **named):
        honest(self, found, change(rows) if found == kind else rows, *rest, **named)

    lake.store.delete([lake.log_key("c3")])
    state = lake.log().load(3)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files.PieceSink, "write", write)
        encoded = checkpoint.encode_state(state)
    lake.store.put(LOG + encoded.name, encoded.body)
    assert not encoded.segments
    assert not lake.log().checkpoint_state(_item(lake)).is_foreign
    lake.pass_time(30 * DAY_S)


def _item(lake):
    return lake.log().names().checkpoints[3][0]


def with_value(name, value):
    """Rows whose first one has another value in a column: a function of the value before."""

    def change(rows):
        place = rows.schema.get_field_index(name)
        before = rows.column(name).to_pylist()
        after = pa.array([value(before[0], before), *before[1:]], rows.schema.field(name).type)
        assert after.to_pylist() != before
        return rows.set_column(place, rows.schema.field(name), after)

    return change


def more(before, column):
    return before + 1


def other(before, column):
    """Another value of the same column."""
    return next(value for value in column if value != before)


def is_now(value):
    return lambda before, column: value


LIES = {
    FILES: {
        "path": is_now("data/_/hourly/0.parquet"),
        "partition": is_now("elsewhere"),
        "size_bytes": more,
        "row_count": more,
        "revision": more,
        "schema_fingerprint": other,
        "first_clock": more,
        "last_clock": more,
        "footer_bytes": more,
        "footer_digest": is_now(b"12345678"),
        "row_groups": more,
        "original_revision": is_now(0),
    },
    SCHEMAS: {"key": is_now(["value"]), "sort_order": is_now(["value"]), "revision": more},
    APPLICATIONS: {"app_id": is_now("apq"), "app_version": more, "committed_at_us": more},
    HISTORY: {
        "uuid": other,
        "digest": other,
        "committed_at": lambda before, column: before.replace(year=2020),
        "epoch": more,
        "guest": is_now(True),
        "operation": is_now("delete"),
        "transaction_ids": other,
        "files_added": more,
        "files_removed": more,
        "rows_added": more,
        "bytes_added": more,
        "summary_keys": lambda before, column: ["n", *before[1:]],
        "summary_values": lambda before, column: ["9", *before[1:]],
    },
}
FACTS = {
    "null_count": more,
    "min": more,
    "max": more,
    "exact": lambda before, column: 0,
}
LIES |= {
    ROW_GROUPS: {"row_count": more},
    STATISTICS: FACTS,
    ROW_GROUP_STATISTICS: FACTS,
}
CASES = [(kind, name) for kind, lies in LIES.items() for name in lies]
NAMES = {
    FILES: "files",
    SCHEMAS: "schemas",
    APPLICATIONS: "application",
    HISTORY: "history",
    ROW_GROUPS: "row groups",
    STATISTICS: "statistics",
    ROW_GROUP_STATISTICS: "statistics of row groups",
}


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda case: str(NAMES.get(case, case)))
def test_a_checkpoint_that_lies_in_one_value_is_found(log, monkeypatch, kind, name):
    good = plan_prune(log.catalog, W, D, keep_revisions=1)
    assert good.objects == 6
    put_lie(log, monkeypatch, kind, with_value(name, LIES[kind][name]))
    before = log.log_names()
    # A revision above its own is not even read: the checkpoint's rules forbid it.
    told = f"doesn't hold what the log .*{NAMES[kind]}|of revisions to come"
    with pytest.raises(CorruptObject, match=told):
        plan_prune(log.catalog, W, D, keep_revisions=1)
    with pytest.raises(CorruptObject):
        execute_prune(log.catalog, good)
    assert log.log_names() == before


def test_a_checkpoint_without_a_file_is_found(log, monkeypatch):
    put_lie(log, monkeypatch, FILES, lambda rows: rows.slice(1))
    with pytest.raises(CorruptObject, match="counts 5 files"):
        plan_prune(log.catalog, W, D, keep_revisions=1)


@pytest.mark.parametrize("kind", [STATISTICS, ROW_GROUP_STATISTICS, ROW_GROUPS])
def test_what_is_left_out_is_no_lie(log, monkeypatch, kind):
    """Statistics may be left out: what one of the two doesn't know is no difference."""
    put_lie(log, monkeypatch, kind, lambda rows: rows.slice(0, rows.num_rows - 1))
    assert plan_prune(log.catalog, W, D, keep_revisions=1).objects == 6


@pytest.mark.parametrize("kind", [STATISTICS, ROW_GROUP_STATISTICS])
def test_a_bit_that_means_nothing_is_no_lie(log, monkeypatch, kind):
    """Integers are never NaN, whoever says so."""
    put_lie(log, monkeypatch, kind, with_value("exact", lambda before, column: before | 4 | 128))
    assert plan_prune(log.catalog, W, D, keep_revisions=1).objects == 6


def test_the_columns_of_the_lies_are_all_there_are():
    """A column that the format gets needs a lie of its own here."""
    told = {kind: set(lies) for kind, lies in LIES.items()}
    assert told[FILES] | {"table"} == set(FILES_COLUMNS.names)
    assert told[APPLICATIONS] == set(APPLICATIONS_COLUMNS.names)
    assert told[HISTORY] | {"revision"} == set(HISTORY_COLUMNS.names)
    by_fingerprint = {"table", "fingerprint", "arrow_schema"}
    assert told[SCHEMAS] | by_fingerprint == set(SCHEMAS_COLUMNS.names)


HEADS = {
    "digest": bytes(32),
    "epoch": 5,
    "committed_at_us": 1_900_000_000_000_000,
    "successor_uuid": bytes(16),
    "transaction_id": bytes(16),
    "named": ("JFK", D),
    "log": LogIdentity(bytes(16), 1),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_not_its_transactions_is_found(log, name):
    log.store.delete([log.log_key("c3")])
    state = log.log().load(3)
    if name in {"digest", "committed_at_us"}:
        _ = state.history
    setattr(state, name, HEADS[name])
    encoded = checkpoint.encode_state(state)
    log.store.put(LOG + encoded.name, encoded.body)
    log.pass_time(30 * DAY_S)
    with pytest.raises((CorruptObject, ForeignLog, LostTail)):
        plan_prune(log.catalog, W, D, keep_revisions=1)
    assert log.log_names() == "t0 t1 t2 t3 c3"


def test_a_table_whose_files_do_not_fit_stops_prune(log, monkeypatch):
    """Each file stands there, and one has a schema that the checkpoint doesn't name."""
    put_lie(log, monkeypatch, SCHEMAS, lambda rows: rows.slice(1))
    with pytest.raises(CorruptObject, match="schema"):
        plan_prune(log.catalog, W, D, keep_revisions=1)
