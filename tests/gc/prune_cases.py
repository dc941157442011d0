"""What the tests of prune share."""

from __future__ import annotations

from lakelog.gc.prune import execute_prune, plan_prune

W, D = "EWR", "weather"
LOG = f"{W}/{D}/transactions/"
SEGMENTS = f"{W}/{D}/segments/"


def build(lake, commits, checkpoints=(), *, gap_s=0.0):
    """`commits` revisions, each a new file and without the one of three revisions before."""
    paths = []
    with lake.writer() as writer:
        for value in range(commits):
            remove = [paths[value - 3]] if value >= 3 else []
            paths.append(lake.commit(writer, value, remove))
            if value in checkpoints:
                writer.checkpoint()
            if gap_s:
                lake.pass_time(gap_s)
    return paths


def of_the_log(plan):
    """Keys that a plan deletes in the log; the mirror's follow in the same order."""
    keys = [action.key for action in plan.actions]
    copies = [key.replace("/mirror/", "/") for key in keys if "/mirror/" in key]
    found = [key for key in keys if "/mirror/" not in key]
    assert copies == [key for key in found if key in copies]
    assert keys[: len(found)] == found
    return found


def prune(lake, **keep):
    plan = plan_prune(lake.catalog, W, D, margins=lake.margins, **keep)
    return plan, execute_prune(lake.catalog, plan, margins=lake.margins)
