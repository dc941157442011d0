"""Files that lie elsewhere, as readers name them: by URL.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column
from ..format.locations import HEAD_CHARS
from ..format.names import IN_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...store import Store
    from ..data.scan import FilePart
    from ..log.state import State


def keyed(parts: Iterable[FilePart], folder: str, state: State) -> Iterator[FilePart]:
    """Files of a log, each with the key that a `WideStore` reads it by.

    Args:
        parts: With `folder` and path as their keys.
    Raises:
        CorruptObject: The log doesn't say where a file lies.
    """
    start, cut = folder + IN_PLACE, len(folder)
    places = state.places
    for part in parts:
        if part.key.startswith(start):
            yield replace(part, key=places.url(part.key[cut:]))
        else:
            yield part


def located(
    urls: pa.ChunkedArray, paths: pa.ChunkedArray, state: State, store: Store
) -> pa.ChunkedArray:
    """URLs of files, with the right ones for those that lie elsewhere.

    Args:
        urls: As if all lay below the writer's prefix.
        store: A `WideStore`.
    Raises:
        CorruptObject: The log doesn't say where a file lies.
    """
    elsewhere = pc.starts_with(paths, IN_PLACE)
    if not pc.any(elsewhere).as_py():
        return urls
    places = state.places
    found = pc.filter(paths, elsewhere)
    heads = pc.utf8_slice_codeunits(found, 0, HEAD_CHARS)
    rests = pc.utf8_slice_codeunits(found, HEAD_CHARS)
    right = rests
    for head in pc.unique(heads).to_pylist():
        prefix = store.object_url(f"{places.location(head)}/x")[:-1]
        whole = pc.binary_join_element_wise(_text(prefix), rests, _text(""))
        right = pc.if_else(pc.equal(heads, _text(head)), whole, right)
    return pc.replace_with_mask(urls.combine_chunks(), _one(elsewhere), _one(right))


def _one(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _text(text: str) -> pa.Scalar:
    return column([text], pa.string())[0]
