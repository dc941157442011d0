"""A predicate in SQL bound to the schema of a table: names to columns, literals to values. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from .tree import Predicate


def parse_where(text: str, schema: pa.Schema, table: str) -> Predicate:
    """The tree of a predicate.

    Args:
        text: A boolean expression in SQL.
        schema: Of the table, in the cut that is read.
        table: Its name, for messages.
    Raises:
        InvalidPredicate: It is not in the language of predicates, or doesn't fit the table. Says
            what was found, where, and what can be written instead.
    """
    from .bind import bind  # sqlglot takes a while to load
    from .grammar import Source

    return bind(Source(text, table), schema)


def columns_in(text: str, schema: pa.Schema, table: str) -> list[str]:
    """The columns that a sound predicate names, whether or not what it says depends on them."""
    from .bind import columns_named
    from .grammar import Source

    return columns_named(Source(text, table), schema)
