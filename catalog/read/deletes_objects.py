"""Whether the objects that say which rows of files were deleted are there and sound: for `doctor`.

Source: docs/format.md, section 5.7; docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import CorruptError, ObjectNotFound
from ..format.deletes import damaged, decode_bitmap
from ..format.deletes_object import bitmaps_of
from ..parallel import parallel
from .findings import Finding

if TYPE_CHECKING:
    from ...store import Store
    from ..log.deletes import RowDeletes
    from ..log.state import State

_QUICK: Final = 1_000
_NAMED: Final = 3
_TOLD: Final = 20
_Use = tuple[str, str, "RowDeletes"]
_TO_DO: Final = "Restore it from a copy: rows of these files can't be read; else remove the files"


def examine_deletes_objects(
    store: Store, folder: str, state: State, *, deep: bool
) -> list[Finding]:
    """Objects of row deletes that hold of live files and can't be used: a problem each, with the
    files and how many of their rows it names.

    Args:
        folder: What paths are relative to.
        deep: However many there are; else the first 1,000.
    Requests: 1 GET an object.
    """
    uses: dict[str, list[_Use]] = {}
    for table in sorted(state.deletes.tables()):
        for path, entries in sorted(state.deletes.rows_of(table).items()):
            for entry in entries:
                uses.setdefault(entry.object, []).append((table, path, entry))
    asked = sorted(uses)[: None if deep else _QUICK]
    problems = parallel(lambda path: _problem(store, folder + path, uses[path]), asked)
    wrong = [(path, why) for path, why in zip(asked, problems, strict=True) if why]
    found = [
        Finding("problem", f"{why}: it says that of {_words(uses[path])}", folder + path, _TO_DO)
        for path, why in wrong[:_TOLD]
    ]
    if len(wrong) > _TOLD:
        what = f"{len(wrong) - _TOLD:,} more objects of row deletes are not there, or damaged"
        found.append(Finding("problem", what, None, _TO_DO))
    return found


def _problem(store: Store, key: str, uses: list[_Use]) -> str:
    try:
        body = bitmaps_of(store.get(key), key)
        for _, _, entry in uses:
            end = entry.offset + entry.length
            if end > len(body):
                raise damaged(key, f"has {len(body)} bytes, a bitmap lies up to byte {end}")
            decode_bitmap(body[entry.offset : end], entry.digest, entry.cardinality, key)
    except ObjectNotFound:
        return f"{key}, which says which rows of files were deleted, is not there"
    except CorruptError as error:
        return error.message
    return ""


def _words(uses: list[_Use]) -> str:
    named = "; ".join(
        f"{path} (table {table!r}) {entry.cardinality:,} rows are deleted"
        for table, path, entry in uses[:_NAMED]
    )
    return named + (f"; and of {len(uses) - _NAMED:,} more files" if len(uses) > _NAMED else "")
