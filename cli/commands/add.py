"""`lakelog add`: add Parquet files to a table in place, from paths, URLs, folders and patterns."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown, ObjectNotFound, SchemaConflict, UsageError
from ...store.places import LOCAL_ROOT, Place, is_url, place_of, root_of, split
from .. import options, output
from ..command_list import Command
from ..errors import Progress
from ..opening import open_catalog, print_one, snapshot_after
from ..output import Column, columns
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...catalog.catalog import Catalog
    from ...catalog.commit.adopt import Added, NewFile
    from ...store import Store, WideStore

_COLUMNS: Final = (
    *columns("writer", "database", "table"),
    Column("revision", number=True),
    Column("transaction_id"),
    *columns("found", "added", "known", "bad", "row_count", "size_bytes", number=True),
    Column("token"),
)
_SHOWN: Final = 20
_WILD: Final = re.compile(r"[*?\[]")
_SUFFIXES: Final = (".parquet", ".parq", ".pq")
# Folders of other table formats hold files that their tables no longer have.
_OTHER_TABLES: Final = re.compile(
    r"(?:^|/)(?:_delta_log/|\.hoodie/|metadata/[^/]*\.metadata\.json$|"
    r"[^/]+/[^/]+/transactions/[^/]+\.(?:transaction|checkpoint)$)"
)
_PARTS: Final = re.compile(r"\*\*/?|\*|\?|\[[^]/]+\]")


def _run(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    with Progress("files listed") as progress:
        listed = list_files(catalog.wide, args.patterns, progress.step)
    files = _new_files(listed, args.partition)
    record, added = _add(catalog, args, files)
    committed = record["revision"] is not None
    after = snapshot_after(catalog, args.database) if committed else None
    more = {
        "paths": added.paths,
        "bad_files": [{"file": name, "problem": problem} for name, problem in added.bad],
    }
    print_one(args, _COLUMNS, record, after, lambda: _print(record, added, args), more=more)
    return 0


def _new_files(listed: Sequence[Listed], partition: str | None) -> list[NewFile]:
    from ...catalog.commit.adopt import NewFile
    from ...catalog.data.partitioned import told_types
    from ...catalog.format.names import hive_partition

    if partition is not None:
        return [NewFile(item.name, partition, item.size_bytes) for item in listed]
    names = [hive_partition(item.name) for item in listed]
    types = told_types(names)
    return [
        NewFile(item.name, name, item.size_bytes, types[name] or None)
        for item, name in zip(listed, names, strict=True)
    ]


def _add(
    catalog: Catalog, args: argparse.Namespace, files: list[NewFile]
) -> tuple[dict[str, Any], Added]:
    with (
        Progress("footers read", len(files)) as progress,
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
    ):
        tx = writer.transaction()
        try:
            added = tx.add_all(args.table, files, skip_bad=args.skip_bad, step=progress.step)
            info = None if args.dry_run or not added.paths else tx.commit()
        except SchemaConflict as error:
            error.hint = "Nothing was added. Name the other files only, or write this one again"
            raise
        except CommitOutcomeUnknown as error:
            error.hint = "Running the same command again is safe: it adds no file twice"
            raise
        finally:
            if tx.commit_info is None:
                tx.discard()
    return {
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "revision": None if info is None else info.revision,
        "transaction_id": None if info is None else info.transaction_id,
        "found": len(files),
        "added": len(added.paths),
        "known": len(added.known),
        "bad": len(added.bad),
        "row_count": added.rows,
        "size_bytes": added.size_bytes,
    }, added


def _print(record: dict[str, Any], added: Added, args: argparse.Namespace) -> None:
    amount = f"{many(record['row_count'], 'row')}, {size(record['size_bytes'])}"
    files = f"{many(record['added'], 'file')}, {amount}"
    if record["revision"] is not None:
        where = f"revision {record['revision']} of {args.writer}/{args.database}"
        output.line(f"committed {where}: {files}")
    elif args.dry_run:
        output.line(f"nothing was committed; this would be added: {files}")
    else:
        output.line("nothing was committed: there is nothing new")
    if record["known"]:
        output.line(f"{many(record['known'], 'file')} left out: live already")
    if added.bad:
        output.line(f"{many(record['bad'], 'file')} left out: no sound Parquet")
        for name, problem in added.bad[:_SHOWN]:
            output.pairs([(name, problem)], indent="  ")
        if len(added.bad) > _SHOWN:
            output.line(f"  and {count(len(added.bad) - _SHOWN)} more; --output json lists them")


# --- The files that patterns name -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a pattern names.

    Attributes:
        name: Its URL or absolute path.
        size_bytes: Its exact size; None: unknown.
    """

    name: str
    size_bytes: int | None


def list_files(
    wide: WideStore, patterns: Sequence[str], step: Callable[[], None] = lambda: None
) -> list[Listed]:
    """The files that patterns name, each once, in order. A folder means the Parquet files at any
    depth in it, by their names, without names that begin with `.` or `_`.

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
            Listed(Place(root, name).url, size_bytes)
            for name, size_bytes in _below(store, folder)
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
    for name, size_bytes in _below(store, top):
        below = name[len(top) :].lstrip("/")
        _refuse_other_tables(pattern, (below,))
        if not any(part[0] in "._" for part in below.split("/")) and _is_parquet(name):
            yield Listed(Place(root, name).url, size_bytes)


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


ADD: Final = Command(
    """\
Add Parquet files as they are, wherever they are stored: nothing is copied, and lakelog never
changes or deletes them. A PATTERN is a file, a folder (the .parquet files at any depth in it,
without names that begin with . or _), or a pattern with *, ** or ?; on this machine or in an object
store. All are committed in one transaction, after every footer was read: readers see all of them or
none.

Folders like year=2026/month=11 right above a file are its partition, under that name, and columns
of the table that the file itself lacks: integers (without leading zeros: month=01 is text) or dates
if the values in all folders are, else text. (The log then needs readers that know the feature
"partition_columns".) Files that are live already are left out, so that running the command again
adds only what is new. A file that isn't sound Parquet, or whose columns don't fit the table, is an
error that names it, and nothing is committed; --skip-bad leaves out the former, and names them.

The log names the places of the files, and so needs readers that know the feature "locations".
Credentials of other places are taken from the environment variable LAKELOG_LOCATION_OPTIONS, a JSON
object of storage options by URL; a place that it lacks, of the catalog's own kind, is opened as the
catalog is. If one of the files is changed or deleted later, reading it is an error.""",
    """
lakelog add ./catalog weather hourly /data/hourly --writer EWR
lakelog add s3://lake/catalog weather hourly 's3://other/raw/2026-*/*.parquet' --writer EWR
lakelog add ./catalog weather hourly /data/hourly --writer EWR --dry-run --output json
lakelog add ./catalog weather hourly /data/x.parquet --writer EWR --partition 2026-11
""",
    (
        *options.ON_TABLE,
        options.argument(
            "patterns", "PATTERN", "a file, a folder or a pattern; see above", nargs="+"
        ),
        options.writer("the writer id to commit under", required=True),
        options.argument(
            "--partition",
            "NAME",
            "the partition of all of them, instead of that of their folders ('': none)",
        ),
        options.flag(
            "--skip-bad", "leave out files that aren't sound Parquet, instead of adding none"
        ),
        options.flag("--dry-run", "read every footer and commit nothing"),
        options.SHARED,
    ),
    _run,
)
