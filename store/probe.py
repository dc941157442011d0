"""Find out what a store really does, by doing it.

Put-if-absent can't be taken on trust: several stores accept the request header and ignore it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ..errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidPath,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .base import Capabilities

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from .base import Names, Store

_FIRST = b"lakelog probe: first"
_SECOND = b"lakelog probe: second"
_THIRD = b"lakelog probe: third"
_GOOD = "a second put-if-absent on one key was refused and left the first body alone"


_UNCLEAR = "unclear"
_TRIES = 3


def probe(
    store: Store, prefix: str, *, new_name: Callable[[], str] = lambda: os.urandom(8).hex()
) -> Capabilities:
    """Try put-if-absent twice on a new key of the probe's own, and remove it again.

    The answer is kept on the store object, so that a second call costs nothing. Only what leaves no
    other reading counts against the store: a damaged answer must not turn a good store into one
    that writers then write to without put-if-absent.

    Args:
        store: Where to try.
        prefix: Empty, or ends in `/`: where the caller may write.
        new_name: Makes the random part of the key.
    Returns:
        The finding. A store that refuses the deletion alone is no failure: a writer need not be
        allowed to delete; the detail names what was left behind.
    Raises:
        AccessDenied: Writing or reading is not allowed here.
        StorageError: The store failed, or answered three times what can't be; nothing is known.
    Requests: 2 PUT, 1 GET, 1 DELETE, and 1 PUT more where put-if-absent is ignored; none if this
        store object was probed before.
    """
    for _ in range(_TRIES):
        if store.probed is None:
            store.probed = _try(store, f"{prefix}_probe/{new_name()}")
    if store.probed is None:
        raise StorageError(
            "The store gives back something else than was written",
            key=f"{prefix}_probe/",
            hint="Something between here and the store alters or loses objects: look into that "
            "before you write anything",
        )
    return store.probed


def probe_names(
    store: Store, prefix: str, *, new_name: Callable[[], str] = lambda: os.urandom(8).hex()
) -> Names:
    """What the names of two objects may differ in and be one to the store, in words; empty for
    nothing. Macs and Windows, and what they share with others, fold case; and so on.

    The answer is kept on the store object, so that a second call costs nothing.

    Args:
        prefix: Empty, or ends in `/`: where the caller may write.
        new_name: Makes the random part of the key.
    Raises:
        AccessDenied: Writing or reading is not allowed here.
        StorageError: The store failed.
    Requests: 1 PUT, 5 GET, 1 DELETE; none if this store object was asked before.
    """
    if store.folds is None:
        base = f"{prefix}_probe/{new_name()}-"
        keys = [base + spelling for spelling in (_SPELLED, *_TWINS)]
        try:
            store.put(keys[0], _FIRST)
            found = [_answers(store, key) for key in keys]
        finally:
            with contextlib.suppress(LakelogError):
                store.delete([keys[0]])
        if not found[0]:
            raise StorageError("what was just written is not there", key=keys[0])
        store.folds = [
            what for what, there in zip(_TWINS.values(), found[1:], strict=True) if there
        ]
    return store.folds


_SPELLED = "A\u00e9"
_TWINS = {
    "a\u00e9": "case",
    "Ae\u0301": "Unicode normal form",
    "A\u00e9.": "dots at the end",
    "A\u00e9 ": "spaces at the end",
}


def _answers(store: Store, key: str) -> bool:
    """Whether a key that was put in one spelling is there in this one."""
    try:
        return store.get(key) == _FIRST
    except (ObjectNotFound, InvalidPath):
        return False


def store_time(store: Store, prefix: str, new_name: Callable[[], str]) -> dt.datetime | None:
    """The store's own time, by an object of our own that is written and removed again; None if the
    store gives no times.

    Args:
        prefix: Ends in `/`: where the caller may write.
        new_name: Makes the random part of the key.
    Requests: 1 PUT, 1 HEAD, 1 DELETE.
    """
    key = f"{prefix}_probe/{new_name()}"
    store.put(key, b"lakelog: what time is it?")
    try:
        return store.head(key).modified_at
    finally:
        with contextlib.suppress(AccessDenied):  # a writer need not be allowed to delete
            store.delete([key])


def _try(store: Store, key: str) -> Capabilities | None:
    """The finding of one try; None if what was seen proves nothing."""
    try:
        store.put(key, _FIRST, if_absent=True)
    except ObjectExists:
        pass  # the key is random: this is the probe's own write, whose answer was lost
    except CapabilityMissing as error:
        return Capabilities(store.backend, False, f"put-if-absent is refused: {error.message}")
    try:
        deviation = _deviation(store, key)
    except BaseException:
        with contextlib.suppress(LakelogError):
            store.delete([key])
        raise
    detail = _GOOD if deviation is None else deviation
    try:
        store.delete([key])
    except AccessDenied:
        detail += f"; deleting is not allowed, so {key} stays"
    if deviation == _UNCLEAR:
        return None
    return Capabilities(store.backend, deviation is None, detail)


def _deviation(store: Store, key: str) -> str | None:
    """Put the second body, and a third if that was taken; what the store did wrong, in words, or
    None.

    One put alone that is taken proves nothing: a process and its double draw the same key, and the
    other one removes it when it is done.
    """
    refused = not _takes(store, key, _SECOND)
    if not refused and not _takes(store, key, _THIRD):
        return _UNCLEAR
    try:
        body = store.get(key)
    except ObjectNotFound:
        return _UNCLEAR
    if body == _FIRST:
        return None if refused else "a second put-if-absent on one key reports success"
    if body == _THIRD and not refused:
        return "put-if-absent is ignored: a second one on one key replaced the first body"
    if body == _SECOND and refused:
        return "a put-if-absent that was refused replaced the first body all the same"
    return _UNCLEAR


def _takes(store: Store, key: str, body: bytes) -> bool:
    try:
        store.put(key, body, if_absent=True)
    except ObjectExists:
        return False
    return True
