"""From what is asked of a table to what reading it takes: files, columns, row groups.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import UsageError, some_names
from ..data.file_part import FilePart
from ..data.parquet import UNKNOWN_DIGEST
from ..data.scan import Projection
from ..data.unify import column_names, only, unify
from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..data.file_part import BloomPlace
    from ..data.shown import Shown
    from ..data.unify import FileSchema
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
    """What to read for some columns (None: all) of the rows that are asked for. Types need to agree
    in what is read alone.

    Raises:
        SchemaConflict: They don't.
    """
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
    """The columns asked for, if they can be.

    Raises:
        UsageError: There is no such one, or it is named twice.
    """
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
                hint=f"It has: {some_names(names)}",
            )
        if name in seen:
            raise UsageError(
                f"Column {name!r} is asked for twice", key=name, hint="Name each column once"
            )
        seen.add(name)
    return wanted
