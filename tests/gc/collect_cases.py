"""What the tests of gc write and ask."""

from __future__ import annotations

from lakelog.gc.collect import execute_gc, plan_gc

W, D = "EWR", "weather"
BASE = f"{W}/{D}/"


def gc(lake, strays=(), **options):
    options = {"margins": lake.margins, **options}
    plan = plan_gc(lake.catalog, W, D, strays=strays, **options)
    return plan, execute_gc(lake.catalog, plan, **options)


def planned(plan):
    return {action.key.removeprefix(BASE) for action in plan.actions}


def take_over(lake, value=99):
    """Commits as a new owner, a second later."""
    lake.pass_time(1)
    with lake.writer() as writer:
        return lake.commit(writer, value)


def lose_log(lake):
    lake.store.delete([info.key for info in lake.store.list(f"{BASE}transactions/")])
