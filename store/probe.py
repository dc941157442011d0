"""Find out what a store really does, by doing it.

Put-if-absent can't be taken on trust: several stores accept the request header and ignore it.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from ..errors import AccessDenied, CapabilityMissing, LakelogError, ObjectExists, ObjectNotFound
from .base import Capabilities

if TYPE_CHECKING:
    from .base import Store

_FIRST = b"lakelog probe: first"
_SECOND = b"lakelog probe: second"
_GOOD = "a second put-if-absent on one key was refused and left the first body alone"


def probe(store: Store, prefix: str) -> Capabilities:
    """Try put-if-absent twice on a new key of the probe's own, and remove it again.

    The answer is kept on the store object, so that a second call costs nothing.

    Args:
        store: Where to try.
        prefix: Empty, or ends in `/`: where the caller may write.
    Returns:
        The finding. A store that refuses the deletion alone is no failure: a writer need not be
        allowed to delete; the detail names what was left behind.
    Raises:
        AccessDenied: Writing or reading is not allowed here.
        StorageError: The store failed; nothing is known.
    Requests: 2 PUT, 1 GET, 1 DELETE; none if this store object was probed before.
    """
    known = store.probed
    if known is None:
        known = store.probed = _try(store, f"{prefix}_probe/{secrets.token_hex(8)}")
    return known


def _try(store: Store, key: str) -> Capabilities:
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
    detail = deviation or _GOOD
    try:
        store.delete([key])
    except AccessDenied:
        detail += f"; deleting is not allowed, so {key} stays"
    return Capabilities(store.backend, deviation is None, detail)


def _deviation(store: Store, key: str) -> str | None:
    """Put the second body; what the store did wrong, in words, or None."""
    try:
        store.put(key, _SECOND, if_absent=True)
        refused = False
    except ObjectExists:
        refused = True
    try:
        body = store.get(key)
    except ObjectNotFound:
        return "an object just written is not there"
    if body == _FIRST:
        return None if refused else "a second put-if-absent on one key reports success"
    if body == _SECOND and not refused:
        return "put-if-absent is ignored: a second one on one key replaced the first body"
    return "the object is not what the first put-if-absent wrote"
