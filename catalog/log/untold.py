"""What a transaction does that no footer of its data files tells: what a rebuild could not know if
the log were lost. Pure.

Told by footers are the files that were written for it, with their schemas and what they replace; by
objects of row deletes the deletes that they are of. All else is untold: other files that become
live, removals that nothing replaces, those of files that lie elsewhere, definitions, tombstones,
what is forgotten, and the version of an application without any data.

Source: docs/format.md, section 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..format.actions_object import tables_of
from ..format.locations import is_in_place
from ..wire import lakelog_transaction_pb2 as wire
from .again import adds_again
from .validate import is_own_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .build import Intent

_NO_TABLE = ""


def untold(intent: Intent) -> dict[str, list[wire.Action]]:
    """The untold actions by table; those that are of none under the empty name. What becomes of a
    file is said once, behind all else: live, or not.
    """
    found: dict[str, list[wire.Action]] = {}
    locations: list[wire.Action] = []
    written = _written(intent)
    own_schemas = {(add.table, add.schema_fingerprint) for add in written.values()}
    for action in intent.actions:
        kind = action.WhichOneof("kind")
        if kind in ("add", "remove"):
            continue
        if kind == "schema" and (action.schema.table, action.schema.fingerprint) in own_schemas:
            continue
        if kind == "forget":
            _put_forget(found, action.forget)
        elif kind == "location":
            locations.append(action)
        else:
            for table in tables_of(action) or ():
                found.setdefault(table, []).append(action)
    for action in _fates(intent, written):
        item = getattr(action, str(action.WhichOneof("kind")))
        found.setdefault(item.table, []).append(action)
    if locations:  # beside the files that lie there
        found.setdefault(min(found, default=_NO_TABLE), [])[:0] = locations
    return found


def _written(intent: Intent) -> dict[str, wire.Add]:
    """The files that were written for an intent, by path, each as its footer tells it: of the table
    that it was written to, wherever it went from there."""
    own = {intent.transaction_id}
    found: dict[str, wire.Add] = {}
    for action in intent.actions:
        if action.WhichOneof("kind") == "add" and is_own_file(action.add.path, own):
            found.setdefault(action.add.path, action.add)
    return found


def _put_forget(found: dict[str, list[wire.Action]], forget: wire.Forget) -> None:
    """A `Forget` for each table. Applications have none, for times of commits don't come
    back; nor have schemas, for only a rebuild forgets one by one."""
    for table in forget.tables:
        found.setdefault(table, []).append(wire.Action(forget=wire.Forget(tables=[table])))


def _fates(intent: Intent, written: Mapping[str, wire.Add]) -> list[wire.Action]:
    """What becomes of files in the end, where footers don't tell."""
    named = set(intent.named)
    first: dict[tuple[str, str], str] = {}
    last: dict[tuple[str, str], wire.Action] = {}
    for action in intent.actions:
        kind = action.WhichOneof("kind")
        if kind in ("add", "remove"):
            item = getattr(action, kind)
            first.setdefault((item.table, item.path), kind)
            last[item.table, item.path] = action
    for action in adds_again(intent.again):
        last[action.add.table, action.add.path] = action
    stay = {path for (_, path), action in last.items() if action.WhichOneof("kind") == "add"}
    found = []
    for file, action in last.items():
        kind = action.WhichOneof("kind")
        is_own = file[1] in written and written[file[1]].table == file[0]
        if kind == "add" and not is_own:
            found.append(_without_row_groups(action))
        # What moves is told here as a whole: a footer that says half of it may be gone before. What
        # lies elsewhere was added by such an object, which may outlive any file.
        by_footer = file in named and file[1] not in stay and not is_in_place(file[1])
        is_told = kind == "remove" and not by_footer
        if is_told and (is_own or first[file] == "remove"):
            found.append(action)
    return found


def _without_row_groups(action: wire.Action) -> wire.Action:
    if not action.add.row_groups:
        return action
    add = wire.Add()
    add.CopyFrom(action.add)
    del add.row_groups[:]
    return wire.Action(add=add)
