"""What readers, writers and the command line ask of a state, and what must hold of every answer."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.format.names import check_path
from lakelog.catalog.format.wire_kinds import (
    APPLICATIONS,
    FILES,
    HISTORY,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
)
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.validate import validate
from lakelog.catalog.read.history_table import history_for_users
from lakelog.catalog.snapshot import Snapshot
from lakelog.errors import LakelogError
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import add_action, remove_action, schema_action

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from lakelog.catalog.log.state import State

STORE = MemoryStore("fuzz")
NEW = add_action("data/new.parquet")


def use(state: State, source: random.Random, spoiled: int = 0) -> set[str]:
    """Ask a state for some of its parts; one that is refused hinders no other.

    Args:
        spoiled: The kind of segment that is spoiled: rather those parts that read it.
    Returns:
        The types of errors by which parts were refused.
    """
    refused: set[str] = set()

    def ask(part: Callable[[], object]) -> object:
        try:
            return part()
        except LakelogError as error:
            refused.add(type(error).__name__)
            return None if str(error) else 1 / 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        snapshot = Snapshot(STORE, "db", [state], SYSTEM)
        names = ask(snapshot.tables) or ["t"]
        table = source.choice(names)
        ask(lambda: check_files(snapshot, table))
        parts = _of_table(snapshot, table) | _of_log(state)
        readers = READERS.get(spoiled) if source.random() < 0.8 else None
        for name in source.sample(sorted(readers or parts), 1):
            ask(parts[name])
    return refused


def check_files(snapshot: Snapshot, table: str) -> None:
    """The live files of a table keep the rules, whatever wrote them."""
    rows = snapshot.files(table)
    paths = rows["path"].to_pylist()
    for path in paths:
        check_path(path)
    assert len(set(paths)) == len(paths), "a path is live twice"
    for name in ("size_bytes", "row_count", "revision"):
        assert all(0 <= value < 1 << 62 for value in rows[name].to_pylist())


def _of_table(snapshot: Snapshot, table: str) -> dict[str, Callable[[], object]]:
    def statistics() -> None:
        for groups in (False, True):
            snapshot.statistics(table, row_groups=groups).to_pylist()

    return {
        "statistics": statistics,
        "details": lambda: snapshot.files(table, details=True).to_pylist(),
        "file parts": lambda: [str(part) for part in snapshot.file_parts(table)],
        "schema": lambda: (str(snapshot.schema(table)), snapshot.column_names(table)),
    }


def _of_log(state: State) -> dict[str, Callable[[], object]]:
    def history() -> None:
        found = state.history
        history_for_users(found.table(), "w").to_pylist()
        found.revision_at(1_700_000_000_000_000)
        assert list(found.newest_first())

    def whole() -> None:
        assert state.files.count >= 0
        state.files.live_among(["data/a.parquet"])
        validate(state.copy(), [schema_action(), NEW, remove_action("data/p/02.parquet")])

    def checkpoint() -> None:
        if not state.sealed_for:
            encode_state(state.copy())

    def applications() -> None:
        assert state.applications.version("app") >= -1
        state.applications.versions()

    return {
        "history": history, "whole": whole, "checkpoint": checkpoint, "applications": applications
    }  # fmt: skip


DESCRIBED = ("statistics", "statistics", "checkpoint")
READERS = {
    FILES: ("details", "whole", "checkpoint", "statistics"),
    ROW_GROUPS: DESCRIBED,
    STATISTICS: DESCRIBED,
    ROW_GROUP_STATISTICS: DESCRIBED,
    SCHEMAS: ("schema", "file parts", "checkpoint", "statistics"),
    APPLICATIONS: ("applications", "applications", "checkpoint"),
    HISTORY: ("history", "history", "checkpoint"),
}
