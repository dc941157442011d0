"""Salvage of a log whose both copies are lost or damaged, from the footers of its data files."""

from .execute import RebuildInfo, execute_rebuild
from .plan import RebuildPlan, plan_rebuild

__all__ = ["RebuildInfo", "RebuildPlan", "execute_rebuild", "plan_rebuild"]
