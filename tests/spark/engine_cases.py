"""A lake with all that a scan of `data/` can meet, and the plan of its rebuild by this or that
engine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.catalog import Catalog
from lakelog.rebuild import RebuildPlan, plan_rebuild
from lakelog.testing.doubles import FakeAmbient
from own_files import add_own

sys.path.append(str(Path(__file__).parents[1] / "rebuild"))
from footer_cases import SIZE, a_killer

DATA = ("w", "db", "data")


def messy_lake(folder: Path, files: int = 20, *, damaged: bool = True) -> Catalog:
    """Files of ours, deletes, definitions and files elsewhere; if it is damaged also files of
    others, cut, moved and deadly ones."""
    catalog = lakelog.open_catalog(str(folder / "lake"))
    out = folder / "out"
    out.mkdir()
    pq.write_table(pa.table({"a": [1000, 1001]}), out / "there.parquet")
    with catalog.writer("w", "db") as writer:
        for number in range(files):
            with writer.transaction(app_id="job", app_version=number) as tx:
                tx.write("t", pa.table({"a": [number], "f": [number / 2]}), f"p={number % 3}")
        with writer.transaction() as tx:
            tx.delete("t", "a = 4")
        with writer.transaction() as tx:
            add_own(tx, "t", out / "there.parquet")
        with writer.transaction() as tx:
            tx.remove(catalog.snapshot("db").files("t")["path"].to_pylist()[0])
    catalog.evolve("db", "t", rename={"f": "g"})
    if damaged:
        _damage(Path(catalog.url, *DATA))
    return catalog


def _damage(data: Path) -> None:
    mine = sorted(data.rglob("*.parquet"))
    other = data / "in" / "t"
    other.mkdir(parents=True)
    pq.write_table(pa.table({"a": [7]}), other / "foreign.parquet")
    shutil.copy(mine[0], other / mine[0].name)
    mine[1].write_bytes(mine[1].read_bytes()[:-9])
    killer = a_killer()
    (other / "killer.parquet").write_bytes(b"PAR1" + bytes(SIZE - len(killer) - 4) + killer)
    (other / "note.txt").write_text("no Parquet")


def lose_the_log(catalog: Catalog) -> None:
    """Both copies of it."""
    for name in ("transactions", "segments", "mirror"):
        shutil.rmtree(Path(catalog.url, "w", "db", name), ignore_errors=True)


def plan_by(catalog: Catalog, engine: Any) -> RebuildPlan:
    """The same clock and identities each time."""
    return plan_rebuild(catalog, "w", "db", engine=engine, ambient=FakeAmbient().ambient)
