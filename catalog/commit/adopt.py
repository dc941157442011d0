"""Files that are there already, and are taken in as they are: what their footers say.

Source: docs/format.md, sections 2 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import (
    CorruptObject,
    FileNotLive,
    InvalidParquet,
    InvalidPath,
    InvalidUrl,
    ObjectNotFound,
    SchemaConflict,
    TransactionExpired,
    UsageError,
    some_names,
)
from ...store.places import LOCAL_ROOT, is_absolute, place_below, place_of
from ..data.footers.pool import footer_pool
from ..data.footers.read import read_new_footer
from ..format.names import (
    LOCATIONS,
    MAX_LOCATIONS,
    base_folder,
    check_path,
    escape_name,
    is_id,
    is_in_place,
    path_at,
)
from ..format.path_column import fold
from ..format.schema import common_type, decode_schema, encode_schema, partition_columns
from ..log.lookup import files_with
from ..parallel import AT_ONCE, each_in_parallel
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
    )

    from ...store import Store
    from ..data.footers.parse import ParsedFooter
    from ..format.footer import FooterMetadata
    from ..format.schema import EncodedSchema
    from ..log.build import Intent
    from ..log.files import Files
    from ..log.state import State
    from .columns import Columns
    from .schema_compatibility import OwnSchemas
    from .session import Session


# --- Where the files are stored -------------------------------------------------------------------

_OF_A_LOG: Final = ("data", "transactions", "segments", "mirror")
_SCRATCH: Final = ("_tmp", "_refs", "_maintenance")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is to be taken in.

    Attributes:
        name: As `Transaction.add` takes it: its URL or its absolute path. Of a file that lakelog
            itself has made below the writer's own `data/`: its path in the log.
        partition: That it gets; empty for none.
        size_bytes: Exact, from a listing: saves a request. None: unknown.
        partition_by: Columns that the file lacks and the name of its partition tells: types by
            name, or names alone.
    """

    name: str
    partition: str = ""
    size_bytes: int | None = None
    partition_by: Mapping[str, pa.DataType] | Sequence[str] | None = None


@dataclass(slots=True)
class Added:
    """What became of files that were to be taken in.

    Attributes:
        paths: Of those that were, as they stand in the log.
        rows, size_bytes: Of those.
        known: Names of those that were left out, since they are live already.
        bad: Names of those that can't be used, and why.
        by_partition: Columns whose values are in the names of their partitions, with their types.
        unlike: Names of files that share no column with the table, or with the first of them.
    """

    paths: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    bad: list[tuple[str, str]] = field(default_factory=list)
    by_partition: list[tuple[str, pa.DataType]] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a file lies.

    Attributes:
        file: As it was named.
        path: In the log.
        key: That a `WideStore` reads it by.
        location: That it lies below; empty for one of the writer's own prefix.
    """

    file: NewFile
    path: str
    key: str
    location: str = ""


class Spots:
    """Finds out where files lie, for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = base_folder(session.writer_id, session.database)
        home = place_below(session.store.object_url(f"{self._folder}data/x"))
        below = len(f"{self._folder}data/x")
        self._data = home and home._replace(key=home.key[:-1])
        self._root = home and home._replace(key=home.key[:-below])

    def of(self, file: NewFile) -> Spot:
        """Returns where a file is. Raises `InvalidUrl` or `InvalidPath` if a log may not name
        it."""
        name = file.name
        if not isinstance(name, str) or not is_absolute(name):
            check_path(name)
            if not is_in_place(name):
                return Spot(file, name, self._folder + name)
            places = self._session.ask(lambda state: state.places)
            try:
                return Spot(file, name, places.url(name), places.location(name))
            except CorruptObject:
                raise InvalidPath(
                    f"{name} is below no place that the log of {self._folder.rstrip('/')} names",
                    key=name,
                    hint="Name the file by its URL or absolute path",
                ) from None
        place = place_of(name)
        root, data = self._root, self._data
        if root is not None and data is not None and place.root == root.root:
            if place.key.startswith(data.key):
                path = check_path(f"data/{place.key[len(data.key) :]}")
                return Spot(file, path, self._folder + path)
            self._refuse_in_lake(place.key, name)
        return Spot(file, path_at(place.root, place.key), place.url, place.root)

    def _refuse_in_lake(self, key: str, name: str) -> None:
        """Refuse what belongs to a log of this catalog, whose gc may take it."""
        assert self._root is not None
        root = self._root.key
        if not fold(key).startswith(fold(root)):
            return
        if not key.startswith(root):
            if not self._session.folds_names():
                return
            problem = "is spelled otherwise than the catalog's own URL"
        else:
            segments = key[len(root) :].split("/")
            of_a_log = len(segments) > len("w/d") and segments[2] in _OF_A_LOG
            if segments[0] in _SCRATCH:
                problem = "is scratch of the catalog"
            elif of_a_log and is_id(segments[0]) and is_id(segments[1]):
                problem = f"is of the log {segments[0]}/{segments[1]}, whose gc may delete it"
            else:
                return
        raise InvalidPath(
            f"{name} {problem}",
            key=name,
            hint="Copy the file to a place of its own, and add the copy",
        )


def log_path(store: Store, writer: str, database: str, name: str) -> str:
    """The path in a log of a file, by that or by its URL or absolute path. Raises `InvalidUrl` or
    `InvalidPath` for a name that none has."""
    if not isinstance(name, str) or not is_absolute(name):
        return check_path(name)
    place = place_of(name)
    home = place_below(store.object_url(f"{base_folder(writer, database)}data/x"))
    if home is not None and place.root == home.root and place.key.startswith(home.key[:-1]):
        return check_path(f"data/{place.key[len(home.key) - 1 :]}")
    return path_at(place.root, place.key)


def path_of(session: Session, name: Any) -> str:
    """The path in the log of a file, by its path or, of one elsewhere, its URL.

    Raises:
        InvalidUrl, InvalidPath: No name that a file of a log can have.
    """
    name = value_of(name)
    if isinstance(name, str) and is_absolute(name):
        name = Spots(session).of(NewFile(name)).path
    return check_path(name)


def not_live(session: Session, path: str, table: str | None = None) -> FileNotLive:
    """The error of a file that is to be taken out, and isn't live (in a table)."""
    where = f"{session.writer_id}/{session.database}"
    return FileNotLive(
        f"{path} is not live in {where}" + (f", table {table!r}" if table is not None else ""),
        key=path,
        hint="List the live files with `lakelog files`",
    )


def new_spots(
    session: Session,
    intent: Intent,
    table: str,
    files: Iterable[NewFile],
    found: Added,
    *,
    added: Container[str],
    removed: Container[str],
    skip_live: bool,
    skip_bad: bool,
    own: bool,
) -> list[Spot]:
    """Returns where files lie that are to be taken in.

    Args:
        found: Takes the names of those that are live already, and of bad ones.
        added, removed: Paths that the transaction has added, and removed, before.
        skip_live: Whether those that are live in this table are left out; else, and in another
            table, the commit judges them.
        skip_bad: Whether those are left out that a log may not name.
        own: Whether lakelog itself has made these files, below the writer's own `data/`.
    Raises:
        InvalidUrl, InvalidPath, InvalidName, TransactionExpired: One may not be taken in.
        ObjectNotFound: One below `data/` isn't there.
    """
    spots: dict[str, Spot] = {}
    places = Spots(session)
    for file in files:
        if file.partition != "":
            escape_name(file.partition, "partition")
        spot = places.of(file) if not skip_bad else _nameable(places, file, found)
        if spot is None:
            continue
        if not spot.location and not own:
            raise InvalidPath(
                f"{file.name} is below the data folder of {session.writer_id}/{session.database}, "
                "which holds lakelog's own files only",
                key=spot.path,
                hint="Move the file to a place of its own, and add it by its URL",
            )
        if skip_live and (spot.path in spots or spot.path in added):
            found.known.append(file.name)
        else:
            spots[spot.path] = spot
    if skip_live and spots:
        paths = list(spots)
        there = session.ask(lambda state: _live(files_with(state, paths), table, paths))
        live = [path for path in there if path not in removed]
        found.known.extend(spots.pop(path).file.name for path in sorted(live))
    for path, spot in spots.items():
        if not spot.location:
            spots[path] = replace(spot, file=_made_here(session, intent, spot))
        if _may_have_twins(session, spot):
            intent.folds_names = True
    return list(spots.values())


def _nameable(places: Spots, file: NewFile, found: Added) -> Spot | None:
    """Where a file is; None, and it is noted as bad, if a log may not name it."""
    try:
        return places.of(file)
    except (InvalidPath, InvalidUrl) as error:
        found.bad.append((file.name, error.message))
        return None


def _live(files: Files, table: str, paths: Sequence[str]) -> list[str]:
    return [path for path in files.live_among(paths) if files.is_live(table, path)]


def _may_have_twins(session: Session, spot: Spot) -> bool:
    """Checks whether the store may take a file's path for that of another one: names of files that
    lakelog made are unique."""
    is_local = spot.location == LOCAL_ROOT and session.store.backend == "file"
    return is_local and session.folds_names()


def _made_here(session: Session, intent: Intent, spot: Spot) -> NewFile:
    """Returns a file that lakelog has made below `data/`, with its size; refuses one that gc may
    take while it is being added, which goes by age.

    Raises:
        ObjectNotFound, TransactionExpired: It is not there, or too old.
    Requests: 1 HEAD.
    """
    info = session.store.head(spot.key)
    if info.modified_at is not None:
        written = session.clocks.written(info.modified_at)
        if session.clocks.is_too_old(written):
            raise TransactionExpired(
                f"{spot.path} is older than half the grace period of gc, which may be about to "
                "take it",
                key=spot.path,
                hint="Put it again",
            )
        # The commit asks once more for the age of the oldest file.
        intent.begun = written if intent.begun is None else written.or_before(intent.begun)
    return replace(spot.file, size_bytes=info.size_bytes)


# --- What they hold -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """What the footers of files say.

    Attributes:
        files: Each with its facts, but for table, clocks and what its columns tell.
        brought: The schema of each: whether it is of another origin, and the fingerprint.
        schemas: These.
        bad: Names of files that can't be used, and why.
    """

    files: list[tuple[Spot, wire.Add]] = field(default_factory=list)
    brought: list[tuple[bool, bytes]] = field(default_factory=list)
    schemas: dict[tuple[bool, bytes], EncodedSchema] = field(default_factory=dict)
    bad: list[tuple[str, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(add.row_count for _, add in self.files)

    @property
    def size_bytes(self) -> int:
        """How long they are together."""
        return sum(add.size_bytes for _, add in self.files)

    @property
    def locations(self) -> set[str]:
        """The locations that they lie below."""
        return {spot.location for spot, _ in self.files if spot.location}


def take(
    session: Session,
    table: str,
    spots: Sequence[Spot],
    *,
    skip_bad: bool,
    statistics: bool,
    step: Callable[[], None],
) -> Taken:
    """Read the footers of files.

    Args:
        table: That they are to come to.
        skip_bad: Whether those that can't be used are left out, or the first is an error.
        statistics: Whether the statistics in the footers count.
        step: Called for each.
    Raises:
        InvalidParquet: A file that can't be used.
        InvalidPartition: The name of a file's partition doesn't tell what it should.
        ObjectNotFound, StorageError: A file isn't there, or can't be read.
    Requests: those of `read_spots`.
    """
    from ..data.partitioned import with_partition

    found = Taken()
    named = any(isinstance(spot.file.partition_by, Sequence) for spot in spots)
    known = session.ask(partial(_known_types, table)) if named else {}
    for spot, parsed in zip(spots, read_spots(session, spots), strict=True):
        step()
        if not isinstance(parsed, InvalidParquet):
            add, file = parsed.facts, spot.file
            if not statistics:
                for group in add.row_groups:
                    group.ClearField("columns")
            encoded = with_partition(parsed.schema, file.partition, file.partition_by, known)
            brought = (not _is_own(session, table, parsed.meta), encoded.fingerprint)
            found.schemas.setdefault(brought, encoded)
            found.brought.append(brought)
            add.path, add.partition = spot.path, file.partition
            found.files.append((spot, add))
        elif skip_bad:
            found.bad.append((spot.file.name, str(parsed.__cause__ or parsed.message)))
        else:
            raise parsed
    return found


def _known_types(table: str, state: State) -> dict[str, pa.DataType]:
    """The types of a table's columns in this log; of a column of several the one they share."""
    types: dict[str, list[pa.DataType]] = {}
    for one in state.table_of(table)[1].of_table(table):
        for column in one.schema:
            types.setdefault(column.name, []).append(column.type)
    shared = {name: common_type(kinds) for name, kinds in types.items()}
    return {name: kind for name, kind in shared.items() if kind is not None}


def _is_own(session: Session, table: str, meta: FooterMetadata | None) -> bool:
    """Whether a file was written for the table by this log: the ids of its columns count."""
    return meta is not None and (meta.log_id, meta.table) == (session.log.log_id, table)


def adopted(
    columns: Columns, own: OwnSchemas, table: str, taken: Taken, *, refuses: bool
) -> tuple[dict[bytes, EncodedSchema], OwnSchemas]:
    """Returns the columns of files as those that a table has, and notes in the files' actions what
    their columns tell.

    Args:
        refuses: Refuse types that the table's don't hold, or that make it unreadable.
    Returns:
        Their schemas, by fingerprint; and what the transaction has written to its tables with them.
    Raises:
        SchemaConflict: There are some, and it names the files; or columns were dropped, or renamed.
    """
    from ..data.partitioned import tell_values

    fit, with_these = partial(columns.fit, table, checked=refuses), own.copy()
    strict = own.not_null(table)
    found = {
        brought: _fitted(encoded, fit, strict) if brought[0] else encoded
        for brought, encoded in taken.schemas.items()
    }
    if refuses:
        _refuse_conflicts(with_these, table, taken, found)
    for encoded in found.values():
        with_these.learn(table, encoded)
    shown = {brought: decode_schema(encoded.message) for brought, encoded in found.items()}
    for (_, add), brought in zip(taken.files, taken.brought, strict=True):
        add.schema_fingerprint = found[brought].fingerprint
        tell_values(add, shown[brought])
    return {encoded.fingerprint: encoded for encoded in found.values()}, with_these


def unlike(taken: Taken, names: Collection[str]) -> list[str]:
    """The names of files that have none of a table's columns (`names`), or of the first file's if
    it is new; columns that only their partitions tell don't count."""
    own: dict[tuple[bool, bytes], set[str]] = {}
    for brought, encoded in taken.schemas.items():
        schema = decode_schema(encoded.message)
        own[brought] = set(schema.names).difference(partition_columns(schema))
    known = set(names) or next(map(own.__getitem__, taken.brought), set())
    pairs = zip(taken.files, taken.brought, strict=True)
    return [spot.file.name for (spot, _), brought in pairs if known.isdisjoint(own[brought])]


def _fitted(
    encoded: EncodedSchema, fit: Callable[[pa.Schema], pa.Schema], strict: Collection[str]
) -> EncodedSchema:
    """A file's schema as the table has it. What the file says can't be null declares nothing of the
    table, which has its own columns of that kind (`strict`)."""
    schema = decode_schema(encoded.message)
    by_partition = partition_columns(schema)
    fields = [
        each.with_nullable(each.nullable or each.name not in strict or each.name in by_partition)
        for each in fit(schema)
    ]
    return encode_schema(pa.schema(fields), by_partition=by_partition)


def read_spots(session: Session, spots: Sequence[Spot]) -> Iterator[ParsedFooter | InvalidParquet]:
    """The footers of files, in order; of a file that can't be used, the error that says why.

    Raises:
        ObjectNotFound, StorageError: A file isn't there, or can't be read.
    Requests: 1 or 2 GET a file, and 1 HEAD if its size isn't known.
    """
    at_once = AT_ONCE if session.in_background else 1
    footer_pool().start()  # while the first file is asked for
    return each_in_parallel(partial(_read, session), spots, at_once=at_once)


def _read(session: Session, spot: Spot) -> ParsedFooter | InvalidParquet:
    size_bytes = spot.file.size_bytes
    try:
        if size_bytes is None:
            size_bytes = session.wide.head(spot.key).size_bytes
        return read_new_footer(session.wide, spot.key, size_bytes)
    except InvalidParquet as error:
        return error
    except ObjectNotFound as error:
        error.hint = error.hint or "Check its name; nothing was committed"
        raise


def name_locations(
    session: Session, locations: Collection[str], named: Collection[str]
) -> list[wire.Action]:
    """Returns the actions that name locations, without those that the log or this transaction
    (`named`) names already. Raises `UsageError` if they are too many."""
    wanted = set(locations) - set(named)
    if not wanted:
        return []
    known, features = session.ask(lambda state: (state.locations, state.reader_features))
    fresh = sorted(wanted - known)
    if len(known.union(named, fresh)) > MAX_LOCATIONS:
        raise UsageError(
            f"A log can name {MAX_LOCATIONS} places of files, and these would be more",
            key=fresh[0],
            hint="Copy the files to a bucket that the log names already",
        )
    actions = [wire.Action(location=wire.Location(url=url)) for url in fresh]
    if fresh and LOCATIONS not in features and not named:
        upgrade = wire.Upgrade(
            required_reader_features=[LOCATIONS], required_writer_features=[LOCATIONS]
        )
        actions.insert(0, wire.Action(upgrade=upgrade))
    return actions


def _refuse_conflicts(
    own: OwnSchemas, table: str, taken: Taken, found: Mapping[tuple[bool, bytes], EncodedSchema]
) -> None:
    """Raises `SchemaConflict`, with the files, if their schemas make their table unreadable.

    Args:
        own: Learns the schemas.
        found: The schemas as the table has them, by those of the files.
    """
    first: SchemaConflict | None = None
    names: list[str] = []
    for brought, encoded in found.items():
        try:
            own.refuse_conflict(table, encoded)
            own.refuse_nullable(table, encoded)
            own.learn(table, encoded)
        except SchemaConflict as error:
            first = first or error
            pairs = zip(taken.files, taken.brought, strict=True)
            names += (spot.file.name for (spot, _), own_one in pairs if own_one == brought)
    if first is not None:
        first.message = f"{some_names(names)} can't be added: {first.message}"
        first.key = names[0]
        raise first
