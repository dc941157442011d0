"""Rebuild a lost log from the footers of its Parquet files: scan first, plan, write last.

Source: docs/format.md, section 8; seed 002, sections 1.3 and 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.ambient import SYSTEM, Ambient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..catalog.reader import Catalog
    from ..store import Store
    from .plan import RebuildInfo, RebuildPlan

    Progress = Callable[[int, int], None]


def plan_rebuild(
    catalog: Catalog | Store,
    writer: str,
    database: str,
    *,
    replace: bool = False,
    include_foreign: bool = False,
    exclude: Collection[str] = (),
    progress: Progress | None = None,
    ambient: Ambient = SYSTEM,
) -> RebuildPlan:
    """Read the footers of all data files of one writer and database, and plan the log that they
    prove. Nothing is written.

    Args:
        catalog: An open catalog or its store.
        replace: Plan over an existing log: its objects are copied aside first.
        include_foreign: Also take in Parquet files without lakelog metadata, at the end, into the
            table and partition that their path names.
        exclude: Transaction ids (hex) to leave out: of those that the report calls unproven.
        progress: Called with footers read and footers in all, from this thread.
    Raises:
        LogExists: There is a log, and `replace` is not set.
        NotFoundError: There is no data file to rebuild from.
        UsageError: An excluded id that no file has.
        StorageError: The store failed.
    Requests: 2 LIST, 1 or 2 GET a data file; with `replace` 1 GET a transaction of the old log.
    """
    raise NotImplementedError


def execute_rebuild(plan: RebuildPlan) -> RebuildInfo:
    """Write a planned log, then a checkpoint of it.

    A crash at any point leaves a log that can't be read as if it were whole and smaller; planning
    and executing again with `replace` repairs it. Objects of an old log are first copied to
    `<writer>/<database>/replaced/<rebuild id>/` and read back.

    Raises:
        NotFoundError: The plan holds no transaction.
        LogExists: A log has appeared since the plan was made.
        PlanOutdated: The data files or the old log changed since.
        StorageError: The store failed on the way: plan and execute again with `replace`.
    Requests: 2 LIST; 1 PUT a revision, 1 for the checkpoint and each of its segments; with an old
        log 2 GET and 1 PUT an object of it, and its deletion.
    """
    raise NotImplementedError
