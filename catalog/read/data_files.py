"""Whether the data files that a log names are there, with the sizes that it says: for `doctor`.

Source: docs/format.md, section 5.1; docs/maintenance.md.
"""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import CorruptError, LakelogError, ObjectNotFound
from ..format.names import IN_PLACE, base_folder
from ..parallel import parallel
from .deletes_objects import examine_deletes_objects
from .findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...store import ObjectInfo, Store
    from ..format.locations import Places
    from ..log.state import State

_QUICK_FILES: Final = 100_000
_NAMED: Final = 3
_ASKED: Final = 1_000  # by name: more are not missed by a listing
_AT_ONCE: Final = 10_000


def examine_data_files(
    store: Store, state: State, infos: Iterable[ObjectInfo], *, deep: bool
) -> list[Finding]:
    """Live files that are not there, or not as long as the log says: problems, one for each table;
    and objects of row deletes that are not there, or damaged.

    Args:
        store: A `WideStore`, where files lie elsewhere.
        infos: What lies below `data/`.
        deep: However many there are; else only up to 100,000, and of those that lie elsewhere up to
            1,000 a table.
    Requests: 1 HEAD for each file that the listing doesn't show, or shows with another size, up to
        1,000, and for each that lies elsewhere; those of `examine_deletes_objects`.
    """
    try:
        tables = _sound_tables(state)
    except CorruptError:  # told already
        return []
    count = sum(rows.num_rows for rows in tables.values())
    if not count or (count > _QUICK_FILES and not deep):
        return []
    try:
        folder = base_folder(state.writer, state.database)
        there = _listed(infos, len(folder))
        found = _look(store, folder, tables, there, state.places, deep=deep)
        return found + examine_deletes_objects(store, folder, state, deep=deep)
    except LakelogError as error:
        return [Finding("problem", error.message, error.key, error.hint)]


def _sound_tables(state: State) -> dict[str, pa.Table]:
    """The files of each table that can be used."""
    found = {}
    for table in state.files.tables():
        with contextlib.suppress(CorruptError):  # told already
            found[table] = state.files.table(table).select(["path", "size_bytes"])
    return found


def _look(
    store: Store,
    folder: str,
    tables: dict[str, pa.Table],
    there: pa.Table,
    places: Places,
    *,
    deep: bool,
) -> list[Finding]:
    found = []
    for table, rows in sorted(tables.items()):
        elsewhere = pc.starts_with(rows.column("path"), IN_PLACE)
        wrong = _wrong(store, folder, rows.filter(pc.invert(elsewhere)), there)
        wrong += _wrong_elsewhere(store, rows.filter(elsewhere), places, deep=deep)
        if wrong:
            named = "; ".join(text for _, text in wrong[:_NAMED])
            more = f"; and {len(wrong) - _NAMED:,} more" if len(wrong) > _NAMED else ""
            what = f"Data files of table {table!r} are not what the log says: {named}{more}"
            to_do = "Restore them from a copy; else remove them from the table: their rows are lost"
            found.append(Finding("problem", what, wrong[0][0], to_do))
    return found


def _listed(infos: Iterable[ObjectInfo], prefix: int) -> pa.Table:
    schema = pa.schema([("path", pa.string()), ("listed_bytes", pa.int64())])
    pieces = [schema.empty_table()]
    left = iter(infos)
    while some := list(islice(left, _AT_ONCE)):
        columns = [[info.key[prefix:] for info in some], [info.size_bytes for info in some]]
        pieces.append(pa.table(columns, schema=schema))
    return pa.concat_tables(pieces)


def _wrong(store: Store, folder: str, rows: pa.Table, listed: pa.Table) -> list[tuple[str, str]]:
    """The key of each file that is wrong, and what is wrong with it."""
    at = pc.index_in(rows.column("path"), value_set=listed.column("path"))
    seen = listed.column("listed_bytes").take(at)
    same = pc.fill_null(pc.equal(rows.column("size_bytes"), seen), False)
    suspect = rows.append_column("listed_bytes", seen).filter(pc.invert(same)).sort_by("path")
    found = []
    names = ("path", "size_bytes", "listed_bytes")
    values = zip(*(suspect.column(name).to_pylist() for name in names), strict=True)
    for number, (path, size, seen) in enumerate(values):
        there = _size(store, folder + path) if number < _ASKED else seen
        if there is None:
            found.append((folder + path, f"{folder}{path} is not there"))
        elif there != size:
            found.append((folder + path, f"{folder}{path} has {there:,} bytes instead of {size:,}"))
    return found


def _wrong_elsewhere(
    store: Store, rows: pa.Table, places: Places, *, deep: bool
) -> list[tuple[str, str]]:
    """The same for files that lie elsewhere: each is asked for."""
    rows = rows.sort_by("path").slice(0, None if deep else _ASKED)
    paths, sizes = (rows.column(name).to_pylist() for name in ("path", "size_bytes"))

    def problem(path: str, size: int) -> tuple[str, str]:
        key = path
        try:
            key = places.url(path)
            there = _size(store, key)
        except LakelogError as error:
            return key, f"{key} can't be looked at ({error.message})"
        if there is None:
            return key, f"{key} is not there"
        return key, "" if there == size else f"{key} has {there:,} bytes instead of {size:,}"

    found = parallel(lambda file: problem(*file), zip(paths, sizes, strict=True))
    return [(key, what) for key, what in found if what]


def _size(store: Store, key: str) -> int | None:
    try:
        return store.head(key).size_bytes
    except ObjectNotFound:
        return None
