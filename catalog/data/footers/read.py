"""Footers of files in a store: fetched by this process, read in a child process.

A file of unknown origin may be anything, and some malformed footers abort the process that reads
them. What comes back from here has gone through a child.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import CorruptObject, InvalidParquet, LakelogError
from ..file_part import hint_of, tell_elsewhere
from ..parquet import UNKNOWN_DIGEST, footer_digest
from .parse import TAIL_BYTES, NotParquet, ParsedFooter, footer_length
from .pool import footer_pool

if TYPE_CHECKING:
    from ....store import Store
    from ..file_part import FilePart


def read_footer(store: Store, key: str, size_bytes: int) -> ParsedFooter:
    """All that a Parquet file's footer says.

    Args:
        size_bytes: The file's exact size, from a listing.
    Raises:
        ObjectNotFound: No such object.
        InvalidParquet: It is no Parquet file, or a damaged, encrypted or malformed one.
    Requests: 1 GET of the file's end, 2 if its footer is over 64 KiB.
    """
    try:
        tail = fetch_tail(store, key, size_bytes)
        return footer_pool().parse(tail, size_bytes)
    except NotParquet as error:
        raise InvalidParquet(
            f"{key} can't be used as a Parquet file: {error}",
            key=key,
            hint="Write the file anew, or restore it from a copy",
        ) from error


def read_new_footer(store: Store, key: str, size_bytes: int) -> ParsedFooter:
    """All that the footer of a file says that is to become live.

    Raises:
        ObjectNotFound: No such object.
        InvalidParquet: As for `read_footer`; or its rows can't be read right.
    Requests: those of `read_footer`.
    """
    parsed = read_footer(store, key, size_bytes)
    if parsed.unfit:
        raise InvalidParquet(
            f"{key} can't be added: {parsed.unfit}",
            key=key,
            hint="Write the file again; in Spark 3 or later set "
            "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS and "
            "spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED first",
        )
    return parsed


def fetch_tail(store: Store, key: str, size_bytes: int) -> bytes:
    """The footer of a file with its trailer of 8 bytes.

    Raises:
        ObjectNotFound: No such object.
        NotParquet: No footer ends there.
    Requests: 1 or 2 GET; none for a file that is too short.
    """
    first = max(0, size_bytes - TAIL_BYTES)
    tail = store.get(key, start=first, end=size_bytes) if size_bytes else b""
    if len(tail) < size_bytes - first:
        raise NotParquet("it has become shorter since it was listed")
    length = footer_length(tail, size_bytes)
    if length > len(tail):
        tail = store.get(key, start=size_bytes - length, end=first) + tail
    return tail[-length:]


def check_file(store: Store, part: FilePart) -> bytes:
    """Checks a file against the log without reading its rows, for engines that read it themselves
    and check nothing.

    Returns:
        The bytes of its footer; none if the log doesn't know its digest.
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
        hint=hint_of(part.key, changed=True),
    )
    return tell_elsewhere(error, part.key)
