"""A rebuild that was begun before, with other content under the names that this one would write.

Names follow from the seal, and content from what was scanned: if data files came or went since, or
other options are given, the two don't go together, and the second one stops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..catalog.format.names import LogObject, log_folder, name_prefix, rebuilt_slot_uuid
from ..catalog.format.objects import decode_transaction
from ..errors import CorruptError, ObjectNotFound, PlanOutdated
from .build import CONTENT, content_of

if TYPE_CHECKING:
    from ..catalog.read.log_reader import LogReader
    from ..store import Store
    from .plan import RebuildPlan


def as_begun(store: Store, plan: RebuildPlan) -> tuple[RebuildPlan, str]:
    """A plan as one that goes on with a rebuild that was begun, with the time at which that was;
    and what it has to say of one that it can't go on with, or nothing.

    Requests: 1 GET if the log is sealed.
    """
    if not plan.seal.stands or not plan.transactions:
        return plan, ""
    uuid = rebuilt_slot_uuid(bytes.fromhex(plan.rebuild_id), 0)
    item = LogObject(plan.incarnation, 0, uuid[:4].hex(), "transaction")
    key = log_folder(plan.writer, plan.database) + item.name
    try:
        found = decode_transaction(store.get(key), key)
    except ObjectNotFound:
        return plan, ""
    except CorruptError:
        said = ""
    else:
        said = found.message.commit.members[0].summary.get(CONTENT, "")
        # A file that came since is newer, and is no other rebuild for that.
        plan = replace(plan, begun_at_us=found.message.actions[0].identity.begun_at_us)
    if said == content_of(plan):
        return plan, ""
    return plan, f"This plan can't be executed as it is. {_what(plan)}. {_way_out(plan, store.url)}"


def begun_error(log: LogReader, plan: RebuildPlan, key: str) -> PlanOutdated:
    """Why a name of the new incarnation is taken.

    Args:
        key: The object that is there, with other bytes.
    Requests: 1 LIST.
    """
    where = f"{plan.writer}/{plan.database}"
    if log.names().incarnation >= plan.incarnation:
        return PlanOutdated(
            f"Another rebuild of {where} was first: incarnation {plan.incarnation} is in use",
            key=key,
            hint="Nothing is left to do, unless you want it otherwise: then plan again",
        )
    return PlanOutdated(_what(plan), key=key, hint=_way_out(plan, log.store.url))


def _what(plan: RebuildPlan) -> str:
    return (
        f"Another rebuild of {plan.writer}/{plan.database} began incarnation {plan.incarnation} "
        "with other content: data files came or went since, or it had other options (as --exclude)"
    )


def _way_out(plan: RebuildPlan, url: str) -> str:
    folder = log_folder(plan.writer, plan.database)
    prefix = f"{url.rstrip('/')}/{folder}{name_prefix(plan.incarnation)}"
    return (
        f"The old log reads as before, and nothing of incarnation {plan.incarnation} is read: it "
        "has no checkpoint. If one is lost (`lakelog doctor` looks for that), put it back from a "
        "copy. If the other rebuild still runs, let it finish, or give the options that it had. If "
        "it was broken off, and you are sure that none runs, delete the "
        f"objects {prefix}* with the store's own tool, and run `lakelog rebuild URL "
        f"{plan.database} --writer {plan.writer} --execute` again"
    )
