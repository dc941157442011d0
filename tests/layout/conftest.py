"""What the tests of the house look at: the files of the repository, and their syntax trees."""

from __future__ import annotations

import ast
from dataclasses import dataclass
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

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    def imports(self, *, typing_too: bool = True) -> set[str]:
        """Full names of all that is imported, wherever it stands; `from a import b` gives a.b."""
        tree = self.tree
        skipped = set() if typing_too else set(_typing_only(tree))
        found = set()
        for node in ast.walk(tree):
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


def _hidden(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(
        part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info")
        for part in parts
    )


def all_files(*suffixes: str) -> list[Path]:
    """Files of the repository with one of these endings, sorted; relative to its root."""
    found = []
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not _hidden(path) and path.name.endswith(suffixes):
            relative = path.relative_to(ROOT)
            if relative.parts[0] not in {"build", "dist", "demo-lake"}:
                found.append(relative)
    return found


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
