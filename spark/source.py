"""`spark.read.format("lakelog")`: a Python data source, which reads by fsspec and yields Arrow.

It serves where Spark has no connector for the store, and SQL views. It reads whole columns of whole
files; `lakelog.spark.read` is several times faster where Spark can open the files itself.

Filters are not pushed into it: in Spark 4.3 a filter of one query leaks into the next one on the
same DataFrame. Give a condition to `where` after the load.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..errors import UsageError
from .arrow_batches import as_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.catalog import Catalog
    from ..catalog.data.scan import FilePart
    from ..catalog.snapshot import Snapshot

PARTITION_BYTES: Final = 128 << 20
PARTITION_FILES: Final = 1_000
OPTIONS: Final = ("database", "table", "asOf", "storageOptions", "path")
_AS_OF: Final = "as_of"  # how Python callers of `lakelog.spark.read` know it


class LakelogDataSource(DataSource):
    """The data source `lakelog`.

    Options: `database`, `table`; `asOf`, also `as_of` (a token, or an ISO time with its zone);
    `storageOptions` (JSON). The path is the catalog's URL. Other options are refused.
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
        return spark_schema(snapshot.schema(self._need("table")))

    def reader(self, schema: StructType) -> LakelogReader:
        """The reader of the cut.

        Requests: those of `Catalog.snapshot`.
        """
        return LakelogReader(self._snapshot(), self._need("table"), schema, self._access())

    def _snapshot(self) -> Snapshot:
        _check_options(self.options)
        catalog = self._access().open()
        return catalog.snapshot(self._need("database"), self._token or _point(self.options))

    def _access(self) -> _Access:
        return _Access(self._need("path"), self.options.get("storageOptions") or "{}")

    def _need(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            hint = "The catalog's URL goes to load(url)" if name == "path" else ""
            raise UsageError(
                f"format('lakelog') needs the option {name!r}",
                key=name,
                hint=hint or f"Give it: .option({name!r}, ...)",
            )
        return str(value)


def _check_options(options: Any) -> None:
    """Refuse options that nobody reads: a misspelt `asOf` would silently give the newest rows.

    What Spark adds itself has a dot in its name. Values are never shown: they may be secrets.
    """
    known = {name.lower() for name in (*OPTIONS, _AS_OF)}
    for name in options:
        if name.lower() not in known and "." not in name:
            raise UsageError(
                f"format('lakelog') has no option {name!r}",
                key=name,
                hint=f"It has: {', '.join(OPTIONS)}; what opens the store goes into storageOptions",
            )


def _point(options: Any) -> dt.datetime | str | None:
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
    text = given.pop()
    if text.startswith("ll1-"):
        return str(text)
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text[:60]!r} is no point in time",
            key="asOf",
            hint="Give a token (ll1-...) or a time with its zone: 2013-07-01T00:00:00Z",
        ) from error


@dataclass(frozen=True)
class _Access:
    """Where the catalog is, and what opens it. Never shows the latter."""

    url: str
    storage_options: str

    def __repr__(self) -> str:
        return f"_Access({self.url!r})"

    def open(self) -> Catalog:
        from ..catalog.catalog import open_catalog

        try:
            options = json.loads(self.storage_options)
        except ValueError:
            options = None
        if not isinstance(options, dict):
            raise UsageError(
                "storageOptions is no JSON object",  # without its text, which holds secrets
                key="storageOptions",
                hint="Give it as json.dumps(storage_options)",
            )
        return open_catalog(self.url, options or None)


@dataclass
class _Share(InputPartition):
    """The files of one task, and their schemas.

    Attributes:
        files: Each with the number of its schema, and without the schema itself.
        schemas: Packed.
    """

    files: tuple[tuple[FilePart, int], ...]
    schemas: tuple[bytes, ...]


class LakelogReader(DataSourceReader):
    """Reads the files of one cut, whatever is committed meanwhile.

    Args:
        snapshot: The cut.
        schema: What Spark asks for: the whole schema, or columns of it that the user named.
    """

    def __init__(self, snapshot: Snapshot, table: str, schema: StructType, access: _Access) -> None:
        unified = snapshot.schema(table)
        for name in schema.names:
            if name not in unified.names:
                raise UsageError(
                    f"Table {table!r} has no column {name!r}",
                    key=name,
                    hint=f"It has: {', '.join(unified.names)}",
                )
        self._access = access
        self._schema = schema
        self._target = _pack([unified.field(name) for name in schema.names])
        self._cut = (snapshot.database, table, snapshot.token)
        self._snapshot: Snapshot | None = snapshot

    def __getstate__(self) -> dict[str, Any]:
        """All but the snapshot: Spark sends the reader to every task, which has its own files."""
        return self.__dict__ | {"_snapshot": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Files packed into tasks: a task of its own for each of many small ones costs 40 ms.

        Requests: none; on a copy that was pickled, those of `Catalog.snapshot`.
        """
        database, table, token = self._cut
        snapshot = self._snapshot or self._access.open().snapshot(database, token)
        shares = [_share(pack) for pack in _packs(snapshot.file_parts(table))]
        return shares or [_Share((), ())]  # without partitions Spark would call read(None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task's files, in Arrow batches of exactly the schema that Spark wants.

        Requests: 1 or more GET a file.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        from ..catalog.data.scan import Projection, scan_files
        from ..catalog.format.schema import unpack_schema

        if not isinstance(partition, _Share):
            raise UsageError(f"{type(partition).__name__} is no partition of format('lakelog')")
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        schemas = [unpack_schema(packed) for packed in partition.schemas]
        parts = [replace(part, schema=schemas[number]) for part, number in partition.files]
        store = self._access.open().store
        for batch in scan_files(store, parts, Projection(unpack_schema(self._target))):
            yield as_spark(batch, wanted)


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
    from ..catalog.format.schema import pack_schema

    numbers: dict[bytes, int] = {}
    schemas: list[bytes] = []
    files: list[tuple[FilePart, int]] = []
    for part in pack:
        number = numbers.get(part.fingerprint)
        if number is None:
            number = numbers[part.fingerprint] = len(schemas)
            schemas.append(pack_schema(part.schema))
        files.append((replace(part, schema=None), number))
    return _Share(tuple(files), tuple(schemas))


def _pack(fields: list[pa.Field]) -> bytes:
    import pyarrow as pa

    from ..catalog.format.schema import pack_schema

    return pack_schema(pa.schema(fields))
