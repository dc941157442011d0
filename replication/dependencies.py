"""What a transaction, or a whole state, names below its writer's `data/`: the objects that must be
at the destination before it is. Pure.

External files are named by their URLs and stay where they are.

Source: docs/replication.md; docs/format.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.data.parquet import UNKNOWN_DIGEST
from ..catalog.format.names import IN_PLACE
from ..catalog.format.run import files_rows
from ..catalog.log.part import Part, batch_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State

_FACTS: Final = ("path", "size_bytes", "footer_bytes", "footer_digest")
_AT_ONCE: Final = 10_000


class DataFile(NamedTuple):
    """A data file, or an object of row deletes, as the log describes it.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes: Exact; -1 for an object of row deletes, whose size the log doesn't state.
        footer_bytes, footer_digest: Of the Parquet footer; 0, or eight zero bytes: not known.
    """

    path: str
    size_bytes: int
    footer_bytes: int
    footer_digest: bytes

    @property
    def is_deletes(self) -> bool:
        """Whether it is an object of row deletes."""
        return self.size_bytes < 0

    @property
    def knows_footer(self) -> bool:
        """Whether the log knows the footer."""
        return self.footer_bytes > 0 and self.footer_digest != UNKNOWN_DIGEST


@dataclass(frozen=True, slots=True)
class Needs:
    """Objects that must be there first.

    Attributes:
        facts: Data files, each once: the columns of `DataFile`.
        deletes: Paths of objects of row deletes, each once.
        elsewhere: How many files are external.
    """

    facts: pa.Table
    deletes: tuple[str, ...]
    elsewhere: int

    @property
    def number(self) -> int:
        """Objects."""
        return int(self.facts.num_rows) + len(self.deletes)

    @property
    def size_bytes(self) -> int:
        """Of the data files."""
        return int(pc.sum(self.facts.column("size_bytes")).as_py() or 0)

    def each(self) -> Iterator[DataFile]:
        """One after the other: a million need no list of Python objects."""
        for batch in self.facts.to_batches(max_chunksize=_AT_ONCE):
            columns = [values.to_pylist() for values in batch.columns]
            yield from (DataFile(*row) for row in zip(*columns, strict=True))
        for path in self.deletes:
            yield DataFile(path, -1, 0, UNKNOWN_DIGEST)


def needs_of(transactions: Iterable[DecodedTransaction]) -> Needs:
    """The objects that some transactions add.

    Raises:
        CorruptError: A segment of files is damaged, so that its files aren't known.
    """
    tables: list[pa.Table] = []
    deletes: dict[str, None] = {}
    for transaction in transactions:
        adds = []
        for position, action in enumerate(transaction.message.actions):
            kind = action.WhichOneof("kind")
            if kind == "add":
                adds.append(action.add)
            elif kind == "add_batch":
                tables += _batch_facts(transaction, position)
            elif kind == "row_deletes":
                deletes[action.row_deletes.object] = None
        if adds:
            tables.append(files_rows(adds, [0] * len(adds)).select(_FACTS))
    return _needs(tables, deletes)


def _batch_facts(transaction: DecodedTransaction, position: int) -> Iterator[pa.Table]:
    for part, _ in batch_parts(transaction.batches[position]):
        if not isinstance(part, Part):
            raise part
        yield part.run.full().select(_FACTS)


def needs_of_state(state: State) -> Needs:
    """The live files of a state, and the objects that hold its row deletes.

    Raises:
        CorruptError: The files of a table can't be read.
    Requests: 1 GET for each segment of files and of row deletes.
    """
    files = state.files
    for error in (*files.broken.values(), *(error for _, error in files.broken_ranges)):
        raise error
    tables = [files.table(table, whole=True).select(_FACTS) for table in sorted(files.tables())]
    objects = [path for paths in state.deletes.objects() for path in paths.to_pylist()]
    return _needs(tables, dict.fromkeys(objects))


def _needs(tables: list[pa.Table], deletes: dict[str, None]) -> Needs:
    whole = files_rows([], []).select(_FACTS)
    facts = pa.concat_tables([whole, *tables]).combine_chunks()
    elsewhere = pc.starts_with(facts.column("path"), IN_PLACE)
    own = facts.filter(pc.invert(elsewhere))
    # Of a path that was added twice the last facts count: they are those of the file as it is now.
    own = own.take(np.arange(own.num_rows)[::-1])
    paths = own.column("path").combine_chunks()
    lasts = pc.index_in(pc.unique(paths), value_set=paths)
    below = tuple(path for path in deletes if not path.startswith(IN_PLACE))
    return Needs(own.take(lasts), below, facts.num_rows - own.num_rows)
