"""Which operation a transaction is, and whether it does what its operation says. Pure.

Source: docs/format.md, section 10; docs/changing.md, "Operations".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import LakelogError, OperationInvalid
from ..format.segments import MAX_NUMBER
from .lookup import files_with, rows_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..wire import lakelog_transaction_pb2 as wire
    from .files import Files
    from .state import State


# What is told of a transaction in so many words: its actions don't show it.
_TOLD: Final = frozenset({"overwrite", "rewrite", "row_delta"})
HIDES: Final = frozenset({"tombstone", "row_deletes"})  # kinds of actions by which rows go
# What a transaction may become that was asked for one of these.
_MAY_BECOME: Final[dict[str, frozenset[str]]] = {
    "append": frozenset({"append", "overwrite", "row_delta"}),
    "delete": frozenset({"delete", "overwrite", "row_delta"}),
    "overwrite": frozenset({"overwrite"}),
    "rewrite": frozenset({"rewrite", "overwrite"}),
    "row_delta": frozenset({"row_delta", "overwrite"}),
    "maintenance": frozenset({"append", "delete", "overwrite", "rewrite", "row_delta"}),
}
# What may be asked of a transaction that was declared to be one; of others all.
_MAY_ASK: Final[dict[str, frozenset[str]]] = {
    "append": frozenset({"append"}),
    "delete": frozenset({"delete"}),
    "rewrite": frozenset({"append", "delete", "rewrite"}),
    "row_delta": frozenset({"append", "delete", "row_delta"}),
    "maintenance": frozenset({"append", "delete", "rewrite", "maintenance"}),
}


_UNWANTED: Final[dict[str, dict[str, str]]] = {
    "append": {"remove": "removes", "tombstone": "deletes", "row_deletes": "deletes"},
    "delete": {"add": "adds"},
    "rewrite": {"tombstone": "deletes", "row_deletes": "deletes"},
}


def inferred(actions: Iterable[wire.Action], asked: Collection[str] = ()) -> str:
    """The operation that some actions are.

    Args:
        asked: What was asked for by name: `append` for any data that comes, `delete` for files that
            go.
    """
    kinds = {action.WhichOneof("kind") for action in actions}
    if set(asked) == {"rewrite"}:
        return "rewrite"
    if "row_delta" in asked and set(asked) <= {"row_delta", "append", "delete"}:
        return "row_delta"
    if not _TOLD.isdisjoint(asked):
        return "overwrite"
    if "add" in kinds and not kinds.isdisjoint(HIDES):
        return "row_delta"
    if not kinds.isdisjoint({"remove", *HIDES}):
        return "overwrite" if "add" in kinds else "delete"
    return "append" if "add" in kinds else "maintenance"


def as_written(asked: Collection[str], *, removes: bool) -> str:
    """Returns the operation of a transaction that adds a file, if it is known by then; `removes`:
    it has taken out files."""
    found = inferred((), asked)
    return found if found != "maintenance" else "overwrite" if removes else "append"


def reachable(asked: Collection[str]) -> frozenset[str]:
    """The operations that a transaction can still be for which some were asked by name."""
    found = frozenset().union(*_MAY_BECOME.values())
    for name in asked:
        found &= _MAY_BECOME[name]
    return found


def check_asked(declared: str, operation: str) -> None:
    """Raises `OperationInvalid` if a transaction was `declared` to be something else."""
    if operation not in _MAY_ASK.get(declared, _MAY_BECOME):
        does = {"append": "adds", "delete": "removes"}.get(operation, f"is asked for {operation}")
        raise OperationInvalid(
            f"The transaction is declared as {declared}, and {does}",
            key=declared,
            hint="Nothing was changed. Begin it with operation='overwrite', or with none, which is "
            "seen from the changes",
        )


def check_kinds(operation: str, actions: Sequence[wire.Action]) -> None:
    """Raises `OperationInvalid`, with table and figures, for an append that removes or deletes
    rows, a delete that adds, or a rewrite that deletes rows."""
    for unwanted, does in _UNWANTED.get(operation, {}).items():
        found = [getattr(a, unwanted) for a in actions if a.WhichOneof("kind") == unwanted]
        if not found:
            continue
        files = "1 file" if len(found) == 1 else f"{len(found):,} files"
        files = "rows" if unwanted in HIDES else files
        raise OperationInvalid(
            f"The transaction is declared as {operation}, and {does} {files} of table "
            f"{found[0].table!r}",
            key=found[0].table,
            hint="Nothing was committed. Begin it with operation='overwrite', or with none, which "
            "is seen from the changes",
        )


def check_rows(
    state: State, operation: str, actions: Sequence[wire.Action], *, hidden: Collection[str] = ()
) -> None:
    """Refuse a rewrite that loses or adds rows, in any table. The other operations may.

    Args:
        hidden: Tables of which rows were hidden when the others were written anew, and held against
            each other.
    Raises:
        OperationInvalid: It does; names the table and the figures.
        CorruptError: A piece of files that it takes out is damaged.
    """
    if operation != "rewrite":
        return
    by_table: dict[str, list[wire.Action]] = {}
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind in ("add", "remove"):
            by_table.setdefault(getattr(action, kind).table, []).append(action)
    for table, changes in by_table.items():
        added = sum(a.add.row_count for a in changes if a.WhichOneof("kind") == "add")
        if table in hidden:
            continue  # these stay away
        removed = rows_removed(state, changes) if _removes(changes) else 0
        if removed is None:
            continue  # a file that isn't live: told by who looks for it
        if added != removed or not _removes(changes):
            raise OperationInvalid(
                f"The rewrite of table {table!r} takes out files of {removed:,} rows and puts in "
                f"files of {added:,} rows",
                key=table,
                hint="Nothing was committed. A rewrite keeps every row; what changes rows is an "
                "overwrite",
            )


def _removes(actions: Iterable[wire.Action]) -> bool:
    return any(action.WhichOneof("kind") == "remove" for action in actions)


# --- The summary of a commit ----------------------------------------------------------------------

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
    """Returns what a commit said of itself, from a summary in HISTORY, whose values may be any
    text."""
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
    """Returns the number of rows of the files that some actions remove; None if they remove none,
    or one is not live. Raises `CorruptError` if a piece of these files is damaged."""
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
