"""Replicas: copies of logs with all that they name, kept up to date (docs/replication.md)."""

from __future__ import annotations

from .replicate import follow, plan_replication, promote, replicate
from .reports import Copied, LogPlan, LogReport, Progress, Report

__all__ = [
    "Copied",
    "LogPlan",
    "LogReport",
    "Progress",
    "Report",
    "follow",
    "plan_replication",
    "promote",
    "replicate",
]
