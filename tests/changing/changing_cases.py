"""A catalog whose clock the test holds, and what stands in it as plain values."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.catalog import Catalog
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakelog.catalog.snapshot import Snapshot
    from lakelog.gc.plan import Report
    from lakelog.store import Store

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAMES = itertools.count()


@dataclass
class Clock:
    """One clock for the store and for everybody else."""

    now_s: float = 1_800_000_000.0

    def time(self) -> dt.datetime:
        return EPOCH + dt.timedelta(seconds=self.now_s)


@dataclass
class World:
    """A catalog in memory.

    Attributes:
        store: Where it is; a test may put another one before it.
    """

    clock: Clock = field(default_factory=Clock)
    store: Store | None = None

    def __post_init__(self) -> None:
        if self.store is None:
            self.store = MemoryStore(f"changing-{next(NAMES)}", now=self.clock.time)

    @property
    def catalog(self) -> Catalog:
        numbers = itertools.count(next(NAMES) << 64)
        return Catalog(
            self.store,
            ambient=Ambient(
                now_us=lambda: int(self.clock.now_s * 1_000_000),
                new_id=lambda: _mixed(next(numbers)),
                monotonic_s=lambda: self.clock.now_s,
                sleep_s=lambda seconds: None,
            ),
        )

    def writer(self, name: str = "oslo", **options: Any) -> Any:
        return self.catalog.writer(name, "weather", **{"checkpoint_every": 3, **options})

    def write(
        self, *values: int, table: str = "hourly", writer: str = "oslo", **options: Any
    ) -> str:
        """Commit one file with these rows; its path."""
        self.clock.now_s += 1
        with self.writer(writer) as opened, opened.transaction(**options) as tx:
            return tx.write(table, pa.table({"n": pa.array(values, pa.int64())}))[0]

    def take_out(self, *paths: str, writer: str = "oslo") -> None:
        self.clock.now_s += 1
        with self.writer(writer) as opened, opened.transaction() as tx:
            for path in paths:
                tx.remove(path)

    def rows(self, table: str = "hourly", as_of: Any = None) -> list[int]:
        return sorted(self.catalog.snapshot("weather", as_of).to_arrow(table)["n"].to_pylist())

    @property
    def token(self) -> str:
        return self.catalog.snapshot("weather").token

    def prune(self, writer: str = "oslo") -> Report:
        with self.writer(writer) as opened:
            opened.checkpoint()
        self.clock.now_s += 2 * 86_400
        plan = plan_prune(self.catalog, writer, "weather", keep_revisions=1)
        return execute_prune(self.catalog, plan)

    def gc(self, writer: str = "oslo") -> Report:
        return execute_gc(self.catalog, plan_gc(self.catalog, writer, "weather"))

    def by_duckdb(self, tables: Sequence[str]) -> list[tuple[str, int]]:
        """Table and value of each row, as DuckDB reads them."""
        snapshot = self.catalog.snapshot("weather")
        there = [table for table in tables if table in snapshot.tables()]
        connection = snapshot.to_duckdb()
        return sorted(
            (table, value)
            for table in there
            for (value,) in connection.sql(f'select n from "{table}"').fetchall()
        )


def _mixed(number: int) -> bytes:
    import hashlib

    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def files_of(snapshot: Snapshot) -> set[tuple[str, str, str]]:
    """Writer, table and path of each live file."""
    found = set()
    for table in snapshot.tables():
        files = snapshot.files(table)
        columns = (files[name].to_pylist() for name in ("writer", "path"))
        found |= {(writer, table, path) for writer, path in zip(*columns, strict=True)}
    return found


def rows_of(snapshot: Snapshot) -> dict[tuple[str, str, str], tuple[int, ...]]:
    """The rows of each live file, by writer, table and path."""
    found = {}
    for table in snapshot.tables():
        rows = iter(snapshot.to_arrow(table)["n"].to_pylist())
        for part in snapshot.file_parts(table):
            writer, _, path = part.key.split("/", 2)
            found[writer, table, path] = tuple(next(rows) for _ in range(part.row_count))
        assert next(rows, None) is None
    return found
