"""Plans as values: shown, saved, loaded, and refused when they name what no plan may delete."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from lakelog.errors import InvalidName, InvalidPath, UsageError
from lakelog.gc import Deletion, Facts, Kept, Plan, Report, execute_gc, execute_prune

UUID = "0123abcd"
LOG = "EWR/weather/transactions/"
CHECKPOINT = f"{LOG}{7:020d}.{UUID}.checkpoint"
MADE_AT = dt.datetime(2026, 11, 21, 6, 30, 0, 123456, tzinfo=dt.UTC)


def gc_plan(**changes):
    fields = {
        "kind": "gc",
        "url": "memory://gc",
        "writer": "EWR",
        "database": "weather",
        "actions": (
            Deletion("EWR/weather/data/p/t/x.parquet", 10, "orphan"),
            Deletion("EWR/weather/data/ä/t/y.parquet", 3_000_000, "orphan"),
        ),
        "kept": (Kept("young", 2, 7, ("EWR/weather/data/z.parquet",)),),
        "notes": ("a note",),
        "facts": Facts(7, "ab" * 32, 3, 2, True),
        "made_at": MADE_AT,
    }
    return Plan(**{**fields, **changes})


def prune_plan(*names, checkpoint=CHECKPOINT):
    actions = tuple(Deletion(LOG + name, 1, "old") for name in names)
    facts = Facts(9, "cd" * 32, 1, 0, False, 7, checkpoint)
    return gc_plan(kind="prune", actions=actions, facts=facts)


def test_a_plan_survives_being_saved():
    for plan in (
        gc_plan(),
        gc_plan(actions=(), kept=(), notes=()),
        prune_plan(f"{3:020d}.{UUID}.transaction"),
    ):
        text = plan.to_json()
        assert Plan.from_json(text) == plan
        assert Plan.from_json(text.encode()).to_json() == text


def test_shown_as_text_and_table():
    plan = gc_plan()
    text = plan.text(limit=1)
    assert "gc of EWR/weather in memory://gc: 2 objects (2.9 MiB) to delete" in text
    assert "delete EWR/weather/data/p/t/x.parquet (10 bytes): orphan" in text
    assert "... and 1 more" in text
    assert "keep 2 objects (7 bytes): young" in text
    assert "note: a note" in text
    assert (plan.objects, plan.size_bytes) == (2, 3_000_010)
    table = plan.table()
    assert table.schema.names == ["key", "size_bytes", "reason"]
    assert table.column("size_bytes").to_pylist() == [10, 3_000_000]
    assert gc_plan(actions=()).table().schema.field("key").type == pa.string()


def test_a_report_tells_what_was_done():
    report = Report("gc", "EWR", "weather", 1, 2048, 3, (Kept("named", 1, 5, ("a/b",)),))
    text = str(report)
    assert "1 object (2.0 KiB) deleted" in text
    assert "3 of the plan were gone already" in text
    assert "left 1 object (5 bytes): named" in text


@pytest.mark.parametrize(
    "key",
    [
        "JFK/weather/data/x.parquet",
        "EWR/climate/data/x.parquet",
        "EWR/weather2/data/x.parquet",
        "EWR/weather/data/../../../x.parquet",
        "EWR/weather/data/../transactions/x.parquet",
        "EWR/weather/data//x.parquet",
        "EWR/weather/data/a\\b.parquet",
        "EWR/weather/data/x.txt",
        "EWR/weather/data/.parquet",
        "EWR/weather/data/x.parquet/",
        "EWR/weather/x.parquet",
        "/EWR/weather/data/x.parquet",
        "EWR/weather/data/x\n.parquet",
        f"{LOG}{0:020d}.{UUID}.transaction",
        "",
    ],
)
def test_a_gc_plan_may_name_only_data_files_of_its_writer(lake, key):
    bad = gc_plan(actions=(Deletion(key, 1, "because"),))
    with pytest.raises(InvalidPath):
        Plan.from_json(bad.to_json())
    with pytest.raises(InvalidPath):
        execute_gc(lake.store, bad)


@pytest.mark.parametrize(
    "name",
    [
        f"{7:020d}.{UUID}.transaction",  # that of the surviving checkpoint
        f"{7:020d}.{UUID}.checkpoint",
        f"{8:020d}.{UUID}.0.segment",
        f"{3:020d}.{UUID}.backup",
        f"{3:020d}.{UUID}.transaction.bak",
        f"../transactions/{3:020d}.{UUID}.transaction",
        f"{3:019d}.{UUID}.transaction",
        "readme.txt",
    ],
)
def test_a_prune_plan_may_name_only_what_lies_before_its_checkpoint(lake, name):
    bad = prune_plan(name)
    with pytest.raises(InvalidPath):
        Plan.from_json(bad.to_json())
    with pytest.raises(InvalidPath):
        execute_prune(lake.store, bad)


@pytest.mark.parametrize("checkpoint", ["", f"{LOG}{7:020d}.{UUID}.transaction", "EWR/x"])
def test_a_prune_plan_without_its_checkpoint_deletes_nothing(lake, checkpoint):
    bad = prune_plan(f"{3:020d}.{UUID}.transaction", checkpoint=checkpoint)
    with pytest.raises(InvalidPath):
        execute_prune(lake.store, bad)


def test_names_and_kinds_are_checked(lake):
    with pytest.raises(InvalidName):
        Plan.from_json(gc_plan(writer="../EWR", actions=()).to_json())
    with pytest.raises(UsageError, match="kind"):
        Plan.from_json(gc_plan(kind="burn", actions=()).to_json())
    twice = Deletion("EWR/weather/data/x.parquet", 1, "")
    with pytest.raises(UsageError, match="twice"):
        Plan.from_json(gc_plan(actions=(twice, twice)).to_json())
    with pytest.raises(UsageError, match="gc plan"):
        execute_prune(lake.store, gc_plan())
    with pytest.raises(UsageError, match="for s3://elsewhere"):
        execute_gc(lake.store, gc_plan(url="s3://elsewhere"))


def _changed(**changes):
    data = json.loads(gc_plan().to_json())
    for path, value in changes.items():
        target = data
        *steps, last = path.split("__")
        for step in steps:
            target = target[int(step) if step.isdigit() else step]
        if value is None:
            del target[last]
        else:
            target[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        "{}",
        _changed(lakelog_plan=2),
        _changed(lakelog_plan=None),
        _changed(made_at="yesterday"),
        _changed(made_at="2026-11-21T06:30:00"),
        _changed(url=5),
        _changed(actions={}),
        _changed(actions__0__size_bytes="10"),
        _changed(actions__0__size_bytes=-1),
        _changed(actions__0__size_bytes=True),
        _changed(actions__0__reason=None),
        _changed(actions__0__more=1),
        _changed(facts__head=1.5),
        _changed(facts__exclusive=1),
        _changed(kept__0__names="abc"),
        _changed(notes=[1]),
    ],
)
def test_what_is_no_plan_is_refused_by_type(text):
    with pytest.raises(UsageError):
        Plan.from_json(text)
