"""Which objects of actions are still needed: those of retained revisions, and those that say what
nothing else below `data/` says of the log as it is now. A rebuild of a log that is lost reads them.

What a definition, tombstone, schema or location says is needed while the log says it; what a
removal says while the file is there and not live, or, of one that lies elsewhere, while an object
says that it was added; what adds a file while it is live; the version of an application while it is
the newest; and what forgets a table while anything else lies in its folder that would bring it
back.

Source: docs/format.md, sections 8.1 and 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.actions_object import decode_actions
from ..catalog.format.folding import fold
from ..catalog.format.locations import is_in_place
from ..catalog.format.names import base_folder, escape_name, parse_actions_file
from ..catalog.log.lookup import files_with
from ..errors import CorruptObject
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..catalog.log.history import Row
    from ..catalog.log.state import State
    from ..catalog.wire import lakelog_actions_pb2 as wire
    from ..catalog.wire import lakelog_transaction_pb2 as transaction_wire
    from ..store import ObjectInfo
    from .context import MaintenanceContext

_File = tuple[str, str]  # table and path

_AT_ONCE: Final = 256
_NEEDED: Final = "needed: only this object says, below data/, what the log says of a table"
_UNREADABLE: Final = "damaged: what it says, and whether that is needed, can't be told"


def of_retained(
    infos: Iterable[ObjectInfo], committed: Mapping[bytes, Row], oldest: int
) -> set[str]:
    """Keys of the objects whose transactions retained revisions are.

    Args:
        committed: History rows by transaction id.
    """
    found = set()
    for info in infos:
        name = parse_actions_file(info.key)
        row = None if name is None else committed.get(name.transaction_id)
        if row is not None and row["revision"] >= oldest:
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
    Requests: 1 GET for each such object that would go; if any of them takes out a file that lies
        elsewhere, 1 GET more for each of its table, whether it goes or not.
    """
    asked = [key for key, verdict in verdicts.items() if verdict.goes and parse_actions_file(key)]
    if not asked:
        return dict(verdicts)
    cut = len(base_folder(context.writer, context.database))
    there = {info.key[cut:] for info in listed}
    kept = dict(verdicts)
    forgetting: dict[str, set[str]] = {}  # tables that the others of them forget, by key
    taking: dict[str, set[_File]] = {}  # files elsewhere that these take out
    for key, message in _messages(context, asked):
        if message is None:
            kept[key] = Verdict(False, _UNREADABLE)
        elif _is_needed(message, state, there):
            kept[key] = Verdict(False, _NEEDED)
        else:
            forgetting[key] = _forgotten(message)
            taking[key] = _taken_elsewhere(message, state)
    added = _added_of(context, listed, set().union(*taking.values()))
    needed = {key for key, files in taking.items() if files & added}
    forgetting = {key: tables for key, tables in forgetting.items() if key not in needed}
    needed |= _forget_what_is_left(listed, forgetting)
    return kept | dict.fromkeys(needed, Verdict(False, _NEEDED))


def _forget_what_is_left(
    listed: Sequence[ObjectInfo], forgetting: Mapping[str, set[str]]
) -> set[str]:
    """Keys of those objects of which anything lies in the folders of tables that they forget."""
    # What goes just now counts as left: a deletion that breaks off must not turn the order round.
    going = {key for key, tables in forgetting.items() if tables}
    folders = {_folder(info.key) for info in listed if info.key not in going}
    return {
        key
        for key, tables in forgetting.items()
        if any(escape_name(table, "table") in folders for table in tables)
    }


def _folder(key: str) -> str:
    """The name of the folder that an object lies in: of its table."""
    return key.rsplit("/", 2)[-2]


def _added_of(
    context: MaintenanceContext, listed: Sequence[ObjectInfo], files: set[_File]
) -> set[_File]:
    """Those of some files that lie elsewhere which an object of actions says were added: no listing
    tells whether they are there. One that goes just now counts, for the same reason as above; one
    that can't be read may say it of all files of its table.
    """
    by_folder: dict[str, set[_File]] = {}
    for table, path in files:
        by_folder.setdefault(fold(escape_name(table, "table")), set()).add((table, path))
    asked = [
        info.key
        for info in listed
        if by_folder and parse_actions_file(info.key) and fold(_folder(info.key)) in by_folder
    ]
    found: set[_File] = set()
    for key, message in _messages(context, asked):
        if message is None:
            found |= by_folder[fold(_folder(key))]
        else:
            adds = (action.add for action in message.actions if action.HasField("add"))
            found |= files.intersection((add.table, add.path) for add in adds)
    return found


def _messages(
    context: MaintenanceContext, keys: Sequence[str]
) -> Iterable[tuple[str, wire.ActionsObject | None]]:
    """What the objects say that are there; None of one that is damaged, or was read so."""
    for low in range(0, len(keys), _AT_ONCE):
        some = keys[low : low + _AT_ONCE]
        for key, body in zip(some, context.store.get_many(some), strict=True):
            if body is None:
                continue
            try:
                yield key, decode_actions(body, key)[1]
            except CorruptObject:
                yield key, None


def _is_needed(message: wire.ActionsObject, state: State, there: Collection[str]) -> bool:
    """Whether an object says anything that counts now, but for what it forgets."""
    versions = state.applications.versions()
    if message.app_id and versions.get(message.app_id) == message.app_version:
        return True
    return any(_counts(action, state) for action in message.actions) or _tells_of_files(
        message, state, there
    )


def _counts(action: transaction_wire.Action, state: State) -> bool:
    """Whether the log says the same as an action that is about no single file."""
    kind = action.WhichOneof("kind")
    if kind == "definition":
        entry = state.definitions.entries.get(action.definition.table)
        said = action.definition.SerializeToString(deterministic=True)
        return entry is not None and entry.message == said
    if kind == "schema":
        return (action.schema.table, action.schema.fingerprint) in state.schemas
    if kind == "location":
        return action.location.url in state.locations
    if kind == "tombstone":
        columns = action.tombstone.columns.SerializeToString(deterministic=True)
        said_now = state.deletes.of_table(action.tombstone.table)
        wanted = (action.tombstone.predicate, columns)
        return any((item.predicate, item.columns) == wanted for item in said_now)
    return False


def _tells_of_files(message: wire.ActionsObject, state: State, there: Collection[str]) -> bool:
    """Whether a file is live that it adds, or there and not live that it takes out."""
    files = [
        (getattr(action, kind).path, kind == "add")
        for action in message.actions
        if (kind := action.WhichOneof("kind")) in ("add", "remove")
    ]
    live = files_with(state, [path for path, _ in files]) if files else None
    return live is not None and any(
        live.is_live(message.table, path)
        if adds
        else path in there and not live.is_live(message.table, path)
        for path, adds in files
    )


def _forgotten(message: wire.ActionsObject) -> set[str]:
    return {message.table for action in message.actions if action.WhichOneof("kind") == "forget"}


def _taken_elsewhere(message: wire.ActionsObject, state: State) -> set[_File]:
    """Files that lie elsewhere, aren't live, and are taken out."""
    removals = (action.remove for action in message.actions if action.HasField("remove"))
    paths = [removal.path for removal in removals if is_in_place(removal.path)]
    live = files_with(state, paths) if paths else None
    return {
        (message.table, path)
        for path in paths
        if live is not None and not live.is_live(message.table, path)
    }
