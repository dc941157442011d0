"""The golden catalog: two writers' logs as lakelog writes them, and what it reads of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.catalog import Catalog
from readable import plain

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog.store.memory import MemoryStore

START_US = 1_700_000_000_000_000


@dataclass
class Counted:
    """A clock that goes on by a second each time it is read, and counted identities."""

    reads: int = 0
    ids: int = 0
    ambient: Ambient = field(init=False)

    def __post_init__(self) -> None:
        self.ambient = Ambient(self.now_us, self.new_id, lambda: 0.0, lambda seconds: None)

    def now_us(self) -> int:
        self.reads += 1
        return START_US + self.reads * 1_000_000

    def new_id(self) -> bytes:
        self.ids += 1
        return hashlib.sha256(b"lakelog golden %d" % self.ids).digest()[:16]


def make_catalog(store: MemoryStore) -> list[dict[str, Any]]:
    """Two writers, eleven revisions, two tables, a checkpoint, removals, differing schemas."""
    counted = Counted()
    catalog = Catalog(store, ambient=counted.ambient)
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        write_ewr(writer)
    with catalog.writer("JFK", "weather", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            late = pa.table({"hour": pa.array([9], pa.int64()), "gust": [3.5]})
            tx.write("hourly", late, partition="2013/02")
        with writer.transaction(operation="maintenance") as tx:
            tx.write("planes", pa.table({"tail": ["N10156"], "seats": pa.array([55], pa.int16())}))
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer, writer.transaction() as tx:
        tx.evolve("hourly", add={"temp": pa.string()})
        tx.write("hourly", pa.table({"temp": ["mild"]}))
    with catalog.writer("JFK", "weather", shared=True) as writer, writer.transaction() as tx:
        (only,) = catalog.snapshot("weather", {"JFK": 1}).files("planes").column("path").to_pylist()
        tx.remove(only)
    return told_of(catalog)


def write_ewr(writer: Any) -> None:
    """Revisions 0 to 5 of EWR: types widen, a column comes, a file is replaced, one removed."""
    with writer.transaction(app_id="loader", app_version=1) as tx:
        first = pa.table(
            {"hour": pa.array([0, 1, 2], pa.int16()), "temp": pa.array([1.5, None, -2.0])}
        )
        (one,) = tx.write("hourly", first, partition="2013/01")
    with writer.transaction() as tx:
        wider = pa.table(
            {"hour": pa.array([3, 4], pa.int32()), "temp": [0.0, 5.0], "é": ["a", "b"]}
        )
        (two,) = tx.write("hourly", wider, partition="_")
    with writer.transaction(summary={"why": "wrong station"}) as tx:
        tx.remove(one)
        tx.write("hourly", pa.table({"hour": pa.array([1], pa.int16())}), partition="2013/01")
    with writer.transaction() as tx:
        tx.write("planes", pa.table({"tail": ["N1"], "built": pa.array([9], pa.date32())}))
    writer.checkpoint()
    with writer.transaction() as tx:
        tx.remove(two)
    with writer.transaction(app_id="loader", app_version=2) as tx:
        tx.write("hourly", pa.table({"hour": pa.array([5], pa.int16())}))


def told_of(catalog: Catalog) -> list[dict[str, Any]]:
    """What lakelog reads at some cuts: live files, schema and rows of each table."""
    cuts = [{"EWR": revision} for revision in range(7)]
    cuts += [{"EWR": 3, "JFK": 0}, {"EWR": 6, "JFK": 1}, {"EWR": 6, "JFK": 2}]
    told = []
    for cut in cuts:
        snapshot = catalog.snapshot("weather", cut)
        tables = {}
        for table in snapshot.tables():
            rows = snapshot.to_arrow(table)
            files = snapshot.files(table).select(["writer", "path", "partition", "row_count"])
            tables[table] = {
                "columns": [f"{item.name}: {item.type}" for item in rows.schema],
                "files": sorted(files.to_pylist(), key=lambda file: (file["writer"], file["path"])),
                "rows": [plain(row) for row in _without_dates(rows).to_pylist()],
            }
        told.append({"cut": cut, "token": snapshot.token, "tables": tables})
    return told


def _without_dates(rows: pa.Table) -> pa.Table:
    days = [item.name for item in rows.schema if pa.types.is_date32(item.type)]
    for name in days:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows.column(name).cast(pa.int32()))
    return rows


def dump(store: MemoryStore, folder: Path) -> None:
    """All objects of a store as files, but what openings found out about the store."""
    for info in (info for info in store.list("") if "/_probe/" not in info.key):
        path = folder / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.key))
