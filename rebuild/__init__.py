"""Rebuilding a log from the footers of its data files."""

from .execute import execute_rebuild
from .plan import RebuildInfo, RebuildPlan
from .rebuild import plan_rebuild
from .values import LeftOut

__all__ = ["LeftOut", "RebuildInfo", "RebuildPlan", "execute_rebuild", "plan_rebuild"]
