"""What Spark does with a stream source, without Spark: it asks how far a batch goes, keeps that,
has the tasks read it, and notes that it is done. A query can be left anywhere and begun anew."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.ambient import Ambient
from lakelog.spark.source import LakelogDataSource
from pyspark.sql.datasource import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lakelog

Row = dict[str, Any]


@dataclass
class Query:
    """One query and its checkpoint.

    Attributes:
        ends: Where each batch ends; the last one may not have been done.
        done: How many batches were.
    """

    url: str
    options: dict[str, str]
    schema: Any = None
    ends: list[str] = field(default_factory=list)
    done: int = 0
    reader: Any = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin it anew: the process of before is gone, and the stream is loaded again."""
        source = LakelogDataSource(CaseInsensitiveDict({"path": self.url, **self.options}))
        schema = self.schema or source.schema()
        self.reader = pickle.loads(pickle.dumps(source)).streamReader(schema)

    def plan(self, limit: Any = None) -> bool:
        """Whether there is another batch: it is noted where it ends."""
        if self.done < len(self.ends):
            return True
        start = self._start(self.done)
        end = json.dumps(
            self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit())
        )
        if end == start:
            return False
        self.ends.append(end)
        return True

    def read(self) -> list[Row]:
        """The rows of the batch that was noted last; it isn't done yet."""
        number = len(self.ends) - 1
        start, end = (json.loads(text) for text in (self._start(number), self.ends[number]))
        rows: list[Row] = []
        for partition in self.reader.partitions(start, end):
            task = pickle.loads(pickle.dumps((self.reader, partition)))
            for batch in task[0].read(task[1]):
                rows += batch.to_pylist()
        return rows

    def commit(self) -> None:
        """The batch is done."""
        self.reader.commit(json.loads(self.ends[-1]))
        self.done = len(self.ends)

    def batch(self, limit: Any = None) -> list[Row] | None:
        """The rows of the next batch; None: there is nothing new."""
        if not self.plan(limit):
            return None
        rows = self.read()
        self.commit()
        return rows

    def batches(self) -> Iterator[list[Row]]:
        """All batches that there are."""
        while (rows := self.batch()) is not None:
            yield rows

    def rows(self) -> list[Row]:
        """The rows of all batches that there are."""
        return [row for rows in self.batches() for row in rows]

    def _start(self, number: int) -> str:
        return self.ends[number - 1] if number else json.dumps(self.reader.initialOffset())


def stream(catalog: lakelog.Catalog, table: str = "t", **options: Any) -> Query:
    """A query over a table of database `db`."""
    texts = {name: str(value) for name, value in options.items() if name != "schema"}
    given = {"database": "db", "table": table} | texts
    return Query(catalog.url, given, options.get("schema"))


def put(catalog: lakelog.Catalog, *values: int, writer: str = "w", table: str = "t") -> str:
    """Commit one file with these rows; its path."""
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        return tx.write(table, pa.table({"n": pa.array(values, pa.int64())}))[0]


def late(catalog: lakelog.Catalog, by_s: float) -> None:
    """Commits by this catalog are stamped so much earlier from now on."""
    own = catalog.ambient
    catalog.ambient = Ambient(
        now_us=lambda: own.now_us() - int(by_s * 1e6),
        new_id=own.new_id,
        monotonic_s=own.monotonic_s,
        sleep_s=own.sleep_s,
    )


def ns(rows: list[Row] | None) -> list[int] | None:
    """The numbers of rows, ascending."""
    return None if rows is None else sorted(row["n"] for row in rows)
