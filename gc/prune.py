"""Prune: take the beginning of a log away, down to a checkpoint that has been read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.margins import Margins
    from ..catalog.reader import Catalog
    from ..store import Store
    from .plan import Plan, Progress, Report


def plan_prune(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    keep_revisions: int | None = None,
    keep_days: float | None = None,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """What may go from the beginning of a log."""
    raise NotImplementedError


def execute_prune(
    source: Catalog | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a plan again, and delete what it says."""
    raise NotImplementedError
