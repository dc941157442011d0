"""From the pages of a store's listing to objects in order, one page at a time.

No server is trusted to start where it was told to, to name each key once, or to keep the order. A
page is sorted here; that pages follow one another in order is checked, since what was handed out
can't be taken back.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .base import ObjectInfo

# What a store promises of its pages: the order of the keys' UTF-8 bytes; the same for the ASCII
# names in one folder only (it puts a folder's content at the place of the folder's name, or
# compares UTF-16); nothing.
Order: TypeAlias = Literal["bytes", "names", "none"]


def in_order(
    pages: Iterator[Sequence[ObjectInfo]], prefix: str, after: str | None, order: Order, url: str
) -> Iterator[ObjectInfo]:
    """Objects whose key starts with `prefix` and is greater than `after`, sorted, each once.

    Args:
        pages: Fetches a page each time it is asked.
        prefix: As the caller of `Store.list` gave it.
        after: Likewise.
        order: What the store promises.
        url: Of the store.
    Raises:
        StorageError: A page goes back behind what was handed out already.
    """
    last: str | None = None
    for batch in _batches(pages, prefix, order):
        for info in sorted(batch, key=attrgetter("key")):
            key = info.key
            # Names that end in `/` are what some tools put for a folder.
            if not key.startswith(prefix) or key.endswith("/") or key == last:
                continue
            if after is not None and key <= after:
                continue
            if last is not None and key < last:
                raise StorageError(
                    f"the store lists its objects out of order: this one came after {last}",
                    key=key,
                    hint=f"{url} can't hold a catalog unless it lists by name, as S3 does",
                )
            last = key
            yield info


def _batches(
    pages: Iterator[Sequence[ObjectInfo]], prefix: str, order: Order
) -> Iterator[Sequence[ObjectInfo]]:
    """Pages to be handed out one by one, and all together from where the order isn't promised.

    Up to there a store of order "names" gave ASCII names of one folder. Whatever follows them in
    its order is greater as bytes too: it differs from each at an ASCII letter, or continues it.
    """
    for page in pages:
        if order == "bytes" or (order == "names" and _of_one_folder(page, prefix)):
            yield page
        else:
            yield [*page, *chain.from_iterable(pages)]


def _of_one_folder(page: Sequence[ObjectInfo], prefix: str) -> bool:
    cut = len(prefix)
    return all("/" not in info.key[cut:] and info.key[cut:].isascii() for info in page)
