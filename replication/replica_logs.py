"""What stands at the destination of chosen tables, log by log: whether it was made from the very
logs that the source has now, which the names of files tell, and whether anybody has changed it.

Source: docs/replication.md, "Some logs, or some tables, columns or rows".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..catalog.format.names import parse_replica_file
from ..catalog.log.state import empty_state
from ..catalog.parallel import parallel
from ..catalog.read.hidden import hidden_files
from ..catalog.read.log_folder import writer_ids
from ..catalog.read.log_reader import LogReader
from ..errors import CorruptError, LakelogError, ReplicaDiverged
from .checks import diverged, told_of_destination
from .position import head_of
from .selection import told_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalog.catalog import Catalog
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.state import State


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One log of the destination.

    Attributes:
        state: Its newest.
        live: By chosen table the paths of its files.
        sources: By chosen table what `parse_replica_file` these are.
        known: Chosen tables that it has files of, or had.
        defined: Chosen tables that it defines.
    """

    state: State
    live: dict[str, frozenset[str]]
    sources: dict[str, frozenset[str]]
    known: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()


@dataclass(slots=True)
class ReplicaLogs:
    """The destination's logs of one database, as they are now.

    Attributes:
        database: Its name.
        tables: Those that are chosen.
        logs: By writer those that can be read.
        failed: By writer why another one can't.
    """

    database: str
    tables: Sequence[str]
    logs: dict[str, ReplicaLog] = field(default_factory=dict)
    failed: dict[str, LakelogError] = field(default_factory=dict)

    def of(self, writer: str) -> ReplicaLog:
        """One log; an empty one if there is none.

        Raises:
            LakelogError: It can't be read.
        """
        if writer in self.failed:
            raise self.failed[writer]
        nothing: dict[str, frozenset[str]] = dict.fromkeys(self.tables, frozenset())
        empty = ReplicaLog(empty_state(writer, self.database), nothing, nothing)
        return self.logs.get(writer, empty)

    def had(self, table: str, sources: Mapping[str, LogIdentity]) -> bool:
        """Whether a table came from these very logs of the source, by writer: they know it at the
        destination, and hold no other files of it."""
        known = [w for w in sources if table in self.of(w).known]
        own = (self.of(w).sources[table] <= {told_source(sources[w])} for w in known)
        return bool(known) and all(own)

    def refuse_foreign(self, writer: str, source: LogIdentity) -> None:
        """Whether all that one log holds of the chosen tables is a replica of the source's log.

        Raises:
            ReplicaDiverged: It isn't, that replica lies under another name, or somebody has changed
                it.
        """
        where, one = f"{writer}/{self.database}", self.of(writer)
        if one.state.log is not None and one.state.log.log_id == source.log_id:
            raise diverged(
                f"The log of {where} at the destination is a whole replica of the source's, in "
                "which no tables can be chosen", where,
            )  # fmt: skip
        for table in self.tables:
            for other in sorted(one.sources[table] - {told_source(source)}):
                raise diverged(
                    f"Table {table!r} of {where} at the destination was made from another log, "
                    f"{other}..., and the source's is {source.log_id.hex()} now"
                    if other
                    else f"Table {table!r} of {where} at the destination holds files that "
                    f"replication didn't make, {_not_made(one.live[table])} for one", where,
                )  # fmt: skip
            self._refuse_renamed(table, writer, source)
            self._refuse_changed(table, where, one.state)

    def _refuse_renamed(self, table: str, writer: str, source: LogIdentity) -> None:
        """Its rows would count twice."""
        for other, one in self.logs.items():
            if other != writer and told_source(source) in one.sources[table]:
                here, there = f"{writer}/{self.database}", f"{other}/{self.database}"
                raise ReplicaDiverged(
                    f"The source's log of {here} was renamed: the destination has it as {there}",
                    key=here,
                    hint=f"Nothing there was changed. Rename it there likewise: move {there}/ to "
                    f"{here}/, and `lakelog adopt-name DESTINATION {self.database} --writer "
                    f"{writer} --execute`",
                )

    def _refuse_changed(self, table: str, where: str, state: State) -> None:
        """Replication defines no columns and no key, and deletes no rows."""
        if any(table in one.defined for one in self.logs.values()):
            raise diverged(
                f"Somebody has changed the columns or the key of table {table!r} at the "
                "destination", where,
            )  # fmt: skip
        if hidden := hidden_files(state, table):
            raise diverged(
                f"Somebody has deleted rows of table {table!r} at the destination, in "
                f"{min(hidden)} of {where} for one", where,
            )  # fmt: skip


def read_logs(destination: Catalog, database: str, tables: Sequence[str]) -> ReplicaLogs:
    """The destination's logs of a database.

    Requests: 1 LIST, and 1 for each writer; as reading the newest state of each log, and its files
        of these tables.
    """
    found = ReplicaLogs(database, tables)
    writers = writer_ids(destination.store)

    def read(writer: str) -> ReplicaLog | LakelogError:
        try:
            return _read(
                LogReader(destination.store, writer, database, destination.ambient), tables
            )
        except LakelogError as error:
            return error

    for writer, one in zip(writers, parallel(read, writers), strict=True):
        if isinstance(one, LakelogError):
            found.failed[writer] = one
        elif one.state.revision >= 0:
            found.logs[writer] = one
    return found


def _read(log: LogReader, tables: Sequence[str]) -> ReplicaLog:
    state = head_of(log)
    try:
        live, known = {}, set()
        for table in tables:
            files, schemas = state.table_of(table)
            live[table] = frozenset(files.table(table).column("path").to_pylist())
            if schemas.of_table(table):
                known.add(table)
        defined = frozenset(tables).intersection(state.definitions.entries)
    except CorruptError as error:
        raise told_of_destination(error, f"{log.writer}/{log.database}") from error
    sources = {table: frozenset(map(parse_replica_file, paths)) for table, paths in live.items()}
    return ReplicaLog(state, live, sources, frozenset(known), defined)


def _not_made(paths: frozenset[str]) -> str:
    return min(path for path in paths if not parse_replica_file(path))
