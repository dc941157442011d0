"""Patterns of LIKE: a text, or what a text begins with. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from .literals import NotThis


def prefix_of(pattern: str, escape: str | None) -> tuple[str, bool]:
    """What a pattern begins with, and whether more may follow.

    Raises:
        NotThis: It has a wildcard elsewhere, or a backslash, which escapes in some engines.
    """
    found: list[str] = []
    open_end, place = False, 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\" and escape is None:
            raise NotThis(
                "a backslash escapes in some engines and not in others; say ESCAPE '\\' if it does,"
                " or ESCAPE with another character if it doesn't"
            )
        if char == escape:
            place += 1
            if place == len(pattern) or pattern[place] not in ("%", "_", escape):
                raise NotThis("its escape character stands before nothing that it can escape")
            char = pattern[place]
        elif char == "_":
            raise NotThis("it has the wildcard _ (escape it: LIKE 'a$_b%' ESCAPE '$')")
        elif char == "%":
            open_end = True
            place += 1
            continue
        if open_end:
            raise NotThis("it has the wildcard % before its end")
        found.append(char)
        place += 1
    return "".join(found), open_end
