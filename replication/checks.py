"""Whether an object of the source is what its log says, before it is put anywhere.

Source: docs/replication.md, "How it works".
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

from ..catalog.data.pages import damaged_column
from ..catalog.data.parquet import footer_digest
from ..catalog.format.deletes import bitmaps_of
from ..errors import CorruptObject, LakelogError, ReplicaDiverged, UnsupportedFeature

if TYPE_CHECKING:
    from .needs import DataFile

_E = TypeVar("_E", bound=LakelogError)


def check_body(body: bytes, key: str, file: DataFile) -> None:
    """Hold an object against what the log says of it, and a Parquet file's pages against their
    checksums.

    Raises:
        CorruptObject: It is damaged, or another one.
    """
    if file.is_deletes:
        bitmaps_of(body, key)
        return
    problem = ""
    if len(body) != file.size_bytes:
        problem = f"has {len(body):,} bytes, the log says {file.size_bytes:,}"
    elif file.knows_footer and footer_digest(body[-file.footer_bytes :]) != file.footer_digest:
        problem = "has another footer than the log says"
    else:
        problem = _damaged_pages(body)
    if problem:
        raise CorruptObject(
            f"{key} {problem}",
            key=key,
            hint="Nothing of it was copied. Restore the file at the source, or take it out of its "
            "table there; `lakelog check` looks for more",
        )


def _damaged_pages(body: bytes) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(pa.BufferReader(body))
        found = damaged_column(BytesIO(body), metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"is no sound Parquet file: {error}"
    if found is None:
        return ""
    return (
        f"is damaged: a page of column {found[0]!r} in row group {found[1]} is not its checksum's"
    )


def diverged(what: str, key: str) -> ReplicaDiverged:
    """The error for a destination that isn't a copy of the source's log."""
    return ReplicaDiverged(
        what,
        key=key,
        hint="Nothing there was changed. A replica is written by replication alone: replicate into "
        "another place, or remove the log there first if its commits are not wanted",
    )


def told_of_destination(error: _E, where: str) -> _E:
    """An error of the destination's log that says so, and what to do if it is a replica: it may
    hold what the source has not, or be no replica at all."""
    error.message = f"At the destination: {error.message}"
    if not isinstance(error, UnsupportedFeature):
        error.hint = (
            f"If all of {where}/ there came from this source, and the source still has it: delete "
            f"{where}/ at the destination, and replicate that log anew. Else leave it as it is, "
            "and replicate into another place: a rebuild there keeps its data, and is no replica"
        )
    return error
