"""Rebuilding a log from the footers of its data files."""

from .execute import execute_rebuild
from .plan import LeftOut, RebuildInfo, RebuildPlan, left_out_table, transactions_table
from .rebuild import plan_rebuild
from .report import report

__all__ = [
    "LeftOut",
    "RebuildInfo",
    "RebuildPlan",
    "execute_rebuild",
    "left_out_table",
    "plan_rebuild",
    "report",
    "transactions_table",
]
