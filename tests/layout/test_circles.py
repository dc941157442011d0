"""No module needs another that needs it, directly or round about; imports for types count too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# What stands in a circle today: only ever to be made shorter.
KNOWN_CIRCLES: set[frozenset[str]] = set()


def circles(needs: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one module, and modules that need themselves.

    After Tarjan, without recursion: a chain of imports may be long.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    found: set[frozenset[str]] = set()
    for root in needs:
        work = [] if root in number else [(root, iter(sorted(needs[root])))]
        while work:
            name, rest = work[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                open_ones.append(name)
            following = next((n for n in rest if n not in number or n in open_ones), None)
            if following is not None and following not in number:
                work.append((following, iter(sorted(needs.get(following, ())))))
            elif following is not None:
                lowest[name] = min(lowest[name], number[following])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    start = open_ones.index(name)
                    ring, open_ones[start:] = frozenset(open_ones[start:]), []
                    if len(ring) > 1 or name in needs.get(name, ()):
                        found.add(ring)
    return found


def needs_of(modules) -> dict[str, set[str]]:
    """By module, which modules it imports: `from . import a` needs a, `from .a import b` too."""
    names = {module.name for module in modules}
    packages = {module.name for module in modules if module.path.name == "__init__.py"}
    needs: dict[str, set[str]] = {}
    for module in modules:
        wanted = set()
        for name in module.imports():
            target = name if name in names else name.rpartition(".")[0]
            # A module of a package may take from the package only what loads without it.
            own_package = target in packages and module.name.startswith(target + ".")
            if target in names and not (own_package and name in names):
                wanted.add(target)
        needs[module.name] = wanted
    return needs


def test_no_modules_need_each_other(modules):
    assert circles(needs_of(modules)) == KNOWN_CIRCLES


def test_circles_are_found():
    assert circles({"a": "b", "b": "c", "c": "a", "d": "ad"}) == {
        frozenset("abc"),
        frozenset("d"),
    }
    assert circles({"a": "bc", "b": "d", "c": "d", "d": ""}) == set()
    assert circles({"a": "b", "b": "a", "c": "d", "d": "cb"}) == {frozenset("ab"), frozenset("cd")}
    long = {str(n): [str(n + 1)] for n in range(5_000)}
    assert circles(long) == set()
    assert circles({**long, "5000": ["0"]}) == {frozenset(map(str, range(5_001)))}
