"""What a catalog can do to the columns of tables, in all logs.

Source: docs/changing.md, "Schemas".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .commit.change_all import Evolved
    from .commit.writer import Writer
    from .snapshot import Snapshot


class EvolvesTables(ABC):
    """Catalogs that change the columns of a table in all logs."""

    @abstractmethod
    def snapshot(self, database: str, as_of: Any = None) -> Snapshot:
        """The state of a database."""

    @abstractmethod
    def writer(
        self,
        writer_id: str,
        database: str,
        *,
        shared: bool = False,
        checkpoint_every: int = 0,
    ) -> Writer:
        """A writer's log, opened for committing."""

    def evolve(
        self,
        database: str,
        table: str,
        *,
        writers: Sequence[str] | None = None,
        execute: bool = True,
        **change: Any,
    ) -> list[Evolved]:
        """Change the columns of a table in the logs of all its writers, in one commit a log, beside
        whoever has them open. What a log has already is left out there, so that the call can be
        repeated where one of the commits failed.

        Args:
            writers: Only in the logs of these.
            execute: Commit it; else only say what it would do.
            change: add, drop, rename, widen, default, order, key: as for `Transaction.evolve`.
        Returns:
            One for each writer whose log knows the table.
        Raises:
            UsageError, SchemaConflict, InvalidSchema: As `Transaction.evolve`, and where a log has
                a column that is to be added, with another default; nothing was committed.
            TableNotFound, WriterNotFound: No log of these knows the table, or there is none.
            CapabilityMissing: The store has no put-if-absent, so nobody but the owner can commit:
                use `Transaction.evolve` in each writer.
            ConflictError, CommitOutcomeUnknown, StorageError: The first commit that failed; the
                hint names those before.
        Requests: Those of `snapshot`, and for each log those of opening a writer and a commit.
        """
        from .commit.change_all import evolve_all
        from .data.evolution import make_change

        asked, snapshot = make_change(**change), self.snapshot(database)

        def opened(name: str) -> Writer:
            return self.writer(name, snapshot.database, shared=True)

        tables = snapshot._tables
        return evolve_all(tables, opened, value_of(table), asked, writers, execute=execute)
