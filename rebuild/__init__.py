"""Salvage of a log whose both copies are lost or damaged, from the footers of its data files."""

from .execute import execute_rebuild
from .plan import RebuildInfo, RebuildPlan
from .planning import plan_rebuild
from .rules import RULES

__all__ = ["RULES", "RebuildInfo", "RebuildPlan", "execute_rebuild", "plan_rebuild"]
