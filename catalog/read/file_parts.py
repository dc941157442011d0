"""From what is asked of a table to what reading it takes: files, columns, row groups.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import UsageError, it_has
from ..data.file_part import FilePart
from ..data.parquet import UNKNOWN_DIGEST
from ..data.scan import Projection
from ..data.unify import column_names, only, unify
from ..format import compute as pc
from ..format.columns import column, numbers
from ..format.names import HEAD_CHARS, IN_PLACE, OWN_NAME
from ..log.state import SMALL_BYTES
from ..parallel import parallel
from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..data.file_part import BloomPlace
    from ..data.unify import FileSchema, Shown
    from ..log.state import State
    from .row_filter import RowFilter


_COLUMNS: Final = [
    "path",
    "size_bytes",
    "row_count",
    "schema_fingerprint",
    "footer_bytes",
    "footer_digest",
    "row_groups",
    "partition",
]


def file_parts(
    rows: pa.Table,
    folder: str,
    shown: Callable[[bytes], Shown],
    row_groups: Mapping[str, tuple[int, ...]],
    blooms: Mapping[str, tuple[BloomPlace, ...]],
    *,
    writer: str = "",
) -> Iterator[FilePart]:
    """Files of one table in one log with what reading them needs, in the order given.

    Args:
        rows: With the columns of FILES.
        folder: That paths are relative to.
        shown: What files of a schema show, by its fingerprint.
        row_groups: By path those to be read, where some are to be skipped. They are told by number,
            so by the footer that the log has seen: of a file whose footer it can't tell all are.
        blooms: By path the filters to be asked, where there are some; of these files likewise.
        writer: Whose they are.
    """
    forms: dict[bytes, Shown] = {}
    for path, size, count, fingerprint, footer_bytes, digest, groups, partition in zip(
        *(rows.column(name).to_pylist() for name in _COLUMNS), strict=True
    ):
        form = forms.get(fingerprint)
        if form is None:
            form = forms[fingerprint] = shown(fingerprint)
        seen = footer_bytes and digest != UNKNOWN_DIGEST
        yield FilePart(
            folder + path,
            size,
            count,
            form.own,
            fingerprint,
            footer_bytes,
            digest,
            row_groups.get(path) if seen else None,
            groups,
            blooms.get(path, ()) if seen else (),
            partition,
            form,
            writer=writer,
        )


def projected(
    schemas: Sequence[FileSchema],
    table: str,
    columns: Sequence[str] | None,
    found: RowFilter | None,
) -> Projection:
    """Returns what to read for some columns (None: all) of the rows that are asked for. Raises
    `SchemaConflict` if types disagree in what is read."""
    if columns is None:
        return Projection(unify(schemas, table), None if found is None else found.keep)
    names, read = columns, list(columns)
    if found is not None:
        read += (name for name in found.target.names if name not in names)
    unified = _unified(schemas, table, read)
    if found is None:
        return Projection(unified)
    return Projection(unified, found.keep, names if len(read) > len(names) else None)


def _unified(schemas: Sequence[FileSchema], table: str, names: Sequence[str]) -> pa.Schema:
    chosen = set(names)
    parts = [replace(item, schema=only(item.schema, chosen)) for item in schemas]
    found = unify(parts, table)
    return pa.schema([found.field(name) for name in names])


def checked(columns: Sequence[str], schemas: Sequence[FileSchema], table: str) -> Sequence[str]:
    """Returns the columns asked for. Raises `UsageError` if one doesn't exist, or is named
    twice."""
    if isinstance(columns, str):
        raise UsageError(
            f"Columns are a list of names, not {columns!r}", hint=f"Give [{columns!r}]"
        )
    names, wanted = column_names(schemas), [value_of(name) for name in columns]
    seen: set[str] = set()
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"Table {table!r} has no column {name!r}",
                key=str(name),
                hint=it_has(name, names),
            )
        if name in seen:
            raise UsageError(
                f"Column {name!r} is asked for twice", key=name, hint="Name each column once"
            )
        seen.add(name)
    return wanted


# --- External files: their keys and URLs ----------------------------------------------------------


def keyed(parts: Iterable[FilePart], folder: str, state: State) -> Iterator[FilePart]:
    """Yields files of a log, whose keys are `folder` and path, with the keys that a `WideStore`
    reads them by. Raises `CorruptObject` if the log doesn't say where a file is."""
    start, cut = folder + IN_PLACE, len(folder)
    places = state.places
    for part in parts:
        if part.key.startswith(start):
            yield replace(part, key=places.url(part.key[cut:]))
        else:
            yield part


def keys_of(paths: pa.ChunkedArray, folder: str, state: State) -> list[str]:
    """Returns the keys that a `WideStore` reads files by, from their paths in a log; raises as
    `keyed`."""
    places = state.places
    return [
        places.url(path) if path.startswith(IN_PLACE) else folder + path
        for path in paths.to_pylist()
    ]


def key_column(paths: pa.ChunkedArray, folder: str, state: State) -> pa.ChunkedArray:
    """`keys_of`, as a column."""
    return _resolved(paths, folder, state, lambda location: location)


def by_others(keys: pa.ChunkedArray) -> np.ndarray:
    """Which files another program than lakelog may have written, by the keys of a `WideStore`: as
    `names.is_own`."""
    own = pc.match_substring_regex(keys, OWN_NAME)
    return numbers(pc.or_(pc.match_substring(keys, "://"), pc.invert(own))).astype(np.bool_)


def urls_of(paths: pa.ChunkedArray, folder: str, state: State, store: Store) -> pa.ChunkedArray:
    """Returns the URLs of files, from their paths in a log, relative to `folder`; `store` is a
    `WideStore`. Raises as `keyed`."""
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
