"""Putting a data file: before the transaction that names it, and never over another one.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import ObjectExists

if TYPE_CHECKING:
    from .session import Session

# Larger ones go in parts, which no store can be trusted to join only if the key is free.
_ONE_PUT_BYTES: Final = 1 << 30


def put_data(session: Session, key: str, body: bytes) -> None:
    """Put a data file, if absent where the store can.

    Raises:
        ObjectExists: Another object has its name.
    Requests: 1 PUT, and 1 GET if the name is taken.
    """
    if_absent = session.capabilities.put_if_absent and len(body) <= _ONE_PUT_BYTES
    try:
        session.store.put(key, body, if_absent=if_absent)
    except ObjectExists as error:
        if session.store.get(key) == body:
            return  # its own, put before: that answer was lost
        raise ObjectExists(
            f"{key}, a name that was drawn at random, is taken by another file",
            key=key,
            hint="Nothing was overwritten. Two processes draw the same random ids: was a machine "
            "cloned, or set back to a snapshot? Open the writer again",
        ) from error
