"""Time and identity are injected: one module reads the clock or makes a random identity."""

from __future__ import annotations

import ast

BANNED = {
    "time.time",
    "time.time_ns",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "uuid.uuid1",
    "uuid.uuid4",
}
# The place itself; and test support, whose randomness comes from a seed.
CLOCK = "lakelog.catalog.ambient"
SEEDED = "lakelog.testing"


def used_names(module) -> set[str]:
    """Full names of what a module uses, `import datetime as dt` and the like looked through."""
    known: dict[str, str] = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                known[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found = set(known.values())
    for node in module.nodes:
        if isinstance(node, ast.Attribute):
            head, _, tail = ast.unparse(node).partition(".")
            if head in known:
                found.add(f"{known[head]}.{tail}")
    return found


def test_nothing_but_ambient_reads_the_clock_or_makes_an_identity(modules):
    wrong = []
    for module in modules:
        names = used_names(module)
        if module.name != CLOCK:
            wrong += [f"{module.path} uses {name}" for name in names & BANNED]
        if not module.name.startswith(SEEDED) and any(n.split(".")[0] == "random" for n in names):
            wrong.append(f"{module.path} uses random")
    assert not wrong


def test_the_test_sees_through_other_names(tmp_path, modules):
    class Fake:
        nodes = tuple(
            ast.walk(
                ast.parse(
                    "import datetime as dt\nfrom uuid import uuid4 as new\nimport time\n"
                    "dt.datetime.now(dt.UTC)\nnew()\ntime.time()\n"
                )
            )
        )

    assert used_names(Fake) >= {"datetime.datetime.now", "uuid.uuid4", "time.time"}
    (ambient,) = (module for module in modules if module.name == CLOCK)
    assert used_names(ambient) & BANNED
