"""Who may know whom: cli, spark, maintenance -> gc, rebuild, replication -> plans -> catalog ->
store; and a pure core."""

from __future__ import annotations

# A module may import what stands below it, and its own package.
RANKS = {
    "errors": 0,
    "store": 1,
    "catalog": 2,
    "plans": 3,
    "progress": 3,
    "gc": 4,
    "rebuild": 4,
    "replication": 4,
    "maintenance": 5,
    "spark": 5,
    "cli": 6,
    "testing": 7,
}

# The same within catalog/, by folder; what lies beside the folders is below or above them all.
ROOMS = {
    "wire": 0,
    "ambient": 0,
    "margins": 0,
    "parallel": 0,
    "scalars": 0,
    "format": 1,
    "log": 2,
    "data": 2,
    "nesting": 2,
    "where": 2,
    "read": 3,
    "commit": 4,
    "engines": 4,
    "refs": 4,
    "snapshot": 5,
    "sql_session": 6,
    "changing": 5,
    "upkeep": 6,
    "catalog": 7,
}
# No store, no clock, no randomness, no threads: values in, values out.
PURE = ("format", "log", "where")
PURE_MAY_KNOW = {"wire", *PURE}
# What gives two runs different results, or reaches outside the process.
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "fsspec", "glob", "io", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "shutil", "signal", "socket", "subprocess", "tempfile",
    "threading", "time", "urllib", "uuid", "warnings",
}  # fmt: skip
HARMLESS = {"urllib.parse.unquote_to_bytes"}
VALUES_OF_STORES = {"lakelog.store.ObjectInfo"}  # what a listing said


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


# The face of a catalog: its methods import what they need when they are called.
FACES = {
    "lakelog.catalog.catalog": {"rebuild"},
    "lakelog.catalog.upkeep": {"plans", "maintenance"},
}


def test_layers_know_only_what_is_below_them(modules):
    wrong = []
    for module in modules:
        own = layer(module.name)
        if own is None:
            continue
        for name in module.imports():
            other = layer(name)
            if other in FACES.get(module.name, ()):
                continue
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

    return module.nodes


def _absolute(node) -> bool:
    import ast

    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] == "lakelog"
    return isinstance(node, ast.Import) and any(
        alias.name.split(".")[0] == "lakelog" for alias in node.names
    )


def room(name: str) -> str | None:
    """The folder of catalog/ that a name belongs to, or its module beside the folders."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["lakelog", "catalog"] and len(parts) > 2 else None


def test_the_folders_of_the_core_know_only_what_is_below_them(modules):
    wrong = []
    for module in modules:
        own = room(module.name)
        if own is None:
            continue
        for name in module.imports():
            other = room(name)
            if other is not None and other != own and ROOMS[other] >= ROOMS[own]:
                wrong.append(f"{module.path} imports {name}")
    assert not wrong


def pure_modules(modules):
    return [module for module in modules if room(module.name) in PURE]


def promises(module) -> bool:
    """Whether a module outside of the pure folders says that it is pure too."""
    import ast
    import re

    said = re.search(r"\bPure\b", ast.get_docstring(module.tree) or "")
    return bool(said) and room(module.name) not in PURE


def test_a_module_that_says_that_it_is_pure_is(modules):
    """Times may be values there: that nobody asks for the time is held for all modules."""
    promising = [module for module in modules if promises(module)]
    assert {"gc", "rebuild", "plans", "catalog"} <= {layer(module.name) for module in promising}
    assert not [
        f"{module.path} imports {name}"
        for module in promising
        for name in module.imports()
        if (layer(name) == "store" and name not in VALUES_OF_STORES)
        or name.split(".")[0] in IMPURE_MODULES - {"datetime"}
    ]


def test_every_pure_folder_has_modules(modules):
    assert {room(module.name) for module in pure_modules(modules)} == set(PURE)


def test_the_pure_folders_know_no_store_no_clock_no_randomness_and_no_threads(modules):
    wrong = []
    for module in pure_modules(modules):
        for name in module.imports():
            if name.startswith("lakelog."):
                good = layer(name) == "errors" or room(name) in PURE_MAY_KNOW
            else:
                good = name.split(".")[0] not in IMPURE_MODULES or name in HARMLESS
            if not good:
                wrong.append(f"{module.path} imports {name}")
    assert not wrong
