"""Garbage collection: delete data files that no retained revision names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.margins import Margins
    from ..catalog.reader import Catalog
    from ..store import Store
    from .plan import Plan, Progress, Report


def plan_gc(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Which data files of a writer and database no retained revision names."""
    raise NotImplementedError


def execute_gc(
    source: Catalog | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a plan again, and delete what it says."""
    raise NotImplementedError
