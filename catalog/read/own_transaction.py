"""A checkpoint held against the transaction of its own revision, where that is still listed.

A revision that was lost is committed anew under the very same name. A checkpoint of the lost one
that comes late, or was left, would tell the old history under the name of the new. With
transactions above a checkpoint the chain says whose it is; without any, its own transaction does.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from ...errors import CorruptError, CorruptObject, ObjectNotFound, UnsupportedFeature
from ..format.frame import HEADER_BYTES
from ..format.objects import decode_transaction
from .log_folder import Vanished

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...store import Store
    from ..log.state import State

_AT_HAND: Final = ("memory", "file")  # stores that answer without a round trip


def base_and_header(store: Store, base: str, transaction: str) -> tuple[bytes, bytes]:
    """A checkpoint's object, and the beginning of its transaction; empty if that is gone.

    Args:
        base, transaction: Keys.
    Raises:
        Vanished: The checkpoint isn't there.
    Requests: 1 GET each, at once.
    """
    ask = partial(_beginning, store, transaction)
    if store.backend in _AT_HAND:
        header, body = ask(), store.get_many([base])[0]
    else:
        beside = _Beside(ask)
        try:
            body = store.get_many([base])[0]
        finally:
            beside.join()
        header = beside.result()
    if body is None:
        raise Vanished
    return body, header


def _beginning(store: Store, key: str) -> bytes:
    try:
        return store.get(key, start=0, end=HEADER_BYTES)
    except ObjectNotFound:
        return b""  # pruned since it was listed


class _Beside(threading.Thread):
    """One request beside another. (A pool is more than a job that appends once should load.)"""

    def __init__(self, ask: Callable[[], bytes]) -> None:
        super().__init__(name="lakelog-read")
        self._ask = ask
        self._found = b""
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._found = self._ask()
        except BaseException as error:
            self._error = error

    def result(self) -> bytes:
        """What came, once the thread has ended."""
        if self._error is not None:
            raise self._error
        return self._found


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
        "another copy. Move the checkpoint elsewhere; `lakelog check` tells more",
    )
