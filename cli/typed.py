"""Results with their types on stdout: as Parquet, or as a stream of Arrow IPC.

Either has an end only if all of it was written. What a command that failed leaves behind is no
Parquet file; most readers of Arrow take a stream without its end for whole, so whoever uses them
looks at how the command ended (`lakelog write` refuses such a stream).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

FORMS: Final = {"parquet": "Parquet", "arrow": "Arrow IPC"}


class TypedStream:
    """Rows of one schema, written to stdout as they come, a row group or a message a batch.

    Args:
        form: One of `FORMS`.
    Raises:
        UsageError: Stdout is a terminal or takes no bytes, or Parquet has no such type.
    """

    def __init__(self, form: str, schema: pa.Schema) -> None:
        import pyarrow as pa

        sink = pa.PythonFile(_Stdout(FORMS[form]), "w")
        if form == "arrow":
            self._writer = pa.ipc.new_stream(sink, schema)
            return
        import pyarrow.parquet as pq

        try:
            self._writer = pq.ParquetWriter(sink, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise UsageError(
                f"The rows can't be written as Parquet: {error}",
                hint="Leave such columns out, or choose --output json",
            ) from error

    def add(self, batch: pa.RecordBatch) -> None:
        """Write more rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write what stands at the end."""
        self._writer.close()
        sys.stdout.flush()


class _Stdout:
    """Stdout as a file of bytes that knows how far it is, which a pipe doesn't. Arrow may close
    it; stdout stays open."""

    closed = False

    def __init__(self, shown: str) -> None:
        if sys.stdout.isatty():
            raise UsageError(
                f"A terminal can't show {shown}",
                hint="Lead it into a file, as by > rows, or into another program",
            )
        raw = getattr(sys.stdout, "buffer", None)
        if raw is None:
            raise UsageError("Stdout takes text only", hint="Choose --output json or csv")
        sys.stdout.flush()
        self._raw = raw
        self._written = 0

    def write(self, data: Any) -> int:
        """Write all of it."""
        size = memoryview(data).nbytes
        self._raw.write(data)
        self._written += size
        return size

    def tell(self) -> int:
        """How much was written."""
        return self._written

    def flush(self) -> None:
        """Hand it on."""
        self._raw.flush()

    def close(self) -> None:
        """Nothing: stdout isn't ours."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def write_columns(form: str, columns: Sequence[tuple[str, str, list[Any]]]) -> None:
    """Write a table at once.

    Args:
        form: One of `FORMS`.
        columns: Name, type (`int64`, `bool` or `string`) and values of each.
    """
    import pyarrow as pa

    schema = pa.schema([(name, kind) for name, kind, _ in columns])
    values = [pa.array(found, field.type) for field, (_, _, found) in zip(schema, columns)]
    stream = TypedStream(form, schema)
    stream.add(pa.RecordBatch.from_arrays(values, schema=schema))
    stream.close()
