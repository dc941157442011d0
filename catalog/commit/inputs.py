"""The files that an operation takes out and reads: which they are, and what reading them takes.

Files are read as readers see them, each under the columns that it shows, and written anew under
these: what the rows are to readers doesn't change by it, whatever other files of the table look
like. Rows that deletes hide are not among them.

Source: docs/changing.md, "Operations".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import OperationInvalid, UsageError
from ..data.scan import Projection, scan_files
from ..data.unify import FileSchema, shown
from ..format import compute as pc
from ..format.columns import array, column
from ..format.frame import LogIdentity
from ..format.names import base_folder
from ..format.objects import DecodedTransaction
from ..format.schema import PARTITION
from ..log.build import Claim
from ..log.conflicts import refuse_taken_out
from ..log.part import in_partition
from ..read.delete_plan import AskedRows, judged, meets, seen_schemas, visible_rows
from ..read.file_order import by_commit
from ..read.file_parts import file_parts, keyed
from ..read.hidden import with_hidden
from ..read.table_facts import TableFacts
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .adopt import not_live

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..data.file_part import FilePart
    from ..data.row_digest import RowDigest
    from ..data.unify import Shown
    from ..log.build import Intent
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.state import State
    from ..read.row_filter import RowFilter
    from .session import Session


@dataclass(slots=True)
class Group:
    """Files of one partition and one schema, whose rows are read and rewritten.

    Attributes:
        partition: Its name.
        schema: Under which they are read, with the ids of columns; columns that
            only the partition tells are in it.
        clock: The least and the greatest logical clock of their rows.
        parts: They themselves, in the order of their commits.
        rows: How many rows they have that nothing hides.
    """

    partition: str
    schema: pa.Schema
    clock: tuple[int, int]
    parts: list[FilePart] = field(default_factory=list)
    rows: int = 0

    def read(self, session: Session) -> Iterator[pa.RecordBatch]:
        """Their rows, all of them: they are written anew, and the files go.

        Raises (while reading):
            ObjectNotFound, CorruptObject: A file is gone, or isn't the one that the log names.
            OperationInvalid: Others were read than there are.
        """
        read = 0
        for batch in scan_files(session.wide, self.parts, Projection(self.schema)):
            read += batch.num_rows
            yield batch
        if read != self.rows:
            raise OperationInvalid(
                f"Files with {self.rows:,} rows were read, and gave {read:,}",
                key=self.parts[0].key,
                hint="Nothing becomes visible; the transaction is lost",
            )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an operation takes out.

    Attributes:
        paths: All of it.
        groups: What of it is to be read.
        whole_rows: How many rows the files have that are not, which nothing hides.
        unread: Of the files that are not read those of which rows may be hidden.
        wanted: What rows are replaced; None: all.
        claim: What is relied on beside; None: nothing.
    """

    paths: list[str]
    groups: list[Group]
    whole_rows: int = 0
    unread: Sequence[FilePart] = ()
    wanted: RowFilter | None = None
    claim: Claim | None = None


def refuse_begun(intent: Intent, table: str) -> None:
    """Raises `UsageError` if the same transaction has hidden rows of a table, or changed its
    columns: what is rewritten would be later than that."""
    later = ("definition", "tombstone", "row_deletes")
    changes = [(kind, a) for a in intent.actions if (kind := a.WhichOneof("kind")) in later]
    if any(getattr(action, str(kind)).table == table for kind, action in changes):
        raise UsageError(
            f"This transaction has deleted rows of table {table!r}, or changed its columns",
            key=table,
            hint="Commit that first, and do this in another transaction",
        )


def files_now(state: State, intent: Intent, table: str) -> tuple[Files, KnownSchemas]:
    """The files and schemas of a table as an operation finds them that comes now: with what its own
    transaction has done before."""
    files, known = state.table_of(table)
    if not intent.actions:
        return files, known
    files, known = files.copy(), known.copy()
    own_log = LogIdentity(bytes(16), 1)
    message = wire.Transaction(revision=state.revision + 1, actions=intent.actions)
    known.apply(DecodedTransaction(message, b"", "this transaction", own_log))
    gone: list[tuple[str, str]] = []
    for action in intent.actions:
        kind = action.WhichOneof("kind")
        if kind == "add" and action.add.table == table:
            files.take_out(gone)
            gone = []
            own = files.added.setdefault(table, {})
            own[action.add.path] = (action.add, state.revision + 1)
        elif kind == "remove" and action.remove.table == table:
            gone.append((table, action.remove.path))
    files.take_out(gone)  # of one that is not live the commit tells
    return files, known


def overwritten(
    session: Session,
    intent: Intent,
    table: str,
    *,
    where: Any,
    partition: str | None,
    data: pa.Schema,
    begun_at: int,
) -> Inputs:
    """What an overwrite takes out, and what of it has rows that stay.

    Args:
        begun_at: The revision at which the transaction began: what others have committed since is a
            conflict, since what comes may have been computed from rows that were read before.
        where: SQL text or a pyarrow expression; None: all rows.
        partition: Only rows of files of this one; None: of any.
        data: The schema of what comes.
    Raises:
        InvalidPredicate, SchemaConflict, UsageError: `where` can't be asked of this table.
        OperationConflict: Others have taken files out of the table since.
        CorruptError: The files of the table can't be told.
    Requests: those of `Snapshot.files` with `where`.
    """
    words = _words(where, partition)

    def asked(state: State) -> Inputs:
        refuse_begun(intent, table)
        refuse_taken_out(state, "overwrite", table, begun_at)
        files, known = files_now(state, intent, table)
        schemas = seen_schemas(state, table, files, known)
        schemas.append(FileSchema(data, state.writer, words="the data to be written"))
        asks = AskedRows(table, where, partition, schemas)
        wanted = asks.bound()
        rows = files.table(table, whole=True)
        if partition is not None:
            rows = rows.filter(in_partition(rows, partition))
        of = (files, known)
        whole, partly = rows, rows.slice(0, 0)
        if wanted is not None:
            found = judged(TableFacts(state, table, of), wanted, ())
            whole, partly = (_of_paths(rows, paths) for paths in found)
        paths = [*_list(whole, "path"), *_list(partly, "path")]
        claim = Claim(table, begun_at, words, partial(asks.may_hold, wanted))
        groups = _groups(state, table, of, partly)
        unread = _parts(state, table, of, whole) if state.deletes.hide(table) else []
        hidden = [part for part in unread if part.hidden is not None]
        return Inputs(paths, groups, sum(_list(whole, "row_count")), hidden, wanted, claim)

    return _counted(session, session.ask(asked))


def named(
    session: Session, intent: Intent, table: str, paths: Sequence[str], begun_at: int
) -> Inputs:
    """Returns files of a table that are taken out and read; `begun_at` as for `overwritten`. Raises
    `FileNotLive`."""

    def asked(state: State) -> Inputs | str:
        refuse_begun(intent, table)
        files, known = files_now(state, intent, table)
        lacking = next((path for path in paths if not files.is_live(table, path)), None)
        if lacking is not None:
            return lacking
        rows = files.table(table, whole=True)
        groups = _groups(state, table, (files, known), _of_paths(rows, paths))
        return Inputs(list(paths), groups, claim=Claim(table, begun_at))

    found = session.ask(asked)
    if isinstance(found, str) and session.tables_of(found):  # committed by others meanwhile
        found = session.ask(asked)
    if isinstance(found, str):
        raise not_live(session, found, table)
    return _counted(session, found)


def _of_paths(rows: pa.Table, paths: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows.column("path"), column(paths, pa.string())))


def _counted(session: Session, found: Inputs) -> Inputs:
    """With rows counted that nothing hides."""
    for group in found.groups:
        group.rows -= _hidden_rows(session, group.parts)
    return replace(found, whole_rows=found.whole_rows - _hidden_rows(session, found.unread))


def _hidden_rows(session: Session, parts: Sequence[FilePart]) -> int:
    some = [part for part in parts if part.hidden is not None]
    return sum(part.row_count for part in some) - visible_rows(session.wide, some)


def _parts(
    state: State, table: str, of: tuple[Files, KnownSchemas], rows: pa.Table
) -> list[FilePart]:
    """Files with what reading them takes, in their order."""
    definition = state.definitions.of(table)
    forms = {one.fingerprint: shown(one.schema, definition) for one in of[1].of_table(table)}
    folder = base_folder(state.writer, state.database)
    parts = keyed(file_parts(rows, folder, forms.__getitem__, {}, {}), folder, state)
    if not state.deletes.hide(table):
        return list(parts)
    facts = TableFacts(state, table, of, as_stored=True)
    return list(with_hidden(parts, rows, state, facts))


def _groups(
    state: State, table: str, of: tuple[Files, KnownSchemas], rows: pa.Table
) -> list[Group]:
    rows = by_commit(rows)
    parts = _parts(state, table, of, rows)
    groups: dict[tuple[str, tuple[bytes, bytes]], Group] = {}
    clocks = zip(_list(rows, "first_clock"), _list(rows, "last_clock"), strict=True)
    for part, clock in zip(parts, clocks, strict=True):
        key = (part.partition, part.form)
        group = groups.get(key)
        if group is None:
            seen = part.schema if part.shown is None else part.shown.schema
            group = groups[key] = Group(part.partition, _as_rows(seen), clock)
        group.clock = (min(group.clock[0], clock[0]), max(group.clock[1], clock[1]))
        group.parts.append(part)
        group.rows += part.row_count
    return list(groups.values())


def _as_rows(schema: pa.Schema) -> pa.Schema:
    """The schema of a file's rows: columns that its partition tells are columns like others."""
    fields = []
    for one in schema:
        told = {k: v for k, v in (one.metadata or {}).items() if k not in PARTITION}
        fields.append(one.with_metadata(told or None))
    return pa.schema(fields)


def _words(where: Any, partition: str | None) -> str:
    of = "all rows" if partition is None else f"rows of partition {partition!r}"
    return of if where is None else f"{of} with {where}"


def _list(rows: pa.Table, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).to_pylist()
    return found


# --- Streams of rows ------------------------------------------------------------------------------


class Counted:
    """Batches with rows, counted as they go by; can be asked first whether there are any."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = (batch for batch in batches if batch.num_rows)
        self._first: list[pa.RecordBatch] = []
        self.rows = 0

    def any(self) -> bool:
        """Whether there is a row at all."""
        if not self._first:
            self._first = [batch for batch in [next(self._batches, None)] if batch is not None]
        return bool(self._first)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self.any():
            batch = self._first.pop()
            self.rows += batch.num_rows
            yield batch


def within(
    batches: Iterable[pa.RecordBatch],
    shows: Shown,
    wanted: RowFilter | None,
    table: str,
    where: Any,
) -> Iterator[pa.RecordBatch]:
    """Yields data that is to come. Raises `OperationInvalid` if a row, in the form that readers
    will see (`shows`), doesn't meet what is replaced."""
    for batch in batches:
        if wanted is not None:
            rows = shows.seen(batch)
            met = meets(wanted, rows)
            if not met.all():
                outside = rows.slice(int(met.argmin()), 1).select(
                    [name for name in wanted.target.names if name in rows.schema.names]
                )
                raise OperationInvalid(
                    f"{int((~met).sum()):,} of {len(met):,} rows of the data for table {table!r} "
                    f"don't meet {where}: the first has {str(outside.to_pylist())[:200]}",
                    key=table,
                    hint="Nothing becomes visible; the transaction is lost. Leave these rows out, "
                    "or give validate=False",
                )
        yield batch


def staying(group: Group, session: Session, wanted: RowFilter | None) -> Iterator[pa.RecordBatch]:
    """The rows of files that don't meet what is replaced: for which it is false, or null."""
    assert wanted is not None, "only files that hold other rows too are read"
    for batch in group.read(session):
        yield batch.filter(array(~meets(wanted, batch)))


def digested(
    batches: Iterable[pa.RecordBatch], digest: RowDigest, shows: Shown | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields rows, and takes them into a digest, in the form that readers see (`shows`), if
    given."""
    for batch in batches:
        digest.add(batch if shows is None else shows.seen(batch))
        yield batch


def refuse_other_rows(taken: RowDigest, given: RowDigest, table: str) -> None:
    """Raises `OperationInvalid` if the data of a rewrite has other rows than the files that go."""
    if taken.value == given.value:
        return
    same = "the same number of" if taken.rows == given.rows else f"{given.rows:,}"
    what = ", with other values" if taken.rows == given.rows else ""
    raise OperationInvalid(
        f"The rewrite of table {table!r} takes out {taken.rows:,} rows and puts in {same} "
        f"rows{what}",
        key=table,
        hint="Nothing becomes visible; the transaction is lost. A rewrite keeps every row as it "
        "is: what changes rows is an overwrite",
    )


def columns_to_sort(sort_by: Any) -> list[str]:
    """Returns the names of columns to sort by, perhaps none. Raises `UsageError` for anything
    else."""
    if sort_by is not None and not isinstance(sort_by, Iterable):
        raise UsageError(f"sort_by= can't be {sort_by!r:.80}", hint="Give names of columns")
    names = [sort_by] if isinstance(sort_by, str) else list(sort_by or ())
    found = [value_of(name) for name in names]
    if not all(isinstance(name, str) for name in found):
        raise UsageError(f"sort_by= has {found!r:.80}", hint="Give names of columns")
    return found
