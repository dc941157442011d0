"""From what was asked for to the transaction object that says it. Pure.

Source: docs/format.md, sections 4.1 and 5.1.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...errors import UsageError
from ..format.frame import MAX_ATTACHMENT_BYTES, MAX_MESSAGE_BYTES
from ..format.names import successor_uuid
from ..format.objects import encode_transaction
from ..format.pieces import Attachments
from ..format.run import files_rows
from ..format.schema import decode_schema, features_of
from ..format.segments import FILES
from ..wire import lakelog_transaction_pb2 as wire
from .lookup import schemas_with
from .operations import inferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..format.frame import LogIdentity
    from ..format.schema import EncodedSchema
    from .files import Files
    from .merge import Rows
    from .state import State


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was.

    Attributes:
        steady_s: Seconds on this process's clock that never jumps.
        wall_s: Seconds since 1970 on this machine's wall clock.
        store_s: Seconds since 1970 on the store's clock, or less; None if it has told no time.
    """

    steady_s: float
    wall_s: float
    store_s: float | None = None

    def age_s(self, now: Moment) -> float:
        """How long ago this was: as long as any of the clocks says."""
        age_s = max(now.steady_s - self.steady_s, now.wall_s - self.wall_s)
        if self.store_s is None or now.store_s is None:
            return age_s
        return max(age_s, now.store_s - self.store_s)

    def before(self, seconds: float, store_s: float | None = None) -> Moment:
        """Returns the moment so many seconds before this one; `store_s` is what the store's clock
        showed then, if that is known better."""
        if store_s is None and self.store_s is not None:
            store_s = self.store_s - seconds
        return Moment(self.steady_s - seconds, self.wall_s - seconds, store_s)

    def or_before(self, other: Moment) -> Moment:
        """The earlier of two moments, by each clock."""
        told = [one for one in (self.store_s, other.store_s) if one is not None]
        return Moment(
            min(self.steady_s, other.steady_s),
            min(self.wall_s, other.wall_s),
            min(told, default=None),
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """That no rows of a table were deleted by others since an operation looked, and that none came
    which it would have replaced or deleted.

    Attributes:
        table: Its name.
        base_revision: The state that it looked at.
        words: Which rows it replaces, for messages.
        may_hold: Of some files of the table, the paths of those that may hold such rows; the state
            is that which they are files of. None: it replaces none.
        has_read: Whether it read the files that it takes out. They may have been named to it: then
            it relies on nothing, unless it puts rows in.
        deletes_until: Deletes of revisions up to this one are carried over to what it puts in.
        only_deletes: Whether it writes none anew: it relies on `may_hold`, and on nothing else.
        has_key: Of a delete by a predicate that the log keeps, which holds of what comes as well:
            whether the table has a key, in a state. It relies on nothing, unless rows come with it
            to such a table.
    """

    table: str
    base_revision: int
    words: str = ""
    may_hold: Callable[[State, Files], Sequence[str]] | None = None
    has_read: bool = True
    only_deletes: bool = False
    has_key: Callable[[State], bool] | None = None
    deletes_until: int = -1


BATCH_FROM_FILES: Final = 256
BATCH_FROM_BYTES: Final = 1 << 20
_SAID_BYTES: Final = 8 << 10  # more than a commit says of itself


@dataclass(slots=True)
class Intent:
    """One transaction as its user meant it.

    Attributes:
        transaction_id: 16 random bytes: this attempt to commit, and no other.
        begun: When it was begun, or its oldest adopted file was written: no data file of it is
            older. None: it adds none.
        epoch: Under which its data files were named.
        actions: Schemas, adds and removes, in order.
        operation: append, delete, overwrite, rewrite, row_delta or maintenance; empty: as the
            actions say.
        app_id, app_version: Idempotence; empty id for none.
        summary: Words for the history.
        folds_names: Whether files were adopted on a store that doesn't tell all names apart.
        columns_of: By table the name of the definition that its columns had when files were added,
            rows were deleted by a predicate, or it was defined anew; empty for none.
        last_ids: By table that is defined anew the highest id that its columns had before.
        asked: The operations that were asked for by name: see `operations.inferred`.
        claims: What it relies on beside the files that it takes out.
        rewritten: Tables whose rows it has written anew: of an overwrite or a rewrite.
        hidden: Those whose files lost rows that were not rewritten.
        fits: What is held against the state that it is to be committed onto; they raise.
        again: Files of an earlier state that are added once more, after all actions.
        last: Actions that come after these: rows of them that are deleted.
        counted: By table and path the revision at which all rows of a file were found deleted that
            goes therefore.
        onto: Digest of the only head that it may follow; empty: any.
    """

    transaction_id: bytes
    epoch: int
    actions: list[wire.Action] = field(default_factory=list)
    operation: str = ""
    app_id: str = ""
    app_version: int = 0
    summary: dict[str, str] = field(default_factory=dict)
    begun: Moment | None = None
    folds_names: bool = False
    columns_of: dict[str, bytes] = field(default_factory=dict)
    last_ids: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    claims: list[Claim] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    fits: list[Callable[[State], None]] = field(default_factory=list)
    again: Sequence[Rows] = ()
    last: list[wire.Action] = field(default_factory=list)
    counted: dict[tuple[str, str], int] = field(default_factory=dict)
    onto: bytes = b""

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Forget what is asked for by name meanwhile, if it is refused."""
        before = set(self.asked)
        try:
            yield
        except BaseException:
            self.asked = before
            raise

    def rely_on(self, tables: Iterable[str], revision: int) -> None:
        """Files of tables go: rows that come in their place are of what was there at a revision. A
        claim as of a later one doesn't cover that."""
        older = [one for one in self.claims if one.base_revision <= revision]
        new = set(tables) - {one.table for one in older if not one.only_deletes}
        self.claims += [Claim(table, revision, has_read=False) for table in sorted(new)]

    def refuse_begun(self, table: str) -> None:
        """Raises `UsageError` if this transaction has changed the columns of a table, or rewritten
        rows of it: a delete of its rows would be of what was there before."""
        changed = any(
            action.definition.table == table
            for action in self.actions
            if action.WhichOneof("kind") == "definition"
        )
        if changed or table in self.rewritten:
            did = "changed its columns" if changed else "written rows of it anew"
            raise UsageError(
                f"Rows of table {table!r} can't be deleted in a transaction that has {did}",
                key=table,
                hint="Commit that first, and do this in another transaction",
            )

    @property
    def said_operation(self) -> str:
        """The operation that its commit says it is."""
        return self.operation or inferred(self.actions, self.asked)

    @property
    def adds(self) -> bool:
        """Whether it adds files, or objects of deletes."""
        kinds = {action.WhichOneof("kind") for action in self.actions}
        return bool(self.again) or not kinds.isdisjoint({"add", "row_deletes"})

    def member(self) -> wire.Member:
        """How the commit lists it."""
        return wire.Member(
            transaction_id=self.transaction_id,
            operation=self.said_operation,
            app_id=self.app_id,
            app_version=self.app_version,
            summary=self.summary,
            action_count=len(self.actions) + len(self.last),
        )


def build_transaction(
    state: State,
    intents: Sequence[Intent],
    *,
    log: LogIdentity,
    uuid: bytes,
    slot_seed: bytes,
    epoch: int,
    guest: bool,
    now_us: int,
    successor: bytes = b"",
    said: Mapping[str, str] | None = None,
) -> tuple[bytes, bytes]:
    """The object of the next revision, for all intents together.

    Args:
        state: The head it follows.
        log: The log it belongs to: the state's, or a new one that it begins.
        uuid: Its slot uuid.
        slot_seed: Of this opening: the slot uuid of the one after it follows from it.
        now_us: The clock; the commit time is later than the head's in any case.
        successor: The slot uuid of the one after it, where it doesn't follow from the slot seed.
        said: What the commit says of itself (`gist`): left out where there is no room for it.
    Returns:
        Bytes and digest.
    Raises:
        UsageError: Too large for one transaction object.
    """
    message = wire.Transaction(
        revision=state.revision + 1,
        uuid=uuid,
        previous_uuid=state.uuid,
        previous_digest=state.digest,
        epoch=epoch,
        guest=guest,
        commit=wire.Commit(
            members=[intent.member() for intent in intents],
            committed_at_us=max(state.committed_at_us + 1, now_us),
            successor_uuid=successor or successor_uuid(slot_seed, state.revision + 1),
            slot_seed=slot_seed,
        ),
    )
    actions = [action for intent in intents for action in intent.actions]
    last = [action for intent in intents for action in intent.last]
    attachments = Attachments()
    files = sum(action.WhichOneof("kind") == "add" for action in actions)
    again = [rows for intent in intents for rows in intent.again]
    if again or (
        files
        and (files > BATCH_FROM_FILES or sum(a.ByteSize() for a in actions) > BATCH_FROM_BYTES)
    ):
        actions = [*_batched(state, actions, attachments, again), *last]
        _recount(message, actions)
    elif last:
        actions = [a for intent in intents for a in (*intent.actions, *intent.last)]
    if state.revision < 0 and [action.WhichOneof("kind") for action in actions[:1]] != ["identity"]:
        actions.insert(0, identity_action(state.writer, state.database))
        message.commit.members[0].action_count += 1
    message.actions.extend(actions)
    if said and message.ByteSize() + _SAID_BYTES <= MAX_MESSAGE_BYTES:
        message.commit.members[-1].summary.update(said)
    if (size_bytes := message.ByteSize()) > MAX_MESSAGE_BYTES:
        raise too_large(size_bytes)
    if attachments.length > MAX_ATTACHMENT_BYTES:
        raise UsageError(
            f"The statistics of the added files take {attachments.length} bytes",
            hint=f"At most {MAX_ATTACHMENT_BYTES} bytes fit: add fewer files per transaction",
        )
    return encode_transaction(log, message, attachments.joined())


def too_large(size_bytes: int) -> UsageError:
    """Of a transaction whose message takes so many bytes, or more."""
    return UsageError(
        f"A transaction of {size_bytes} bytes is too large",
        hint=f"At most {MAX_MESSAGE_BYTES} bytes fit, beside added files: split the removes, or "
        "the new tables, over several transactions",
    )


def identity_action(writer: str, database: str, begun_at_us: int = 0) -> wire.Action:
    """The action that says whose log it is.

    Args:
        begun_at_us: When the incarnation that it begins was begun, if not with its revision 0.
    """
    identity = wire.Identity(writer=writer, database=database, begun_at_us=begun_at_us)
    return wire.Action(identity=identity)


def schema_actions(table: str, schema: EncodedSchema) -> list[wire.Action]:
    """The action that names a schema, after the one that requires what it takes to read it."""
    item = wire.Schema(table=table, fingerprint=schema.fingerprint, arrow_schema=schema.message)
    return [*upgrade_actions(schema.message), wire.Action(schema=item)]


def upgrade_actions(message: bytes) -> list[wire.Action]:
    """The action that requires what it takes to read files of a schema, if it takes anything."""
    return require_actions(features_of(message))


def require_actions(names: Sequence[str]) -> list[wire.Action]:
    """The action that requires features of readers and writers; none for none."""
    upgrade = wire.Upgrade(required_reader_features=names, required_writer_features=names)
    return [wire.Action(upgrade=upgrade)] if names else []


def forget_action(tables: Sequence[str], applications_before_us: int) -> wire.Action:
    """The action that forgets tables, and applications that last committed before (0: none)."""
    forget = wire.Forget(tables=tables, applications_before_us=applications_before_us)
    return wire.Action(forget=forget)


def _batched(
    state: State, actions: Sequence[wire.Action], attachments: Attachments, again: Sequence[Rows]
) -> list[wire.Action]:
    """The same actions with adds in columns: the others first, in order, then one batch of all
    tables, with the files that are added again. A file that is removed again later is no part of
    it."""
    from .merge import added_again, merged, pieces_of

    removed: set[tuple[str, str]] = set()
    adds: list[wire.Add] = []
    rest: list[wire.Action] = []
    for action in reversed(actions):
        kind, add = action.WhichOneof("kind"), action.add
        if kind == "add" and (add.table, add.path) not in removed:
            adds.append(add)
            continue
        if kind == "remove":
            removed.add((action.remove.table, action.remove.path))
        rest.append(action)
    adds.reverse()
    rest.reverse()
    sources = [added_again(rows, state.revision + 1) for rows in again]
    if adds:
        sources.append(_described(state, actions, adds))
    if not sources:
        return rest
    batch = wire.AddBatch()
    for rows in merged(sources):
        batch.segments.append(attachments.add_rows(FILES, rows.files))
        for kind, table in rows.describing.items():
            for piece, columns in pieces_of(kind, table):
                batch.segments.append(attachments.add_rows(kind, piece, columns))
    rest.append(wire.Action(add_batch=batch))
    return rest


def _described(state: State, actions: Sequence[wire.Action], adds: Sequence[wire.Add]) -> Rows:
    """New files with what describes them."""
    from ..format.statistics_rows import statistics_rows
    from .merge import DESCRIBING, Rows

    found = statistics_rows(adds, _schemas(state, actions, adds))
    describing = dict(zip(DESCRIBING, (found.row_groups, found.files, found.groups), strict=True))
    return Rows(files_rows(adds, [state.revision + 1] * len(adds)), describing)


def _schemas(
    state: State, actions: Sequence[wire.Action], adds: Sequence[wire.Add]
) -> dict[tuple[str, bytes], pa.Schema]:
    """Arrow schemas of added files, by table and fingerprint."""
    fresh = {
        (item.schema.table, item.schema.fingerprint): item.schema
        for item in actions
        if item.WhichOneof("kind") == "schema"
    }
    wanted = {(add.table, add.schema_fingerprint) for add in adds}
    found = {identity: decode_schema(schema.arrow_schema) for identity, schema in fresh.items()}
    missing = wanted - found.keys()
    if missing:
        known = schemas_with(state, {table for table, _ in missing})
        found |= known.arrow_schemas(missing)
    return found


def _recount(message: wire.Transaction, actions: Sequence[wire.Action]) -> None:
    """Batches mix the actions of members: the count then stands with the first."""
    for position, member in enumerate(message.commit.members):
        member.action_count = 0 if position else len(actions)
