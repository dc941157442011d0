"""Footers of files in a store: fetched by this process, read in a child process.

A file of unknown origin may be anything, and some malformed footers abort the process that reads
them. What comes back from here has gone through a child.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import InvalidParquet
from .parse import TAIL_BYTES, NotParquet, ParsedFooter, footer_length
from .pool import footer_pool

if TYPE_CHECKING:
    from ....store import Store


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
            hint="Write the file anew with INT64 timestamps; in Spark set "
            "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS first",
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
