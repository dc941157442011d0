"""Rebuilding a log from the footers of its data files."""

from .plan import LeftOut, RebuildInfo, RebuildPlan, left_out_table, transactions_table
from .rebuild import execute_rebuild, plan_rebuild

__all__ = [
    "LeftOut",
    "RebuildInfo",
    "RebuildPlan",
    "execute_rebuild",
    "left_out_table",
    "plan_rebuild",
    "transactions_table",
]
