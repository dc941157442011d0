"""Which files are still needed for what their footers say: that other files, which are there and
not live, were taken out. A rebuild of a log that is lost reads that; without it these would be live
again.

Most lie there no longer than the file that says so, as that was put later. Those that do are
undecided, or wait for a restore; and files that were moved to another table than they were written
to lie there as long as they are live.

Source: docs/format.md, sections 8 and 10.5.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..catalog.format import compute as pc
from ..catalog.format.locations import is_in_place
from ..catalog.format.names import base_folder, escape_name, parse_data_file
from ..catalog.log.lookup import files_with
from ..catalog.parallel import parallel
from ..catalog.read.lost_tail import read_meta
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ..catalog.log.state import State
    from ..store import ObjectInfo
    from .context import MaintenanceContext

_NEEDED: Final = "needed: only its footer says that files which are still there were taken out"
_SUFFIX: Final = ".parquet"
_Name = tuple[str, str]


def keep_tellers(
    context: MaintenanceContext,
    state: State,
    listed: Sequence[ObjectInfo],
    named: Collection[str],
    verdicts: Mapping[str, Verdict],
) -> dict[str, Verdict]:
    """The verdicts, with those files spared that say of others what nothing else does.

    Args:
        state: Of the head.
        listed: All that lies below `data/`.
        named: Keys of what retained revisions name.
        verdicts: By key, of the others.
    Requests: none, unless files lie there that are older than some that would go, and not live
        where they were written; then 1 or 2 GET for each of these.
    """
    cut = len(base_folder(context.writer, context.database))
    kept = dict(verdicts)
    moved = _moved(state)
    left = {
        info.key[cut:]: info
        for info in listed
        if info.key.endswith(_SUFFIX)
        and (info.key[cut:] in moved or not (info.key in named or verdicts[info.key].goes))
    }
    if not left:
        return kept
    oldest = min(map(_time_s, left.values()))
    going = [
        info
        for info in listed
        if (verdict := verdicts.get(info.key)) is not None
        and verdict.goes
        and parse_data_file(info.key) is not None
        and _time_s(info) >= oldest
    ]
    says = dict(zip([i.key for i in going], parallel(_replaces(context), going), strict=True))
    there = set(left)
    while True:  # what stays may itself have been taken out by others
        more = _tellers(state, says, there)
        if not more:
            return kept
        kept |= dict.fromkeys(more, Verdict(False, _NEEDED))
        there = {key[cut:] for key in more}
        for key in more:
            del says[key]


def _tellers(
    state: State, says: Mapping[str, Sequence[_Name]], there: Collection[str]
) -> list[str]:
    """Keys of files that say that some of these were taken out of tables in which they aren't."""
    told = {path for names in says.values() for _, path in names if path in there}
    if not told:
        return []
    live = files_with(state, told)
    return [
        key
        for key, names in says.items()
        if any(path in told and not live.is_live(table, path) for table, path in names)
    ]


def _replaces(context: MaintenanceContext) -> Callable[[ObjectInfo], Sequence[_Name]]:
    def of_footer(info: ObjectInfo) -> Sequence[_Name]:
        meta = read_meta(context.store, info)  # what can't be read tells nobody
        return () if meta is None else meta.replaces

    return of_footer


def _moved(state: State) -> set[str]:
    """Paths of live files that aren't, by their names, of the table that they are in."""
    found: set[str] = set()
    for table in state.files.tables():
        paths = state.files.table(table).column("path")
        own = f"/{re.escape(escape_name(table, 'table'))}/[^/]+$"
        elsewhere = paths.filter(pc.invert(pc.match_substring_regex(paths, own)))
        found.update(path for path in elsewhere.to_pylist() if not is_in_place(path))
    return found


def _time_s(info: ObjectInfo) -> float:
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()
