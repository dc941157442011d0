"""One put that never overwrites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ObjectExists, ObjectNotFound

if TYPE_CHECKING:
    from ..store import Store


def put_once(store: Store, key: str, body: bytes, *, exclusive: bool = True) -> bool:
    """Put an object where there is none.

    Args:
        exclusive: Whether the store has put-if-absent; else it is looked first, which is as good as
            it gets.
    Returns:
        Whether these bytes stand now, whoever put them; False if others do.
    Raises:
        StorageError: It can't be told.
    Requests: 1 PUT; 1 GET if it is there, or without put-if-absent.
    """
    try:
        if exclusive:
            store.put(key, body, if_absent=True)
            return True
        there = store.get(key)
    except ObjectExists:
        return store.get(key) == body
    except ObjectNotFound:
        store.put(key, body)
        return True
    return there == body
