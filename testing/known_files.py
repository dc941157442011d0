"""Files as a test names them, for what Spark reads by the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..catalog.data.parquet import UNKNOWN_DIGEST
from ..catalog.format.columns import column
from ..spark.file_groups import KNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..spark.file_groups import KnownFiles


class KnownFile(NamedTuple):
    """A file as the log knows it.

    Attributes:
        path: Path or URL, raw (never percent-encoded).
        size_bytes: Exact.
        footer_bytes, footer_digest: Of its footer; 0 or zeros: unknown.
    """

    path: str
    size_bytes: int
    footer_bytes: int = 0
    footer_digest: bytes = UNKNOWN_DIGEST


def known_files(files: Sequence[KnownFile]) -> KnownFiles:
    """Some files as columns: those of `KNOWN`."""
    columns = zip(*files, strict=True) if files else ((),) * len(KNOWN)
    arrays = [column(list(values), f.type) for values, f in zip(columns, KNOWN, strict=True)]
    return pa.Table.from_arrays(arrays, schema=KNOWN)
