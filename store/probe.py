"""Find out what a store really does, by doing it.

Put-if-absent can't be taken on trust: several stores accept the request header and ignore it.
"""

from __future__ import annotations

import secrets

from ..errors import CapabilityMissing, ObjectExists, ObjectNotFound
from .base import Capabilities, Store

_FIRST = b"lakelog probe: first"
_SECOND = b"lakelog probe: second"


def probe(store: Store, prefix: str) -> Capabilities:
    """Try put-if-absent twice on a key of the probe's own, and remove it again.

    The answer is kept on the store object, so that a second call costs nothing.

    Args:
        store: Where to try.
        prefix: Empty, or ends in `/`: where the caller may write.
    Raises:
        AccessDenied: Writing is not allowed here.
        StorageError: The store failed; nothing is known.
    Requests: 2 PUT, 1 GET, 1 DELETE; none if this store object was probed before.
    """
    known = store.probed
    if known is None:
        known = store.probed = _try(store, f"{prefix}_probe/{secrets.token_hex(8)}")
    return known


def _try(store: Store, key: str) -> Capabilities:
    try:
        detail = _deviation(store, key)
    finally:
        store.delete([key])
    return Capabilities(
        backend=store.backend,
        put_if_absent=detail is None,
        detail=detail or "a second put-if-absent on one key was refused and left the first body alone",
    )


def _deviation(store: Store, key: str) -> str | None:
    """What the store did wrong, in words; None if nothing."""
    try:
        store.put(key, _FIRST, if_absent=True)
    except ObjectExists:
        pass  # the key is random: this is the probe's own write, whose answer was lost
    except CapabilityMissing as error:
        return f"put-if-absent is refused: {error.message}"
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
        return "put-if-absent is ignored: a second one on the same key replaced the first body"
    return "put-if-absent answers 'exists', yet the first body is gone"
