"""Salvage of a log whose both copies are lost or damaged, from the footers of its data files."""

from .execute import execute_rebuild
from .plan import RebuildInfo, RebuildPlan
from .planning import plan_rebuild

__all__ = ["RebuildInfo", "RebuildPlan", "execute_rebuild", "plan_rebuild"]
