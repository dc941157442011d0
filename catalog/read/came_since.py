"""Which files that came since an operation looked at a log may hold rows that it asked for.

Source: docs/changing.md, "When others commit meanwhile".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import LakelogError
from ..data.shown import shown
from ..data.unify import FileSchema
from ..format.columns import array
from ..log.lookup import schemas_with
from ..log.part import in_partition
from .row_filter import row_filter
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.state import State
    from .row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The rows of a table that an operation replaces or deletes.

    Attributes:
        table: Its name.
        where: The predicate that they meet; None: all rows.
        partition: Those of files of this one; None: of any.
        schemas: Of the files that it found, and of the data that comes.
    """

    table: str
    where: Any
    partition: str | None
    schemas: Sequence[FileSchema]

    def bound(self, more: Sequence[FileSchema] = ()) -> RowFilter | None:
        """`where` as it is meant, of files with more schemas too; None: all rows."""
        if self.where is None:
            return None
        return row_filter(self.where, [*self.schemas, *more], self.table)

    def may_hold(self, wanted: RowFilter | None, state: State, files: Files) -> list[str]:
        """The files of which rows may be asked for; any of those beside which `where` doesn't mean
        what it did.

        Args:
            wanted: What `bound` gave when the files were looked at.
            files: Some that came since.
        """
        known = schemas_with(state, [self.table])
        new = None
        try:
            new = self.bound(seen_schemas(state, self.table, files, known))
        except LakelogError:
            wanted = None  # it means nothing any more
        if new is not None and (
            wanted is None or (new.predicate, new.target) != (wanted.predicate, wanted.target)
        ):
            new = None
        found: list[str] = []
        names = [] if new is None else new.target.names
        for source in TableFacts(state, self.table, (files, known)).of_files(names):
            some = source.live if new is None else source.live & source.units.judge(new).true
            if self.partition is not None:
                some = some & numpy_mask(in_partition(source.files, self.partition))
            found += source.files.column("path").filter(array(some)).to_pylist()
        return found


def seen_schemas(state: State, table: str, files: Files, known: KnownSchemas) -> list[FileSchema]:
    """What live files show."""
    used, definition = files.fingerprints(table), state.definitions.of(table)
    entries = [entry for entry in known.of_table(table) if entry.fingerprint in used]
    return [FileSchema(shown(entry.schema, definition).schema, state.writer) for entry in entries]


def numpy_mask(values: pa.ChunkedArray) -> np.ndarray:
    """Truth values as NumPy has them."""
    found: np.ndarray = np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.bool_)
    return found
