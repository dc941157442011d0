"""What is asked of a table at a cut, and the live files that may have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ..data.file_part import FilePart
from ..data.unify import shown
from ..format import compute as pc
from ..format.columns import array, column, empty_table, numbers, one_chunk, text_scalar
from ..format.names import base_folder
from ..log.part import in_partition
from .file_parts import key_column, urls_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...store import Store
    from ..data.file_part import BloomPlace
    from ..data.unify import Shown
    from ..log.files import Files
    from ..log.state import State
    from .cut_tables import CutTables
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class Asked(NamedTuple):
    """What of a table is asked for: rows that meet a filter, of one partition, of one writer; None:
    of any."""

    table: str
    found: RowFilter | None
    partition: str | None
    writer: str | None


def held(tables: CutTables, state: State, asked: Asked) -> tuple[Files, TableFacts | None]:
    """The files of a table in one log; and what is known of them, where rows are filtered."""
    if asked.found is None:
        return tables.table_of(state, asked.table, asked.partition)[0], None
    facts = tables.facts_of(state, asked.table, asked.partition)
    return facts.files, facts


def asked_rows(files: Files, asked: Asked, facts: TableFacts | None, *, whole: bool) -> pa.Table:
    """Of the live files of a table in one log those that are asked for.

    Args:
        facts: What is known of their columns, where rows are filtered.
        whole: All columns of FILES, instead of the core ones.
    """
    rows = files.table(asked.table, whole=whole)
    if asked.found is not None and facts is not None:
        rows = pc.filter(rows, array(kept_files(facts, asked.found)))
    if asked.partition is None:
        return rows
    return pc.filter(rows, in_partition(rows, asked.partition))


def asked_groups(
    asked: Asked, facts: TableFacts | None, rows: pa.Table
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[BloomPlace, ...]]]:
    """By path the row groups to be read, where some can be skipped, and the bloom filters that may
    say more of them.

    Args:
        rows: Of `asked_rows`, whole.
    """
    if asked.found is None or facts is None:
        return {}, {}
    from .blooms import bloom_places

    return kept_row_groups(facts, asked.found), bloom_places(facts, asked.found, rows)


def by_blooms(store: Store, parts: list[FilePart], asked: Asked) -> Iterable[FilePart]:
    """The files that bloom filters leave, which are asked as these are consumed."""
    if asked.found is None or not any(part.blooms for part in parts):
        return parts
    from .blooms import sifted

    return sifted(store, parts, asked.found)


def kept_files(facts: TableFacts, wanted: RowFilter, *, proven: bool = False) -> np.ndarray:
    """Which live files of a table may hold rows that are asked for.

    Args:
        proven: As for `Units.by_schema`.
    Returns:
        A mask over the rows of `Files.table(table)`, in its order.
    Requests: as `TableFacts.of_files`.
    """
    masks = [np.zeros(0, np.bool_)]
    for source in facts.of_files(wanted.target.names):
        masks.append(source.units.judge(wanted, proven=proven).true[source.live])
    return np.concatenate(masks)


def kept_row_groups(facts: TableFacts, wanted: RowFilter) -> dict[str, tuple[int, ...]]:
    """Which row groups of live files may hold rows that are asked for.

    Returns:
        By path, in file order, for files of which some can be skipped and all are known.
    Requests: as `TableFacts.of_row_groups`.
    """
    kept: dict[str, tuple[int, ...]] = {}
    for source in facts.of_row_groups(wanted.target.names):
        groups = source.row_groups
        assert groups is not None
        if not len(groups.places):
            continue
        true = groups.units.judge(wanted).true
        some = np.unique(groups.places[~true])
        paths = source.files.column("path").take(array(some)).to_pylist()
        for place, path in zip(some.tolist(), paths, strict=True):
            first, last = np.searchsorted(groups.places, [place, place + 1])
            kept[path] = tuple(groups.numbers[first:last][true[first:last]].tolist())
    return kept


# --- The files as columns: a million of them is an array operation --------------------------------

LISTED: Final = pa.schema(
    {
        "key": pa.string(),
        "url": pa.string(),
        "size_bytes": pa.int64(),
        "row_count": pa.int64(),
        "footer_bytes": pa.int64(),
        "footer_digest": pa.binary(8),
        "partition": pa.string(),
        "form": pa.int32(),
        "writer": pa.string(),
    }
)
_AS_HELD: Final = ("size_bytes", "row_count", "footer_bytes", "footer_digest", "partition")


@dataclass(frozen=True)
class FileList:
    """Files of which no row is hidden, in no order.

    Attributes:
        rows: The columns of `LISTED`: the object's key; its URL as an engine opens it; exact size
            and number of rows; length and digest of the footer (0 and zeros: unknown); partition;
            number of its form; its writer.
        forms: What files show, by that number.
        hidden: Keys of the table's other files, of which rows may be hidden.
    """

    rows: pa.Table
    forms: Sequence[Shown]
    hidden: Sequence[str] = ()

    def parts(self) -> Iterator[FilePart]:
        """The same files one by one."""
        names = (
            "key", "size_bytes", "row_count", "footer_bytes", "footer_digest", "partition",
            "writer", "form",
        )  # fmt: skip
        columns = (self.rows.column(name).to_pylist() for name in names)
        for *known, partition, writer, form in zip(*columns, strict=True):
            key, size, count, footer_bytes, digest = known
            what = self.forms[form]
            yield FilePart(
                key, size, count, what.own, b"", footer_bytes, digest,
                partition=partition, shown=what, writer=writer,
            )  # fmt: skip


def list_files(
    store: Store, tables: CutTables, asked: Asked, parts: Callable[[], Sequence[FilePart]]
) -> FileList:
    """The files of a table that are asked for.

    Args:
        store: A `WideStore`.
        parts: The same files with what hides rows of them, each resolved: called only where a
            delete or a key may hide some.
    Raises, Requests: As `Snapshot.files`.
    """
    states = tables.of_writer(asked.writer)
    if any(each.deletes.hide(asked.table) for each in states) or tables.touched(asked.table):
        return _of_parts(store, parts())
    forms: dict[tuple[str, bytes], int] = {}
    kinds: list[Shown] = []
    rows = [empty_table(LISTED)]
    for state in states:
        files, facts = held(tables, state, asked)
        found = asked_rows(files, asked, facts, whole=True)

        def number(fingerprint: bytes, state: State = state) -> int:
            key = state.writer, fingerprint
            if key not in forms:
                forms[key] = len(kinds)
                kinds.append(tables.shown(state, asked.table, fingerprint))
            return forms[key]

        rows.append(_listed(store, state, found, number))
    return FileList(pa.concat_tables(rows), kinds)


def _listed(store: Store, state: State, rows: pa.Table, number: Callable[[bytes], int]) -> pa.Table:
    folder = base_folder(state.writer, state.database)
    paths = rows.column("path")
    seen = one_chunk(rows.column("schema_fingerprint")).dictionary_encode()
    by_place = np.array([number(each) for each in seen.dictionary.to_pylist()], np.int32)
    form = array(by_place[numbers(seen.indices)] if len(seen) else np.empty(0, np.int32))
    known = [rows.column(name) for name in _AS_HELD]
    whose = pa.repeat(text_scalar(state.writer), rows.num_rows)
    keys, urls = key_column(paths, folder, state), urls_of(paths, folder, state, store)
    columns = [keys, urls, *known, form, whose]
    return pa.Table.from_arrays(columns, names=LISTED.names).cast(LISTED)


def _of_parts(store: Store, parts: Sequence[FilePart]) -> FileList:
    clean = [part for part in parts if part.hidden is None]
    forms: dict[tuple[bytes, bytes], int] = {}
    kinds: list[Shown] = []
    for part in clean:
        if part.form not in forms:
            forms[part.form] = len(kinds)
            kinds.append(part.shown or shown(part.schema, None))
    columns: dict[str, list[Any]] = {
        "key": [part.key for part in clean],
        "url": [store.object_url(part.key) for part in clean],
        "size_bytes": [part.size_bytes for part in clean],
        "row_count": [part.row_count for part in clean],
        "footer_bytes": [part.footer_bytes for part in clean],
        "footer_digest": [part.footer_digest for part in clean],
        "partition": [part.partition for part in clean],
        "form": [forms[part.form] for part in clean],
        "writer": [part.writer for part in clean],
    }
    arrays = [column(columns[field.name], field.type) for field in LISTED]
    rows = pa.Table.from_arrays(arrays, schema=LISTED)
    return FileList(rows, kinds, [part.key for part in parts if part.hidden is not None])
