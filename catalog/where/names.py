"""Which column a name in a predicate means. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from ...errors import some_names


def find_column(name: str, names: list[str], *, quoted: bool) -> int | str:
    """The place of the column that a name means, or why there is none.

    The exact spelling wins; a name without quotes also finds the only one that differs in case.
    """
    exact = [place for place, other in enumerate(names) if other == name]
    if len(exact) == 1:
        return exact[0]
    if exact:
        return f"several columns are called {name!r}"
    like = [place for place, other in enumerate(names) if other.lower() == name.lower()]
    if quoted or not like:
        hint = f"; there is {names[like[0]]!r}" if like else ""
        return f"there is no column {name!r}{hint} (columns: {some_names(names)})"
    if len(like) > 1:
        several = ", ".join(f'"{names[place]}"' for place in like)
        return f"{name!r} may be any of several columns that differ only in case: {several}"
    return like[0]
