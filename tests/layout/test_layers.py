"""Who may know whom: cli, spark -> gc, rebuild -> catalog -> store -> errors, and a pure core."""

from __future__ import annotations

import pytest

# A module may import what stands below it, and its own package.
RANKS = {
    "errors": 0,
    "store": 1,
    "catalog": 2,
    "gc": 3,
    "rebuild": 3,
    "spark": 4,
    "cli": 5,
    "testing": 6,
}

# No store, no clock, no randomness: values in, values out.
PURE = {
    "admission",
    "arguments",
    "build",
    "checkpoint",
    "codec",
    "cut",
    "fencing",
    "files",
    "footer",
    "frame",
    "history",
    "ipc",
    "ipc_guard",
    "listing",
    "margins",
    "names",
    "outcome",
    "path_check",
    "path_index",
    "schema",
    "segments",
    "state",
    "statistics",
}
# The shell around it. A new module of catalog/ has to say which it is.
SHELL = {
    "__init__",
    "ambient",
    "checkpointing",
    "commit",
    "footer_child",
    "footer_parse",
    "footer_pool",
    "footer_scan",
    "frames",
    "group",
    "log",
    "lost_log",
    "parallel",
    "parquet",
    "reader",
    "scan",
    "slot",
    "snapshot",
    "transaction",
    "writer",
    "zones",
}
# Pure but for running a pure function on several segments at a time.
PURE_MAY_USE = {"parallel"}
# What gives two runs different results, or reaches outside the process.
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "fsspec", "glob", "io", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "shutil", "signal", "socket", "subprocess", "tempfile",
    "threading", "time", "urllib", "uuid", "warnings",
}  # fmt: skip
HARMLESS = {"urllib.parse.unquote_to_bytes"}


def layer(name: str) -> str | None:
    """The layer that a name of ours belongs to; None for what isn't ours or is the root."""
    parts = name.split(".")
    if parts[0] == "pyspark_lakelog":
        return "spark"
    if parts[0] != "lakelog" or len(parts) < 2:
        return None
    return parts[1] if parts[1] in RANKS else None


def test_every_module_has_a_layer(modules):
    roots = {"lakelog", "lakelog.__main__"}
    unknown = [m.name for m in modules if layer(m.name) is None and m.name not in roots]
    assert not unknown


def test_layers_know_only_what_is_below_them(modules):
    wrong = []
    for module in modules:
        own = layer(module.name)
        if own is None:
            continue
        for name in module.imports():
            other = layer(name)
            if other is not None and other != own and RANKS[other] >= RANKS[own]:
                wrong.append(f"{module.path} imports {name}")
    assert not wrong


def test_the_root_loads_nothing_but_errors_until_it_is_asked(modules):
    (root,) = (m for m in modules if m.name == "lakelog")
    names = root.imports(typing_too=False)
    assert {layer(name) for name in names} <= {None, "errors"}


def test_within_the_package_imports_are_relative(modules):
    """They resolve for every tool, whatever the checkout is called."""
    wrong = [
        f"{module.path}:{node.lineno}"
        for module in modules
        if module.name.startswith("lakelog")
        for node in _walk(module)
        if _absolute(node)
    ]
    assert not wrong


def _walk(module):
    import ast

    return ast.walk(module.tree)


def _absolute(node) -> bool:
    import ast

    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] == "lakelog"
    return isinstance(node, ast.Import) and any(
        alias.name.split(".")[0] == "lakelog" for alias in node.names
    )


def catalog_modules(modules):
    return {
        module.path.stem: module for module in modules if module.path.parent.as_posix() == "catalog"
    }


def test_every_module_of_the_core_says_whether_it_is_pure(modules):
    assert set(catalog_modules(modules)) == PURE | SHELL
    assert not PURE & SHELL


@pytest.mark.parametrize("name", sorted(PURE))
def test_the_pure_part_knows_no_store_no_clock_and_no_randomness(modules, name):
    module = catalog_modules(modules)[name]
    for found in module.imports(typing_too=False):
        parts = found.split(".")
        assert layer(found) in (None, "errors", "catalog"), found
        if parts[0] != "lakelog":
            assert parts[0] not in IMPURE_MODULES or found in HARMLESS, found
        elif layer(found) == "catalog" and parts[2] not in ("wire", *PURE):
            # `from . import segments` gives the module; `from .x import y` gives x.
            assert parts[2] in PURE_MAY_USE, found
