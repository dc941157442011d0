"""What a log has forgotten stays forgotten after its rebuild."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.format.wire_kinds import APPLICATIONS
from lakelog.catalog.log import piece_sink
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import CorruptError
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from rebuild_cases import rows

OTHER = pa.table({"x": ["s"]})


def put(writer, table, values, **options):
    with writer.transaction(**options) as tx:
        (path,) = tx.write(table, values)
    return path, tx


def take_out(writer, path):
    with writer.transaction() as tx:
        tx.remove(path)


def forget_all_versions(writer, fake):
    fake.move(60.0)
    now = dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)
    writer.forget(applications_before=now)
    fake.move(60.0)


def parts_of(store, fake):
    """The application versions and the schemas of a log."""
    state = LogReader(store, "EWR", "weather", fake.ambient).load()
    return state.applications.versions(), set(state.schemas.entries)


def rebuild(store, fake, **options):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **options)
    plan = RebuildPlan.from_json(plan.to_json())
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_rebuilt_log_has_the_versions_and_schemas_of_the_old_one(
    catalog, store, fake, checkpoint
):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=100)
        put(writer, "hourly", rows(2), app_id="rare", app_version=7)
        narrow, _ = put(writer, "hourly", rows(3).append_column("m", pa.array(["x"])))
        gone, _ = put(writer, "gone", OTHER)
        take_out(writer, gone)
        empty, _ = put(writer, "empty", OTHER)
        take_out(writer, empty)
        take_out(writer, narrow)
        forget_all_versions(writer, fake)
        writer.forget(tables=["gone"])
        put(writer, "hourly", rows(4), app_id="kept", app_version=3)
        if checkpoint:
            writer.checkpoint()
    before = parts_of(store, fake)
    assert before[0] == {"kept": 3}
    for _ in range(2):  # a rebuild of the rebuilt log too
        rebuild(store, fake)
        assert parts_of(store, fake) == before
        assert catalog.snapshot("weather").tables() == ["empty", "hourly"]
    with catalog.writer("EWR", "weather") as writer:
        _, tx = put(writer, "hourly", rows(5), app_id="job", app_version=1)
        assert not tx.commit_info.skipped, "rows of a forgotten application were dropped"
        _, tx = put(writer, "hourly", rows(6), app_id="kept", app_version=3)
        assert tx.commit_info.skipped
        put(writer, "gone", rows(8))  # of another schema than once
    found = catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()
    assert sorted(found) == [1, 2, 4, 5]
    assert catalog.snapshot("weather").to_arrow("gone")["n"].to_pylist() == [8]


def test_an_application_that_began_anew_goes_on_from_there(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=1)
        put(writer, "hourly", rows(2), app_id="job", app_version=100)
        forget_all_versions(writer, fake)
        put(writer, "hourly", rows(3), app_id="job", app_version=1)
    before = parts_of(store, fake)
    assert before[0] == {"job": 1}
    rebuild(store, fake)
    assert parts_of(store, fake) == before
    with catalog.writer("EWR", "weather") as writer:
        assert put(writer, "hourly", rows(9), app_id="job", app_version=1)[1].commit_info.skipped
        put(writer, "hourly", rows(4), app_id="job", app_version=2)
    assert sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()) == [1, 2, 3, 4]


def test_a_forgotten_table_that_came_again_keeps_its_new_schema_only(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = put(writer, "hourly", OTHER)
        take_out(writer, path)
        writer.forget(tables=["hourly"])
        put(writer, "hourly", rows(1))
    before = parts_of(store, fake)
    assert len(before[1]) == 1
    rebuild(store, fake)
    assert parts_of(store, fake) == before
    assert catalog.snapshot("weather").schema("hourly").names == ["n"]


def test_more_forgotten_schemas_than_one_transaction_takes(catalog, store, fake, monkeypatch):
    monkeypatch.setattr("lakelog.rebuild.carried._IN_ONE", 2)
    names = [f"t{number}" for number in range(5)]
    with catalog.writer("EWR", "weather") as writer:
        for name in names:
            take_out(writer, put(writer, name, OTHER)[0])
        put(writer, "hourly", rows(1))
        writer.forget(tables=names)
    before = parts_of(store, fake)
    plan = rebuild(store, fake)
    assert [len(item.forgotten) for item in plan.transactions if item.forgotten] == [2, 2, 1]
    assert parts_of(store, fake) == before


def test_a_file_taken_in_on_request_keeps_its_schema(catalog, store, fake, tmp_path):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = put(writer, "gone", OTHER)
        take_out(writer, path)
        writer.forget(tables=["gone"])
        put(writer, "hourly", rows(1))
    pq.write_table(OTHER, tmp_path / "f.parquet")
    store.put("EWR/weather/data/_/gone/f.parquet", (tmp_path / "f.parquet").read_bytes())
    rebuild(store, fake, include_foreign=True)
    assert catalog.snapshot("weather").to_arrow("gone").to_pylist() == [{"x": "s"}]


def test_the_way_back_forgets_what_that_incarnation_had_forgotten(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=100)
        forget_all_versions(writer, fake)
        put(writer, "hourly", rows(2), app_id="job", app_version=1)
    before = parts_of(store, fake)
    rebuild(store, fake)
    with catalog.writer("EWR", "weather") as writer:
        put(writer, "hourly", rows(3), app_id="job", app_version=50)
    rebuild(store, fake, back_to=1)
    assert parts_of(store, fake) == before


def test_a_log_whose_end_is_lost_forgets_as_far_as_it_can_be_read(catalog, store, fake):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=100)
        forget_all_versions(writer, fake)
        put(writer, "hourly", rows(2))
        _, tx = put(writer, "hourly", rows(3), app_id="late", app_version=5)
        put(writer, "hourly", rows(4))
    log = LogReader(store, "EWR", "weather", fake.ambient)
    (name,) = log.names().names_at(tx.commit_info.revision)
    store.delete([f"EWR/weather/transactions/{name.name}"])
    rebuild(store, fake)
    assert parts_of(store, fake)[0] == {"late": 5}
    assert sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()) == [1, 2, 3, 4]


def test_versions_that_cannot_be_read_are_not_taken_for_forgotten(
    catalog, store, fake, monkeypatch
):
    monkeypatch.setattr(piece_sink, "SPILL_FROM_BYTES", 0)
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=4)
        put(writer, "hourly", rows(2))
        writer.checkpoint()
    state = LogReader(store, "EWR", "weather", fake.ambient).load()
    lost = [piece.name for piece in state.pieces if piece.kind == APPLICATIONS]
    assert lost
    store.delete([f"EWR/weather/segments/{name}" for name in lost])
    names = [info.key for info in store.list("EWR/weather/transactions/")]
    store.delete([key for key in names if key.endswith(".transaction")])
    with pytest.raises(CorruptError):
        parts_of(store, fake)
    rebuild(store, fake)
    assert parts_of(store, fake)[0] == {"job": 4}


def test_a_lost_commit_is_not_ruled_out_by_a_version_that_was_forgotten(catalog, store, fake):
    """The log's last object is gone, and says the same version as a forgotten one."""
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        put(writer, "hourly", rows(1), app_id="job", app_version=1)
        forget_all_versions(writer, fake)
        _, tx = put(writer, "hourly", rows(2), app_id="job", app_version=1)
    log = LogReader(store, "EWR", "weather", fake.ambient)
    (name,) = log.names().names_at(tx.commit_info.revision)
    key = f"EWR/weather/transactions/{name.name}"
    store.put(key, store.get(key)[:-1])
    rebuild(store, fake)
    assert sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()) == [1, 2]
    assert parts_of(store, fake)[0] == {"job": 1}
