"""Plans as values: shown, saved, loaded, and refused when they name what no plan may delete."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from lakelog.catalog.format.names import LogObject
from lakelog.errors import InvalidName, InvalidPath, UsageError
from lakelog.gc.collect import execute_gc
from lakelog.gc.plan import Deletion, Facts, Kept, Plan
from lakelog.gc.prune import execute_prune
from lakelog.plans import Effect, dump_plans, split_plans

UUID = "0123abcd"
LOG = "EWR/weather/transactions/"
MIRROR = "EWR/weather/mirror/transactions/"
NAME = f"1-{7:032x}-0.parquet"
SEGMENT = f"EWR/weather/segments/{'ab' * 32}.segment"


def name(revision, kind="transaction", incarnation=1):
    return LogObject(incarnation, revision, UUID, kind).name


CHECKPOINT = LOG + name(7, "checkpoint")
MADE_AT = dt.datetime(2026, 11, 21, 6, 30, 0, 123456, tzinfo=dt.UTC)


def gc_plan(**changes):
    fields = {
        "kind": "gc",
        "url": "memory://gc",
        "writer": "EWR",
        "database": "weather",
        "actions": (
            Deletion(f"EWR/weather/data/p/t/{NAME}", 10, "orphan"),
            Deletion(f"EWR/weather/data/ä/t/{NAME}", 3_000_000, "orphan"),
        ),
        "kept": (Kept("young", 2, 7, ("EWR/weather/data/z.parquet",)),),
        "notes": ("a note",),
        "facts": Facts(7, "ab" * 32),
        "made_at": MADE_AT,
    }
    return Plan(**{**fields, **changes})


def prune_plan(*names, checkpoint=CHECKPOINT):
    actions = tuple(Deletion(LOG + name, 1, "old") for name in names)
    facts = Facts(9, "cd" * 32, checkpoint)
    return gc_plan(kind="prune", actions=actions, facts=facts)


def test_a_plan_survives_being_saved():
    for plan in (
        gc_plan(),
        gc_plan(actions=(), kept=(), notes=()),
        prune_plan(name(3)),
    ):
        text = plan.to_json()
        assert Plan.from_json(text) == plan
        assert Plan.from_json(text.encode()).to_json() == text


SAVED = """\
{"lakelog_plan": 1,
"kind": "gc",
"url": "memory://gc",
"writer": "EWR",
"database": "weather",
"kept": [{"reason": "young", "objects": 2, "size_bytes": 7, \
"names": ["EWR/weather/data/z.parquet"]}],
"notes": ["a note"],
"facts": {"head": 7, "head_digest": "DIGEST", "checkpoint": "", "strays": []},
"made_at": "2026-11-21T06:30:00.123456+00:00",
"actions": [
{"key": "EWR/weather/data/p/t/NAME", "size_bytes": 10, "reason": "orphan"},
{"key": "EWR/weather/data/ä/t/NAME", "size_bytes": 3000000, "reason": "orphan"}]}
""".replace("DIGEST", "ab" * 32).replace("NAME", NAME)


def test_the_format_of_a_saved_plan():
    """What another version saved must be read, or refused by its number."""
    assert gc_plan().to_json() == SAVED
    assert Plan.from_json(SAVED) == gc_plan()
    fields = json.loads(SAVED)
    reversed_fields = json.dumps(dict(reversed(fields.items())))
    assert Plan.from_json(reversed_fields) == gc_plan(), "in any order"


def test_a_file_of_several_plans():
    plans = [gc_plan(), gc_plan(writer="JFK", actions=())]
    for some in (plans, plans[:1]):
        assert [Plan.from_json(text) for text in split_plans(dump_plans(some))] == some
    assert dump_plans(plans[:1]) == SAVED
    for text in ("", "nothing"):
        with pytest.raises(UsageError):
            split_plans(text)
    with pytest.raises(UsageError):
        Plan.from_json(split_plans("[]")[0])


def test_a_plan_describes_itself():
    plan = gc_plan()
    assert plan.effect == Effect("delete", "object", 2, 3_000_010)
    actions, kept = plan.groups()
    assert (actions.name, kept.name) == ("actions", "kept")
    assert [row["size_bytes"] for row in actions.rows] == [10, 3_000_000]
    assert [row["reason"] for row in kept.rows] == ["young"]
    for group in (actions, kept):
        for row in group.rows:
            assert sorted(row) == sorted(field.name for field in group.fields)


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
        "EWR/weather/data/p/t/x.parquet",
        f"EWR/weather/data/{NAME}",
        f"EWR/weather/data/p/t/../{NAME}",
        "EWR/weather/data/x.parquet/",
        "EWR/weather/x.parquet",
        "/EWR/weather/data/x.parquet",
        "EWR/weather/data/x\n.parquet",
        LOG + name(0),
        SEGMENT,
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
    "bad_name",
    [
        name(7),  # that of the surviving checkpoint
        name(7, "checkpoint"),
        name(8),
        name(3, incarnation=2),
        name(3)[:-1],
        name(3).replace("-3.", "-4."),
        f"{name(3)}.bak",
        f"../transactions/{name(3)}",
        f"{3:020d}.{UUID}.transaction",
        "../segments/ab.segment",
        f"../segments/../segments/{'ab' * 32}.segment",
        "readme.txt",
    ],
)
def test_a_prune_plan_may_name_only_what_lies_before_its_checkpoint(lake, bad_name):
    bad = prune_plan(bad_name)
    with pytest.raises(InvalidPath):
        Plan.from_json(bad.to_json())
    with pytest.raises(InvalidPath):
        execute_prune(lake.store, bad)


@pytest.mark.parametrize("checkpoint", ["", LOG + name(7), "EWR/x"])
def test_a_prune_plan_without_its_checkpoint_deletes_nothing(lake, checkpoint):
    bad = prune_plan(name(3), checkpoint=checkpoint)
    with pytest.raises(InvalidPath):
        execute_prune(lake.store, bad)


def test_a_prune_plan_may_name_segments_lower_incarnations_and_the_mirror():
    good = prune_plan(name(3), checkpoint=LOG + name(2, "checkpoint", 2))
    more = SEGMENT, MIRROR + name(3), SEGMENT.replace("weather/", "weather/mirror/")
    actions = (*good.actions, *(Deletion(key, 1, "old") for key in more))
    good = gc_plan(kind="prune", actions=actions, facts=good.facts)
    assert Plan.from_json(good.to_json()) == good
    bad = (Deletion(MIRROR + name(7, "checkpoint", 2), 1, "old"),)
    with pytest.raises(InvalidPath):
        Plan.from_json(gc_plan(kind="prune", actions=bad, facts=good.facts).to_json())


def test_a_gc_plan_may_name_the_strays_that_it_was_asked_for():
    actions = (Deletion("EWR/weather/data/in/x.csv", 1, "asked for"),)
    facts = Facts(7, "ab" * 32, strays=("data/in/*",))
    good = gc_plan(actions=actions, facts=facts)
    assert Plan.from_json(good.to_json()) == good


def test_names_and_kinds_are_checked(lake):
    with pytest.raises(InvalidName):
        Plan.from_json(gc_plan(writer="../EWR", actions=()).to_json())
    with pytest.raises(UsageError, match="kind"):
        Plan.from_json(gc_plan(kind="burn", actions=()).to_json())
    twice = Deletion(f"EWR/weather/data/p/t/{NAME}", 1, "")
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
