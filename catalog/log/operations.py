"""Which operation a transaction is, and whether it does what its operation says. Pure.

Source: docs/format.md, section 10; docs/changing.md, "Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import OperationInvalid
from .gist import rows_removed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..wire import lakelog_transaction_pb2 as wire
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
    """The operation of a transaction that adds a file, as far as it is known by then.

    Args:
        removes: Whether it has taken out files.
    """
    found = inferred((), asked)
    return found if found != "maintenance" else "overwrite" if removes else "append"


def reachable(asked: Collection[str]) -> frozenset[str]:
    """The operations that a transaction can still be for which some were asked by name."""
    found = frozenset().union(*_MAY_BECOME.values())
    for name in asked:
        found &= _MAY_BECOME[name]
    return found


def check_asked(declared: str, operation: str) -> None:
    """Refuse to do in a transaction what it was declared not to be.

    Args:
        declared: What it was begun as; empty: nothing was said.
    Raises:
        OperationInvalid: It was declared otherwise.
    """
    if operation not in _MAY_ASK.get(declared, _MAY_BECOME):
        does = {"append": "adds", "delete": "removes"}.get(operation, f"is asked for {operation}")
        raise OperationInvalid(
            f"The transaction is declared as {declared}, and {does}",
            key=declared,
            hint="Nothing was changed. Begin it with operation='overwrite', or with none, which is "
            "seen from the changes",
        )


def check_kinds(operation: str, actions: Sequence[wire.Action]) -> None:
    """Refuse actions that an operation has not.

    Raises:
        OperationInvalid: An append that removes or deletes rows, a delete that adds, a rewrite that
            deletes rows; names table and figures.
    """
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
