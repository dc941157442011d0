"""What the footers of files say of others that they took the place of, where that decides.

An undecided file may have been live in a life of the log that nobody can read any more. If a file
of the life that is read says that it took the place of it, that one was live in this life as well,
whose log tells the rest: it was taken out. What an earlier life says decides nothing, for it may
have added the file again.

And a file that says so of others which are there still, and not live, goes after these: a rebuild
of a log that is lost reads it, and would make them live again else. Most are gone by then, for they
arrived before; those that are not are young. That holds also of a file whose transaction may have
been committed in the part of the history that was trimmed: it stays, and decides nothing.

Source: docs/format.md, sections 8 and 10.5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import base_folder, parse_own_file
from ..catalog.log.lookup import files_with
from ..catalog.parallel import parallel
from ..catalog.read.lost_tail import read_meta
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalog.format.footer import FooterMetadata
    from ..catalog.format.names import DataFile
    from ..catalog.log.state import State
    from ..store import ObjectInfo
    from .context import MaintenanceContext
    from .rules import Rules

_NEEDED: Final = "needed: only its footer says that files which are still there were taken out"
_SUFFIX: Final = ".parquet"


def judge_by_tellers(
    context: MaintenanceContext,
    state: State,
    rules: Rules,
    infos: Mapping[str, ObjectInfo],
    verdicts: Mapping[str, Verdict],
) -> dict[str, Verdict]:
    """The verdicts, with undecided files decided of which a committed one of this life of the log
    says that they were taken out, and with those spared that say so of what stays.

    Args:
        state: Of the head.
        infos: By key, all that lies below `data/`.
        verdicts: By key, of what no retained revision names.
    Requests: none, unless a file stays that is older than some that would go; then 1 or 2 GET for
        each of these that a transaction of the history wrote, and, where the history doesn't begin
        with revision 0, for each other one that has a name of lakelog's.
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
        info
        for key, verdict in verdicts.items()
        if verdict.goes and arrival_s(info := infos[key]) >= oldest_s
    ]
    says = _said(context, state, rules, going)
    live = files_with(state, left)
    told: dict[str, bool] = {}  # whether this life of the log tells it
    ours = _of_this_life(says, state, rules, cut)
    for key, meta in says.items():
        for table, path in meta.replaces:
            if path in left and not live.is_live(table, path):
                told[path] = told.get(path, False) or key in ours
    anyway = replace(rules, undecided=True)
    for path, is_sure in told.items():
        if is_sure and anyway.judge(left[path], path).asked:
            judged[left[path].key] = Verdict(True, "removed: a committed file took its place")
    there = {path for path in told if not judged[left[path].key].goes}
    while there:  # what stays may itself have been taken out by others
        more = [key for key, meta in says.items() if any(p in there for _, p in meta.replaces)]
        judged |= dict.fromkeys(more, Verdict(False, _NEEDED))
        there = {key[cut:] for key in more}
        for key in more:
            del says[key]
    return judged


def _said(
    context: MaintenanceContext, state: State, rules: Rules, infos: Sequence[ObjectInfo]
) -> dict[str, FooterMetadata]:
    """What the footers say, by key, of those files that were committed, or may have been; what
    can't be read tells nobody."""
    is_trimmed = state.history.first() > 0
    asked = [
        info for info in infos if _is_committed(info.key, rules) or (is_trimmed and _own(info.key))
    ]
    metas = parallel(partial(read_meta, context.store), asked)
    return {
        info.key: meta
        for info, meta in zip(asked, metas, strict=True)
        if meta is not None and (_is_committed(info.key, rules) or _may_be_trimmed(meta, state))
    }


def _of_this_life(
    says: Mapping[str, FooterMetadata], state: State, rules: Rules, cut: int
) -> set[str]:
    """Of files by key those that were committed in this life of the log: as its history says, or
    another one of them that took the place of theirs."""
    written = {
        key[cut:]: key
        for key, meta in says.items()
        if LogIdentity(meta.log_id, meta.incarnation) == state.log
    }
    found = {key for key in written.values() if _is_committed(key, rules)}
    todo = [*found]
    while todo:
        paths = (path for _, path in says[todo.pop()].replaces)
        more = {written[path] for path in paths if path in written} - found
        found |= more
        todo += more
    return found


def _own(key: str) -> DataFile | None:
    """What the name of a data file says that lakelog named."""
    return parse_own_file(key) if key.endswith(_SUFFIX) else None


def _is_committed(key: str, rules: Rules) -> bool:
    """Whether the log knows the transaction that wrote a data file."""
    name = _own(key)
    return name is not None and name.transaction_id in rules.committed


def _may_be_trimmed(meta: FooterMetadata, state: State) -> bool:
    """Whether a transaction that the history doesn't hold may have been committed in the part of it
    that was trimmed: what was begun later can only have failed."""
    here = LogIdentity(meta.log_id, meta.incarnation) == state.log
    return here and meta.base_revision + 1 < state.history.first()


def arrival_s(info: ObjectInfo) -> float:
    """When an object came, in seconds; 0 if the store doesn't say."""
    return 0.0 if info.modified_at is None else info.modified_at.timestamp()
