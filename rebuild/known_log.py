"""What can still be learnt from an old log: all that its highest readable state says, and each
transaction above it that can be decoded, for itself. Pure, but for the pieces of the state.

Source: docs/format.md, sections 4.7 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ..catalog.log.applications import Applications
from ..catalog.log.deletes import Deletes
from ..catalog.log.history import summaries
from ..catalog.log.known_schemas import SchemaEntry
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.replay import locations_of
from ..errors import CorruptError
from .outgrown import outgrown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from .evidence import FoundTransaction, TransactionId
    from .scanned import Writing
    from .values import FileName

_FACTS = (
    *("path", "partition", "first_clock", "last_clock", "schema_fingerprint"),
    *("size_bytes", "row_count", "footer_bytes", "footer_digest"),
)
# What a log says of a file, whatever its footer says.
ROW: Final = ("partition", "first_clock", "last_clock", "schema_fingerprint")
# In the summary of what a rebuild did again: its number in the log that was rebuilt.
ORIGINAL: Final = "original_revision"
_DIGITS: Final = 12


class LiveFile(NamedTuple):
    """A live file as a log has it: since which revision, and the fields of `ROW`."""

    table: str
    path: str
    revision: int
    facts: dict[str, Any]


@dataclass(slots=True)
class KnownLog:
    """What a log says that can be read.

    Attributes:
        is_whole: Whether it is read to its end, and that is the end that footers know: none tells
            of a later revision, or of another transaction in the place of one, or of two that
            it doesn't hold (`outgrown`).
        state: The highest that can be read; the empty one if none can.
        committed: By transaction id, its revision and commit time (µs).
        members: The place of each in its revision.
        numbers: What the rebuild that began the log called revisions of the life before.
        first, first_us: The lowest revision that its history tells of, and its time.
        live: Tables and paths of its live files.
        removed: Files that transactions above the state took out, each with the revision.
        added: Facts of files that such transactions added.
        since: The revisions of those.
        splits: Revisions that are another transaction by a footer.
        schemas: By table and fingerprint.
        definitions: What the columns of tables are, as messages.
        defined: The revisions that said it.
        applications: Their versions, less what was forgotten.
        has_applications: Whether all that the state says of them can be read.
        latest_us: The latest commit time.
        locations: Below which files lie that are elsewhere.
        deletes: Rows that were deleted.
    """

    is_whole: bool
    state: State
    committed: dict[TransactionId, tuple[int, int]] = field(default_factory=dict)
    members: dict[TransactionId, int] = field(default_factory=dict)
    numbers: dict[TransactionId, int] = field(default_factory=dict)
    first: int = 0
    first_us: int = 0
    live: set[FileName] = field(default_factory=set)
    removed: dict[FileName, int] = field(default_factory=dict)
    added: dict[FileName, dict[str, Any]] = field(default_factory=dict)
    since: dict[FileName, int] = field(default_factory=dict)
    splits: list[int] = field(default_factory=list)
    schemas: dict[tuple[str, bytes], SchemaEntry] = field(default_factory=dict)
    definitions: dict[str, bytes] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    applications: Applications = field(default_factory=Applications)
    has_applications: bool = True
    latest_us: int = 0
    locations: frozenset[str] = frozenset()
    deletes: Deletes = field(default_factory=Deletes)


def known_log(state: State | None, own: Iterable[Writing]) -> KnownLog | None:
    """All that a state says; None if a part of it can't be read.

    Args:
        own: All that tells of transactions below `data/`.
    Requests: 1 GET a piece of the checkpoint.
    """
    try:
        return None if state is None else read_whole(state, own)
    except CorruptError:
        return None


def read_whole(state: State, own: Iterable[Writing]) -> KnownLog:
    """The same.

    Raises:
        CorruptError: A part of it can't be read.
    """
    history = state.history.table()
    times = history.column("committed_at").cast(pa.int64()).to_pylist()
    revisions = history.column("revision").to_pylist()
    ids = history.column("transaction_ids").to_pylist()
    live = set()
    for table in state.files.tables():
        rows = state.files.table(table)
        live |= {(table, path) for path in rows.column("path").to_pylist()}
    for table in state.files.broken:
        state.files.check(table)
    for _, error in state.files.broken_ranges:
        raise error
    applications = _applications(state)
    own = [item for item in own if same_log(item, state)]
    is_longer, splits = outgrown(dict(zip(revisions, ids, strict=True)), live, own)
    return KnownLog(
        is_whole=not is_longer and not splits,
        state=state,
        committed={
            transaction_id: (revision, time)
            for revision, time, members in zip(revisions, times, ids, strict=True)
            for transaction_id in members
        },
        members={one: place for members in ids for place, one in enumerate(members)},
        numbers=_numbers(ids, summaries(history)),
        first=min(revisions),
        first_us=min(times),
        live=live,
        splits=splits,
        schemas=dict(state.schemas.entries),
        definitions={t: entry.message for t, entry in state.definitions.entries.items()},
        defined={t: entry.revision for t, entry in state.definitions.entries.items()},
        applications=Applications() if applications is None else applications,
        has_applications=applications is not None,
        latest_us=state.committed_at_us,
        locations=state.locations,
        deletes=state.deletes.copy(),
    )


def _numbers(
    ids: Iterable[Sequence[TransactionId]], said: Iterable[Mapping[str, str]]
) -> dict[TransactionId, int]:
    """What the history says by transactions that a rebuild did again."""
    found: dict[TransactionId, int] = {}
    for members, summary in zip(ids, said, strict=True):
        if members:
            found |= _number(members[0], summary)
    return found


def _number(transaction_id: TransactionId, summary: object) -> dict[TransactionId, int]:
    said = str(summary.get(ORIGINAL, "")) if isinstance(summary, Mapping) else ""
    is_number = said.isascii() and said.isdecimal() and len(said) <= _DIGITS
    return {transaction_id: int(said)} if is_number else {}


def live_files(known: KnownLog) -> Iterator[LiveFile]:
    """The live files of a log."""
    state = known.state
    for table in sorted({table for table, _ in known.live}):
        rows = state.files.table(table, whole=True) if state.revision >= 0 else None
        if rows is not None:
            names = ("path", "revision", *ROW)
            lists = (rows.column(name).to_pylist() for name in names)
            for path, revision, *values in zip(*lists, strict=True):
                name = (table, path)
                if name in known.live and name not in known.since:
                    yield LiveFile(table, path, revision, dict(zip(ROW, values, strict=True)))
    for (table, path), facts in known.added.items():
        if (table, path) in known.live:
            own = {name: facts[name] for name in ROW}
            yield LiveFile(table, path, known.since[table, path], own)


def live_paths(state: State | None) -> list[str]:
    """The live paths of a state; none if they can't be read, and `known_log` says so.

    Requests: 1 GET a piece of the checkpoint that holds files.
    """
    if state is None:
        return []
    try:
        return [path for paths in state.files.paths() for path in paths.to_pylist()]
    except CorruptError:
        return []


def _applications(state: State) -> Applications | None:
    """Versions; None if no base gives them: nothing else is lost for it."""
    try:
        return state.applications.copy()
    except CorruptError:
        return None


def same_log(item: Writing | FoundTransaction, state: State) -> bool:
    """Whether a file was written in the incarnation of a state."""
    log = state.log
    return log is not None and (item.log_id, item.incarnation) == (log.log_id, log.incarnation)


def absorb(known: KnownLog, transaction: DecodedTransaction) -> None:
    """One transaction more, of a revision above the state; those between may be lost."""
    message = transaction.message
    revision, time = message.revision, message.commit.committed_at_us
    known.latest_us = max(known.latest_us, time)
    for place, member in enumerate(message.commit.members):
        known.committed[member.transaction_id] = revision, time
        known.members[member.transaction_id] = place
        known.numbers |= _number(member.transaction_id, member.summary)
    known.applications.apply(transaction)
    known.deletes.apply(transaction)
    for place, action in enumerate(message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add":
            add = action.add
            _add(known, add.table, {name: getattr(add, name) for name in _FACTS}, revision)
        elif kind == "add_batch":
            for table, facts in _batch(transaction, place):
                _add(known, table, facts, revision)
        elif kind == "remove":
            name = (action.remove.table, action.remove.path)
            known.live.discard(name)
            known.added.pop(name, None)
            known.removed[name] = revision
        elif kind == "schema":
            _learn(known, action.schema, revision, transaction.key)
        elif kind == "definition":
            said = action.definition.SerializeToString(deterministic=True)
            known.definitions[action.definition.table] = said
            known.defined[action.definition.table] = revision
        elif kind == "forget":
            _forget(known, action.forget)
    known.locations |= locations_of(message.actions)


def _add(known: KnownLog, table: str, facts: dict[str, Any], revision: int) -> None:
    name = (table, facts["path"])
    known.live.add(name)
    known.removed.pop(name, None)
    known.added[name] = facts
    known.since[name] = revision


def _batch(transaction: DecodedTransaction, place: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for part, _ in batch_parts(transaction.batches.get(place, ())):
        if isinstance(part, Part):  # else damaged: footers have to tell
            for row in part.run.full().select(["table", *_FACTS]).to_pylist():
                yield row.pop("table"), row


def _learn(known: KnownLog, item: wire.Schema, revision: int, where: str) -> None:
    identity = (item.table, item.fingerprint)
    entry = SchemaEntry(
        item.table, item.fingerprint, item.arrow_schema,
        tuple(item.key), tuple(item.sort_order), revision, where,
    )  # fmt: skip
    before = known.schemas.get(identity)
    if before is not None:
        entry = replace(before, key=entry.key, sort_order=entry.sort_order)
    known.schemas[identity] = entry


def _forget(known: KnownLog, item: wire.Forget) -> None:
    gone, lost = set(item.tables), {(name.table, name.fingerprint) for name in item.schemas}
    for identity in [*known.schemas]:
        if identity in lost or identity[0] in gone:
            del known.schemas[identity]
    for table in gone:
        known.definitions.pop(table, None)
