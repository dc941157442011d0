"""One data file to be read, with all that reading it takes, and what holds it against the log.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, InvalidPartition, LakelogError, ObjectNotFound
from ...store.places import is_url
from .parquet import UNKNOWN_DIGEST, footer_digest
from .unify import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hidden import Hidden
    from .unify import Found, Shown


@dataclass(frozen=True, slots=True)
class BloomPlace:
    """Where the bloom filter of a column lies in a file.

    Attributes:
        row_group: By number.
        column: Name of the column in the file.
        start, end: Of the filter's bytes.
    """

    row_group: int
    column: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file to read.

    Attributes:
        key: Its object, relative to the root.
        size_bytes: Exact.
        row_count: As the log says.
        schema: Its own, with the ids of columns.
        shown: What readers see of it; None: what it has.
        fingerprint: Of the schema, as the log keeps it.
        footer_bytes, footer_digest: Of its footer; 0 or zeros: unknown.
        row_groups: Those to be read, in order; None: all.
        row_group_count: How many the file has, as the log says; 0: unknown.
        blooms: Filters that can say more of the row groups.
        partition: The name of its partition: it tells the values of columns that the schema marks,
            which are not in the file.
        hidden: What hides rows of it; None: nothing does.
        writer: Whose it is, where that was asked for.
    """

    key: str
    size_bytes: int
    row_count: int
    schema: pa.Schema
    fingerprint: bytes = b""
    footer_bytes: int = 0
    footer_digest: bytes = UNKNOWN_DIGEST
    row_groups: tuple[int, ...] | None = None
    row_group_count: int = 0
    blooms: tuple[BloomPlace, ...] = ()
    partition: str = ""
    shown: Shown | None = None
    hidden: Hidden | None = None
    writer: str = ""

    @property
    def form(self) -> tuple[bytes, bytes]:
        """Files of one form show the same columns in the same way."""
        return self.fingerprint, b"" if self.shown is None else self.shown.definition

    def found(self, target: pa.Schema) -> Found:
        """What it has of the columns of a target."""
        return (self.shown or shown(self.schema, None)).found(target)


# --- Holding files against the log ----------------------------------------------------------------


@contextmanager
def reading(part: FilePart) -> Iterator[None]:
    """Whatever goes wrong while a file is read is an error of lakelog's that names it."""
    try:
        yield
    except ObjectNotFound as error:
        error.hint = error.hint or (
            "The data file is gone: was it deleted by hand, or by gc after this point in "
            "time was pruned?"
        )
        raise tell_elsewhere(error, part.key) from None
    except InvalidPartition as error:
        raise CorruptObject(
            f"{part.key}: {error.message}",
            key=part.key,
            hint="Other columns can be read: name them. Add the file anew under another partition",
        ) from error
    except LakelogError as error:
        raise tell_elsewhere(error, part.key) from error.__cause__
    except (pa.ArrowException, OSError, ValueError) as error:
        raise tell_elsewhere(
            CorruptObject(
                f"{part.key} can't be read as the log describes it: {error}",
                key=part.key,
                hint=hint_of(part.key),
            ),
            part.key,
        ) from error


def footer_of(source: Any, part: FilePart) -> Any:
    """The footer of an open file that is the one of the log, by size, digest and rows.

    Raises:
        CorruptObject: It isn't, or the log doesn't know the footer.
    """
    check_size(source.size(), part)
    metadata = known_footer(source, part)
    if metadata is None:
        raise CorruptObject(f"The log doesn't know the footer of {part.key}", key=part.key)
    wanted_rows(metadata, part)
    return metadata


def tell_elsewhere(error: LakelogError, key: str) -> LakelogError:
    """An error about a data file; that of an external file names its URL, and says what to do if it
    is gone."""
    if is_url(key):
        error.key = key
        if isinstance(error, ObjectNotFound):
            error.hint = (
                "The file was added where it is stored, and is gone since: restore it, or take it "
                f"out{_TAKE_OUT}"
            )
    return error


_COPY: Final = "Restore the file from a copy, or read a point in time without it"
_TAKE_OUT: Final = " with `lakelog remove` or tx.remove(URL)"


def hint_of(key: str, *, changed: bool = False) -> str:
    """What to do about a data file that can't be read.

    Args:
        changed: Its size or its footer is another one than the log says.
    """
    if not is_url(key):
        return _COPY
    if changed:
        return (
            "The file was added where it is stored, and was changed since: restore it, or take it "
            f"out{_TAKE_OUT}, and add it again"
        )
    return (
        "Its size and its footer are those that it was added with: it was damaged before that, or "
        f"it holds what can't be read here. Restore it from a copy, or take it out{_TAKE_OUT}"
    )


def check_size(size_bytes: int, part: FilePart) -> None:
    """Hold the size of a file against the log."""
    if size_bytes != part.size_bytes:
        raise CorruptObject(
            f"{part.key} has {size_bytes} bytes, the log says {part.size_bytes}",
            key=part.key,
            hint=hint_of(part.key, changed=True),
        )


def known_footer(source: Any, part: FilePart) -> Any:
    """The footer of a file, if the log knows it: read here, the Parquet reader doesn't read it."""
    import pyarrow.parquet as pq

    footer = check_footer(source, part)
    return None if footer is None else pq.read_metadata(pa.BufferReader(footer))


def check_footer(source: Any, part: FilePart) -> bytes | None:
    """Holds the footer of a file against the log; returns its bytes, None if the log doesn't know
    it."""
    if not part.footer_bytes or part.footer_digest == UNKNOWN_DIGEST:
        return None
    footer = b""
    if part.footer_bytes <= part.size_bytes:
        source.seek(part.size_bytes - part.footer_bytes)
        footer = source.read(part.footer_bytes)
    if footer_digest(footer) != part.footer_digest:
        raise CorruptObject(
            f"{part.key} has another footer than the log says: the file was replaced, or damaged",
            key=part.key,
            hint=hint_of(part.key, changed=True),
        )
    return footer


def check_columns(found: list[str], columns: list[str], part: FilePart) -> None:
    """Parquet readers pass over a column that is not there: its rows would be null."""
    lost = sorted(set(columns) - set(found))
    if lost:
        raise CorruptObject(
            f"{part.key} has no column {lost[0]!r}, the log says it has",
            key=part.key,
            hint=hint_of(part.key),
        )


def wanted_rows(metadata: Any, part: FilePart) -> int:
    """How many rows the row groups have that are to be read."""
    if metadata.num_rows != part.row_count:
        raise CorruptObject(
            f"{part.key} has {metadata.num_rows} rows, the log says {part.row_count}",
            key=part.key,
            hint=hint_of(part.key),
        )
    if part.row_groups is None:
        return part.row_count
    if part.row_groups and max(part.row_groups) >= metadata.num_row_groups:
        raise CorruptObject(
            f"{part.key} has {metadata.num_row_groups} row groups, the log says it has one of "
            f"number {max(part.row_groups)}",
            key=part.key,
            hint="Read without where= or at another point in time, and run `lakelog check`",
        )
    return sum(metadata.row_group(number).num_rows for number in part.row_groups)
