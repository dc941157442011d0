"""Replicas: copies of logs with all that they name, kept up to date (docs/replication.md)."""

from __future__ import annotations

from .follow import follow
from .one_log import Copied
from .position import LogPlan
from .replicate import plan_replication, replicate
from .reports import LogReport, Report, Told

__all__ = [
    "Copied",
    "LogPlan",
    "LogReport",
    "Report",
    "Told",
    "follow",
    "plan_replication",
    "replicate",
]
