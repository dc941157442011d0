"""What is asked of a table at a cut, and the live files that may have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..format import compute as pc
from ..format.columns import array
from ..log.files import in_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from ..log.files import Files
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class Asked(NamedTuple):
    """What of a table is asked for: rows that meet a filter, of one partition, of one writer; None:
    of any."""

    table: str
    found: RowFilter | None
    partition: str | None
    writer: str | None


def asked_rows(files: Files, asked: Asked, facts: TableFacts | None, *, whole: bool) -> pa.Table:
    """Of the live files of a table in one log those that are asked for.

    Args:
        facts: What is known of their columns, where rows are filtered.
        whole: All columns of FILES, instead of the core ones.
    """
    rows = files.table(asked.table, whole=whole)
    if asked.found is not None and facts is not None:
        from .skipping import kept_files

        rows = rows.filter(array(kept_files(facts, asked.found)))
    if asked.partition is None:
        return rows
    return pc.filter(rows, in_partition(rows, asked.partition))
