"""What the tests of all backends share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.store import ObjectInfo


def keys_of(found: list[ObjectInfo]) -> list[str]:
    return [info.key for info in found]


def put_all(store, keys, body=b"x"):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, body), keys))
