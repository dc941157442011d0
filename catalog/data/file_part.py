"""One data file to be read, with all that reading it takes. Pure values.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .parquet import UNKNOWN_DIGEST
from .unify import shown

if TYPE_CHECKING:
    import pyarrow as pa

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
