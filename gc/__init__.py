"""Prune and gc of one writer's log and data files; `Catalog.prune` and `Catalog.gc` do it for all.

A step is two calls: `plan_…` reads the store and says what is to be deleted and why; `execute_…`
checks that again and deletes. `source` is a catalog or a store; `ambient` and `margins` default to
the catalog's, else to the system's.
"""

from ..plans import Progress
from .collect import execute_gc, plan_gc
from .plan import Deletion, Facts, Kept, Plan, Report, describe_kept
from .prune import execute_prune, plan_prune

__all__ = [
    "Deletion",
    "Facts",
    "Kept",
    "Plan",
    "Progress",
    "Report",
    "describe_kept",
    "execute_gc",
    "execute_prune",
    "plan_gc",
    "plan_prune",
]
