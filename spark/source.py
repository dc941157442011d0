"""`format("lakelog")`: a Python data source, which reads by fsspec and yields Arrow. How it writes
is in `write_source`.

It serves where Spark has no connector for the store, and SQL views; `lakelog.spark.read` is several
times faster where Spark can open the files itself.

Filters of a query are not pushed into it: in Spark 4.3 a filter of one query leaks into the next
one on the same DataFrame. The option `where` is: by it files are skipped, and rows filtered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..catalog.points import point_in_time
from ..errors import UsageError
from .arrow_batches import as_spark, exchanged
from .partition_columns import WRITER_COLUMN
from .selection import Selection, selection
from .source_options import flag, json_object, names, need, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.catalog import Catalog
    from ..catalog.changing import AsOf
    from ..catalog.data.file_part import FilePart
    from ..catalog.data.scan import Projection
    from ..catalog.data.shown import Shown
    from ..catalog.snapshot import Snapshot
    from .write_source import LakelogWriter

PARTITION_BYTES: Final = 128 << 20
PARTITION_FILES: Final = 1_000
OPTIONS: Final = (
    "database", "table", "asOf", "columns", "where", "partition", "writer", "withWriter",
    "storageOptions", "locationOptions", "path", "files",
)  # fmt: skip
_SECRETS: Final = ("storageOptions", "locationOptions")
_AS_OF: Final = "as_of"  # how Python callers of `lakelog.spark.read` know it


class LakelogDataSource(DataSource):
    """The data source `lakelog`.

    Options: `database`, `table`; `asOf`, also `as_of` (a token, an ISO time with its zone, or
    revisions: `EWR=3,JFK=2`);
    `columns` (a JSON list of names), `where` (docs/reading.md, "Predicates"), `partition`,
    `writer`, `files` (a JSON list of keys): only such columns, rows, and files; `withWriter`
    (true: with the column `_writer`); `storageOptions`, `locationOptions` (JSON). The path is the
    catalog's URL. Other options are refused. Those for
    writing are in `write_source`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._token: str | None = None

    @classmethod
    def name(cls) -> str:
        return "lakelog"

    def schema(self) -> StructType:
        """The table's schema at the cut; from here on the cut is fixed.

        Requests: those of `Catalog.snapshot`.
        """
        from .arrow_types import spark_schema

        snapshot = self._snapshot()
        self._token = snapshot.token  # the reader, made of a pickled copy, reads this very cut
        return spark_schema(_selection(self.options, snapshot).given)

    def reader(self, schema: StructType) -> LakelogReader:
        """The reader of the cut.

        Requests: those of `Catalog.snapshot`.
        """
        return LakelogReader(_selection(self.options, self._snapshot()), schema, self._access())

    def writer(self, schema: StructType, overwrite: bool) -> LakelogWriter:
        """What writes one frame; see `LakelogWriter`."""
        from .write_source import LakelogWriter

        return LakelogWriter(self.options, schema, overwrite)

    def _snapshot(self) -> Snapshot:
        refuse_unknown(self.options, OPTIONS, "format('lakelog')", [_AS_OF])
        self._need("table")
        catalog = self._access().open()
        return catalog.snapshot(self._need("database"), self._token or _point(self.options))

    def _access(self) -> _Access:
        texts = (self.options.get(name) or "{}" for name in _SECRETS)
        return _Access(self._need("path"), *texts)

    def _need(self, name: str) -> str:
        hint = (
            "the catalog's URL goes to load(url)" if name == "path" else f".option({name!r}, ...)"
        )
        return need(self.options, name, hint)


def _selection(options: Any, snapshot: Snapshot) -> Selection:
    """What the options ask for."""
    columns, files = options.get("columns"), options.get("files")
    found = selection(
        snapshot,
        str(options["table"]),
        None if columns is None else names(columns, "columns"),
        options.get("where"),
        partition=options.get("partition"),
        writer=options.get("writer"),
        with_writer=flag(options, "withWriter"),
    )
    return found if files is None else replace(found, keys=tuple(names(files, "files")))


def _point(options: Any) -> AsOf:
    """The point in time that the options name."""
    given = {str(options[name]) for name in ("asOf", _AS_OF) if options.get(name) is not None}
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(
            "The options asOf and as_of name different points in time",
            key="asOf",
            hint="Give one of them",
        )
    return point_in_time(given.pop())


@dataclass(frozen=True)
class _Access:
    """Where the catalog is, and what opens it. Never shows the latter."""

    url: str
    storage_options: str
    location_options: str

    def __repr__(self) -> str:
        return f"_Access({self.url!r})"

    def open(self) -> Catalog:
        from ..catalog.catalog import open_catalog

        texts = (self.storage_options, self.location_options)
        found = [json_object(name, text) for name, text in zip(_SECRETS, texts, strict=True)]
        return open_catalog(self.url, *(options or None for options in found))


@dataclass(frozen=True)
class _Form:
    """What files of one form show, to be sent to a task: `Shown`, packed."""

    own: bytes
    schema: bytes
    stored: tuple[tuple[str, str], ...]
    defaults: tuple[tuple[str, pa.Scalar], ...]
    definition: bytes

    def unpacked(self) -> Shown:
        from ..catalog.data.shown import Shown
        from ..catalog.format.schema import unpack_schema

        own, schema = unpack_schema(self.own), unpack_schema(self.schema)
        return Shown(own, schema, dict(self.stored), dict(self.defaults), self.definition)


@dataclass
class _Share(InputPartition):
    """The files of one task, and their schemas.

    Attributes:
        files: Each with the number of its schema, and without the schema itself.
        schemas: Packed, and what such files show.
        writer: Whose they are; with `withWriter` all are one writer's.
    """

    files: tuple[tuple[FilePart, int], ...]
    schemas: tuple[_Form, ...]
    writer: str = ""


class LakelogReader(DataSourceReader):
    """Reads the files of one cut, whatever is committed meanwhile.

    Args:
        asked: What of which table.
        schema: What Spark asks for: all of its columns, or some that the user named.
    """

    def __init__(self, asked: Selection, schema: StructType, access: _Access) -> None:
        for name in schema.names:
            if name not in asked.read_schema.names:
                raise UsageError(
                    f"Table {asked.table!r} has no column {name!r}",
                    key=name,
                    hint=f"It has: {', '.join(asked.schema.names)}",
                )
        self._access = access
        self._schema = schema
        self._target = _pack(list(asked.schema))
        self._options = asked.options
        self._asked: Selection | None = asked

    def __getstate__(self) -> dict[str, Any]:
        """All but the snapshot: Spark sends the reader to every task, which has its own files."""
        return self.__dict__ | {"_asked": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Files packed into tasks: a task of its own for each of many small ones costs 40 ms.

        Requests: none; on a copy that was pickled, those of `Catalog.snapshot`.
        """
        asked = self._asked
        if asked is None:
            token = self._options["asOf"]
            snapshot = self._access.open().snapshot(self._options["database"], token)
            asked = _selection(self._options, snapshot)
        parts = asked.file_parts()
        writers = {part.writer for part in parts} if asked.with_writer else {""}
        shares = [
            _share(pack)
            for writer in sorted(writers)
            for pack in _packs(part for part in parts if not writer or part.writer == writer)
        ]
        return shares or [_Share((), ())]  # without partitions Spark would call read(None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task's files, in Arrow batches of exactly the schema that Spark wants.

        Requests: 1 or more GET a file.
        """
        from ..catalog.data.scan import scan_files
        from ..catalog.format.columns import text_scalar

        if not isinstance(partition, _Share):
            raise UsageError(f"{type(partition).__name__} is no partition of format('lakelog')")
        wanted = exchanged(self._schema)
        forms = [form.unpacked() for form in partition.schemas]
        parts = [
            replace(part, schema=forms[number].own, shown=forms[number])
            for part, number in partition.files
        ]
        store = self._access.open().wide
        whose = text_scalar(partition.writer)
        for batch in scan_files(store, parts, self._projection()):
            yield as_spark(self._with_writer(batch, whose), wanted)

    def _with_writer(self, batch: pa.RecordBatch, whose: pa.Scalar) -> pa.RecordBatch:
        """The columns that Spark wants."""
        import pyarrow as pa

        if "withWriter" not in self._options:
            return batch
        writers = pa.repeat(whose, batch.num_rows)
        columns = [
            writers if name == WRITER_COLUMN else batch.column(name) for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, names=self._schema.names)

    def _projection(self) -> Projection:
        """The columns and rows that Spark wants, and no other columns than these need."""
        import pyarrow as pa

        from ..catalog.data.scan import Projection
        from ..catalog.data.unify import FileSchema
        from ..catalog.format.schema import unpack_schema
        from ..catalog.read.row_filter import row_filter

        target = unpack_schema(self._target)
        where = self._options.get("where")
        keep, looked_at = None, []
        if where is not None:
            found = row_filter(where, [FileSchema(target, "")], self._options["table"])
            keep, looked_at = found.keep, found.target.names
        names = self._schema.names
        if "withWriter" in self._options:
            names = [name for name in names if name != WRITER_COLUMN] or target.names[:1]
        read = {*names, *looked_at}
        return Projection(pa.schema([field for field in target if field.name in read]), keep, names)


def _packs(parts: Iterable[FilePart]) -> Iterator[list[FilePart]]:
    pack: list[FilePart] = []
    size_bytes = 0
    for part in parts:
        full = size_bytes + part.size_bytes > PARTITION_BYTES or len(pack) >= PARTITION_FILES
        if pack and full:
            yield pack
            pack, size_bytes = [], 0
        pack.append(part)
        size_bytes += part.size_bytes
    if pack:
        yield pack


def _share(pack: list[FilePart]) -> _Share:
    from ..catalog.data.shown import shown
    from ..catalog.format.schema import pack_schema

    numbers: dict[tuple[bytes, bytes], int] = {}
    schemas: list[_Form] = []
    files: list[tuple[FilePart, int]] = []
    for part in pack:
        number = numbers.get(part.form)
        if number is None:
            number = numbers[part.form] = len(schemas)
            form = part.shown or shown(part.schema, None)
            schemas.append(
                _Form(
                    pack_schema(form.own),
                    pack_schema(form.schema),
                    tuple(form.stored.items()),
                    tuple(form.defaults.items()),
                    form.definition,
                )
            )
        files.append((replace(part, schema=None, shown=None), number))
    return _Share(tuple(files), tuple(schemas), pack[0].writer)


def _pack(fields: list[pa.Field]) -> bytes:
    import pyarrow as pa

    from ..catalog.format.schema import pack_schema

    return pack_schema(pa.schema(fields))
