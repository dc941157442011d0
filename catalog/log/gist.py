"""What a commit says of itself for the history, where it is known best: the tables that it touches,
and how many rows it removes. Pure.

It stands among the words of the summary, under keys that are lakelog's own: information, which
nothing depends on.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import LakelogError
from ..format.segments import MAX_NUMBER
from .lookup import files_with, rows_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..wire import lakelog_transaction_pb2 as wire
    from .files import Files
    from .state import State

PREFIX: Final = "lakelog."
_TABLES: Final = PREFIX + "tables"
_TABLE_COUNT: Final = PREFIX + "table_count"
_ROWS_REMOVED: Final = PREFIX + "rows_removed"
_DEFINED: Final = PREFIX + "defined"
_ROWS_REWRITTEN: Final = PREFIX + "rows_rewritten"
_WHERE: Final = PREFIX + "where"
_WHERE_CHARS: Final = 1_000
# The token that a commit goes back to, or prepares to: people see them.
RESTORE: Final = PREFIX + "restore"
KEEPS: Final = PREFIX + "keeps"
_SHOWN: Final = {RESTORE, KEEPS}
NAMED: Final = 8  # tables: a commit may touch a hundred thousand


class Gist(NamedTuple):
    """What a commit says of itself; None: it doesn't.

    Attributes:
        tables: The first of those that it touches, in the order of its actions.
        table_count: How many these are in all.
        rows_removed: Rows of the files that it takes out.
        words: The rest of its summary, as JSON.
        rows_rewritten: How many of these rows stand, as they were, in files that it adds.
        where: Which rows it replaces, if it is an overwrite.
    """

    tables: list[str] | None
    table_count: int | None
    rows_removed: int | None
    words: str | None
    rows_rewritten: int | None = None
    where: str | None = None


def say_rewritten(summary: dict[str, str], rows: int, where: str | None = None) -> None:
    """Say in a member's summary what its actions don't show.

    Args:
        rows: How many more rows of files that it takes out stand in files that it adds.
        where: Which rows it replaces; what was said before is kept.
    """
    summary[_ROWS_REWRITTEN] = str(int(summary.get(_ROWS_REWRITTEN, "0")) + rows)
    if where is not None:
        _say_where(summary, where)


def _say_where(summary: dict[str, str], where: str) -> None:
    words = "; ".join(text for text in (summary.get(_WHERE), where) if text)
    summary[_WHERE] = words if len(words) <= _WHERE_CHARS else words[: _WHERE_CHARS - 1] + "…"


def gist_of(
    state: State, actions: Sequence[wire.Action], tables: Sequence[str] = ()
) -> dict[str, str]:
    """Returns the words for the summary of actions that are about to be committed onto a state.

    They are information: rows that can't be counted are left out, and refuse no commit.

    Args:
        tables: Touched in addition to those of the actions.
    """
    said: dict[str, str] = {}
    touched = list(dict.fromkeys((*_touched(actions), *tables)))
    if touched:
        said[_TABLES] = json.dumps(touched[:NAMED], ensure_ascii=False)
        said[_TABLE_COUNT] = str(len(touched))
    defined = [a.definition.table for a in actions if a.WhichOneof("kind") == "definition"]
    if defined:
        said[_DEFINED] = json.dumps(list(dict.fromkeys(defined))[:NAMED], ensure_ascii=False)
    try:
        removed = rows_removed(state, actions)
    except LakelogError:  # a damaged piece of files, or one that the store doesn't give
        removed = None
    if removed is not None:
        said[_ROWS_REMOVED] = str(min(removed, MAX_NUMBER - 1))
    return said


def read_gist(summary: Mapping[str, str]) -> Gist:
    """What a commit said of itself.

    Args:
        summary: Of HISTORY. Its values may be any text.
    """
    words = {k: v for k, v in summary.items() if not k.startswith(PREFIX) or k in _SHOWN}
    return Gist(
        _names(summary.get(_TABLES)),
        _count(summary.get(_TABLE_COUNT)),
        _count(summary.get(_ROWS_REMOVED)),
        json.dumps(words, sort_keys=True, ensure_ascii=False) if words else None,
        _count(summary.get(_ROWS_REWRITTEN)),
        summary.get(_WHERE),
    )


def defined_in(summary: Mapping[str, str]) -> list[str]:
    """The first of the tables whose columns a commit changes, as it says."""
    return _names(summary.get(_DEFINED)) or []


def _names(text: Any) -> list[str] | None:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return None
    is_sound = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return found if is_sound else None


def _count(text: Any) -> int | None:
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    return int(text) if int(text) < MAX_NUMBER else None


def _touched(actions: Iterable[wire.Action]) -> Iterable[str]:
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind in ("add", "remove", "schema", "definition", "tombstone", "row_deletes"):
            yield getattr(action, kind).table
        elif kind == "forget":
            yield from action.forget.tables
            yield from (item.table for item in action.forget.schemas)


def rows_removed(state: State, actions: Iterable[wire.Action]) -> int | None:
    """Returns the rows of the files that some actions remove; None if they remove none, or one of
    the files is not live.

    Raises:
        CorruptError: A piece of these files is damaged.
    """
    added: dict[tuple[str, str], int] = {}
    wanted: list[tuple[str, str]] = []
    total = count = 0
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind == "add":
            added[action.add.table, action.add.path] = action.add.row_count
        elif kind == "remove":
            count += 1
            file = (action.remove.table, action.remove.path)
            if file in added:
                total += added.pop(file)
            else:
                wanted.append(file)
    if not count:
        return None
    if wanted:
        found = _rows_of(files_with(state, [path for _, path in wanted]), wanted)
        if found is None:
            return None
        total += found
    return total


def _rows_of(files: Files, wanted: Iterable[tuple[str, str]]) -> int | None:
    """Rows of some live files; None: one is not there."""
    by_table: dict[str, list[str]] = {}
    for table, path in wanted:
        by_table.setdefault(table, []).append(path)
    found = [rows_in(files, table, paths) for table, paths in by_table.items()]
    known = [rows for rows in found if rows is not None]
    return sum(known) if len(known) == len(found) else None
