"""What readers, writers and the command line ask of a state, and what must hold of every answer."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING

from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.format.names import check_path, escape_name
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    COUNTS,
    DEFINITIONS,
    FILES,
    HISTORY,
    ORDER,
    REFERENCES,
    ROW_DELETES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
    TOMBSTONES,
)
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.deletes import message_of
from lakelog.catalog.log.replay import validate
from lakelog.catalog.read.history_table import history_for_users
from lakelog.catalog.snapshot import Snapshot
from lakelog.errors import LakelogError
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import add_action, remove_action, schema_action

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    import pyarrow as pa
    from lakelog.catalog.log.state import State

Truth = dict[str, set[tuple[object, ...]]]
STORE = MemoryStore("fuzz")
NEW = add_action("data/new.parquet")


def use(
    state: State, source: random.Random, spoiled: int = 0, truth: Truth | None = None
) -> set[str]:
    """Ask a state for some of its parts; one that is refused hinders no other.

    Args:
        spoiled: The kind of segment that is spoiled: rather those parts that read it.
        truth: The live files by table, where what was spoiled can't have changed them.
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
        ask(lambda: check_files(snapshot, table, truth))
        parts = _of_table(snapshot, table) | _of_log(state)
        readers = READERS.get(spoiled) if source.random() < 0.8 else None
        for name in source.sample(sorted(readers or parts), 1):
            ask(parts[name])
    return refused


def live_files(snapshot: Snapshot, table: str) -> set[tuple[object, ...]]:
    """The live files of a table, in a form to compare."""
    rows = snapshot.files(table).select(["path", "size_bytes", "row_count", "revision"])
    return set(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def check_files(snapshot: Snapshot, table: str, truth: Truth | None = None) -> None:
    """The live files of a table keep the rules, whatever wrote them."""
    rows = snapshot.files(table)
    paths = rows["path"].to_pylist()
    for path in paths:
        check_path(path)
    assert len(set(paths)) == len(paths), "a path is live twice"
    for name in ("size_bytes", "row_count", "revision"):
        assert all(0 <= value < 1 << 62 for value in rows[name].to_pylist())
    assert truth is None or live_files(snapshot, table) == truth.get(table), "other files"


def check_rows(kind: int, table: pa.Table) -> None:
    """The rows of a decoded segment keep the rules of their columns, taken one by one."""
    for name in COUNTS[kind] & set(table.schema.names):
        values = table[name].to_pylist()  # those of statistics are worked with by name
        assert all(isinstance(value, str) or 0 <= value < 1 << 62 for value in values)
    if kind == FILES:
        for path, name in zip(table["path"].to_pylist(), table["table"].to_pylist(), strict=True):
            check_path(path)
            assert 0 < len(escape_name(name, "table").encode()) < 256
    if kind not in (APPLICATIONS, HISTORY, REFERENCES):
        columns = [table[name].to_pylist() for name in ORDER[kind]]
        keys = [
            tuple(one.encode() if isinstance(one, str) else one for one in row)
            for row in zip(*columns, strict=True)
        ]
        assert all(low < high for low, high in itertools.pairwise(keys)), "rows do not ascend"


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
        assert found.after(-1)

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

    def deletes() -> None:
        found = state.deletes
        for path in (path for some in found.objects() for path in some.to_pylist()):
            assert check_path(path).startswith("data/")
        for table in found.tombstones:
            for tombstone in found.of_table(table):
                assert message_of(tombstone).table == table
        for kind, rows in ((ROW_DELETES, found.row_rows()), (TOMBSTONES, found.tombstone_rows())):
            check_rows(kind, rows)

    return {
        "history": history, "whole": whole, "checkpoint": checkpoint, "applications": applications,
        "deletes": deletes, "definitions": lambda: state.definitions.rows(),
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
    DEFINITIONS: ("definitions", "schema", "file parts", "checkpoint"),
    ROW_DELETES: ("deletes", "file parts", "checkpoint"),
    TOMBSTONES: ("deletes", "file parts", "checkpoint"),
}
