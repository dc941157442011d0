"""The policy of maintenance: how long history is kept, how files are rewritten, what is checked and
published. TOML text, of the whole lake, a database or a table; it can be kept in the lake itself.

    keep_days = 30

    [databases.weather]
    keep_days = 90
    publish = "weather-nightly"

    [databases.weather.tables.hourly]
    sort_by = ["time_hour"]

Source: docs/maintenance.md.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ..catalog.format.names import check_id
from ..catalog.refs.series import Series
from ..errors import InvalidPolicy, LakelogError, it_has

if TYPE_CHECKING:
    from ..plans import Place

Level = Literal["none", "log", "files", "footers", "data"]

FOLDER: Final = "_maintenance/policy/"
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(B|KiB|MiB|GiB|TiB)", re.ASCII)
_UNITS: Final = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))}
_MAX_DAYS: Final = 365_000
_ID_LINE: Final = "# id of this version: "


@dataclass(frozen=True, slots=True)
class Settings:
    """What a policy says of a database, or of a table of it. The defaults are what is done without
    a policy: nothing is pruned.

    Attributes:
        compact: Whether small files, and files with many deleted rows, are rewritten.
        target_file_size_bytes, min_input_files, delete_ratio_threshold, max_group_bytes,
            memory_bytes: As for `Catalog.compact`.
        sort_by: The same, of a table.
        checkpoint_after: A log gets a checkpoint once so many commits came since its last.
        keep_days, keep_revisions: As for `Catalog.prune`; neither: the whole history is kept.
        gc: Whether files that nobody needs are deleted, once they are a week old.
        check_level: How far logs are checked; `none`: not at all.
        check_parts: A run checks one of so many parts of the logs, another one each day.
        check_data_parts: Of these logs, with the level `data`, one of so many parts of the files.
        publish: A name that is moved to the newest cut if nothing failed; empty: none.
        publish_keep_days: How long what it stood for before stays readable.
        tag: A tag of the newest cut, with the day as of `strftime`: `nightly-%Y-%m-%d`.
        tag_keep_days: When it expires.
    """

    compact: bool = True
    target_file_size_bytes: int = 256 << 20
    min_input_files: int = 5
    delete_ratio_threshold: float = 0.3
    max_group_bytes: int = 2 << 30
    memory_bytes: int = 1 << 30
    sort_by: tuple[str, ...] = ()
    checkpoint_after: int = 16
    keep_days: float | None = None
    keep_revisions: int | None = None
    gc: bool = True
    check_level: Level = "files"
    check_parts: int = 7
    check_data_parts: int = 1
    publish: str = ""
    publish_keep_days: float = 7.0
    tag: str = ""
    tag_keep_days: float = 30.0

    @property
    def compaction(self) -> dict[str, Any]:
        """What `Catalog.compact` is given, but for the columns to sort by."""
        return {name: getattr(self, name) for name in _COMPACTION}


_COMPACTION: Final = (
    *("target_file_size_bytes", "min_input_files", "delete_ratio_threshold", "max_group_bytes"),
    "memory_bytes",
)
_OF_TABLES: Final = frozenset({"compact", "sort_by", *_COMPACTION})
_OF_ONE_TABLE: Final = frozenset({"sort_by"})
_NAMES: Final = tuple(one.name for one in dataclasses.fields(Settings))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.

    Attributes:
        text: Its TOML.
        lake: What it says of the whole lake.
        databases: What it says of databases that it names.
        tables: The same of tables, by database and table.
    """

    text: str = ""
    lake: Settings = field(default_factory=Settings)
    databases: Mapping[str, Settings] = field(default_factory=dict)
    tables: Mapping[tuple[str, str], Settings] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Reads TOML.

        Raises:
            InvalidPolicy: It isn't TOML, has a key that there isn't, or a value that can't be.
        """
        try:
            values = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InvalidPolicy(f"The policy is no TOML: {error}", hint=_HINT) from error
        databases = _tables_of(values, "databases", "")
        lake = _settings(Settings(), values, "", _without(_NAMES, _OF_ONE_TABLE), ("databases",))
        own: dict[str, Settings] = {}
        tables: dict[tuple[str, str], Settings] = {}
        for name, of_database in databases.items():
            place = f"databases.{name}."
            try:
                check_id(name, "database")
            except LakelogError as error:
                raise InvalidPolicy(f"{place[:-1]}: {error.message}", hint=_HINT) from error
            inner = _tables_of(of_database, "tables", place)
            # A name that the lake gives to all databases together is none of each of them.
            base = replace(lake, publish="", tag="")
            known = _without(_NAMES, _OF_ONE_TABLE)
            own[name] = _settings(base, of_database, place, known, ("tables",))
            for table, of_table in inner.items():
                where = f"{place}tables.{table}."
                known = tuple(sorted(_OF_TABLES))
                tables[name, table] = _settings(own[name], of_table, where, known)
        return cls(text, lake, own, tables)

    def of_database(self, database: str) -> Settings:
        """Returns what holds for a database."""
        return self.databases.get(database) or replace(self.lake, publish="", tag="")

    def of_table(self, database: str, table: str) -> Settings:
        """Returns what holds for a table."""
        return self.tables.get((database, table)) or self.of_database(database)


def policy_of(policy: Policy | str | os.PathLike[str] | None) -> Policy | None:
    """Returns the policy that a caller gives: itself, its text, or a file of it.

    Raises:
        InvalidPolicy: There is no such file, or `Policy.parse` refuses it.
    """
    if policy is None or isinstance(policy, Policy):
        return policy
    if isinstance(policy, os.PathLike):
        try:
            return Policy.parse(Path(policy).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidPolicy(f"{policy} can't be read: {error}", key=str(policy)) from error
    if not isinstance(policy, str):
        raise InvalidPolicy(f"{policy!r:.60} is no policy", hint="Give TOML text, or a Path")
    return Policy.parse(policy)


# --- In the lake ----------------------------------------------------------------------------------


def stored_policy(catalog: Place) -> Policy:
    """Returns the policy that is kept in a lake; the default one if there is none.

    Raises:
        InvalidPolicy: A newer lakelog knows more.
    Requests: 1 LIST; 1 GET if there is one.
    """
    _, body = _series(catalog).read_newest()
    text = body.decode(errors="replace")
    return Policy.parse(text.partition(_ID_LINE)[0])


def store_policy(catalog: Place, policy: Policy) -> None:
    """Keeps a policy in a lake, for every job.

    Raises:
        RefMoved: Somebody else has stored one at the same time.
        CapabilityMissing: The store has no put-if-absent: give each job the file instead.
    Requests: 1 LIST, 1 PUT, those of `probe` once.
    """
    text = policy.text if not policy.text or policy.text.endswith("\n") else f"{policy.text}\n"
    body = f"{text}{_ID_LINE}{catalog.ambient.new_id().hex()}\n".encode()
    series = _series(catalog)
    series.append(body, series.newest())


def _series(catalog: Place) -> Series:
    return Series(catalog.store, FOLDER, ".toml", catalog.ambient, catalog.margins)


# --- Reading --------------------------------------------------------------------------------------


def _without(names: tuple[str, ...], left_out: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


def _tables_of(values: Mapping[str, Any], name: str, place: str) -> dict[str, dict[str, Any]]:
    found = values.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        example = f"[{place}{name}.NAME]"
        raise InvalidPolicy(f"{place}{name} is no table of TOML", hint=f"Write {example}")
    return found


def _settings(
    base: Settings,
    values: Mapping[str, Any],
    place: str,
    known: tuple[str, ...],
    inner: tuple[str, ...] = (),
) -> Settings:
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name in inner:
            continue
        if name not in known:
            raise _unknown(place, name, (*known, *inner))
        given[name] = _checked(place + name, name, value)
    return replace(base, **given)


def _unknown(place: str, name: str, known: tuple[str, ...]) -> InvalidPolicy:
    message = f"The policy has a key {place}{name}, which there isn't"
    if name in _OF_ONE_TABLE:
        hint = f"{name} is of one table: [databases.NAME.tables.NAME]"
    elif name in _NAMES:
        hint = f"{name} is of a log, so of a whole database or lake: all its tables share one"
    else:
        hint = it_has(name, known)
    return InvalidPolicy(message, key=place + name, hint=hint)


def _checked(place: str, name: str, value: Any) -> Any:
    problem = _RULES[name](value)
    if isinstance(problem, str):
        raise InvalidPolicy(f"{place} is {problem}, not {value!r:.60}", key=place, hint=_HINT)
    return problem[0]


# A rule returns the value in a tuple, or what it should be, in words.
_Rule = Callable[[Any], "tuple[Any] | str"]


def _yes(value: Any) -> tuple[Any] | str:
    return (value,) if isinstance(value, bool) else "true or false"


def _count(value: Any) -> tuple[Any] | str:
    good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 53
    return (value,) if good else "a whole number from 1 on"


def _size(value: Any) -> tuple[Any] | str:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        value = int(float(match[1]) * _UNITS[match[2]])
    return "a size such as '256MiB'" if isinstance(_count(value), str) else (value,)


def _days(value: Any) -> tuple[Any] | str:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    good = good and math.isfinite(value) and 0 <= value <= _MAX_DAYS
    return (float(value),) if good else "a number of days, from 0 on"


def _ratio(value: Any) -> tuple[Any] | str:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    return (float(value),) if good else "a number above 0 and at most 1"


def _columns(value: Any) -> tuple[Any] | str:
    names = [value] if isinstance(value, str) else value
    good = isinstance(names, list) and all(isinstance(one, str) and one for one in names)
    return (tuple(names),) if good else "a list of columns"


def _level(value: Any) -> tuple[Any] | str:
    words = get_args(Level)
    return (value,) if value in words else f"one of {', '.join(words)}"


def _name(value: Any) -> tuple[Any] | str:
    try:
        return (check_id(value, "tag"),)
    except (LakelogError, TypeError, AttributeError):
        return "a name of letters, digits, '-' and '_'"


def _pattern(value: Any) -> tuple[Any] | str:
    bare = re.sub(r"%[YmdHMjVG]", "0", value) if isinstance(value, str) else None
    good = bare is not None and not isinstance(_name(bare), str)
    return (value,) if good else "a name with the day as of strftime: 'nightly-%Y-%m-%d'"


_RULES: Final[dict[str, _Rule]] = {
    "compact": _yes,
    "target_file_size_bytes": _size,
    "min_input_files": _count,
    "delete_ratio_threshold": _ratio,
    "max_group_bytes": _size,
    "memory_bytes": _size,
    "sort_by": _columns,
    "checkpoint_after": _count,
    "keep_days": _days,
    "keep_revisions": _count,
    "gc": _yes,
    "check_level": _level,
    "check_parts": _count,
    "check_data_parts": _count,
    "publish": _name,
    "publish_keep_days": _days,
    "tag": _pattern,
    "tag_keep_days": _days,
}
_HINT: Final = "docs/maintenance.md has an example of a policy"
