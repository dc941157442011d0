"""How one more transaction changes a state: state(n+1) = apply(state(n), transaction n+1). Pure.

It checks that the transaction is the next link of the chain: that alone decides whether its
revision exists. Whether files and schemas fit is asked when they are used.

Source: docs/format.md, section 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import BrokenChain
from ..format.names import MAX_LOCATIONS
from ..format.objects import (
    MAX_FEATURES,
    DecodedTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..format.pieces import Piece
    from ..wire import lakelog_transaction_pb2 as wire
    from .state import State

    Fetch = Callable[[Sequence[Piece]], list[memoryview]]
    Tail = list[DecodedTransaction]


OPEN_AGAIN: Final = (
    "If the log was rebuilt or restored since it was opened here, only open it again"
)


def apply(state: State, transaction: DecodedTransaction) -> None:
    """Move a state one revision on, in place. An error leaves the state as it was.

    Raises:
        BrokenChain: Not the next link: log, revision, uuid, digest, epoch or commit time don't
            follow, or the log was sealed.
    Source: docs/format.md, section 4.2.
    """
    message = transaction.message
    check_link(state, transaction)
    for part in state.loaded_parts():
        part.apply(transaction)
    state.tail.append(transaction)
    state.log = transaction.log
    if message.revision == 0:
        said_us = next(
            action.identity.begun_at_us
            for action in message.actions
            if action.WhichOneof("kind") == "identity"
        )
        state.first_epoch = message.epoch
        state.begun_at_us = max(message.commit.committed_at_us, said_us)
    state.revision = message.revision
    state.uuid = message.uuid
    state.successor_uuid = message.commit.successor_uuid
    state.digest = transaction.digest
    state.epoch = message.epoch
    state.committed_at_us = message.commit.committed_at_us
    state.transaction_id = message.commit.members[-1].transaction_id
    state.reader_features, state.writer_features = _features_after(state, transaction)
    for action in message.actions:
        _apply_to_head(state, action)


def _features_after(
    state: State, transaction: DecodedTransaction
) -> tuple[frozenset[str], frozenset[str]]:
    """The features that readers, and writers, must know after a transaction."""
    found = [a.upgrade for a in transaction.message.actions if a.WhichOneof("kind") == "upgrade"]
    return (
        state.reader_features.union(*(item.required_reader_features for item in found)),
        state.writer_features.union(*(item.required_writer_features for item in found)),
    )


def locations_of(actions: Iterable[wire.Action]) -> set[str]:
    """The locations that actions name."""
    return {a.location.url for a in actions if a.WhichOneof("kind") == "location"}


def _apply_to_head(state: State, action: wire.Action) -> None:
    kind = action.WhichOneof("kind")
    if kind == "identity":
        state.named = (action.identity.writer, action.identity.database)
    elif kind == "location":
        state.locations |= {action.location.url}
    elif kind == "seal":
        state.sealed_for = action.seal.next_incarnation


def _too_much(state: State, transaction: DecodedTransaction) -> str:
    """Which limit of a whole log a transaction goes beyond; empty for none."""
    if any(len(names) > MAX_FEATURES for names in _features_after(state, transaction)):
        return f"requires more than {MAX_FEATURES} features, with those before"
    if len(state.locations | locations_of(transaction.message.actions)) > MAX_LOCATIONS:
        return f"names more than {MAX_LOCATIONS} locations, with those before"
    return ""


def check_link(state: State, transaction: DecodedTransaction) -> None:
    """Whether a transaction is the next link of the chain.

    Raises:
        BrokenChain: It isn't.
    """
    message, key = transaction.message, transaction.key
    problem = ""
    if message.revision != state.revision + 1:
        problem = f"is revision {message.revision}, after {state.revision}"
    elif state.log is not None and transaction.log != state.log:
        problem = (
            f"belongs to the log {transaction.log.log_id.hex()}, incarnation "
            f"{transaction.log.incarnation}, and stands in {state.log.log_id.hex()}, "
            f"{state.log.incarnation}"
        )
    elif state.sealed_for:
        problem = f"follows the seal of incarnation {transaction.log.incarnation}"
    elif message.previous_uuid != state.uuid:
        problem = (
            f"follows {message.previous_uuid.hex()}, but revision {state.revision} is "
            f"{state.uuid.hex()}"
        )
    elif message.previous_digest != state.digest:
        problem = f"follows another object than the one at revision {state.revision}"
    elif message.epoch < state.epoch:
        problem = f"has epoch {message.epoch}, below {state.epoch}"
    elif message.commit.committed_at_us <= state.committed_at_us:
        problem = "was not committed after the one before it"
    problem = problem or _too_much(state, transaction)
    if problem:
        raise BrokenChain(
            f"{key} {problem}",
            key=key,
            hint=f"Revisions up to {state.revision} can still be read: give one as the point in "
            f"time. {OPEN_AGAIN}",
        )
