"""Holding a data file against the log without reading its rows: for engines that read the file
themselves, and check nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import CorruptObject, LakelogError
from ..file_checks import tell_elsewhere
from ..parquet import UNKNOWN_DIGEST, footer_digest

if TYPE_CHECKING:
    from ....store import Store
    from ..file_part import FilePart


def check_file(store: Store, part: FilePart) -> bytes:
    """The footer of a file, which is the one that the log names.

    Returns:
        Its bytes; none if the log doesn't know them.
    Raises:
        ObjectNotFound: The file is gone.
        CorruptObject: It has another size or another footer.
    Requests: 1 HEAD, 1 GET.
    """
    size_bytes = store.head(part.key).size_bytes
    if size_bytes != part.size_bytes:
        raise _replaced(part, f"{size_bytes} bytes, the log says {part.size_bytes}")
    if not part.footer_bytes or part.footer_digest == UNKNOWN_DIGEST:
        return b""
    footer = b""
    if part.footer_bytes <= size_bytes:
        footer = store.get(part.key, start=size_bytes - part.footer_bytes, end=size_bytes)
    if footer_digest(footer) != part.footer_digest:
        raise _replaced(part, "another footer than the log says: the file was replaced, or damaged")
    return footer


def _replaced(part: FilePart, what: str) -> LakelogError:
    error = CorruptObject(
        f"{part.key} has {what}",
        key=part.key,
        hint="Restore the file from a copy, or read a point in time without it",
    )
    return tell_elsewhere(error, part.key)
