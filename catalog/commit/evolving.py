"""What a transaction can do to the columns of tables.

Source: docs/changing.md, "Schemas".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from ..data.evolution import Change
    from ..log.build import Intent
    from .columns import Columns
    from .room import Room
    from .session import Session


class Evolving(ABC):
    """Transactions that change the columns of tables."""

    _session: Session
    _intent: Intent
    _columns: Columns
    _room: Room
    _removed: Mapping[tuple[str, str], None]

    @abstractmethod
    def _check_open(self, operation: str) -> None:
        """Refuse an operation that can't begin now."""

    def evolve(
        self,
        table: str,
        *,
        add: Mapping[str, pa.DataType | pa.Field] | None = None,
        drop: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, pa.DataType] | None = None,
        default: Mapping[str, Any] | None = None,
        order: Sequence[str] | None = None,
        key: Sequence[str] | None = None,
    ) -> None:
        """Change the columns of a table, in this writer's files: no file is written anew, but all
        are read so from this commit on, those of earlier commits too.

        `drop` and `rename` name columns as they are, all else as they will be.

        Args:
            add: Types of new columns by name. One that was there once comes back without its old
                values.
            drop: Columns that go; data that has them is refused from here on.
            rename: New names by old ones; they may be swapped.
            widen: Types that hold every value of the present ones.
            default: Of added columns the value in files that lack them; else it is null there.
            order: Columns that come first, in this order; the others follow.
            key: Columns of which readers give one row for each value, the newest (docs/changing.md,
                "Keys"); `[]` for none any more.
        Raises:
            UsageError: No such column, or nothing to be changed.
            SchemaConflict: A name is taken; a type doesn't hold what the column has; or files
                disagree about the type of a column that stays.
            InvalidSchema: A type that Parquet doesn't have, or a default that isn't of its type; a
                key of columns whose types don't allow it.
            TableNotFound: This writer's log doesn't know the table.
            ColumnsChanged (at the commit): Another commit has changed them meanwhile.
        Requests: Of a large log 1 GET for each piece of a checkpoint that holds files of the table,
            or schemas.
        """
        from ..data.evolution import make_change

        change = make_change(
            add=add, drop=drop, rename=rename, widen=widen, default=default, order=order, key=key
        )
        self._evolve(value_of(table), change)

    def _key_of(self, table: str) -> tuple[str, ...]:
        definition = self._columns.of(table)
        return () if definition is None else definition.key

    def _unless_changed(self, table: str, asked: Callable[[], None]) -> None:
        self._columns.unless_changed(table, asked)

    def _evolve(self, table: str, change: Change, *, rest: bool = False) -> None:
        self._check_open("maintenance")
        self._session.refuse_fenced()
        removed: Collection[tuple[str, str]] = self._removed.keys()
        actions = self._columns.evolve(table, change, removed, rest=rest)
        self._room.take(actions)
        self._columns.keep(actions)
        self._intent.actions.extend(actions)
