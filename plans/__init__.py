"""What gc, prune and rebuild have in common: a plan is a value, made first and executed later.

Planning reads and decides; nothing is changed before somebody hands the plan to the step's
`execute_…(source, plan)`, which checks it again. A plan holds no store: it can be shown
(`describe`), saved (`to_json`), loaded (`from_json`) and executed by another process.
"""

from .contract import Effect, Field, Group, MaintenancePlan, Progress, SavedPlan, as_text
from .saved import dump_plans, split_plans
from .source import Place, Source, check_source, open_source

__all__ = [
    "Effect",
    "Field",
    "Group",
    "MaintenancePlan",
    "Place",
    "Progress",
    "SavedPlan",
    "Source",
    "as_text",
    "check_source",
    "dump_plans",
    "open_source",
    "split_plans",
]
