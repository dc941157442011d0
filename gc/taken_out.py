"""What the footers of files say of others that they took the place of, where that decides.

An undecided file may have been live in a life of the log that nobody can read any more. If a file
that this log has committed says that it took the place of it, its fate is known: it was taken out.

And a file that says so of others which are there still, and not live, goes after these: a rebuild
of a log that is lost reads it, and would make them live again else. Most are gone by then, for they
arrived before; those that are not are young, or undecided for good.

Source: docs/format.md, sections 8 and 10.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import base_folder, parse_own_file
from ..catalog.log.lookup import files_with
from ..catalog.parallel import parallel
from ..catalog.read.lost_tail import read_meta
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalog.log.state import State
    from ..store import ObjectInfo
    from .context import MaintenanceContext
    from .rules import Rules

_NEEDED: Final = "needed: only its footer says that files which are still there were taken out"
_SUFFIX: Final = ".parquet"
_Says = dict[str, "Sequence[tuple[str, str]]"]  # by key tables and paths that it took out


def judge_by_tellers(
    context: MaintenanceContext,
    state: State,
    rules: Rules,
    infos: Mapping[str, ObjectInfo],
    verdicts: Mapping[str, Verdict],
) -> dict[str, Verdict]:
    """The verdicts, with undecided files decided of which a committed one says that they were taken
    out, and with those spared that say so of what stays.

    Args:
        state: Of the head.
        infos: By key, all that lies below `data/`.
        verdicts: By key, of what no retained revision names.
    Requests: none, unless a file stays that is older than some that would go; then 1 or 2 GET for
        each of these.
    """
    cut = len(base_folder(context.writer, context.database))
    judged = dict(verdicts)
    left = {
        key[cut:]: infos[key]
        for key, verdict in verdicts.items()
        if not verdict.goes and key.endswith(_SUFFIX)
    }
    if not left:
        return judged
    oldest_s = min(map(arrival_s, left.values()))
    going = [
        infos[key]
        for key, verdict in verdicts.items()
        if verdict.goes and arrival_s(infos[key]) >= oldest_s and _is_committed(key, rules)
    ]
    says = _said(context, going)
    live = files_with(state, left)
    told = {
        path
        for names in says.values()
        for table, path in names
        if path in left and not live.is_live(table, path)
    }
    anyway = replace(rules, undecided=True)
    for path in told:
        verdict = anyway.judge(left[path], path)
        if verdict.asked:
            judged[left[path].key] = Verdict(True, "removed: a committed file took its place")
    there = {path for path in told if not judged[left[path].key].goes}
    while there:  # what stays may itself have been taken out by others
        more = [key for key, names in says.items() if any(path in there for _, path in names)]
        judged |= dict.fromkeys(more, Verdict(False, _NEEDED))
        there = {key[cut:] for key in more}
        for key in more:
            del says[key]
    return judged


def _is_committed(key: str, rules: Rules) -> bool:
    """Whether the log knows the transaction that wrote a data file."""
    name = parse_own_file(key) if key.endswith(_SUFFIX) else None
    return name is not None and name.transaction_id in rules.committed


def _said(context: MaintenanceContext, infos: Sequence[ObjectInfo]) -> _Says:
    """What the footers of files say."""

    def replaces(info: ObjectInfo) -> Sequence[tuple[str, str]]:
        meta = read_meta(context.store, info)  # what can't be read tells nobody
        return () if meta is None else meta.replaces

    return dict(zip((info.key for info in infos), parallel(replaces, infos), strict=True))


def arrival_s(info: ObjectInfo) -> float:
    """When an object came, in seconds; 0 if the store doesn't say."""
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()
