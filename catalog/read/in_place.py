"""Files that lie elsewhere, as readers name them: by URL.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column
from ..format.names import HEAD_CHARS, IN_PLACE
from ..log.state import SMALL_BYTES
from ..parallel import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...store import Store
    from ..data.file_part import FilePart
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


def keys_of(paths: pa.ChunkedArray, folder: str, state: State) -> list[str]:
    """The keys that a `WideStore` reads files by, from their paths in a log.

    Raises:
        CorruptObject: The log doesn't say where a file lies.
    """
    places = state.places
    return [
        places.url(path) if path.startswith(IN_PLACE) else folder + path
        for path in paths.to_pylist()
    ]


def key_column(paths: pa.ChunkedArray, folder: str, state: State) -> pa.ChunkedArray:
    """`keys_of`, as a column."""
    return _resolved(paths, folder, state, lambda location: location)


def urls_of(paths: pa.ChunkedArray, folder: str, state: State, store: Store) -> pa.ChunkedArray:
    """URLs of files, from their paths in a log.

    Args:
        folder: Of the log, that paths are relative to.
        store: A `WideStore`.
    Raises:
        CorruptObject: The log doesn't say where a file lies.
    """
    prefix = store.object_url(folder + "x")[:-1]
    return _resolved(paths, prefix, state, lambda each: store.object_url(f"{each}/x")[:-2])


def _resolved(
    paths: pa.ChunkedArray, folder: str, state: State, named: Callable[[str], str]
) -> pa.ChunkedArray:
    """Paths behind that of their folder.

    Args:
        folder: Of the log.
        named: A location, as it is named here.
    """
    urls = _behind(folder, paths)
    elsewhere = pc.starts_with(paths, IN_PLACE)
    if not pc.any(elsewhere).as_py():
        return urls
    places = state.places
    found = pc.filter(paths, elsewhere)
    heads = pc.utf8_slice_codeunits(found, 0, HEAD_CHARS)
    rests = pc.utf8_slice_codeunits(found, HEAD_CHARS)
    right = rests
    for head in pc.unique(heads).to_pylist():
        prefix = named(places.location(head)) + "/"
        whole = pc.binary_join_element_wise(_text(prefix), rests, _text(""))
        right = pc.if_else(pc.equal(heads, _text(head)), whole, right)
    return pc.replace_with_mask(urls.combine_chunks(), _one(elsewhere), _one(right))


def _behind(prefix: str, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each path behind a prefix."""
    before, between = _text(prefix), _text("")

    def joined(chunk: pa.StringArray) -> pa.StringArray:
        return pc.binary_join_element_wise(before, chunk, between)

    at_once = 2 if paths.nbytes > SMALL_BYTES else 1
    return pa.chunked_array(parallel(joined, paths.chunks, at_once=at_once), pa.string())


def _one(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _text(text: str) -> pa.Scalar:
    return column([text], pa.string())[0]
