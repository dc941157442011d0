"""Putting a data file: before the transaction that names it, and never over another one.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from ...errors import ObjectExists, ObjectNotFound

if TYPE_CHECKING:
    from ...store import Capabilities, Store

# Larger ones go in parts, which no store can be trusted to join only if the key is free. It is
# looked first then.
_ONE_PUT_BYTES: Final = 1 << 30


class Place(Protocol):
    """Where data files go: an open writer, or what a task of it has."""

    @property
    def store(self) -> Store:
        """The store."""

    @property
    def capabilities(self) -> Capabilities:
        """What the writer's probe found."""


def put_data(session: Place, key: str, body: bytes) -> bool:
    """Put a data file, if absent where the store can.

    Returns:
        Whether it was put now. Else these bytes were there: its own, whose answer was lost, or
        those of another process that draws the same ids, which may commit them.
    Raises:
        ObjectExists: Another object has its name.
    Requests: 1 PUT, and 1 GET if the name is taken; 1 HEAD before a file of more than 1 GiB.
    """
    is_large = len(body) > _ONE_PUT_BYTES
    try:
        if is_large:
            refuse_taken(session.store, key)
        if_absent = session.capabilities.put_if_absent and not is_large
        session.store.put(key, body, if_absent=if_absent)
    except ObjectExists as error:
        with contextlib.suppress(ObjectNotFound):  # by a folder of a while ago
            if session.store.get(key) == body:
                return False
        raise ObjectExists(
            f"{key}, a name that was drawn at random, is taken by another file",
            key=key,
            hint="Nothing was overwritten. Two processes draw the same random ids: was a machine "
            "cloned, or set back to a snapshot? Open the writer again",
        ) from error
    return True


def refuse_taken(store: Store, key: str) -> None:
    """For stores that can't put if absent, and what they can't put so.

    Raises:
        ObjectExists: An object has this name.
    Requests: 1 HEAD.
    """
    try:
        store.head(key)
    except ObjectNotFound:
        return
    raise ObjectExists(f"{key} is there already", key=key, hint="Nothing was overwritten")
