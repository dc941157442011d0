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
from ..format.locations import FEATURE, MAX_LOCATIONS
from ..format.schema import decode_schema, encode_schema, partition_columns
from ..parallel import AT_ONCE, each_in_parallel
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa

    from ..data.footers.parse import ParsedFooter
    from ..format.schema import EncodedSchema
    from .own_schemas import OwnSchemas
    from .session import Session
    from .spots import Spot


@dataclass(frozen=True, slots=True)
class Taken:
    """What the footers of files say.

    Attributes:
        files: Each with its facts, but for table and clocks.
        schemas: Theirs, by fingerprint.
        bad: Names of files that can't be used, and why.
    """

    files: list[tuple[Spot, wire.Add]] = field(default_factory=list)
    schemas: dict[bytes, EncodedSchema] = field(default_factory=dict)
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
    spots: Sequence[Spot],
    fit: Callable[[pa.Schema], pa.Schema],
    *,
    skip_bad: bool,
    step: Callable[[], None],
) -> Taken:
    """Read the footers of files.

    Args:
        fit: The columns of a file of another origin as those that the table has.
        skip_bad: Whether those that can't be used are left out, or the first is an error.
        step: Called for each.
    Raises:
        InvalidParquet: A file that can't be used.
        InvalidPartition: The name of a file's partition doesn't tell what it should.
        ObjectNotFound, StorageError: A file isn't there, or can't be read.
    Requests: those of `read_spots`.
    """
    from ..data.partition_values import tell_values, with_partition

    found = Taken()
    for spot, parsed in zip(spots, read_spots(session, spots), strict=True):
        step()
        if not isinstance(parsed, InvalidParquet):
            add, file = parsed.facts, spot.file
            encoded = with_partition(parsed.schema, file.partition, file.partition_by)
            if parsed.meta is None:
                encoded = _fitted(encoded, fit)
            found.schemas.setdefault(encoded.fingerprint, encoded)
            add.path, add.partition = spot.path, file.partition
            add.schema_fingerprint = encoded.fingerprint
            tell_values(add, decode_schema(encoded.message))
            found.files.append((spot, add))
        elif skip_bad:
            found.bad.append((spot.file.name, str(parsed.__cause__ or parsed.message)))
        else:
            raise parsed
    return found


def _fitted(encoded: EncodedSchema, fit: Callable[[pa.Schema], pa.Schema]) -> EncodedSchema:
    schema = decode_schema(encoded.message, encoded.generations)
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
    if fresh and FEATURE not in features and not named:
        upgrade = wire.Upgrade(
            required_reader_features=[FEATURE], required_writer_features=[FEATURE]
        )
        actions.insert(0, wire.Action(upgrade=upgrade))
    return actions


def refuse_conflicts(own: OwnSchemas, table: str, taken: Taken) -> None:
    """Refuse files whose schemas make their table unreadable, one with the others.

    Args:
        own: Learns them.
    Raises:
        SchemaConflict: Names the files.
    """
    found: SchemaConflict | None = None
    names: list[str] = []
    for fingerprint, encoded in taken.schemas.items():
        try:
            own.refuse_conflict(table, encoded)
            own.learn(table, encoded)
        except SchemaConflict as error:
            found = found or error
            names += (
                s.file.name for s, add in taken.files if add.schema_fingerprint == fingerprint
            )
    if found is not None:
        found.message = f"{some_names(names)} can't be added: {found.message}"
        found.key = names[0]
        raise found
