"""The files that `lakelog add` is to add: paths, URLs, folders and patterns.

Folders of tables of other formats, and of other programs that keep a log of their output, are
refused, seen from above and from inside: files that no longer count, or never did, are there still.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...catalog.parallel import AT_ONCE, each_in_parallel
from ...errors import AccessDenied, ObjectNotFound, UsageError
from ...store.open import refuse_foreign_path
from ...store.places import LOCAL_ROOT, Place, is_url, place_of, root_of, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...store import Store, WideStore

_WILD: Final = re.compile(r"[*?\[]")
_SUFFIXES: Final = (".parquet", ".parq", ".pq")
_PARTS: Final = re.compile(r"\*\*/?|\*|\?|\[[^]/]+\]")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a pattern names.

    Attributes:
        name: Its URL or absolute path.
        size_bytes: Its exact size; None: unknown.
    """

    name: str
    size_bytes: int | None


@dataclass(slots=True)
class Listing:
    """What patterns name.

    Attributes:
        files: Each once, in order.
        bad: Names of what can't be read as a file, and why.
        ignored: Names in folders that don't end as those of Parquet files do; not those that begin
            with `.` or `_`.
    """

    files: dict[str, Listed] = field(default_factory=dict)
    bad: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def take(self, name: str, key: str, size_bytes: int) -> Iterator[Listed]:
        """The file of a folder, by its key, if it ends as a Parquet file does."""
        last = key.rpartition("/")[2]
        if last.endswith(_SUFFIXES):
            yield Listed(name, size_bytes)
        elif last:
            self.ignored.append(name)


def list_files(
    wide: WideStore,
    patterns: Sequence[str],
    step: Callable[[], None] = lambda: None,
    *,
    skip_bad: bool = False,
) -> Listing:
    """The files that patterns name. A folder means the Parquet files at any depth in it, by their
    names, without names that begin with `.` or `_`.

    Args:
        skip_bad: Note what can't be read as a file, instead of raising.
    Raises:
        ObjectNotFound: A pattern names nothing; or a link leads nowhere.
        UsageError: A folder or pattern is of a table of another format, or inside one.
    Requests: 1 LIST per 1,000 names on S3, and 9 for each folder above; 1 HEAD for a URL without
        wildcards.
    """
    found = Listing()
    for pattern in patterns:
        refuse_foreign_path(pattern)
        local = not is_url(pattern) or root_of(pattern) == LOCAL_ROOT
        some = _local(wide, _path(pattern), found) if local else _remote(wide, pattern, found)
        anything = False
        for item in some:
            anything = True
            if item.name not in found.files:
                found.files[item.name] = item
                step()
        if found.bad and not skip_bad:
            name, problem = found.bad[0]
            raise ObjectNotFound(
                f"{name} is {problem}",
                key=name,
                hint="Remove it, or add --skip-bad; nothing was committed",
            )
        if not anything:
            raise ObjectNotFound(
                f"There are no Parquet files at {pattern}",
                key=pattern,
                hint="In a folder they end in .parquet; other names are given one by one or by a "
                "pattern",
            )
    return found


def _path(pattern: str) -> str:
    if is_url(pattern):
        return "/" + split(pattern).key.lstrip("/")
    if pattern.lower().startswith("file:/"):  # which is a valid URL
        return pattern[len("file:") :]
    return os.path.abspath(os.path.expanduser(pattern))


def _local(wide: WideStore, pattern: str, found: Listing) -> Iterator[Listed]:
    plain = os.path.lexists(pattern) or not _WILD.search(pattern)
    names = [pattern] if plain else sorted(glob.glob(pattern, recursive=True))
    if not plain:
        _refuse_other_tables(pattern, names)
    folders = {name if os.path.isdir(name) else os.path.dirname(name) for name in names}
    if not plain or os.path.isdir(pattern):
        tops = sorted({os.path.realpath(folder).strip("/") for folder in folders})
        _refuse_inside(wide.at(LOCAL_ROOT), pattern, tops)
    for name in names:
        if os.path.isdir(name):
            yield from _folder(wide, name, found)
        elif os.path.isfile(name):
            yield Listed(name, os.path.getsize(name))
        elif os.path.lexists(name):
            found.bad.append((name, _problem(name)))
        elif name == pattern:
            raise ObjectNotFound("No such file or folder", key=name, hint="Check its name")


def _problem(path: str) -> str:
    if os.path.islink(path) and not os.path.exists(path):
        return f"a link to {os.readlink(path)}, which is not there"
    return "no regular file"


def _folder(wide: WideStore, top: str, found: Listing) -> Iterator[Listed]:
    seen: set[str] = set()
    for folder, folders, files in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        if os.path.islink(folder):
            _refuse_inside(wide.at(LOCAL_ROOT), folder, [real.strip("/")])
        below = os.path.relpath(folder, top)
        inner = "" if below == "." else f"{below}/"
        _refuse_other_tables(top, (f"{inner}{name}/" for name in folders))
        _refuse_other_tables(top, (inner + name for name in files))
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if _is_hidden(name):
                continue
            if os.path.isfile(path):
                yield from found.take(path, path, os.path.getsize(path))
            elif name.endswith(_SUFFIXES):
                found.bad.append((path, _problem(path)))


def _remote(wide: WideStore, pattern: str, found: Listing) -> Iterator[Listed]:
    root = root_of(pattern)
    store, key = wide.at(root), split(pattern).key
    wild = _WILD.search(key)
    if wild is not None:
        yield from _matching(store, root, pattern, key[: wild.start()].rpartition("/")[0])
        return
    if key and not key.endswith("/"):
        place = place_of(pattern)
        try:
            yield Listed(place.url, store.head(place.key).size_bytes)
            return
        except ObjectNotFound:
            pass
    top = key.rstrip("/")
    _refuse_inside(store, pattern, [top])
    for name, size_bytes in _below(store, top):
        below = name[len(top) :].lstrip("/")
        _refuse_other_tables(pattern, (below,))
        if not any(_is_hidden(part) for part in below.split("/")):
            yield from found.take(Place(root, name).url, name, size_bytes)


def _matching(store: Store, root: str, pattern: str, folder: str) -> Iterator[Listed]:
    """The objects whose keys match, of those below the folder in front of the first wildcard."""
    match = _translated(split(pattern).key)
    _refuse_inside(store, pattern, [folder])
    names: list[tuple[str, int]] = []
    tables: dict[str, str] = {}
    for name, size_bytes in _below(store, folder):
        marker = _OTHER_TABLES.search(name)
        if marker is not None:
            tables.setdefault(name[: marker.start()], name)
        if match.fullmatch(name):
            names.append((name, size_bytes))
    for name, size_bytes in names:
        _refuse_other_tables(pattern, (name,))
        inside = next((tables[above] for above in _above(name) if above in tables), None)
        if inside is not None:
            raise _other_table(f"{pattern} names files of", pattern, inside)
        yield Listed(Place(root, name).url, size_bytes)


def _below(store: Store, folder: str) -> Iterator[tuple[str, int]]:
    prefix = f"{folder}/" if folder else ""
    return ((info.key, info.size_bytes) for info in store.list(prefix))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


# --- Tables of other formats ----------------------------------------------------------------------

# What their folders hold; of DuckLake, which keeps its log in a database, the names of files; of
# Hive's transactional tables those of folders; of Spark the logs of its streams' output, and of
# Databricks' jobs, which leave the files of failed and replaced ones beside the others.
_OTHER_TABLES: Final = re.compile(
    r"(?:^|/)(?:_delta_log/|\.hoodie/|\.hoodie_partition_metadata(?:\.[^/]*)?$|"
    r"metadata/[^/]*\.metadata\.json(?:\.gz)?$|snapshot/snapshot-[0-9]+$|"
    r"_spark_metadata/|_(?:started|committed)_[0-9]+$|"
    r"(?:base_[0-9]{7}(?:_v[0-9]+)?|(?:delete_)?delta_[0-9]{7}_[0-9]{7}(?:_[0-9v_]+)?)/|"
    r"ducklake-[0-9a-f]{8}-[0-9a-f-]{27}[^/]*\.parquet$|"
    r"[^/]+/[^/]+/transactions/[^/]+\.(?:transaction|checkpoint)$)"
)
_MARKERS: Final = (
    "_delta_log/", ".hoodie", "metadata/", "metadata/v", "snapshot/snapshot-", "_spark_metadata/",
    "_started_", "_committed_", "transactions/",
)  # fmt: skip
_LOOKED_AT: Final = 1_000  # names of one marker: Iceberg's metadata/ holds others, too


def _refuse_other_tables(top: str, names: Iterable[str]) -> None:
    for name in names:
        if _OTHER_TABLES.search(name):
            raise _other_table(f"{top} holds", top, name)


def _refuse_inside(store: Store, given: str, folders: Sequence[str]) -> None:
    """Refuses folders inside a table of another format, however deep.

    Args:
        given: What was named, for the message.
        folders: Without slashes at their ends.
    Requests: 9 LIST of one page at most, for each folder above, and for these.
    """
    for folder in folders:
        if _OTHER_TABLES.search(f"{folder}/"):
            raise _other_table(f"{given} is inside", given, folder)
    prefixes = dict.fromkeys(above for folder in folders for above in _above(f"{folder}/x"))
    asked = [f"{above}/{each}" for above in prefixes if above for each in _MARKERS]
    if "" in prefixes:  # where a store lists folders alone
        asked += [each if "/" in each else f"{each}/" for each in _MARKERS]
    for marker in each_in_parallel(partial(_marker, store), asked, at_once=AT_ONCE):
        if marker is not None:
            raise _other_table(f"{given} is inside", given, marker)


def _above(key: str) -> Iterator[str]:
    """The folders that a key is in, from the nearest to the root, without slashes at their ends."""
    parts = key.strip("/").split("/")
    return ("/".join(parts[:length]) for length in range(len(parts) - 1, -1, -1))


def _marker(store: Store, prefix: str) -> str | None:
    """Returns the first object below a prefix that marks a table of another format."""
    try:
        names = (info.key for info in islice(store.list(prefix), _LOOKED_AT))
        return next((name for name in names if _OTHER_TABLES.search(name)), None)
    except AccessDenied:  # the credentials need not reach above what was named
        return None


def _other_table(what: str, given: str, marker: str) -> UsageError:
    return UsageError(
        f"{what} a table of another format, output that Spark keeps a log of, or a lakelog "
        f"catalog: {marker}",
        key=given,
        hint="Not every Parquet file there belongs to the table. Name the files that do, "
        "e.g. those that its own reader lists",
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
