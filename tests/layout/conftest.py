"""What the tests of the house look at: the files of the repository, and their syntax trees."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Never part of the package; the rest of what a checkout may hold begins with a dot or is ignored.
OUTSIDE = {
    "tests",
    "bench",
    "fixtures",
    "docs",
    "proto",
    "build",
    "dist",
    "demo-lake",
    "constraints",
}
GENERATED = ("_pb2.py", "_pb2.pyi")


@dataclass(frozen=True)
class Module:
    """One Python file of the package.

    Attributes:
        path: Relative to the root of the repository.
        name: As it is imported.
        package: The package that its relative imports start from.
    """

    path: Path
    name: str
    package: str

    @property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree."""
        return list(ast.walk(self.tree))

    def imports(self, *, typing_too: bool = True) -> set[str]:
        """Full names of all that is imported, wherever it stands; `from a import b` gives a.b."""
        skipped = set() if typing_too else set(_typing_only(self.tree))
        found = set()
        for node in self.nodes:
            if node in skipped:
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                found |= {f"{base}.{alias.name}" for alias in node.names}
        return found

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])


def _typing_only(tree: ast.Module) -> list[ast.AST]:
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            found += [inner for statement in node.body for inner in ast.walk(statement)]
    return found


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__" or name.endswith(".egg-info")


def all_files(*suffixes: str) -> list[Path]:
    """Files of the repository with one of these endings, sorted; relative to its root."""
    found = []
    for folder, inside, names in os.walk(ROOT):
        made = {"build", "dist", "demo-lake"} if Path(folder) == ROOT else set()
        inside[:] = [name for name in inside if not _hidden(name) and name not in made]
        paths = [Path(folder, name) for name in names if not _hidden(name)]
        found += [path for path in paths if path.name.endswith(suffixes) and path.is_file()]
    return sorted(path.relative_to(ROOT) for path in found)


def _module(path: Path) -> Module:
    parts = list(path.with_suffix("").parts)
    if parts[:2] == ["spark", "pyspark_lakelog"]:
        parts = parts[1:]
    else:
        parts = ["lakelog", *parts]
    if parts[-1] == "__init__":
        parts.pop()
        return Module(path, ".".join(parts), ".".join(parts))
    return Module(path, ".".join(parts), ".".join(parts[:-1]))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def python_files() -> list[Path]:
    """Every Python file, tests and benchmarks too, but for generated ones."""
    return [path for path in all_files(".py") if not path.name.endswith(GENERATED)]


@pytest.fixture(scope="session")
def modules(python_files: list[Path]) -> list[Module]:
    """Every module of the package, but for generated ones."""
    return [_module(path) for path in python_files if path.parts[0] not in OUTSIDE]


@pytest.fixture(scope="session")
def text_files() -> list[Path]:
    """Every file that people read or write."""
    endings = (".py", ".pyi", ".md", ".toml", ".proto", ".txt", ".yml", ".yaml", ".cfg", "Makefile")
    return all_files(*endings)
