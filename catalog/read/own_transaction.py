"""A checkpoint held against the transaction of its own revision, where that is still listed.

A revision that was lost is committed anew under the very same name. A checkpoint of the lost one
that comes late, or was left, would tell the old history under the name of the new. With
transactions above a checkpoint the chain says whose it is; without any, its own transaction does.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import CorruptError, CorruptObject, ObjectNotFound, UnsupportedFeature
from ..format.frame import HEADER_BYTES
from ..format.objects import decode_transaction
from ..parallel import parallel
from .log_folder import Vanished

if TYPE_CHECKING:
    from ...store import Store
    from ..log.state import State


def base_and_header(store: Store, base: str, transaction: str) -> tuple[bytes, bytes]:
    """A checkpoint's object, and the beginning of its transaction; empty if that is gone.

    Args:
        base, transaction: Keys.
    Raises:
        Vanished: The checkpoint isn't there.
    Requests: 1 GET each, at once.
    """
    body, header = parallel(
        lambda ask: ask(), [partial(_whole, store, base), partial(_header, store, transaction)]
    )
    if body is None:
        raise Vanished
    return body, header or b""


def _whole(store: Store, key: str) -> bytes | None:
    return store.get_many([key])[0]


def _header(store: Store, key: str) -> bytes | None:
    try:
        return store.get(key, start=0, end=HEADER_BYTES)
    except ObjectNotFound:
        return None  # pruned since it was listed


def refuse_other_history(
    store: Store, state: State, base: str, transaction: str, header: bytes
) -> None:
    """Raise if the transaction that stands on a checkpoint's revision is not the one that the
    checkpoint is of. One that is damaged or gone proves nothing.

    Args:
        header: The beginning of the transaction; empty if it is gone.
    Raises:
        CorruptObject: About the checkpoint.
    Requests: none if it fits; else 1 GET.
    """
    if not header or header.endswith(state.digest):
        return
    body = store.get_many([transaction])[0]
    try:
        if body is None or decode_transaction(body, transaction).digest == state.digest:
            return
    except UnsupportedFeature:
        pass
    except CorruptError:
        return
    raise CorruptObject(
        f"{base} is a checkpoint of another history: not of {transaction}, which stands on its "
        "revision",
        key=base,
        hint="The revision was lost once and committed anew, or one of the two was put back from "
        "another copy. Move the checkpoint elsewhere; `lakelog doctor` tells more",
    )
