"""What is to be replicated of tables, and the names of the files that hold it: a name follows from
all that the rows in the file depend on, so the same rows have the same name in each run. Pure.

Source: docs/replication.md, "Some tables, columns or rows".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING

from ..catalog.data.scan import Projection
from ..catalog.data.shown import shown
from ..catalog.data.unify import FileSchema
from ..catalog.format.names import base_folder, check_path, escape_name, partition_folder
from ..catalog.read.file_parts import checked, projected
from ..catalog.read.row_filter import row_filter
from ..catalog.read.tombstones import TombstoneTest
from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    from ..catalog.data.file_part import FilePart
    from ..catalog.data.shown import Shown
    from ..catalog.format.cut import Cut
    from ..catalog.format.frame import LogIdentity


@dataclass(frozen=True, slots=True)
class Selection:
    """Some tables of a database, or some columns and rows of one.

    Attributes:
        tables: Their names.
        columns: Names, in the order wanted; None: all.
        where: Only rows that meet this predicate; None: all.
    """

    tables: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    where: str | None = None

    def check(self) -> None:
        """Refuse what no selection can be.

        Raises:
            UsageError: No table, one twice, or columns and rows of several; no column; rows that
                are not chosen by text.
        """
        if not self.tables and (self.columns is not None or self.where is not None):
            raise UsageError(
                "Columns and rows are chosen of one table, and none is named",
                hint='Name it: --table NAME, or tables=["NAME"]',
            )
        if not self.tables or len(set(self.tables)) < len(self.tables):
            raise UsageError("Name one table or more, each once")
        if len(self.tables) > 1 and (self.columns is not None or self.where is not None):
            raise UsageError(
                "Columns and rows can be chosen of one table at a time",
                hint="Replicate the other tables by a run of their own, into another place",
            )
        if self.columns == ():
            raise UsageError("Name one column or more", hint="None at all are all of them")
        if not isinstance(self.where, (str, NoneType)):
            # Files are named by it, and the text of an expression is shortened.
            raise UsageError(
                "Rows to be replicated are chosen by text, and where= is of type "
                f"{type(self.where).__name__}",
                key="where",
                hint="""Write the predicate as text, as where="temp > 4 AND site = 'oslo'\"""",
            )


def selection_of(
    tables: Collection[str] | None, columns: Sequence[str] | None, where: str | None
) -> Selection | None:
    """What is chosen; None: whole logs.

    Raises:
        UsageError: Not lists of names.
    """
    if tables is None and columns is None and where is None:
        return None
    refuse_name("Tables", tables)
    refuse_name("Columns", columns)
    chosen = None if columns is None else tuple(columns)
    return Selection(tuple(tables or ()), chosen, where)


def refuse_name(what: str, given: object) -> None:
    """Refuse one name where a list of names belongs: it is one of letters.

    Raises:
        UsageError: It is a name.
    """
    if isinstance(given, str):
        raise UsageError(
            f"{what} are a list of names, not {given!r:.60}", hint=f"Give [{given!r:.60}]"
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that the destination is to have.

    Attributes:
        table, partition: Of the file.
        path: Relative to `<writer>/<database>/`.
        part: The file at the source that it is made of.
        projection: What is read of that.
    """

    table: str
    partition: str
    path: str
    part: FilePart
    projection: Projection


def source_tag(log: LogIdentity) -> str:
    """The part of file names that identifies the source's log that they were made from."""
    return log.log_id.hex()[:16]


def wanted_files(
    selection: Selection, table: str, parts: dict[str, list[FilePart]], cut: Cut
) -> Iterator[tuple[str, Wanted]]:
    """The files that the destination is to have of a table, each with its writer.

    Args:
        parts: By writer those of the cut.
        cut: Of the source.
    Raises:
        UsageError, InvalidPredicate: There is no such column, or the predicate doesn't fit.
        SchemaConflict: Files disagree about the type of a column.
    """
    schemas = _schemas(parts)
    if not schemas:
        return
    names = None if selection.columns is None else checked(selection.columns, schemas, table)
    found = None if selection.where is None else row_filter(selection.where, schemas, table)
    whole = projected(schemas, table, names, found)
    had = {part.form: _had(part, whole.read) for own in parts.values() for part in own}
    nobodys = frozenset(whole.given.names).difference(*had.values())
    for writer, own in parts.items():
        log, folder = cut.writers[writer].log, base_folder(writer, cut.database)
        assert log is not None
        for part in own:
            projection = _projection(part, whole, had[part.form] | nobodys)
            digest = _digest(selection, part, projection, folder)
            yield writer, _wanted(table, part, projection, f"{source_tag(log)}-{digest}")


def _had(part: FilePart, target: pa.Schema) -> frozenset[str]:
    """The columns of a target that a file has."""
    found = part.found(target)
    return frozenset(found.stored) | frozenset(found.defaults)


def _schemas(parts: dict[str, list[FilePart]]) -> list[FileSchema]:
    """The schemas that files show, each once."""
    forms = {
        (writer, part.form): FileSchema(_form(part).schema, writer)
        for writer, own in parts.items()
        for part in own
    }
    return list(forms.values())


def _form(part: FilePart) -> Shown:
    return part.shown or shown(part.schema, None)


def _projection(part: FilePart, whole: Projection, chosen: frozenset[str]) -> Projection:
    """Of the given columns those that the file has, and those that no file has: what it lacks is
    null at the destination too. A file that has none of them is as long, and all null."""
    given = whole.given.names
    names = [name for name in given if name in chosen] or given[:1]
    return Projection(whole.read, whole.keep, names)


def _wanted(table: str, part: FilePart, projection: Projection, name: str) -> Wanted:
    folder = f"{partition_folder(part.partition)}/{escape_name(table, 'table')}"
    path = check_path(f"data/{folder}/replica-{name}.parquet")
    return Wanted(table, part.partition, path, part, projection)


def _digest(selection: Selection, part: FilePart, projection: Projection, folder: str) -> str:
    """Of all that the rows of a file depend on; `folder` is the log's, which may be renamed."""
    hidden = part.hidden
    facts: list[object] = [
        part.key.removeprefix(folder), part.size_bytes, part.row_count, part.footer_digest,
        part.fingerprint, part.partition, _form(part).definition, _types(projection.given),
        selection.where, _types(projection.read) if selection.where is not None else (),
    ]  # fmt: skip
    if hidden is not None:
        facts += [_test(test) for test in hidden.tests]
        facts += [(b.key.removeprefix(folder), b.offset, b.digest) for b in hidden.bitmaps]
        facts.append(hidden.superseded)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


def _types(schema: pa.Schema) -> Sequence[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema]


def _test(test: object) -> object:
    assert isinstance(test, TombstoneTest)
    return test.tombstone.predicate, test.tombstone.columns
