"""Whether a table can still be read once files with one more schema are in it.

Readers unite the schemas of a table's live files. Schemas that the log knows are at hand already
when a table is written to, so they are asked first; only if one of them is in the way, it is looked
up whether any live file has it.

It is a check of one log, as far as this process knows it: what others commit meanwhile, or to logs
of their own, is held against it by nobody.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, SchemaConflict, UsageError
from ..data.shown import shown
from ..data.unify import FileSchema, type_key, unify
from ..format import compute as pc
from ..format.columns import column
from ..log.files import Files
from ..log.lookup import schemas_with

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence, Set

    from ..format.definitions import Definition
    from ..log.known_schemas import SchemaEntry
    from ..log.state import State

    _Ask = Callable[[Callable[["Readable", State], Any]], Any]

ON_CONFLICT: Final = ("raise", "allow")
_HINT: Final = (
    "Nothing was written. Cast the data to the table's type, or remove the files that have the "
    "other one first, in the same transaction; on_conflict='allow' writes it all the same, and "
    "then the table can't be read as a whole"
)


def check_on_conflict(value: Any) -> bool:
    """Whether conflicts are to be refused.

    Raises:
        UsageError: The value says nothing of the kind.
    """
    if value not in ON_CONFLICT:
        raise UsageError(
            f"on_conflict can't be {value!r:.60}", hint="Give 'raise' (the default) or 'allow'"
        )
    return bool(value == "raise")


@dataclass(slots=True)
class _Live:
    """The schemas that live files of a table had when that was looked up, and what came since.

    Attributes:
        fingerprints: Theirs; perhaps also of files that are gone by now.
        revision: Up to which commits are in it.
        passed: Schemas that were let through with other conflicts there already; none once files
            went, or came with one more schema.
    """

    fingerprints: Set[bytes]
    revision: int
    passed: set[bytes] = field(default_factory=set)

    def follow(self, state: State, table: str) -> bool:
        """Take in what was committed since, by this process or others; False if that can't be told
        any more."""
        based_at = -1 if state.base is None else state.base.message.revision
        if not based_at <= self.revision <= state.revision:
            return False
        since = [found for found in state.tail if found.message.revision > self.revision]
        files = Files(frozenset({table}))
        for transaction in since:
            files.apply(transaction)
        added = files.fingerprints(table)
        actions = (action for transaction in since for action in transaction.message.actions)
        if not added <= self.fingerprints or any(one.remove.table == table for one in actions):
            self.passed.clear()
        self.fingerprints, self.revision = self.fingerprints | added, state.revision
        return True


@dataclass(frozen=True, slots=True)
class Own:
    """What one transaction makes of a table.

    Attributes:
        table: Its name.
        beside: The schemas that it has written to it, as readers see them, as far as they unite.
        definition: By which readers see its files.
        removed: Tables and paths that it removes.
    """

    table: str
    beside: Sequence[pa.Schema]
    definition: Definition | None
    removed: Collection[tuple[str, str]]


class Readable:
    """The schemas that one log has for each table, as far as they unite, kept from write to write.

    They are held against new ones as they are: united ones have lost what types were united.

    Args:
        writer: Whose log, for messages.
    """

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._uniting: dict[str, tuple[frozenset[bytes], list[FileSchema] | None]] = {}
        self._live_in: dict[str, _Live] = {}
        self._defined: dict[str, bytes] = {}  # what the two go by

    def check(
        self,
        state: State,
        by: Own,
        fingerprint: bytes,
        schema: pa.Schema,
        *,
        empty: bool,
    ) -> None:
        """Refuse a schema that makes its table unreadable.

        Args:
            by: What the same transaction makes of the table.
            schema: As readers see it.
            empty: No file will have this schema.
        Raises:
            SchemaConflict: Two types of one column have no common type.
        """
        table, beside, definition, removed = by.table, by.beside, by.definition, by.removed
        self._go_by(table, definition)
        used = self._used(state, table, all_known=empty)
        known = self._known(state, table, used, definition)
        if not beside and known is not None and fingerprint in used:
            return
        alone = not beside and not empty and not removed
        if alone and table in self._live_in and fingerprint in self._live_in[table].passed:
            return
        own = FileSchema(schema, self._writer, words="the data to be written")
        others = [FileSchema(one, self._writer, words="this transaction") for one in beside]
        if (known is not None or not used) and unites([*(known or ()), *others, own], table):
            return
        entries = self._live(state, table, removed, definition, empty=empty and not beside)
        _refuse_new_conflict([*entries, *others], own, table)
        if alone:
            self._live_in[table].passed.add(fingerprint)

    def read_as(self, state: State, by: Own, schema: pa.Schema, *, live: bool) -> pa.Schema:
        """What readers make of the columns of a schema, as far as it isn't their own type.

        Args:
            by: As for `check`.
            schema: As files will have it.
            live: By the schemas of live files alone; else perhaps by more.
        """
        table, definition = by.table, by.definition
        self._go_by(table, definition)
        if live:
            held = self._live(state, table, by.removed, definition, empty=False)
        else:
            used = self._used(state, table, all_known=False)
            known = self._known(state, table, used, definition)
            held = known or self._decoded(schemas_with(state, [table]).of_table(table), definition)
        found = []
        others = [*held, *(FileSchema(one, self._writer) for one in by.beside)]
        for own in schema:
            items = [_only(item, own.name) for item in others if own.name in item.schema.names]
            items.append(FileSchema(_shown_alone(own, definition), self._writer))
            with suppress(SchemaConflict):  # it can't be read as it is
                read = unify(items, table).field(own.name)
                if not read.type.equals(own.type):
                    found.append(read)
        return pa.schema(found)

    def _go_by(self, table: str, definition: Definition | None) -> None:
        """What was known by another definition isn't known any more."""
        name = name_of(definition)
        if self._defined.setdefault(table, name) != name:
            self._defined[table] = name
            self._uniting.pop(table, None)
            self._live_in.pop(table, None)

    def _used(self, state: State, table: str, *, all_known: bool) -> Set[bytes]:
        """Fingerprints of the schemas that live files may have, or of all."""
        names = schemas_with(state, [table]).fingerprints_of(table)
        live = self._live_in.get(table)
        if live is not None and not live.follow(state, table):
            del self._live_in[table]
            live = None
        return names if live is None or all_known else names & live.fingerprints

    def _known(
        self, state: State, table: str, used: Set[bytes], definition: Definition | None
    ) -> list[FileSchema] | None:
        """Some schemas of a table, if they unite; None if there are none, or they don't."""
        kept = self._uniting.get(table)
        if kept is None or kept[0] != used:
            entries = schemas_with(state, [table]).of_table(table)
            wanted = (entry for entry in entries if entry.fingerprint in used)
            found = self._decoded(wanted, definition)
            uniting = telling(found) if found and unites(found, table) else None
            kept = self._uniting[table] = (frozenset(used), uniting)
        return kept[1]

    def _live(
        self,
        state: State,
        table: str,
        removed: Collection[tuple[str, str]],
        definition: Definition | None,
        *,
        empty: bool,
    ) -> list[FileSchema]:
        """The schemas of live files, but for those that are removed; if there are none, and no new
        file either, readers go by all that the log knows."""
        files, known = state.table_of(table)
        rows = files.table(table)
        entries = known.of_table(table)
        held = set(pc.unique(rows.column("schema_fingerprint")).to_pylist())
        self._live_in[table] = _Live(held, state.revision)
        paths = sorted(path for of, path in removed if of == table)
        if paths:
            gone = pc.is_in(rows.column("path"), column(paths, pa.string()))
            rows = pc.filter(rows, pc.invert(gone))
        live = set(pc.unique(rows.column("schema_fingerprint")).to_pylist())
        if live or not empty:
            entries = [entry for entry in entries if entry.fingerprint in live]
        return self._decoded(entries, definition, rows)

    def _decoded(
        self,
        entries: Iterable[SchemaEntry],
        definition: Definition | None,
        rows: pa.Table | None = None,
    ) -> list[FileSchema]:
        """As far as this Arrow can decode them: rows of others can't be read here anyway."""
        found = []
        for entry in entries:
            try:
                schema = shown(entry.schema, definition).schema
            except CorruptObject:
                continue
            example = partial(_example, rows, entry.fingerprint)
            found.append(FileSchema(schema, self._writer, example))
        return found


def name_of(definition: Definition | None) -> bytes:
    """What tells a definition from others, and from none."""
    return b"" if definition is None else definition.name


def _shown_alone(field: pa.Field, definition: Definition | None) -> pa.Schema:
    """A column of a file to be written as readers see it: it is written under its own name."""
    found = shown(pa.schema([field]), definition).schema
    return pa.schema([found.field(field.name)]) if field.name in found.names else pa.schema([field])


def unites(schemas: Sequence[FileSchema], table: str) -> bool:
    """Whether a table can be read with some schemas."""
    try:
        unify(schemas, table)
    except SchemaConflict:
        return False
    return True


def telling(schemas: Sequence[FileSchema]) -> list[FileSchema]:
    """Those that have a column, or a type of one, that none before them has."""
    seen: set[tuple[str, Hashable]] = set()
    found = []
    for item in schemas:
        columns = {(f.name, type_key(f.type)) for f in item.schema}
        if not columns <= seen:
            seen |= columns
            found.append(item)
    return found


def _refuse_new_conflict(held: Sequence[FileSchema], own: FileSchema, table: str) -> None:
    """Raise if a schema brings a conflict that isn't there without it.

    Raises:
        SchemaConflict: It does.
    """
    for name in own.schema.names:
        before = [_only(item, name) for item in held if name in item.schema.names]
        if not unites(before, table):
            continue  # this column can't be read as it is
        try:
            unify([*before, _only(own, name)], table)
        except SchemaConflict as error:
            error.hint = _HINT
            raise


def _only(item: FileSchema, name: str) -> FileSchema:
    only = pa.schema([item.schema.field(name)])
    return FileSchema(only, item.writer, item.example, item.words)


def _example(rows: pa.Table | None, fingerprint: bytes) -> str:
    if rows is None:
        return ""
    same = pc.equal(rows.column("schema_fingerprint"), column([fingerprint], pa.binary(16))[0])
    return min(pc.filter(rows, same).column("path").to_pylist(), default="")
