"""A table as a stream reads it: what was committed between two cuts, kept for the next batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.format.cut import Cut, Position
from ..catalog.parallel import parallel
from ..catalog.read.appended import Existing, appended, commits_of, key_error
from ..catalog.read.changes import has_key, logs_between, refuse_about, seen_in, steps_of, told
from ..catalog.read.commits_between import ABOUT
from ..catalog.read.cut_tables import CutTables
from ..catalog.read.file_parts import checked, projected
from ..catalog.read.keys import table_key
from ..catalog.read.log_folder import writer_ids
from ..catalog.read.log_reader import LogReader
from ..catalog.read.points_in_time import cut_of, point_in_time, refuse_twins
from ..errors import ColumnsChanged, SchemaConflict, StreamLost, TableNotFound
from .arrow_types import spark_schema
from .source_options import changes_options, stream_options
from .source_tasks import step_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from ..catalog.data.unify import FileSchema
    from ..catalog.log.state import State
    from ..catalog.read.appended import Commit
    from ..catalog.read.commits_between import Between, Found
    from .source_options import Followed

COMMITS_AT_ONCE: Final = 256  # of each log, that are looked at for one batch with limits
_ANEW: Final = (
    "Give the query a new checkpointLocation: without `since` it begins with the rows that are "
    "there, else where that says"
)


class FollowedTable:
    """Reads a table for a stream.

    Attributes:
        tables: Of the newest cut that was looked at: rows are given by its columns.
    """

    def __init__(self, asked: Followed) -> None:
        self._asked = asked
        self._catalog = asked.access.open()
        self._heads: dict[str, State] = {}
        self._kept: dict[tuple[str, Position], State] = {}
        self._logs: tuple[Cut, Cut, list[Between]] | None = None
        self._existing: tuple[Cut, Existing] | None = None
        self.tables = CutTables(asked.database, [])

    # --- Where there is something -----------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """What time it is."""
        return self._catalog.ambient.now_us()

    def look(self) -> Cut:
        """The newest cut.

        Raises:
            DatabaseNotFound, NotACatalog: There is no log, at first.
            SameLogTwice: One is a copy of another.
        Requests: At first those of `Catalog.snapshot`. Then 1 LIST, 1 for each writer, and 1 GET
            for each new transaction.
        """
        database, catalog = self._asked.database, self._catalog
        if not self._heads:
            states = catalog._states(database, None)
        else:
            known = {name: self._log(name) for name in self._heads}
            states = parallel(lambda name: known[name].advance(self._heads[name]), known)
            states += self._others(known)
        states = [state for state in states if state.revision >= 0]
        states.sort(key=lambda state: state.writer)
        refuse_twins(states)
        if any(self._heads.get(s.writer) is not s for s in states) or len(states) < len(
            self._heads
        ):
            self._heads = {state.writer: state for state in states}
            self.tables = CutTables(database, states)
        return cut_of(database, states)

    def _others(self, known: Collection[str]) -> list[State]:
        names = [name for name in writer_ids(self._catalog.store) if name not in known]
        return parallel(lambda name: self._log(name).load(), names)

    def _log(self, writer: str) -> LogReader:
        return LogReader(self._catalog.store, writer, self._asked.database, self._catalog.ambient)

    def point(self, text: str) -> Cut:
        """The cut that the option `since` names.

        Raises: As `Catalog.snapshot`; before the first commit it is the cut of no writer.
        """
        at = point_in_time(text)
        states = self._catalog._earlier(self._asked.database, at, None, whole=False)
        return cut_of(self._asked.database, states)

    def refuse_lost(self, since: Cut) -> None:
        """Raises `StreamLost`, with the log, if the newest cut doesn't follow another one."""
        for writer, at in since.writers.items():
            head, where = self._heads.get(writer), f"{writer}/{since.database}"
            if head is None:
                why = "isn't there any more"
            elif at.log is not None and head.log != at.log:
                why = "was rebuilt or replaced, and its commits have other numbers"
            elif head.revision < at.revision:
                why = f"ends at revision {head.revision} now"
            else:
                continue
            raise StreamLost(
                f"The stream has read {where} up to revision {at.revision}, and the log {why}",
                key=where,
                hint=f"`lakelog check` tells more. {_ANEW}",
            )

    def states(self, cut: Cut) -> list[State]:
        """The states of a cut, by writer. Those of the last few cuts are kept."""
        held = {(s.writer, at): s for s in self._heads.values() for at in [_position(s)]}
        held |= self._kept
        missing = {w: at for w, at in cut.writers.items() if (w, at) not in held}
        if missing:
            asked = Cut(cut.database, missing)
            for state in self._catalog._states(cut.database, asked):
                held[state.writer, missing[state.writer]] = state
        found = {(w, at): held[w, at] for w, at in cut.writers.items()}
        most = 4 * len(found)
        others = [(key, state) for key, state in self._kept.items() if key not in found]
        self._kept = dict([*others, *found.items()][-most:])
        return [found[key] for key in sorted(found, key=lambda key: key[0])]

    # --- What lies between ------------------------------------------------------------------------

    def commits(self, since: Cut, until: Cut, *, all_of_them: bool) -> tuple[Cut, list[Commit]]:
        """The commits behind a cut, by time, of each log as many as are looked at together.

        Returns:
            The cut that all of them lead to, too.
        Raises:
            SnapshotPruned, MissingTransaction, CorruptError: They can't all be read.
            NotAppended: The table isn't one that is only appended to.
        """
        end = until if all_of_them else self._near(since, until)
        return end, commits_of(self._between(since, end))

    def _near(self, since: Cut, until: Cut) -> Cut:
        found = dict(until.writers)
        for writer, at in until.writers.items():
            start = since.writers[writer].revision if writer in since.writers else -1
            if at.revision - start > COMMITS_AT_ONCE:
                there = Position(start + COMMITS_AT_ONCE, b"", at.log)
                (state,) = self.states(Cut(until.database, {writer: there}))
                found[writer] = _position(state)
                self._kept[writer, found[writer]] = state
        near = Cut(until.database, found)
        return near if self.agrees(near) else until

    def agrees(self, cut: Cut) -> bool:
        """Whether a batch can end at a cut: not where some logs have yet to say what others call
        the table's key by then."""
        try:
            self.refuse_disagreement(cut)
        except SchemaConflict:
            return False
        return True

    def refuse_disagreement(self, cut: Cut) -> None:
        """Raise where it can't.

        Raises:
            SchemaConflict: Of a stream of changes, two logs give the table different keys.
        """
        if self._asked.feed:  # else no key is read there
            table_key(self.states(cut), self._asked.table)

    def _between(self, since: Cut, until: Cut) -> list[Between]:
        """What was committed between two cuts, in the logs that are needed for it."""
        if self._logs is not None and self._logs[:2] == (since, until):
            return self._logs[2]
        before, after, table = self.states(since), self.states(until), self._asked.table
        keyed = table_key(before, table) or table_key(after, table)
        known = {state.writer: state.revision for state in before}
        new = {s.writer for s in after if s.revision > known.get(s.writer, -1)}
        logs = self._read(before, after, None if keyed else new)
        if has_key(logs, table, net=False):
            if not self._asked.feed:
                raise key_error(table)
            if not keyed:
                logs = self._read(before, after, None)
        self._logs = (since, until, logs)
        return logs

    def _read(
        self, before: Sequence[State], after: Sequence[State], only: set[str] | None
    ) -> list[Between]:
        catalog, table = self._catalog, self._asked.table
        return logs_between(
            catalog.wide,
            catalog.ambient,
            before,
            after,
            told_by=self.tables,
            table=table,
            only=only,
        )

    def changed(self, since: Cut, until: Cut, columns: Sequence[str]) -> list[InputPartition]:
        """The tasks that read what was committed between two cuts.

        Args:
            columns: Of the table.
        Raises: As `commits`; SchemaConflict.
        """
        asked, logs = self._asked, self._between(since, until)
        net = asked.feed and asked.net
        found = steps_of(self._catalog.wide, logs, asked.table, self._state_at, net=net)
        if not asked.feed:
            found = appended(logs, found, skip=asked.skip)
        return self._tasks(found, partial(seen_in, logs, found.fingerprints), columns)

    def _state_at(self, writer: str, revision: int) -> State:
        return self._catalog._states(self._asked.database, {writer: revision})[0]

    def existing(self, cut: Cut) -> Existing:
        """Returns the rows at a cut. Raises as `commits`."""
        if self._existing is None or self._existing[0] != cut:
            states = self.states(cut)
            if not self._asked.feed and table_key(states, self._asked.table):
                raise key_error(self._asked.table)
            tables = CutTables(cut.database, states)
            found = Existing(self._catalog.wide, tables, self._asked.table)
            self._existing = (cut, found)
        return self._existing[1]

    def there(
        self, cut: Cut, start: int, end: int | None, columns: Sequence[str]
    ) -> list[InputPartition]:
        """The tasks that read some of the files that are there at a cut.

        Args:
            start, end: Which of `Existing.files`; None: up to the last.
        """
        existing = self.existing(cut)
        stop = existing.files.num_rows if end is None else end
        found, schemas = existing.steps(start, stop, self.tables)
        return self._tasks(found, lambda _: schemas, columns)

    def _tasks(
        self, found: Found, seen: Callable[[bool], Iterable[FileSchema]], columns: Sequence[str]
    ) -> list[InputPartition]:
        steps = list(found.steps)
        if not steps:
            return []
        projection = told(self.tables, self._asked.table, seen, columns)
        return step_tasks(found._replace(steps=steps), projection)

    # --- Columns ----------------------------------------------------------------------------------

    def check_columns(self, schema: StructType) -> None:
        """Refuse a table that has other columns by now than a stream was loaded with.

        Raises:
            ColumnsChanged: Names them.
            SchemaConflict: Its files have none in common.
        """
        try:
            now = _schema_of(self._asked, self.tables)
        except TableNotFound:
            return
        had, has = ({f.name: f.dataType for f in each.fields} for each in (schema, now))
        came = [f"{name} {has[name].simpleString()} came" for name in has if name not in had]
        went = [f"{name} went" for name in had if name not in has]
        other = [
            f"{name} was {had[name].simpleString()} and is {has[name].simpleString()}"
            for name in had
            if name in has and had[name] != has[name]
        ]
        if came or went or other:
            raise ColumnsChanged(
                f"Table {self._asked.table!r} has other columns than when the stream was loaded: "
                f"{'; '.join([*came, *went, *other])}",
                key=self._asked.table,
                hint="Load the stream again and start the query with the same checkpointLocation: "
                "it goes on where it is, with the columns of today. columns= keeps to some",
            )


def _position(state: State) -> Position:
    return cut_of(state.database, [state]).writers[state.writer]


def _schema_of(asked: Followed, tables: CutTables) -> StructType:
    schemas = tables.file_schemas(asked.table)
    names = asked.columns
    chosen = None if names is None else checked(names, schemas, asked.table)
    given = projected(schemas, asked.table, chosen, None).given
    if not asked.feed:
        return spark_schema(given)
    import pyarrow as pa

    refuse_about(given.names, asked.table)
    return spark_schema(pa.schema([*ABOUT, *given]))


def followed_schema(options: Mapping[str, str]) -> tuple[str, StructType]:
    """The columns of a stream, or of changes, as they are now; and the cut of now.

    Raises:
        TableNotFound: There is no such table.
        As `stream_options` and `changes_options`; as `Snapshot.schema`.
    Requests: those of `Catalog.snapshot`.
    """
    asked = changes_options(options) if "until" in options else stream_options(options)
    until = point_in_time(asked.until) if asked.until else None
    snapshot = asked.access.open().snapshot(asked.database, until)
    return snapshot.token, _schema_of(asked, snapshot._tables)
