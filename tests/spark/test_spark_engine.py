"""Spark as an engine: what comes of it is what threads of this process would give, byte for byte;
it tells how far it is, and shows no secret."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from engine_cases import lose_the_log, messy_lake, plan_by
from lakelog.catalog.parallel import Embedded
from lakelog.cli.main import main
from lakelog.errors import AccessDenied, CorruptObject, UsageError
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.replication import replicate
from lakelog.spark import SparkEngine, Stages, engine
from lakelog.spark.engine import Openings
from lakelog.store import WideStore
from lakelog.store.memory import MemoryStore


@pytest.mark.slow("Spark's Python workers start, and readers of footers in each of them")
@pytest.mark.parametrize("state", ["whole", "lost"])
def test_a_rebuild_is_planned_alike(spark, tmp_path, state):
    catalog = messy_lake(tmp_path)
    if state == "lost":
        lose_the_log(catalog)
    here = plan_by(catalog, Embedded())
    there = plan_by(catalog, SparkEngine(spark))
    assert there == here
    assert there.to_json() == here.to_json()
    reasons = [item.reason for item in there.left_out]
    assert any("dies of its footer (SIGABRT)" in reason for reason in reasons)
    assert there.is_whole == (state == "whole")
    if state == "lost":
        assert any("cut short" in reason for reason in reasons)
        assert len(files_of(there)) == 19
    info = execute_rebuild(catalog, there)
    if state == "lost":
        assert catalog.snapshot("db").to_arrow("t").num_rows == info.rows == 19


def files_of(plan: RebuildPlan) -> set[str]:
    """The files that come back."""
    return {path for one in plan.transactions for _, path in one.files}


@pytest.mark.slow("a job after the other, each with Python workers")
def test_results_come_in_order_job_after_job(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_MOST_ITEMS", 100)
    folder = str(tmp_path)

    def prepare(store):
        def work(number):
            if number == 777:
                raise CorruptObject("It is broken", key=f"{store.url}/{number}")
            return number * 2

        return work

    stores = [WideStore(lakelog.open_catalog(folder).store)]
    made = SparkEngine(spark)
    found = list(made.each(prepare, stores, iter(range(777)), 777, share=25))
    assert found == [number * 2 for number in range(777)]
    seen = []
    broken = made.each(prepare, stores, range(1_000), 1_000, share=25)
    with pytest.raises(CorruptObject, match=r"It is broken \[.*/777\]"):
        seen.extend(broken)
    assert seen == found
    assert list(made.each(prepare, stores, [], 0)) == []


@pytest.mark.slow("Python workers are ended, and others start")
def test_who_wants_no_more_ends_the_jobs(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_MOST_ITEMS", 2)
    stores = [WideStore(lakelog.open_catalog(str(tmp_path)).store)]

    def prepare(store):
        def work(number):
            time.sleep(60 if number > 3 else 0)
            return number

        return work

    begun = time.monotonic()
    found = SparkEngine(spark).each(prepare, stores, range(40), 40, share=1)
    assert next(found) == 0
    found.close()
    assert time.monotonic() - begun < 40
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_what_other_processes_cant_see_is_refused(spark):
    made = SparkEngine(spark)
    with pytest.raises(UsageError, match="other processes"):
        list(made.each(lambda store: print, [WideStore(MemoryStore("m"))], [1], 1))


def test_a_replica_is_the_same(spark, tmp_path):
    catalog = messy_lake(tmp_path, damaged=False)
    told = []
    here = replicate(catalog, str(tmp_path / "here"), history=False)
    there = replicate(
        catalog, str(tmp_path / "there"), history=False, engine=SparkEngine(spark),
        progress=lambda one: told.append((one.files_done, one.bytes_done)),
    )  # fmt: skip
    assert not here.errors
    assert there.logs == here.logs
    assert there.tokens == here.tokens
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert told[-1] == (here.logs[0].copied.files, here.logs[0].copied.size_bytes)
    again = replicate(catalog, str(tmp_path / "there"), engine=SparkEngine(spark))
    assert again.logs[0].copied.commits == 0


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "_probe"  # which names the store
    }


def test_a_damaged_file_stops_a_replica_before_it(spark, tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer:
        for number in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": list(range(number * 100, number * 100 + 100))}))
    victim = sorted(Path(catalog.url).rglob("*.parquet"))[1]
    body = bytearray(victim.read_bytes())
    body[40] ^= 1
    victim.write_bytes(body)
    reports = [
        replicate(catalog, str(tmp_path / name), engine=each)
        for name, each in (("here", None), ("there", SparkEngine(spark)))
    ]
    for report in reports:
        (error,) = report.errors
        assert isinstance(error, CorruptObject)
        assert victim.name in str(error)
    assert str(reports[0].errors[0]) == str(reports[1].errors[0])
    with pytest.raises(UsageError, match="whole logs"):
        replicate(catalog, str(tmp_path / "part"), tables=["t"], engine=SparkEngine(spark))


# --- Progress -------------------------------------------------------------------------------------


def test_how_far_a_write_is(spark, tmp_path, capfd):
    told: list[Stages] = []
    context = spark.sparkContext
    context.setJobGroup("mine", "my own words")
    context.addJobTag("mine-too")
    frame = spark.range(0, 60, 1, 6)
    try:
        lakelog.spark.write(
            frame, str(tmp_path / "lake"), "db", "t", writer="w", progress=told.append
        )
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my own words"
        assert set(context.getJobTags()) == {"mine-too"}
    finally:
        context.clearJobTags()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)
    last = told[-1]
    assert (last.stages, last.stages_done, last.tasks, last.tasks_done) == (1, 1, 6, 6)
    assert [one.tasks_done for one in told] == sorted(one.tasks_done for one in told)
    capfd.readouterr()
    lakelog.spark.write(frame, str(tmp_path / "lake"), "db", "t", writer="w")
    assert "lakelog" not in capfd.readouterr().err
    lakelog.spark.write(frame, str(tmp_path / "lake"), "db", "t", writer="w", progress=True)
    shown = capfd.readouterr().err
    assert re.search(r"^lakelog: writing t: stage 1 of 1, 6 of 6 tasks, 0 running", shown, re.M)


def test_what_is_said_of_stages():
    assert str(Stages()) == "waiting for Spark"
    half = Stages(3, 1, 40, 10, 4, 1, 5.0)
    assert str(half) == (
        "stage 2 of 3, 10 of 40 tasks, 4 running, 1 failed and tried again, 2.0 tasks/s, 15 s left"
    )
    assert Stages(1, 0, 4, 0, 2).seconds_left is None
    assert Stages(1, 1, 4, 4, 0, 0, 2.0).seconds_left is None


def test_a_listener_that_fails_costs_nothing(spark, tmp_path):
    def tell(_: Stages) -> None:
        raise RuntimeError("no ears")

    frame = spark.range(3)
    done = lakelog.spark.write(frame, str(tmp_path), "db", "t", writer="w", progress=tell)
    assert done.rows == 3


def test_two_threads_share_an_engine(spark, tmp_path):
    told: list[Stages] = []
    made = SparkEngine(spark, told.append)
    stores = [WideStore(lakelog.open_catalog(str(tmp_path)).store)]
    found: dict[int, list[int]] = {}

    def one(first: int) -> None:
        def prepare(store):
            return lambda number: number + first

        found[first] = list(made.each(prepare, stores, range(30), 30, share=2))

    threads = [threading.Thread(target=one, args=(first,)) for first in (100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {first: list(range(first, first + 30)) for first in (100, 200)}
    assert told[-1].tasks_done == told[-1].tasks == 30


# --- The command line -----------------------------------------------------------------------------


def test_the_command_line(spark, tmp_path, capsys):
    catalog = messy_lake(tmp_path)
    lose_the_log(catalog)
    words = [catalog.url, "db", "--writer", "w", "-o", "json"]
    found = []
    for more in ([], ["--engine", "spark"]):
        assert main(["rebuild", *words, *more]) == 0
        shown = capsys.readouterr()
        found.append(json.loads(shown.out))
        for varies in ("made_at", "rebuild_id"):
            found[-1].pop(varies, None)
        assert ("lakelog: planning rebuild: " in shown.err) == bool(more)
    assert found[0]["notes"] == found[1]["notes"]
    assert found[0].keys() == found[1].keys()
    assert [len(value) for value in found[0].values() if isinstance(value, list)] == [
        len(value) for value in found[1].values() if isinstance(value, list)
    ]
    assert re.search(r"stage \d of \d, \d+ of \d+ tasks", shown.err)
    assert spark.range(3).count() == 3  # a session that was there goes on


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--engine", "flink"], "invalid choice"),
        (["--spark", "spark.master=local[2]"], "--spark goes with --engine spark"),
        (["--engine", "spark", "--spark", "master=local"], "spark.NAME=VALUE"),
    ],
)
def test_a_command_line_that_cannot_be(tmp_path, capsys, more, words):
    assert main(["rebuild", str(tmp_path), "db", "--writer", "w", *more]) == 2
    assert words in capsys.readouterr().err


# --- Secrets --------------------------------------------------------------------------------------


@pytest.mark.s3
def test_storage_options_reach_the_tasks_and_no_plan(spark, moto, tmp_path, monkeypatch):
    canary = moto.secret_key
    url = f"s3://{moto.make_bucket()}/lake"
    catalog = lakelog.open_catalog(url, moto.storage_options)
    with catalog.writer("w", "db") as writer:
        for number in range(5):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
    for part in ("transactions", "segments", "mirror"):
        store = catalog.store
        store.delete([one.key for one in store.list(f"w/db/{part}/")], ordered=False)
    plan = plan_rebuild(catalog, "w", "db", engine=SparkEngine(spark))
    assert len(files_of(plan)) == 5
    shown = spark._jsparkSession.sharedState().statusStore().executionsList()
    texts = [shown.apply(at).physicalPlanDescription() for at in range(shown.size())]
    texts += [shown.apply(at).description() for at in range(shown.size())]
    assert any("lakelog: maintenance" in text for text in texts)
    assert any("MapInArrow" in text for text in texts)
    assert canary not in "".join(texts)
    assert canary not in repr(catalog.wide.opening)
    assert canary not in repr(engine._wave(print, Openings([catalog.wide]).now(), [], _SIZES))
    assert _by_profile(spark, url, moto, tmp_path, monkeypatch) == files_of(plan)


def _by_profile(spark, url, moto, folder, monkeypatch) -> set[str]:
    """The files that are found by a profile that this process has, and none of Spark's workers."""
    file = folder / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    file.write_text(
        f"[etl]\naws_access_key_id = {moto.storage_options['key']}\n"
        f"aws_secret_access_key = {moto.secret_key}\n"
    )
    options = {k: v for k, v in moto.storage_options.items() if k not in ("key", "secret")}
    catalog = lakelog.open_catalog(url, options | {"profile": "etl"})
    found = plan_rebuild(catalog, "w", "db", engine=SparkEngine(spark))
    gone = lakelog.open_catalog(url, options | {"profile": "etl"}).wide
    file.unlink()
    with pytest.raises(AccessDenied, match="No credentials for S3"):
        Openings([gone]).now()
    return files_of(found)


_SIZES = engine._Sizes(1, 1)
