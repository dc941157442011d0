"""Tables that evolve, and every way of reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakelog.catalog.snapshot import Snapshot

Rows = list[dict[str, Any]]
INT, LONG, TEXT, DOUBLE = pa.int32(), pa.int64(), pa.string(), pa.float64()


class Lake:
    """A catalog of one database `db` and one table `t`."""

    def __init__(self, folder: Path | None = None) -> None:
        from lakelog.store import open_store

        store = MemoryStore() if folder is None else open_store(str(folder))
        self.catalog = Catalog(store)

    def do(self, *steps: Callable[[Any], Any], writer: str = "w", checkpoint: bool = False) -> None:
        """One transaction of a writer."""
        with self.catalog.writer(writer, "db", checkpoint_every=0) as opened:
            with opened.transaction() as tx:
                for step in steps:
                    step(tx)
            if checkpoint:
                opened.checkpoint()

    @property
    def now(self) -> Snapshot:
        return self.catalog.snapshot("db")

    def rows(self, **asked: Any) -> Rows:
        return self.now.to_arrow("t", **asked).to_pylist()


def write(partition: str = "", **columns: Any) -> Callable[[Any], Any]:
    """Write rows; a column is (type, values)."""
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    return lambda tx: tx.write("t", table, partition)


def evolve(**change: Any) -> Callable[[Any], Any]:
    """Change the columns."""
    return lambda tx: tx.evolve("t", **change)


def by_every_engine(snapshot: Snapshot) -> dict[str, Rows]:
    """The rows of `t` by each way of reading them but Spark's."""
    import polars as pl

    found = {
        "scan": snapshot.scan("t").read_all().to_pylist(),
        "dataset": snapshot.dataset("t").to_table().to_pylist(),
        "scanner": snapshot.dataset("t").scanner().to_table().to_pylist(),
        "pandas": pa.Table.from_pandas(
            snapshot.to_pandas("t"), snapshot.schema("t").remove_metadata(), preserve_index=False
        ).to_pylist(),
        "polars": snapshot.to_polars("t").collect().to_dicts(),
        "duckdb": snapshot.to_duckdb().sql("FROM t").to_arrow_table().to_pylist(),
    }
    assert isinstance(snapshot.to_polars("t"), pl.LazyFrame)
    return found


def same_in_every_engine(snapshot: Snapshot, rows: Rows) -> None:
    """Every engine gives these rows, in any order."""

    def key(row: dict[str, Any]) -> str:
        return repr(sorted(row.items()))

    wanted = sorted(rows, key=key)
    for engine, found in by_every_engine(snapshot).items():
        assert sorted(found, key=key) == wanted, engine
