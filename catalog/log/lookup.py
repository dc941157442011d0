"""Single paths and tables of a state, looked up for a commit without reading all of it. Pure.

A commit asks whether its files are live and its schemas known: of a log of a million files that
takes the one piece that a path would stand in, by the ranges in the references, and the schemas of
one table. What was read is kept, and follows the commits from there on.

Source: docs/format.md, sections 6.1 and 10.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..format.columns import array, column, numbers
from ..format.segments import FILES
from .files import Files
from .part import MANY_PATHS
from .state import LookedUp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..format.pieces import Piece
    from .known_schemas import KnownSchemas
    from .state import State


def files_with(state: State, paths: Iterable[str]) -> Files:
    """Returns live files in which these paths can be found, if they are live, and nothing else.
    Raises `CorruptError` if a piece that may hold one is damaged, and no older checkpoint
    serves."""
    if state.loaded_files is not None:
        return state.files
    wanted = sorted({path.encode() for path in paths})
    return state.sound(lambda: _files(state, wanted), stay=True)


def _files(state: State, paths: Sequence[bytes]) -> Files:
    seen = _of_base(state)
    missing = [
        piece
        for piece in state.of_kind(FILES)
        if piece.place not in seen.parts and _may_hold_any(piece, paths)
    ]
    if missing or seen.files is None:
        places = (piece.place for piece in missing)
        seen.parts.update(zip(places, state.parts_of(missing), strict=True))
        files = Files(None, [replace(part) for part in seen.parts.values()])
        for transaction in state.tail:
            files.apply(transaction)
        seen.files = files
    return seen.files


def _may_hold_any(piece: Piece, paths: Sequence[bytes]) -> bool:
    """Whether one of some paths, in ascending order, may be in a FILES piece, whatever its
    table."""
    said = piece.segment
    if said.first_table != said.last_table:
        return bool(paths)
    place = bisect_left(paths, said.first_path.encode())
    return place < len(paths) and paths[place] <= said.last_path.encode()


def live_in(files: Files, table: str, paths: Sequence[str]) -> set[str]:
    """Those of some paths that are live in a table; many are looked up by one array operation a
    piece."""
    if len(paths) <= MANY_PATHS:
        return {path for path in paths if files.is_live(table, path)}
    named, added = column(paths, pa.string()), files.added.get(table, {})
    found = {path for path in paths if path in added}
    for part in files.parts:
        rows = array(part.among(table, named))
        found.update(part.run.core.column("path").take(rows).to_pylist())
    return found


def rows_in(files: Files, table: str, paths: Sequence[str]) -> int | None:
    """How many rows some live files of a table have; None: one is not there."""
    added = files.added.get(table, {})
    known = [added[path][0].row_count for path in paths if path in added]
    named, total, count = column(paths, pa.string()), sum(known), len(known)
    for part in files.parts:
        rows = part.among(table, named)
        total += int(numbers(part.run.core.column("row_count"))[rows].sum())
        count += len(rows)
    return total if count == len(paths) else None


def schemas_with(state: State, tables: Iterable[str]) -> KnownSchemas:
    """Returns the schemas of some tables, and perhaps of others; raises as `files_with`."""
    seen = _of_base(state)
    missing = frozenset(tables) - seen.tables
    if missing:
        # The base stays, whichever gave them: files that were read are of its pieces.
        seen.schemas.take(state.sound(lambda: state.load_schemas(missing)), missing)
        seen.tables |= missing
    return seen.schemas


def _of_base(state: State) -> LookedUp:
    """What was read from the present base of a state."""
    if state.looked_up.base is not state.base:
        state.looked_up = LookedUp(state.base)
    return state.looked_up
