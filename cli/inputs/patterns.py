"""The files that `lakelog add` is given: paths, URLs, folders and patterns, listed once."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...errors import ObjectNotFound, UsageError
from ...store.places import LOCAL_ROOT, Place, is_url, place_of, root_of, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...store import Store, WideStore

_WILD: Final = re.compile(r"[*?\[]")
_SUFFIXES: Final = (".parquet", ".parq", ".pq")
# Folders of other table formats: files that a table no longer has lie beside those that it has.
_OTHER_TABLES: Final = re.compile(
    r"(?:^|/)(?:_delta_log/|\.hoodie/|metadata/[^/]*\.metadata\.json$|"
    r"[^/]+/[^/]+/transactions/[^/]+\.(?:transaction|checkpoint)$)"
)
_PARTS: Final = re.compile(r"\*\*/?|\*|\?|\[[^]/]+\]")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that was found.

    Attributes:
        name: Its URL or absolute path.
        size_bytes: Exact; None: unknown.
    """

    name: str
    size_bytes: int | None


def list_files(
    wide: WideStore, patterns: Sequence[str], step: Callable[[], None] = lambda: None
) -> list[Listed]:
    """The files that patterns name, each once, in order.

    A folder stands for the Parquet files at any depth in it, by their names; what begins with `.`
    or `_` is left out there.

    Args:
        step: Called for each file.
    Raises:
        ObjectNotFound: A pattern names nothing.
        UsageError: A folder is that of another table format.
        InvalidUrl, InvalidPath: No such place.
    Requests: 1 LIST per 1,000 names on S3; 1 HEAD for a URL without wildcards.
    """
    found: dict[str, Listed] = {}
    for pattern in patterns:
        local = not is_url(pattern) or root_of(pattern) == LOCAL_ROOT
        some = _local(_path(pattern)) if local else _remote(wide, pattern)
        before = len(found)
        anything = False
        for item in some:
            anything = True
            if item.name not in found:
                found[item.name] = item
                step()
        if len(found) == before and not anything:
            raise ObjectNotFound(
                f"There are no Parquet files at {pattern}",
                key=pattern,
                hint="In a folder they end in .parquet; other names are given one by one or by a "
                "pattern",
            )
    return list(found.values())


def _path(pattern: str) -> str:
    if is_url(pattern):
        return "/" + split(pattern).key.lstrip("/")
    return os.path.abspath(os.path.expanduser(pattern))


def _local(pattern: str) -> Iterator[Listed]:
    if os.path.lexists(pattern) or not _WILD.search(pattern):
        names = [pattern]
    else:
        names = sorted(glob.glob(pattern, recursive=True))
    for name in names:
        if os.path.isdir(name):
            yield from _folder(name)
        elif os.path.isfile(name):
            yield Listed(name, os.path.getsize(name))
        elif name == pattern:
            raise ObjectNotFound("No such file or folder", key=name, hint="Check its name")


def _folder(top: str) -> Iterator[Listed]:
    seen: set[str] = set()
    for folder, folders, files in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        below = os.path.relpath(folder, top)
        inner = "" if below == "." else f"{below}/"
        _refuse_other_tables(top, (f"{inner}{name}/" for name in folders))
        _refuse_other_tables(top, (inner + name for name in files))
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(files):
            if _is_parquet(name):
                path = os.path.join(folder, name)
                yield Listed(path, os.path.getsize(path) if os.path.exists(path) else None)


def _remote(wide: WideStore, pattern: str) -> Iterator[Listed]:
    root = root_of(pattern)
    store, key = wide.at(root), split(pattern).key
    wild = _WILD.search(key)
    if wild is not None:
        folder = key[: wild.start()].rpartition("/")[0]
        match = _translated(key)
        yield from (
            Listed(Place(root, name).url, size)
            for name, size in _below(store, folder)
            if match.fullmatch(name)
        )
        return
    if key and not key.endswith("/"):
        place = place_of(pattern)
        try:
            yield Listed(place.url, store.head(place.key).size_bytes)
            return
        except ObjectNotFound:
            pass
    top = key.rstrip("/")
    for name, size in _below(store, top):
        below = name[len(top) :].lstrip("/")
        _refuse_other_tables(pattern, (below,))
        if not any(part[0] in "._" for part in below.split("/")) and _is_parquet(name):
            yield Listed(Place(root, name).url, size)


def _below(store: Store, folder: str) -> Iterator[tuple[str, int]]:
    prefix = f"{folder}/" if folder else ""
    return ((info.key, info.size_bytes) for info in store.list(prefix))


def _is_parquet(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last[0] not in "._" and last.endswith(_SUFFIXES)


def _refuse_other_tables(top: str, names: Iterable[str]) -> None:
    for name in names:
        if _OTHER_TABLES.search(name):
            raise UsageError(
                f"{top} holds a table of another format, or a lakelog catalog: {name}",
                key=top,
                hint="Not every Parquet file there is of the table. Name the files that are, e.g. "
                "those that its own reader lists",
            )


def _translated(pattern: str) -> re.Pattern[str]:
    """A pattern of keys: `*` and `?` stay within a folder, `**` doesn't."""
    text, end = "", 0
    for part in _PARTS.finditer(pattern):
        text += re.escape(pattern[end : part.start()])
        end = part.end()
        match part[0]:
            case "**/":
                text += "(?:[^/]+/)*"
            case "**":
                text += ".*"
            case "*":
                text += "[^/]*"
            case "?":
                text += "[^/]"
            case chosen:
                inner = chosen[1:-1].replace("\\", r"\\")
                text += f"[^{inner[1:]}]" if inner[0] == "!" else f"[{inner}]"
    return re.compile(text + re.escape(pattern[end:]), re.DOTALL)
