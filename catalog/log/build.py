"""From what was asked for to the transaction object that says it. Pure.

Source: docs/format.md, sections 4.1 and 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...errors import UsageError
from ..format.frame import MAX_ATTACHMENT_BYTES, MAX_MESSAGE_BYTES
from ..format.objects import encode_transaction
from ..format.run import batch_rows
from ..format.segment_bytes import encode_ipc
from ..format.segments import rows_per_segment
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .state import State

BATCH_FROM_FILES: Final = 256
BATCH_FROM_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Intent:
    """One transaction as its user meant it.

    Attributes:
        transaction_id: 16 random bytes: this attempt to commit, and no other.
        begun_s: When it was begun, or its oldest adopted file was written, on the clock that never
            jumps: no data file of it is older.
        epoch: Under which its data files were named.
        actions: Schemas, adds and removes, in order.
        operation: append, delete, overwrite, rewrite, row_delta or maintenance; empty: as the
            actions say.
        app_id, app_version: Idempotence; empty id for none.
        summary: Words for the history.
    """

    transaction_id: bytes
    epoch: int
    actions: list[wire.Action] = field(default_factory=list)
    operation: str = ""
    app_id: str = ""
    app_version: int = 0
    summary: dict[str, str] = field(default_factory=dict)
    begun_s: float = 0.0

    @property
    def adds(self) -> bool:
        """Whether it adds files."""
        return any(action.WhichOneof("kind") == "add" for action in self.actions)

    def member(self) -> wire.Member:
        """How the commit lists it."""
        return wire.Member(
            transaction_id=self.transaction_id,
            operation=self.operation or self._inferred(),
            app_id=self.app_id,
            app_version=self.app_version,
            summary=self.summary,
            action_count=len(self.actions),
        )

    def _inferred(self) -> str:
        kinds = {action.WhichOneof("kind") for action in self.actions}
        if "remove" in kinds:
            return "overwrite" if "add" in kinds else "delete"
        return "append" if "add" in kinds else "maintenance"


def build_transaction(
    state: State,
    intents: Sequence[Intent],
    *,
    uuid: bytes,
    successor: bytes,
    epoch: int,
    guest: bool,
    now_us: int,
) -> tuple[bytes, bytes]:
    """The object of the next revision, for all intents together.

    Args:
        state: The head it follows.
        uuid: Its slot uuid.
        successor: The slot uuid of the one after it.
        now_us: The clock; the commit time is later than the head's in any case.
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
            successor_uuid=successor,
        ),
    )
    actions = [action for intent in intents for action in intent.actions]
    attachments = b""
    files = sum(action.WhichOneof("kind") == "add" for action in actions)
    if files and (
        files > BATCH_FROM_FILES or sum(a.ByteSize() for a in actions) > BATCH_FROM_BYTES
    ):
        actions, attachments = _batched(state, actions)
        _recount(message, actions)
    message.actions.extend(actions)
    if message.ByteSize() > MAX_MESSAGE_BYTES:
        raise UsageError(
            f"A transaction of {message.ByteSize()} bytes is too large",
            hint=f"At most {MAX_MESSAGE_BYTES} bytes fit, beside added files: split the removes "
            "over several transactions",
        )
    if len(attachments) > MAX_ATTACHMENT_BYTES:
        raise UsageError(
            f"The statistics of the added files take {len(attachments)} bytes",
            hint=f"At most {MAX_ATTACHMENT_BYTES} bytes fit: add fewer files per transaction",
        )
    return encode_transaction(message, attachments)


def _batched(state: State, actions: Sequence[wire.Action]) -> tuple[list[wire.Action], bytes]:
    """The same actions with adds in columns: schemas first, then removes and the odd add, then the
    batches of each table."""
    removed = {action.remove.path for action in actions if action.WhichOneof("kind") == "remove"}
    by_table: dict[str, list[wire.Add]] = {}
    rest: list[wire.Action] = []
    for action in actions:
        if action.WhichOneof("kind") == "add" and action.add.path not in removed:
            by_table.setdefault(action.add.table, []).append(action.add)
        else:
            rest.append(action)
    schemas = _schemas(state, actions)
    attachments = bytearray()
    pieces = [(table, adds) for table, all_adds in by_table.items() for adds in _split(all_adds)]
    for table, adds in pieces:
        files, groups = batch_rows(adds, state.revision + 1, schemas)
        batch = wire.AddBatch(table=table)
        for piece, rows in ((batch.files, files), (batch.row_groups, groups)):
            if not rows.num_rows:
                continue
            attachments.extend(b"\0" * (-len(attachments) % 64))
            data = encode_ipc(rows)
            piece.offset, piece.length, piece.row_count = len(attachments), len(data), rows.num_rows
            attachments.extend(data)
        rest.append(wire.Action(add_batch=batch))
    return rest, bytes(attachments)


def _split(adds: Sequence[wire.Add]) -> Iterator[list[wire.Add]]:
    """Adds in pieces that decode in bounded memory, as the segments of a checkpoint do."""
    part: list[wire.Add] = []
    rows = columns = 0
    for add in adds:
        rows += max(1, len(add.row_groups))
        columns = max(columns, *(5 * len(group.columns) for group in add.row_groups), 0)
        if part and rows > rows_per_segment(columns):
            yield part
            part, rows = [], max(1, len(add.row_groups))
        part.append(add)
    yield part


def _schemas(state: State, actions: Sequence[wire.Action]) -> dict[bytes, object]:
    from ..format.schema import decode_schema

    found = {fingerprint: entry.schema for (_, fingerprint), entry in state.schemas.items()}
    for action in actions:
        if action.WhichOneof("kind") == "schema":
            found[action.schema.fingerprint] = decode_schema(action.schema.arrow_schema)
    return found


def _recount(message: wire.Transaction, actions: Sequence[wire.Action]) -> None:
    """Batches mix the actions of members: the count then stands with the first."""
    for position, member in enumerate(message.commit.members):
        member.action_count = 0 if position else len(actions)
