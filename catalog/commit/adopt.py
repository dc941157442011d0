"""Files that are there already, and are taken in as they are: what their footers say.

Source: docs/format.md, sections 2 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ...errors import InvalidParquet, ObjectNotFound, SchemaConflict, UsageError, some_names
from ..data.footers.pool import footer_pool
from ..data.footers.read import read_new_footer
from ..format.names import LOCATIONS, MAX_LOCATIONS
from ..format.schema import decode_schema, encode_schema, partition_columns
from ..parallel import AT_ONCE, each_in_parallel
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..data.footers.parse import ParsedFooter
    from ..format.footer import FooterMetadata
    from ..format.schema import EncodedSchema
    from .columns import Columns
    from .schema_compatibility import OwnSchemas
    from .session import Session
    from .spots import Spot


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
    step: Callable[[], None],
) -> Taken:
    """Read the footers of files.

    Args:
        table: That they are to come to.
        skip_bad: Whether those that can't be used are left out, or the first is an error.
        step: Called for each.
    Raises:
        InvalidParquet: A file that can't be used.
        InvalidPartition: The name of a file's partition doesn't tell what it should.
        ObjectNotFound, StorageError: A file isn't there, or can't be read.
    Requests: those of `read_spots`.
    """
    from ..data.partition_values import with_partition

    found = Taken()
    for spot, parsed in zip(spots, read_spots(session, spots), strict=True):
        step()
        if not isinstance(parsed, InvalidParquet):
            add, file = parsed.facts, spot.file
            encoded = with_partition(parsed.schema, file.partition, file.partition_by)
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


def _is_own(session: Session, table: str, meta: FooterMetadata | None) -> bool:
    """Whether a file was written for the table by this log: the ids of its columns count."""
    return meta is not None and (meta.log_id, meta.table) == (session.log.log_id, table)


def adopted(
    columns: Columns, own: OwnSchemas, table: str, taken: Taken, *, refuses: bool
) -> tuple[dict[bytes, EncodedSchema], OwnSchemas]:
    """The columns of files as those that a table has, which others may just have changed or
    dropped. Of the files it is told then what their columns tell.

    Args:
        refuses: Refuse types that the table's don't hold, or that make it unreadable.
    Returns:
        Their schemas, by fingerprint; and what the transaction has written to its tables with them.
    Raises:
        SchemaConflict: There are some, and it names the files; or columns were dropped, or renamed.
    """
    from ..data.partition_values import tell_values

    def asked() -> tuple[dict[tuple[bool, bytes], EncodedSchema], OwnSchemas]:
        fit, with_these = partial(columns.fit, table, checked=refuses), own.copy()
        found = {
            brought: _fitted(encoded, fit) if brought[0] else encoded
            for brought, encoded in taken.schemas.items()
        }
        if refuses:
            _refuse_conflicts(with_these, table, taken, found)
        for encoded in found.values():
            with_these.learn(table, encoded)
        return found, with_these

    found, with_these = columns.unless_changed(table, asked)
    shown = {brought: decode_schema(encoded.message) for brought, encoded in found.items()}
    for (_, add), brought in zip(taken.files, taken.brought, strict=True):
        add.schema_fingerprint = found[brought].fingerprint
        tell_values(add, shown[brought])
    return {encoded.fingerprint: encoded for encoded in found.values()}, with_these


def _fitted(encoded: EncodedSchema, fit: Callable[[pa.Schema], pa.Schema]) -> EncodedSchema:
    schema = decode_schema(encoded.message)
    return encode_schema(fit(schema), by_partition=partition_columns(schema))


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
    """The actions that name locations, where the log doesn't.

    Args:
        named: Locations that this transaction has named.
    Raises:
        UsageError: They are too many.
    """
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
    """Refuse files whose schemas make their table unreadable, one with the others.

    Args:
        own: Learns them.
        found: Their schemas as the table has them, by those that they brought.
    Raises:
        SchemaConflict: Names the files.
    """
    first: SchemaConflict | None = None
    names: list[str] = []
    for brought, encoded in found.items():
        try:
            own.refuse_conflict(table, encoded)
            own.learn(table, encoded)
        except SchemaConflict as error:
            first = first or error
            pairs = zip(taken.files, taken.brought, strict=True)
            names += (spot.file.name for (spot, _), own_one in pairs if own_one == brought)
    if first is not None:
        first.message = f"{some_names(names)} can't be added: {first.message}"
        first.key = names[0]
        raise first
