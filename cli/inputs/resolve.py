"""Resolves the one schema that all given files are written with: that of the table in the log, if
their values allow it; else the inferred one, if its types and the log's have common types.

Everything is decided before anything is written.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa

from ...catalog.format.schema import widen
from ...errors import LakelogError, NotFoundError, SchemaConflict, UsageError
from ..errors import CommandWarning
from ..opening import existing_log
from .infer import survey
from .read import read_batches, read_schema
from .texts import overflows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...catalog.catalog import Catalog
    from ...catalog.snapshot import Snapshot
    from .csv_files import CsvOptions
    from .infer import Column, Seen
    from .sources import Source

TYPED = ("parquet", "arrow")
_OPTION: Final = "--type"
_TOLD: Final = 5  # columns that became text by one value


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type that a column has so far.

    Attributes:
        kind: The type.
        origin: Where it comes from, for messages.
        firm: It comes from the log, whose files can't change.
        typed: It comes from a file that has types.
    """

    kind: pa.DataType
    origin: str
    firm: bool = False
    typed: bool = False


@dataclass(slots=True)
class Resolver:
    """Finds the schema of some files.

    Args:
        table: The name of the table, for messages.
        known: Its schema in the log; None: there is no such table.
        forced: Types that the user has chosen.
        step: Called after each file that was read.
    """

    table: str
    known: pa.Schema | None
    forced: Mapping[str, pa.DataType]
    options: CsvOptions
    step: Callable[[], None] = lambda: None
    _types: dict[str, ColumnType] = field(default_factory=dict)

    def resolve(self, sources: Sequence[Source]) -> pa.Schema:
        """The schema: columns in the order of the log, then in that of their first occurrence.

        Raises:
            SchemaConflict: Two types of a column have none in common.
            UsageError: A file can't be read; no file has a column that --type names.
        """
        typed = [(s, read_schema(s)) for s in sources if s.form in TYPED]
        others = [source for source in sources if source.form not in TYPED]
        for one in self.known or ():
            self._types[one.name] = ColumnType(one.type, "the log", firm=True)
        self._force()
        met: dict[str, None] = {}
        for source, schema in typed:
            for one in schema:
                met[one.name] = None
                self._take(one.name, ColumnType(one.type, source.name, typed=True))
        if others:
            met |= dict.fromkeys(self._survey(others))
        for source, schema in typed:
            self._check_values(source, schema)
        if not met:
            raise UsageError(
                f"{sources[0].name} holds no columns",
                key=sources[0].name,
                hint="Rows without any value can't be written; nothing was committed",
            )
        missing = [name for name in self.forced if name not in met]
        if missing:
            raise UsageError(
                f"No file has a column {missing[0]!r}, which --type names",
                key=missing[0],
                hint=f"They have: {', '.join(met)}"[:400],
            )
        return self._schema(met)

    def _schema(self, met: Mapping[str, None]) -> pa.Schema:
        known = {one.name: one for one in self.known or ()}
        names = [*(name for name in known if name in met), *(n for n in met if n not in known)]
        metadata = {one.name: one.metadata for one in known.values()}
        return pa.schema(
            [pa.field(n, self._types[n].kind, metadata=metadata.get(n)) for n in names]
        )

    def _force(self) -> None:
        for name, kind in self.forced.items():
            log = self._types.get(name)
            if log is not None and widen(log.kind, kind) is None:
                self._conflict(name, log, ColumnType(kind, _OPTION))
            self._types[name] = ColumnType(kind, _OPTION)

    def _take(self, name: str, found: ColumnType) -> None:
        current = self._types.get(name)
        if current is None:
            self._types[name] = found
        elif name in self.forced:
            if widen(current.kind, found.kind) is None and not _are_numbers(
                current.kind, found.kind
            ):
                self._conflict(name, current, found)
        else:
            wider = _common(current, found)
            if wider is None:
                self._conflict(name, current, found)
            if wider != current.kind:
                self._types[name] = replace(found, kind=wider, firm=current.firm)

    # --- Files without types ----------------------------------------------------------------------

    def _survey(self, sources: list[Source]) -> dict[str, Column]:
        wanted = {
            name: (current.kind, name in self.forced) for name, current in self._types.items()
        }
        columns = survey(sources, self.options, wanted, step=self.step)
        misfits: dict[str, Seen] = {}
        odd: dict[str, Seen] = {}
        for name, column in columns.items():
            if column.wanted is None:
                self._types[name] = ColumnType(self._inferred(name, column), "the files")
                if column.texts.last is not None and pa.types.is_string(self._types[name].kind):
                    odd[name] = column.texts.last
            elif column.misfit is not None and name in self.forced:
                self._misfit(name, column.misfit)
            elif column.misfit is not None:
                misfits[name] = column.misfit
        if misfits:
            self._widen(sources, misfits)
        if odd:
            told = [f"{name} because of {seen}" for name, seen in [*odd.items()][:_TOLD]]
            more = f" and {len(odd) - _TOLD:,} more" if len(odd) > _TOLD else ""
            said = f"columns are text: {', '.join(told)}{more}. --type COLUMN=TYPE wants another"
            warnings.warn(said, CommandWarning, stacklevel=2)
        return columns

    def _widen(self, sources: list[Source], misfits: Mapping[str, Seen]) -> None:
        """Infer the types of columns with values that don't have the wanted type."""
        unsure: dict[str, tuple[pa.DataType, bool]] = {}
        again = survey(sources, self.options, {}, only={*misfits})
        for name, seen in misfits.items():
            current, kind = self._types[name], self._inferred(name, again[name])
            found = ColumnType(kind, str(seen))
            wider = _common(current, found)
            if wider is None or wider == current.kind:  # the same type, and yet a value doesn't fit
                self._conflict(name, current, found)
            if wider != kind:
                unsure[name] = (wider, False)
            self._types[name] = replace(found, kind=wider, firm=current.firm)
        if unsure:
            for name, column in survey(sources, self.options, unsure, only={*unsure}).items():
                if column.misfit is not None:
                    self._misfit(name, column.misfit)

    def _inferred(self, name: str, column: Column) -> pa.DataType:
        """The type that was inferred from csv and from json."""
        kinds: list[pa.DataType] = []
        for result in (column.texts.inferred(), column.values.inferred()):
            if isinstance(result, tuple):
                (one, first), (other, second) = result
                self._conflict(name, ColumnType(one, str(first)), ColumnType(other, str(second)))
            if not isinstance(result, pa.DataType):
                raise UsageError(
                    f"Column {name!r} of table {self.table!r} is a number in {result} that neither "
                    "int64 nor double holds",
                    key=name,
                    hint=f"Nothing was written. Name a type: --type '{name}=decimal(38,0)'",
                )
            kinds.append(result)
        wider = _common(ColumnType(kinds[0], ""), ColumnType(kinds[1], ""))
        if wider is None:
            one, other = ColumnType(kinds[0], "csv files"), ColumnType(kinds[1], "json files")
            self._conflict(name, one, other)
        return wider

    # --- Files with types -------------------------------------------------------------------------

    def _check_values(self, source: Source, schema: pa.Schema) -> None:
        """Check whether values of a wider type fit into the resolved one."""
        doubtful = [one.name for one in schema if _may_fail(one.type, self._types[one.name].kind)]
        if not doubtful:
            return
        row = 0
        for batch in read_batches(source, doubtful):
            for name, column in zip(doubtful, batch.columns, strict=True):
                current = self._types[name]
                try:
                    converted = column.cast(current.kind)
                    floats = pa.types.is_floating(column.type) and pa.types.is_floating(
                        current.kind
                    )
                    if floats and overflows(column, converted):
                        raise pa.ArrowInvalid("a number is beyond its range")
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    where = f"{source.name}, rows {row + 1:,} to {row + batch.num_rows:,}"
                    kind = schema.field(name).type
                    self._conflict(
                        name, current, ColumnType(kind, f"{where} ({error})", typed=True)
                    )
            row += batch.num_rows

    # --- Errors -----------------------------------------------------------------------------------

    def _conflict(self, name: str, one: ColumnType, other: ColumnType) -> NoReturn:
        raise SchemaConflict(
            f"Column {name!r} of table {self.table!r} is {one.kind} in {one.origin} and "
            f"{other.kind} in {other.origin}",
            key=name,
            hint="Nothing was written. No common type holds all values of both: correct the values "
            + _way_out(name, one, other),
        )

    def _misfit(self, name: str, seen: Seen) -> NoReturn:
        current = self._types[name]
        by_option = current.origin == _OPTION
        raise (UsageError if by_option else SchemaConflict)(
            f"Column {name!r} of table {self.table!r} is {current.kind} by {current.origin}, and "
            f"{seen} is no such value",
            key=name,
            hint="Nothing was written. Correct the value, or give the column another --type",
        )


def _way_out(name: str, one: ColumnType, other: ColumnType) -> str:
    if one.firm or other.firm:
        return "or write them under another column name"
    if one.typed or other.typed:
        return "or cast the column to one type in all files"
    return f"or name a type that does, e.g. --type {name}=string"


def _common(one: ColumnType, other: ColumnType) -> pa.DataType | None:
    """A common type. An integer and a float have double in common, if the values allow it; those of
    the log's files aren't checked."""
    wider = widen(one.kind, other.kind)
    wholes = [current for current in (one, other) if pa.types.is_integer(current.kind)]
    if wider is None and len(wholes) == 1 and _are_numbers(one.kind, other.kind):
        return None if wholes[0].firm else pa.float64()
    return wider


def _may_fail(kind: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether a cast depends on the values: times in nanoseconds end in 2262."""
    if kind.equals(target):
        return False
    return widen(target, kind) != target or "timestamp[ns" in str(target)


def _are_numbers(*kinds: pa.DataType) -> bool:
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)


# --- The schema in the log ------------------------------------------------------------------------


def known_schema(catalog: Catalog, database: str, table: str, writer: str) -> pa.Schema | None:
    """The schema that a table has in the log, over all writers; None if there is no such table.
    Columns that can't be read now are left out. If the database can't be read, the writer's own log
    is read alone.

    Requests: as for a snapshot, and the pieces of it that hold the table.
    """
    try:
        return _schema(catalog.snapshot(database), table)
    except NotFoundError:
        return None
    except LakelogError as error:
        problem = error.message
    try:
        _, listing = existing_log(catalog, writer, database)
        schema = _schema(catalog.snapshot(database, {writer: listing.head}), table)
    except LakelogError:
        return None  # there is no such table, or opening the writer raises what is wrong
    warnings.warn(
        f"types are compared with this writer's files alone: {problem}",
        CommandWarning,
        stacklevel=2,
    )
    return schema


def _schema(snapshot: Snapshot, table: str) -> pa.Schema:
    try:
        return snapshot.schema(table)
    except SchemaConflict:
        fields = []
        for name in snapshot.column_names(table):
            try:
                with snapshot.scan(table, [name]) as reader:
                    fields.append(reader.schema.field(name))
            except SchemaConflict:
                continue
        return pa.schema(fields)
