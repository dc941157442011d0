"""SQL text of a predicate parsed by sqlglot, and the places of its parts for messages. Pure.

The dialect is DuckDB's: double quotes for names, single ones for texts, in which a backslash is
nothing but a backslash, as in the standard; and a predicate can be tried in DuckDB. It lacks
binary literals, X'ff', which DuckDB reads too.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ...errors import InvalidPredicate

# Python's own stack is what ends: sqlglot takes 23 of its 1,000 frames for a parenthesis.
MAX_DEPTH: Final = 32
MAX_CHARS: Final = 4_000_000
_HINT = (
    "Write comparisons (=, <>, <, <=, >, >=) of a column with a literal, IN, BETWEEN, LIKE 'abc%', "
    "IS [NOT] NULL, and AND, OR, NOT between them; put names that are words of SQL in double quotes"
)
_OPENING: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_DEEPER: Final = {*_OPENING, TokenType.NOT, TokenType.DASH, TokenType.CASE}
_CLOSING: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


class _Dialect(DuckDB):
    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Source:
    """Where a predicate stands, for messages.

    Attributes:
        text: The predicate as it was given.
        table: The table that it is for.
    """

    text: str
    table: str

    def error(self, what: str, node: exp.Expr | int | None = None, hint: str = _HINT) -> Exception:
        """An error about a part of the text: what was found, where, and what to write instead."""
        at = node if isinstance(node, int) or node is None else place(node)
        where = "" if at is None else f" at character {at + 1} ({self.excerpt(at)!r})"
        message = f"The predicate for table {self.table!r} can't be used: {what}{where}"
        return InvalidPredicate(message, key=self.table, hint=hint)

    def excerpt(self, at: int) -> str:
        """A few words of the text from a place on."""
        rest = self.text[at : at + 40]
        return rest if len(self.text) - at <= 40 else rest + "…"


def place(node: exp.Expr) -> int | None:
    """Where a node begins in the text, as far as sqlglot knows: its first part that has a place,
    or that of the node around it."""
    around: exp.Expr | None = node
    while around is not None:
        found: list[int] = []
        left: list[exp.Expr] = [around]
        while left:
            item = left.pop()
            if "start" in item.meta:
                found.append(item.meta["start"])
            left.extend(item.iter_expressions())
        if found:
            return min(found)
        around = around.parent
    return None


def parse_expression(source: Source) -> exp.Expr:
    """The syntax tree of a predicate.

    Raises:
        InvalidPredicate: It is no single expression, or too deep.
    """
    text = source.text
    if len(text) > MAX_CHARS:
        raise source.error(f"it has over {MAX_CHARS:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise source.error("it has half a character (a lone surrogate)", error.start) from error
    dialect = _Dialect()
    try:
        tokens = dialect.tokenize(text)
        _check(tokens, source)
        parsed = dialect.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _wrong(error, source) from error
    except SqlglotError as error:
        raise source.error("a quote or a comment doesn't end, or a literal is not one") from error
    except RecursionError as error:
        raise _too_deep(source) from error
    if len(parsed) != 1 or parsed[0] is None:
        raise source.error("it is empty" if not tokens else "it is more than one expression")
    return parsed[0]


def _check(tokens: list[Token], source: Source) -> None:
    """Raise unless what sqlglot would read in silence is what it says."""
    depth, parts = 0, [0]
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.SEMICOLON:
            raise source.error("there is a ;", token.start)
        if kind is TokenType.HEX_STRING and source.text[token.start] == "0":
            raise source.error(
                "there is a hexadecimal number", token.start, "Write it as a decimal number"
            )
        if kind in _DEEPER:
            depth += 1
            if kind in _OPENING:
                parts.append(depth)
            if depth > MAX_DEPTH:
                raise _too_deep(source)
        elif kind in _CLOSING:
            depth = max(parts.pop() - 1, 0) if len(parts) > 1 else 0
        elif kind in (TokenType.AND, TokenType.OR, TokenType.COMMA):
            depth = parts[-1]


def _too_deep(source: Source) -> Exception:
    return source.error(
        f"it is nested too deeply (more than {MAX_DEPTH} parentheses and NOTs inside each other, "
        "or too deep for Python's stack)",
        hint="Leave out parentheses: a OR b OR c needs none; or write a list, x IN (1, 2, 3)",
    )


def _wrong(error: ParseError, source: Source) -> Exception:
    said = error.errors[0] if error.errors else {}
    what = str(said.get("description") or "it is no expression")
    if what.startswith("Required keyword"):
        what = "something is missing"
    line, column = said.get("line"), said.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return source.error(what)
    start = sum(len(part) for part in source.text.splitlines(keepends=True)[: line - 1])
    at = start + column - len(str(said.get("highlight") or " "))
    return source.error(what, min(max(at, 0), len(source.text)))
