"""Which objects of actions are still needed: those of retained revisions, and those that say what
nothing else below `data/` says of the log as it is now. A rebuild of a log that is lost reads them.

What a definition, tombstone or schema says is needed while the log says it; what a removal says
while the file is there and not live; what adds a file while it is live; the version of an
application while it is the newest; and what forgets a table while anything else lies in its folder
that would bring it back.

Source: docs/format.md, sections 8.1 and 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.actions_object import decode_actions
from ..catalog.format.names import base_folder, escape_name, parse_actions_file
from ..catalog.log.lookup import files_with
from ..errors import CorruptObject
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..catalog.log.state import State
    from ..catalog.wire import lakelog_actions_pb2 as wire
    from ..store import ObjectInfo
    from .context import MaintenanceContext

_AT_ONCE: Final = 256
_NEEDED: Final = "needed: only this object says, below data/, what the log says of a table"


def of_retained(
    infos: Iterable[ObjectInfo], committed: Mapping[bytes, int], oldest: int
) -> set[str]:
    """Keys of the objects whose transactions retained revisions are.

    Args:
        committed: Revisions by transaction id.
    """
    found = set()
    for info in infos:
        name = parse_actions_file(info.key)
        if name is not None and committed.get(name.transaction_id, -1) >= oldest:
            found.add(info.key)
    return found


def keep_needed(
    context: MaintenanceContext,
    state: State,
    listed: Sequence[ObjectInfo],
    verdicts: Mapping[str, Verdict],
) -> dict[str, Verdict]:
    """The verdicts, with those objects of actions spared that are still needed.

    Args:
        state: Of the head.
        listed: All that lies below `data/`.
        verdicts: By key, of what no retained revision names.
    Raises:
        UnsupportedFeature: A later version wrote one: nobody knows what it is for.
    Requests: 1 GET for each such object that would go.
    """
    asked = [key for key, verdict in verdicts.items() if verdict.goes and parse_actions_file(key)]
    if not asked:
        return dict(verdicts)
    cut = len(base_folder(context.writer, context.database))
    there = {info.key[cut:] for info in listed}
    kept = dict(verdicts)
    forgetting: dict[str, set[str]] = {}  # tables that the others of them forget, by key
    for key, message in _messages(context, asked):
        if _is_needed(message, state, there):
            kept[key] = Verdict(False, _NEEDED)
        else:
            forgetting[key] = _forgotten(message)
    going = {key for key in forgetting if kept[key].goes}
    folders: dict[str, int] = {}
    for info in listed:
        if info.key not in going:
            folder = info.key.rsplit("/", 2)[-2]
            folders[folder] = folders.get(folder, 0) + 1
    for key, tables in forgetting.items():
        if any(folders.get(escape_name(table, "table")) for table in tables):
            kept[key] = Verdict(False, _NEEDED)
    return kept


def _messages(
    context: MaintenanceContext, keys: Sequence[str]
) -> Iterable[tuple[str, wire.ActionsObject]]:
    """What the objects say that can be read; of a damaged one nobody can learn anything."""
    for low in range(0, len(keys), _AT_ONCE):
        some = keys[low : low + _AT_ONCE]
        for key, body in zip(some, context.store.get_many(some), strict=True):
            try:
                if body is not None:
                    yield key, decode_actions(body, key)[1]
            except CorruptObject:
                continue


def _is_needed(message: wire.ActionsObject, state: State, there: Collection[str]) -> bool:
    """Whether an object says anything that counts now, but for what it forgets."""
    versions = state.applications.versions()
    if message.app_id and versions.get(message.app_id) == message.app_version:
        return True
    files: list[tuple[str, str, bool]] = []
    for action in message.actions:
        kind = action.WhichOneof("kind")
        if kind == "definition":
            entry = state.definitions.entries.get(message.table)
            said = action.definition.SerializeToString(deterministic=True)
            if entry is not None and entry.message == said:
                return True
        elif kind == "schema":
            if (message.table, action.schema.fingerprint) in state.schemas:
                return True
        elif kind == "tombstone":
            columns = action.tombstone.columns.SerializeToString(deterministic=True)
            said_now = {(t.predicate, t.columns) for t in state.deletes.of_table(message.table)}
            if (action.tombstone.predicate, columns) in said_now:
                return True
        elif kind in ("add", "remove"):
            files.append((message.table, getattr(action, kind).path, kind == "add"))
    live = files_with(state, [path for _, path, _ in files]) if files else None
    return live is not None and any(
        live.is_live(table, path) if adds else path in there and not live.is_live(table, path)
        for table, path, adds in files
    )


def _forgotten(message: wire.ActionsObject) -> set[str]:
    return {message.table for action in message.actions if action.WhichOneof("kind") == "forget"}
