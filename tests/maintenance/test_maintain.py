"""The job of maintenance: all that is due, over all databases, tables and writers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import subprocess
import sys
import threading

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.catalog import Catalog
from lakelog.errors import DatabaseNotFound, MaintenanceRunning, NotACatalog, UsageError
from lakelog.maintenance.job import MaintenanceWarning
from lakelog.maintenance.lease import Lease
from lakelog.maintenance.report import prometheus_text, write_metrics
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FakeAmbient, PlainStore

DAY_S = 86_400
EVERY_LOG = "check_parts = 1\n"


def fill(
    store, databases=("traffic", "weather"), writers=("bergen", "oslo"), commits=6, ambient=SYSTEM
):
    catalog = Catalog(store, ambient=ambient)
    for database in databases:
        for name in writers:
            with catalog.writer(name, database) as writer:
                for number in range(commits):
                    with writer.transaction() as tx:
                        for table in ("daily", "hourly"):
                            tx.write(table, pa.table({"n": [number], "w": [name]}))
    return catalog


@pytest.fixture
def lake():
    store = MemoryStore("maintain")
    fill(store)
    return Catalog(store)


def keys(catalog):
    return {info.key for info in catalog.store.list("")}


def rows_of(catalog):
    """All rows of all tables, in an order of their own."""
    return {
        (database, table): sorted(map(str, catalog.snapshot(database).to_arrow(table).to_pylist()))
        for database in catalog.databases()
        for table in catalog.snapshot(database).tables()
    }


def by_step(report):
    found = {}
    for row in report.rows:
        found.setdefault(row.step, []).append(row)
    return found


def statuses(report):
    return {step: {row.status for row in rows} for step, rows in by_step(report).items()}


def test_everything_is_done_and_no_row_changes(lake):
    before = rows_of(lake)
    report = lake.maintain(policy=EVERY_LOG + "checkpoint_after = 3\n", execute=True)
    steps = by_step(report)
    assert list(steps) == ["compact", "checkpoint", "prune", "gc", "check"]
    assert [(row.database, row.table, row.files_before, row.files_after, row.rows)
            for row in sorted(steps["compact"], key=str)] == [
        ("traffic", "daily", 12, 2, 12), ("traffic", "hourly", 12, 2, 12),
        ("weather", "daily", 12, 2, 12), ("weather", "hourly", 12, 2, 12),
    ]  # fmt: skip
    assert [(row.files_before, row.files_after) for row in steps["checkpoint"]] == [(2, 2), (2, 2)]
    assert {row.message for row in steps["prune"]} == {"the policy keeps the whole history"}
    assert {row.findings for row in steps["check"]} == {0}
    assert rows_of(lake) == before
    assert (report.exit_code, report.remaining, report.failed, report.is_idle) == (0, 0, (), False)


def test_a_second_run_has_nothing_to_do_and_says_so(lake):
    lake.maintain(policy="checkpoint_after = 3", execute=True)
    before = keys(lake)
    report = lake.maintain(policy="checkpoint_after = 3", execute=True)
    assert report.is_idle
    assert report.describe().splitlines()[-1].endswith(" s: nothing to do")
    assert {key for key in keys(lake) ^ before if not key.startswith("_maintenance/")} == set()


def test_nothing_is_done_unless_it_is_asked_for(lake):
    before = keys(lake)
    report = lake.maintain(policy="keep_revisions = 1\npublish = 'prod'")
    assert keys(lake) == before, "no lease either"
    assert not report.executed
    assert statuses(report) == {
        "compact": {"planned"}, "checkpoint": {"idle"}, "prune": {"idle"}, "gc": {"idle"},
        "check": {"idle"}, "publish": {"planned"},
    }  # fmt: skip
    assert "would rewrite 48 files" in report.describe()
    assert "nothing was done; add --execute" in report.describe()


def test_one_database_alone(lake):
    report = lake.maintain("weather", execute=True)
    assert {row.database for row in report.rows} == {"weather"}
    with pytest.raises(DatabaseNotFound, match="Did you mean 'weather'"):
        lake.maintain("wether", execute=True)
    with pytest.raises(NotACatalog):
        Catalog(MemoryStore("empty")).maintain(execute=True)


def test_history_goes_by_the_policy_and_then_its_files():
    fake = FakeAmbient(seed=1, now_us=int(1_800_000_000e6))
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    store = MemoryStore("prune", now=lambda: epoch + dt.timedelta(microseconds=fake.wall_us))
    fill(store, ambient=fake.ambient)
    policy = "checkpoint_after = 1\n[databases.weather]\nkeep_revisions = 1"
    catalog = Catalog(store, ambient=fake.ambient)
    catalog.maintain(policy=policy, execute=True)  # rewritten, with checkpoints
    fake.move(8 * DAY_S)
    report = catalog.maintain(policy=policy, execute=True)
    steps = {(row.step, row.database): row for row in report.rows}
    assert steps["prune", "traffic"].status == "skipped"
    assert steps["prune", "weather"].status == "done"
    assert steps["gc", "weather"].files_before == 24, "the old files of two tables and writers"
    assert steps["gc", "weather"].files_after == 0
    assert steps["gc", "weather"].bytes > 0
    assert steps["gc", "traffic"].status == "idle", "its history needs them"
    assert len(list(store.list("oslo/weather/data/"))) == 2


def test_a_table_has_settings_of_its_own(lake):
    policy = """
    [databases.weather]
    min_input_files = 7
    [databases.weather.tables.hourly]
    min_input_files = 2
    sort_by = ["n"]
    [databases.traffic]
    compact = false
    gc = false
    check_level = "none"
    """
    report = lake.maintain(policy=policy, execute=True)
    found = {(row.database, row.table): row.status for row in by_step(report)["compact"]}
    assert found == {("traffic", None): "skipped", ("weather", "hourly"): "done"}
    skipped = {(row.step, row.database) for row in report.rows if row.status == "skipped"}
    assert {("gc", "traffic"), ("check", "traffic")} <= skipped


def test_what_a_policy_names_and_is_not_there_is_warned_of(lake):
    policy = "[databases.wether]\ngc = true\n[databases.traffic.tables.hurly]\ncompact = true"
    with pytest.warns(MaintenanceWarning) as caught:
        report = lake.maintain(policy=policy)
    texts = sorted(str(one.message) for one in caught)
    assert "'wether': Did you mean 'weather'" in texts[0]
    assert "'hurly' of 'traffic': Did you mean 'hourly'" in texts[1]
    assert sorted(report.warnings) == texts


def test_the_policy_of_the_lake_is_found(lake):
    lake.set_policy("[databases.weather]\ngc = false")
    report = lake.maintain()
    assert [row.status for row in by_step(report)["gc"]].count("skipped") == 1


# --- Time -----------------------------------------------------------------------------------------


def test_at_the_time_limit_what_remains_is_said_and_the_next_run_goes_on(lake):
    before = keys(lake)
    report = lake.maintain(time_limit_s=0, execute=True)
    assert {row.status for row in report.rows if row.step != "prune"} == {"remaining"}
    assert report.remaining == 8
    assert report.exit_code == 0
    assert "8 left for the next run" in report.describe()
    assert {key for key in keys(lake) ^ before if not key.startswith("_")} == set()
    assert lake.maintain(execute=True).remaining == 0


def test_it_stops_between_groups_when_it_is_asked_to(lake):
    asked = []
    catalog = Catalog(lake.store)
    found = catalog.compact

    def compact(*args, step, **options):
        def after(done, total):
            asked.append(done)
            step(done, total)

        return found(*args, step=after, **options)

    catalog.compact = compact
    report = catalog.maintain("weather", execute=True, stop=lambda: bool(asked))
    (row,) = by_step(report)["compact"]
    assert (row.status, row.remaining) == ("remaining", 3)
    assert row.message == "stopped after 1 of 4 groups"
    assert {one.status for one in report.rows if one.step in ("gc", "check")} == {"remaining"}
    rest = lake.maintain("weather", execute=True)
    assert sum(row.files_before for row in by_step(rest)["compact"]) == 18


def test_another_database_is_first_each_day():
    fake = FakeAmbient(seed=1, now_us=int(1_800_000_000e6))
    store = MemoryStore("days")
    fill(store, databases=("a", "b", "c"), commits=1)
    firsts = []
    for _ in range(3):
        fake.move(DAY_S)
        report = Catalog(store, ambient=fake.ambient).maintain()
        firsts.append(report.rows[0].database)
    assert sorted(firsts) == ["a", "b", "c"]


def test_each_log_is_checked_once_in_so_many_days():
    fake = FakeAmbient(seed=1, now_us=int(1_800_000_000e6))
    store = MemoryStore("parts")
    fill(store, databases=("a",), writers=[f"w{number}" for number in range(12)], commits=1)
    checked = 0
    for _ in range(3):
        fake.move(DAY_S)
        report = Catalog(store, ambient=fake.ambient).maintain(policy="check_parts = 3")
        checked += by_step(report)["check"][0].files_before
    assert checked == 12


# --- Failures -------------------------------------------------------------------------------------


def test_what_fails_for_one_log_keeps_no_other_from_its_turn(lake):
    own = [key for key in keys(lake) if key.startswith("oslo/weather/") and "/data/" not in key]
    lake.store.delete([key for key in own if "-3." in key or key.endswith(".checkpoint")])
    report = lake.maintain(policy="publish = 'prod'\n" + EVERY_LOG, execute=True)
    failed = {(row.step, row.database) for row in report.failed}
    assert ("gc", "weather") in failed
    assert not any(database == "traffic" for _, database in failed)
    assert all(row.message and row.exit_code and row.error for row in report.failed)
    assert report.exit_code == 5
    (published,) = by_step(report)["publish"]
    assert published.status == "skipped"
    assert "of weather failed" in published.message
    assert "failed: gc of weather: " in report.describe()


def test_what_a_check_finds_is_told_and_nothing_is_published(lake):
    path = lake.snapshot("weather").files("hourly").column("path")[0].as_py()
    writer = lake.snapshot("weather").files("hourly").column("writer")[0].as_py()
    lake.store.delete([f"{writer}/weather/{path}"])
    policy = EVERY_LOG + "compact = false\n[databases.weather]\npublish = 'checked'"
    report = lake.maintain(policy=policy, execute=True)
    (bad,) = [row for row in by_step(report)["check"] if row.database == "weather"]
    assert (bad.status, bad.findings, report.exit_code) == ("failed", 1, 1)
    assert path in bad.message
    assert "`lakelog check`" in bad.message
    assert not lake.tags()


# --- Publish --------------------------------------------------------------------------------------


def test_the_newest_cut_is_published_and_tagged_once(lake):
    policy = "publish = 'prod'\ntag = 'nightly-%Y-%m-%d'\n[databases.weather]\npublish = 'w'"
    report = lake.maintain(policy=policy, execute=True)
    names = {ref.name: ref for ref in lake.tags()}
    assert {name.split("-")[0] for name in names} == {"prod", "nightly", "w"}
    assert names["prod"].cuts.keys() == {"traffic", "weather"}
    assert names["w"].cuts.keys() == {"weather"}
    assert lake.snapshot("weather", "@prod").token == lake.snapshot("weather").token
    assert "@prod (move 1)" in report.describe()
    assert lake.maintain(policy=policy, execute=True).is_idle
    fill(lake.store, databases=("weather",), writers=("oslo",), commits=1)
    lake.maintain(policy=policy, execute=True)
    assert {ref.name: ref.number for ref in lake.tags()}["prod"] == 2


def test_a_name_of_all_databases_is_not_moved_to_a_cut_of_one(lake):
    policy = "publish = 'prod'"
    lake.maintain(policy=policy, execute=True)
    fill(lake.store, databases=("weather",), writers=("oslo",), commits=1)
    report = lake.maintain("weather", policy=policy, execute=True)
    assert statuses(report)["publish"] == {"skipped"}
    (prod,) = lake.tags()
    assert (prod.number, [*prod.cuts]) == (1, ["traffic", "weather"])


def test_what_is_published_is_what_was_checked(lake, monkeypatch):
    from lakelog.maintenance import job

    def check(*args, **options):
        found = real(*args, **options)
        fill(lake.store, databases=("weather",), writers=("oslo",), commits=1)
        return found

    real = job.check
    monkeypatch.setattr(job, "check", check)
    lake.maintain("weather", policy=EVERY_LOG + "[databases.weather]\npublish = 'w'", execute=True)
    published = lake.snapshot("weather", "@w").cut.revisions
    newest = lake.snapshot("weather").cut.revisions
    assert newest["oslo"] - published["oslo"] == 2, "one commit in the check of each log"


def test_what_others_publish_meanwhile_is_not_moved_back(lake, monkeypatch):
    from lakelog.maintenance import job

    def check(*args, **options):
        found = real(*args, **options)
        fill(lake.store, databases=("weather",), writers=("oslo",), commits=1)
        lake.publish("w", databases="weather", message="newer")
        return found

    real = job.check
    monkeypatch.setattr(job, "check", check)
    policy = EVERY_LOG + "[databases.weather]\npublish = 'w'"
    report = lake.maintain("weather", policy=policy, execute=True)
    assert by_step(report)["publish"][0].status == "skipped"
    assert lake.find_tag("w").message == "newer"


# --- One at a time --------------------------------------------------------------------------------


def test_a_second_job_is_refused_and_does_nothing(lake):
    before = None
    with Lease(lake):
        before = keys(lake)
        with pytest.raises(MaintenanceRunning):
            lake.maintain(execute=True)
        assert keys(lake) == before
        assert not lake.maintain().executed, "a plan needs no lease"
    lake.maintain(execute=True)


def test_two_jobs_at_once_break_nothing_all_the_same(lake, monkeypatch):
    before = rows_of(lake)
    monkeypatch.setattr(Lease, "_refuse_held", lambda *args: None)
    policy = "checkpoint_after = 1\nkeep_revisions = 1\n" + EVERY_LOG
    reports = []

    def work():
        for _ in range(3):
            try:
                reports.append(Catalog(lake.store).maintain(policy=policy, execute=True))
            except MaintenanceRunning:
                continue

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports
    assert rows_of(lake) == before
    assert lake.check().is_sound


def test_a_job_whose_lease_was_taken_over_stops(lake, monkeypatch):
    real = Lease.__enter__

    def enter(self):
        found = real(self)
        self.is_lost = True
        return found

    monkeypatch.setattr(Lease, "__enter__", enter)
    report = lake.maintain(execute=True)
    assert {row.status for row in report.rows if row.step != "prune"} == {"remaining"}


def test_a_store_without_put_if_absent_is_maintained_with_a_warning():
    store = PlainStore(MemoryStore("plain"))
    fill(store)
    with pytest.warns(MaintenanceWarning, match="no put-if-absent"):
        report = Catalog(store).maintain(
            policy="checkpoint_after = 3\npublish = 'prod'", execute=True
        )
    found = statuses(report)
    assert found["compact"] == found["publish"] == {"skipped"}
    assert found["checkpoint"] == {"done"}
    assert report.exit_code == 0


def test_arguments_that_cannot_be(lake):
    for call in (
        lambda: lake.maintain(execute="yes"),
        lambda: lake.maintain(time_limit_s=-1),
        lambda: lake.maintain(time_limit_s=float("nan")),
        lambda: lake.maintain(policy=3),
        lambda: lake.maintain("no database"),
    ):
        with pytest.raises(UsageError):
            call()


# --- Figures --------------------------------------------------------------------------------------


def test_metrics_are_replaced_as_a_whole_and_keep_the_last_success(lake, tmp_path):
    path = tmp_path / "lakelog.prom"
    report = lake.maintain(policy=EVERY_LOG, execute=True, with_gauges=True)
    write_metrics(str(path), report)
    text = path.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["lakelog.prom"]
    assert 'lakelog_live_files{database="weather",table="hourly"} 2\n' in text
    assert 'lakelog_commits_behind_checkpoint{database="weather",writer="oslo"} 8\n' in text
    assert 'lakelog_check_findings{database="weather"} 0\n' in text
    last = 'lakelog_maintenance_last_success_timestamp_seconds{database="weather",step="gc"} '
    (then,) = [line for line in text.splitlines() if line.startswith(last)]
    bad = [
        dataclasses.replace(row, status="failed") if row.step == "gc" else row
        for row in report.rows
    ]
    later = dataclasses.replace(
        report, rows=tuple(bad), finished_at_us=report.finished_at_us + 10**9
    )
    write_metrics(str(path), later)
    text = path.read_text()
    assert then in text.splitlines()
    assert 'lakelog_maintenance_failed{database="weather",step="gc"} 1\n' in text
    assert text.count(last) == 1
    with pytest.raises(UsageError):
        write_metrics(str(tmp_path / "no" / "such.prom"), report)


def test_metrics_are_of_the_form_that_prometheus_reads(lake):
    with lake.writer("w", "weather") as writer, writer.transaction() as tx:
        tx.write('a "quoted"\\ table', pa.table({"n": [1]}))
    text = prometheus_text(lake.maintain(execute=True, with_gauges=True))
    assert 'table="a \\"quoted\\"\\\\ table"' in text
    kinds = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            kinds.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.split("{")[0], line.rsplit(" ", 1)[1]
            assert name in kinds
            assert float(value) >= 0


def test_a_row_is_one_line_of_json(lake):
    row = lake.maintain().rows[0]
    assert "\n" not in row.to_json()
    assert set(json.loads(row.to_json())) >= {
        "step", "database", "table", "status", "files_before", "files_after", "bytes", "rows",
        "seconds", "remaining",
    }  # fmt: skip


def test_spans_of_opentelemetry(lake):
    from opentelemetry import trace
    from opentelemetry.sdk import trace as sdk
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    lake.maintain("weather", execute=True)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {
        "lakelog.maintain", "lakelog.compact", "lakelog.checkpoint", "lakelog.gc", "lakelog.check",
    }  # fmt: skip
    assert spans["lakelog.gc"].attributes["lakelog.database"] == "weather"
    assert spans["lakelog.gc"].attributes["lakelog.status"] == "idle"
    root = spans["lakelog.maintain"]
    assert {one.parent.span_id for one in spans.values() if one is not root} == {
        root.context.span_id
    }


def test_without_opentelemetry_nothing_is_missing(lake, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert lake.maintain().rows


def test_what_a_run_with_nothing_to_do_asks_of_the_store():
    """As many requests a log, whatever it holds; and none that depends on other logs."""
    counts = []
    for writers in (2, 4):
        store = CountingStore(MemoryStore("counted"))
        fill(store, databases=("a",), writers=[f"w{number}" for number in range(writers)])
        policy = "checkpoint_after = 1\ncheck_level = 'none'"
        Catalog(store).maintain(policy=policy, execute=True)
        store.reset()
        assert Catalog(store).maintain(policy=policy, execute=True).is_idle
        counts.append(sum(store.reset().values()))
    assert counts == [48, 88], "20 a log, and 8"


def test_the_module_is_loaded_only_when_it_is_asked_for():
    code = "import sys, lakelog; lakelog.Catalog; print('lakelog.maintenance.job' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert lakelog.Catalog
