"""One table of a cut as a dataset of pyarrow, which DuckDB, Polars and others take.

An engine asks such an object for columns and a filter: they go to the scan of the cut, so that the
log's statistics skip files, drifted schemas are mended, and every file is held against the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSystemHandler, PyFileSystem

from ...errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .source import Source

_BATCH_ROWS: Final = 131_072
_HINT: Final = "Give it dataset.scanner(), dataset.to_table(), or snapshot.scan(table)"


class TableDataset(ds.FileSystemDataset):
    """The rows of one table at one cut, which never changes.

    Filters mean what pyarrow makes of them: NaN is neither less nor greater than anything.

    pyarrow's own code can't be told how to read it: what goes around the methods here (a union of
    datasets, its fragments) is an error, never other rows. So the dataset below is one of a file
    that can't be opened.
    """

    def __init__(self, source: Source, found: Any | None = None) -> None:
        kind, files = ds.ParquetFileFormat(), PyFileSystem(_NoFiles())
        fragment = kind.make_fragment(source.name, filesystem=files)
        super().__init__([fragment], source.schema, kind, files)
        self._source = source
        self._found = found

    def __repr__(self) -> str:
        return f"<lakelog table {self._source.name!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A lakelog dataset can't be pickled: send the snapshot's token instead")

    @property
    def schema(self) -> pa.Schema:
        """As `Snapshot.schema` has it."""
        return self._source.schema

    @property
    def files(self) -> list[str]:
        """Not told here: `Snapshot.files` is for engines that read Parquet themselves."""
        raise _refusal()

    def scanner(
        self,
        columns: Any | None = None,
        filter: Any | None = None,
        batch_size: int = _BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """One pass over the rows; nothing is read before it is asked for them.

        Args:
            columns: Names, or expressions by name.
            filter: An expression.
            batch_size: The most rows in a batch.
            _: What else pyarrow's own takes is passed over.
        """
        if not isinstance(columns, dict):
            return ds.Scanner.from_batches(self._read(columns, filter), batch_size=batch_size)
        reader = self._read(None, filter)
        return ds.Scanner.from_batches(reader, columns=columns, batch_size=batch_size)

    def to_batches(
        self,
        columns: Any | None = None,
        filter: Any | None = None,
        batch_size: int = _BATCH_ROWS,
        **_: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream."""
        if isinstance(columns, dict):
            yield from self.scanner(columns, filter, batch_size).to_batches()
            return
        for batch in self._read(columns, filter):
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)

    def to_table(self, columns: Any | None = None, filter: Any | None = None, **_: Any) -> pa.Table:
        """The rows in memory."""
        if isinstance(columns, dict):
            return self.scanner(columns, filter).to_table()
        return self._read(columns, filter).read_all()

    def head(
        self,
        num_rows: int,
        columns: Any | None = None,
        filter: Any | None = None,
        **_: Any,
    ) -> pa.Table:
        """The first rows; no more is read than a few files ahead."""
        if isinstance(columns, dict):
            return self.scanner(columns, filter).head(num_rows)
        with self._read(columns, filter) as reader:
            parts, left = [], num_rows
            for batch in reader:
                parts.append(batch.slice(0, left))
                left -= parts[-1].num_rows
                if left <= 0:
                    break
            return pa.Table.from_batches(parts, reader.schema)

    def count_rows(self, filter: Any | None = None, **_: Any) -> int:
        """How many rows there are; without a filter as the log says, and no file is read."""
        if filter is None and self._found is None:
            return self._source.row_count()
        return sum(batch.num_rows for batch in self._read([], filter))

    def take(self, indices: Any, columns: Any | None = None, **options: Any) -> pa.Table:
        """Rows by number; all are read."""
        return self.to_table(columns, **options).take(indices)

    def filter(self, expression: Any) -> TableDataset:
        """The rows that meet an expression."""
        return TableDataset(self._source, self._both(expression))

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """All rows, in memory, in an order."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *args: Any, **options: Any) -> ds.InMemoryDataset:
        """As pyarrow's own, in memory."""
        return self._in_memory().join(_loaded(right_dataset), *args, **options)

    def join_asof(self, right_dataset: Any, *args: Any, **options: Any) -> ds.InMemoryDataset:
        """As pyarrow's own, in memory."""
        return self._in_memory().join_asof(_loaded(right_dataset), *args, **options)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refused: the types of a table are the log's."""
        del schema
        raise _refusal()

    def get_fragments(self, filter: Any | None = None) -> NoReturn:
        """Refused: a file alone doesn't have the table's schema."""
        del filter
        raise _refusal()

    def _in_memory(self) -> ds.InMemoryDataset:
        return ds.InMemoryDataset(self.to_table())

    def _both(self, expression: Any | None) -> Any | None:
        if self._found is None:
            return expression
        return self._found if expression is None else self._found & expression

    def _read(self, columns: Any | None, expression: Any | None) -> pa.RecordBatchReader:
        names = None if columns is None else list(columns)
        return self._source.scan(names, self._both(expression))


def _loaded(dataset: Any) -> Any:
    return dataset._in_memory() if isinstance(dataset, TableDataset) else dataset


def _refusal() -> UsageError:
    return UsageError("pyarrow can't read a lakelog table without its log", hint=_HINT)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise _refusal()


class _NoFiles(FileSystemHandler):
    """A file system in which nothing can be opened."""

    def get_type_name(self) -> str:
        """Its name in pyarrow's messages."""
        return "lakelog"

    def normalize_path(self, path: str) -> str:
        """The same."""
        return path

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
    delete_root_dir_contents = get_file_info = get_file_info_selector = move = _refuse
    open_append_stream = open_input_file = open_input_stream = open_output_stream = _refuse
