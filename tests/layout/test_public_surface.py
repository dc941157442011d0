"""What users may rely on: the public names of the faces, written out. What is behind them isn't."""

from __future__ import annotations

import ast
import inspect
import textwrap

import lakelog
import pytest

SURFACE = {
    "Catalog": {
        "ambient", "changes", "check", "checkpoint", "compact", "databases", "delete", "drop",
        "evolve", "find_tag", "gc", "history", "maintain", "margins", "policy", "prune", "publish",
        "published", "remove", "repair", "restore", "set_policy", "snapshot", "store",
        "tag", "tags", "untag", "update", "url", "wide", "writer", "writers",
    },
    "Snapshot": {
        "column_names", "cut", "database", "dataset", "diff", "explain", "file_list",
        "file_parts", "files",
        "judged", "key", "plain_parts", "refresh", "row_filter",
        "scan", "schema", "statistics", "tables", "to_arrow", "to_duckdb", "to_pandas", "to_polars",
        "token", "without_conflicts",
    },
    "Transaction": {
        "add", "add_all", "append", "commit", "commit_info", "delete", "discard", "evolve",
        "overwrite", "plan_overwrite", "remove", "rewrite", "row_delta", "transaction_id", "update",
        "upsert", "write",
    },
    "Writer": {
        "adopt_name", "capabilities", "checkpoint", "close", "database", "epoch", "forget",
        "last_checkpoint", "revision", "transaction", "writer_id",
    },
}  # fmt: skip


def surface(name: str) -> set[str]:
    """Public methods and attributes, those that `__init__` sets included."""
    kind = getattr(lakelog, name)
    init = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))
    stores = [node for node in ast.walk(init) if isinstance(node, ast.Attribute)]
    found = {node.attr for node in stores if isinstance(node.ctx, ast.Store)}
    found |= {word for each in kind.__mro__ if each is not object for word in vars(each)}
    return {word for word in found if not word.startswith("_")}


@pytest.mark.parametrize("name", SURFACE)
def test_a_face_shows_what_is_written_here_and_nothing_else(name):
    assert surface(name) == SURFACE[name]


@pytest.mark.parametrize("name", SURFACE)
def test_what_a_face_shows_is_told(name):
    """In its docstring, or in its own."""
    kind = getattr(lakelog, name)
    for word in SURFACE[name]:
        own = getattr(getattr(kind, word, None), "__doc__", None)
        assert own or word in (kind.__doc__ or ""), f"{name}.{word}"
