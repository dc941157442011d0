"""The transaction object that would be the next revision, checked as a reader would check it.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..format.names import LogObject
from ..format.objects import decode_transaction
from ..log.again import tables_again
from ..log.attempts import Attempt
from ..log.build import build_transaction
from ..log.gist import gist_of
from ..log.validate import check_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.frame import LogIdentity
    from ..log.build import Intent
    from ..log.state import State


def compose(
    state: State,
    intents: Sequence[Intent],
    *,
    folder: str,
    log: LogIdentity,
    uuid: bytes,
    slot_seed: bytes,
    epoch: int,
    guest: bool,
    now_us: int,
) -> Attempt:
    """The object that commits these intents onto a state.

    Args:
        folder: Of the log.
        log, uuid, slot_seed, epoch, guest, now_us: See `build_transaction`.
    Raises:
        UsageError: Too large for one transaction object.
    """
    body, _ = build_transaction(
        state,
        intents,
        log=log,
        uuid=uuid,
        slot_seed=slot_seed,
        epoch=epoch,
        guest=guest,
        now_us=now_us,
        said=gist_of(
            state,
            [action for intent in intents for action in intent.actions],
            tables_again(rows for intent in intents for rows in intent.again),
        ),
    )
    item = LogObject(log.incarnation, state.revision + 1, uuid[:4].hex(), "transaction")
    decoded = decode_transaction(body, folder + item.name)
    check_written(state, decoded)  # what a reader would refuse is never written
    return Attempt(item, body, decoded, tuple(intent.transaction_id for intent in intents))
