"""Files that lie elsewhere: no footer says that they are of a log, so a rebuild takes them from the
old log, and from objects of actions where that is not whole. Their footers give the statistics,
where they are still those that the log knows.

Source: docs/format.md, sections 8 and 10.6.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..catalog.data.footers.read import read_footer
from ..catalog.data.parquet import UNKNOWN_DIGEST
from ..catalog.format.locations import Places, is_in_place
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptObject, LakelogError
from .evidence import of_kind
from .old_state import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import Store, WideStore
    from .known_log import KnownLog
    from .scanned import OwnObject

_FACTS: Final = ("path", "size_bytes", "row_count", "footer_bytes")
_NAMED: Final = 3


def read_elsewhere(
    engine: Engine,
    store: WideStore,
    where: str,
    known: KnownLog | None,
    said: Sequence[OwnObject],
    *,
    progress: Progress | None,
) -> tuple[dict[str, bytes], str]:
    """What is known of files that lie elsewhere, and are live in the old log or were added by what
    objects of actions tell of.

    A file that is gone, changed, or can't be reached stays in the log as that has it: whoever reads
    it is told, as before.

    Args:
        engine: Who reads their footers.
        where: Whose log, for errors.
        progress: Called with (done, total, what).
    Returns:
        The `Add` of each, serialized, by path; and a note on those that couldn't be looked at,
        empty if there are none.
    Requests: 1 or 2 GET a file.
    """
    places = Places(locations_of_all(known, said), where)
    by_path = _said_rows(said) if known is None or not known.is_whole else {}
    if known is not None:
        wanted = {name for name in known.live if is_in_place(name[1])}
        by_path |= {row["path"]: row for _, row in facts_of(known, wanted)}
    rows = [(row, _url(places, path)) for path, row in sorted(by_path.items())]
    sound = [(row, url) for row, url in rows if url]

    found: dict[str, bytes] = {}
    problems: list[str] = []
    read = engine.each(_reader, (store,), sound, len(sound))
    for done, (add, problem) in enumerate(read, 1):
        found[add.path] = add.SerializeToString()
        if problem:
            problems.append(problem)
        if progress is not None:
            progress(done, len(sound), "footers elsewhere read")
    return found, _note(problems)


def _reader(store: Store) -> Callable[[tuple[dict[str, Any], str]], tuple[wire.Add, str]]:
    return partial(_add_of, store)


def _add_of(store: Store, file: tuple[dict[str, Any], str]) -> tuple[wire.Add, str]:
    """What is known of a file, and why its footer can't be used; empty if it can."""
    row, url = file
    add, problem = _add(row), ""
    try:
        parsed = read_footer(store, url, add.size_bytes).facts
        digest = add.footer_digest
        if digest in (b"", UNKNOWN_DIGEST, parsed.footer_digest):
            add.row_groups.extend(parsed.row_groups)
        else:
            problem = f"{url}: it was changed"
    except LakelogError as error:
        problem = error.message if url in error.message else f"{url}: {error.message}"
    return add, problem


def _said_rows(said: Iterable[OwnObject]) -> dict[str, dict[str, Any]]:
    names = (*_FACTS, "footer_digest", "schema_fingerprint")
    return {
        add.path: {name: getattr(add, name) for name in names}
        for item in said
        for add in of_kind(item.actions, "add")
        if is_in_place(add.path)
    }


def locations_of_all(known: KnownLog | None, said: Iterable[OwnObject]) -> frozenset[str]:
    """The locations that the old log and objects of actions name."""
    named = {found.url for item in said for found in of_kind(item.actions, "location")}
    return frozenset(named) if known is None else known.locations | named


def _url(places: Places, path: str) -> str:
    try:
        return places.url(path)
    except CorruptObject:  # what named the place is lost
        return ""


def _add(row: dict[str, Any]) -> wire.Add:
    add = wire.Add(**{name: row[name] for name in _FACTS})
    add.footer_digest = row["footer_digest"]
    add.schema_fingerprint = row["schema_fingerprint"]
    return add


def _note(problems: list[str]) -> str:
    if not problems:
        return ""
    more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return (
        f"{len(problems)} files that lie elsewhere are not as the old log has them: "
        f"{'; '.join(problems[:_NAMED])}{more}. They stay live as the log says, without statistics"
    )
