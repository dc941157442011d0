"""The one schema that all given files are written with: that of the table in the log, where their
values allow it; else the widest of what was found, if it and the log have a type in common.

Everything is decided before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from ...catalog.format.schema import widen
from ...errors import SchemaConflict, UsageError
from .arrow_files import read_batches, read_schema
from .survey import survey
from .texts import overflows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .csv_files import CsvOptions
    from .places import Seen
    from .sources import Source
    from .survey import Column

TYPED = ("parquet", "arrow")


@dataclass(frozen=True, slots=True)
class Held:
    """The type that a column has so far.

    Attributes:
        kind: The type.
        words: Who says so.
        firm: The log says so: its files are what they are.
        typed: A file says so that knows its types.
    """

    kind: pa.DataType
    words: str
    firm: bool = False
    typed: bool = False


@dataclass(slots=True)
class Resolver:
    """Finds the schema of some files.

    Args:
        table: Its name, for messages.
        known: Its schema in the log; None: there is no such table.
        forced: Types that the user has named.
        step: Called after each file that was read.
    """

    table: str
    known: pa.Schema | None
    forced: Mapping[str, pa.DataType]
    options: CsvOptions
    step: Callable[[], None] = lambda: None
    _held: dict[str, Held] = field(default_factory=dict)

    def resolve(self, sources: Sequence[Source]) -> pa.Schema:
        """The schema, in the order of the log's, then as columns are met.

        Raises:
            SchemaConflict: Two types of a column have none in common.
            UsageError: A file can't be read; a column that was named isn't in any.
        """
        typed = [(s, read_schema(s)) for s in sources if s.form in TYPED]
        others = [source for source in sources if source.form not in TYPED]
        for one in self.known or ():
            self._held[one.name] = Held(one.type, "the log", firm=True)
        self._force()
        met: dict[str, None] = {}
        for source, schema in typed:
            for one in schema:
                met[one.name] = None
                self._take(one.name, Held(one.type, source.name, typed=True))
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
        return pa.schema(
            [
                pa.field(
                    name,
                    self._held[name].kind,
                    metadata=known[name].metadata if name in known else None,
                )
                for name in names
            ]
        )

    def _force(self) -> None:
        for name, kind in self.forced.items():
            log = self._held.get(name)
            if log is not None and widen(log.kind, kind) is None:
                self._conflict(name, log, Held(kind, "--type"))
            self._held[name] = Held(kind, "--type")

    def _take(self, name: str, found: Held) -> None:
        held = self._held.get(name)
        if held is None:
            self._held[name] = found
        elif name in self.forced:
            if widen(held.kind, found.kind) is None and not _are_numbers(held.kind, found.kind):
                self._conflict(name, held, found)
        else:
            wider = _common(held, found)
            if wider is None:
                self._conflict(name, held, found)
            if wider != held.kind:
                self._held[name] = replace(found, kind=wider, firm=held.firm)

    # --- Files that don't know their types --------------------------------------------------------

    def _survey(self, sources: list[Source]) -> dict[str, Column]:
        wanted = {name: (held.kind, name in self.forced) for name, held in self._held.items()}
        columns = survey(sources, self.options, wanted, step=self.step)
        misfits: dict[str, Seen] = {}
        for name, column in columns.items():
            if column.wanted is None:
                self._held[name] = self._found(name, column)
            elif column.misfit is not None and name in self.forced:
                self._misfit(name, column.misfit)
            elif column.misfit is not None:
                misfits[name] = column.misfit
        if misfits:
            self._widen(sources, misfits)
        return columns

    def _widen(self, sources: list[Source], misfits: Mapping[str, Seen]) -> None:
        """Columns that aren't all of the type that they should have: what are they, then?"""
        unsure: dict[str, tuple[pa.DataType, bool]] = {}
        again = survey(sources, self.options, {}, only={*misfits})
        for name, seen in misfits.items():
            held, kind = self._held[name], self._found(name, again[name]).kind
            found = Held(kind, str(seen))
            wider = _common(held, found)
            if wider is None or wider == held.kind:  # it has the type's name, and doesn't fit
                self._conflict(name, held, found)
            if wider != kind:
                unsure[name] = (wider, False)
            self._held[name] = replace(found, kind=wider, firm=held.firm)
        if unsure:
            for name, column in survey(sources, self.options, unsure, only={*unsure}).items():
                if column.misfit is not None:
                    self._misfit(name, column.misfit)

    def _found(self, name: str, column: Column) -> Held:
        """The type that was found in csv and in json."""
        kinds: list[pa.DataType] = []
        for found in (column.texts.found(), column.values.found()):
            if isinstance(found, tuple):
                (one, first), (other, second) = found
                self._conflict(name, Held(one, str(first)), Held(other, str(second)))
            if not isinstance(found, pa.DataType):
                raise SchemaConflict(
                    f"Column {name!r} of table {self.table!r} is a number in {found} that neither "
                    "int64 nor double holds",
                    key=name,
                    hint=f"Nothing was written. Name a type: --type '{name}=decimal(38,0)'",
                )
            kinds.append(found)
        wider = _common(Held(kinds[0], ""), Held(kinds[1], ""))
        if wider is None:
            self._conflict(name, Held(kinds[0], "csv files"), Held(kinds[1], "json files"))
        return Held(wider, "the files")

    # --- Files that do ----------------------------------------------------------------------------

    def _check_values(self, source: Source, schema: pa.Schema) -> None:
        """Whether values of a wider type fit into the one that was decided on."""
        doubtful = [one.name for one in schema if _may_fail(one.type, self._held[one.name].kind)]
        if not doubtful:
            return
        row = 0
        for batch in read_batches(source, doubtful):
            for name, column in zip(doubtful, batch.columns, strict=True):
                held = self._held[name]
                try:
                    found = column.cast(held.kind)
                    if _are_floats(column.type, held.kind) and overflows(column, found):
                        raise pa.ArrowInvalid("a number is beyond its range")
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    where = f"{source.name}, rows {row + 1:,} to {row + batch.num_rows:,}"
                    kind = schema.field(name).type
                    self._conflict(name, held, Held(kind, f"{where} ({error})", typed=True))
            row += batch.num_rows

    # --- Errors -----------------------------------------------------------------------------------

    def _conflict(self, name: str, one: Held, other: Held) -> NoReturn:
        raise SchemaConflict(
            f"Column {name!r} of table {self.table!r} is {one.kind} in {one.words} and "
            f"{other.kind} in {other.words}",
            key=name,
            hint="Nothing was written. No common type holds every value of both: mend the values, "
            + _way_out(name, one, other),
        )

    def _misfit(self, name: str, seen: Seen) -> NoReturn:
        held = self._held[name]
        raise SchemaConflict(
            f"Column {name!r} of table {self.table!r} is {held.kind} by {held.words}, and "
            f"{seen} is no such value",
            key=name,
            hint="Nothing was written. Mend the value, or give the column another --type",
        )


def _way_out(name: str, one: Held, other: Held) -> str:
    if one.firm or other.firm:
        return "or write them under another column name"
    if one.typed or other.typed:
        return "or cast the column to one type in all files"
    return f"or name a type that does, e.g. --type {name}=string"


def _common(one: Held, other: Held) -> pa.DataType | None:
    """A type for both. An integer and a float meet as double, if the values allow it; those of
    the log's files aren't looked at."""
    wider = widen(one.kind, other.kind)
    wholes = [held for held in (one, other) if pa.types.is_integer(held.kind)]
    if wider is None and len(wholes) == 1 and _are_numbers(one.kind, other.kind):
        return None if wholes[0].firm else pa.float64()
    return wider


def _may_fail(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between these depends on the values: times in nanoseconds end in 2262."""
    if kind.equals(target):
        return False
    return widen(target, kind) != target or "timestamp[ns" in str(target)


def _are_floats(*kinds: pa.DataType) -> bool:
    return all(pa.types.is_floating(kind) for kind in kinds)


def _are_numbers(*kinds: pa.DataType) -> bool:
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
