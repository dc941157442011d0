"""A small catalog with a clock and identities of its own; the command line in this process."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.cli.main import main
from lakelog.store import open_store, probe
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them

START = dt.datetime(2013, 6, 30, tzinfo=dt.UTC)
CANARY = "c4n4ry-of-the-coal-mine"


@dataclass(frozen=True)
class Result:
    """What a command gave.

    Attributes:
        code: Its exit code.
        out, err: What it printed.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Its text without what differs between versions of pyarrow: the sizes of Parquet files."""
        return re.sub(r" +(SIZE|\d[\d,.]* (B|KiB))", " SIZE", self.out)


def hourly(origin: str, first: int, rows: int) -> pa.Table:
    start = int(START.timestamp()) + 3600 * first
    hours = range(rows)
    return pa.table(
        {
            "origin": [origin] * rows,
            "time_hour": pa.array([start + 3600 * n for n in hours], pa.timestamp("s", "UTC")),
            "temp": pa.array([None if n == 1 else 60.5 + n for n in hours], pa.float64()),
            "hour": pa.array([first + n for n in hours], pa.int32()),
        }
    )


def fill(url: str) -> None:
    """EWR: three appends, the middle one with an application version and words, then an overwrite,
    with a checkpoint at revision 2. JFK, an hour later each: two appends, the second one with
    `hour` as int64 and without `temp`; and a table of its own."""
    fake = FakeAmbient(seed=7, now_us=int(START.timestamp() * 1e6))
    store = open_store(url)
    probe(store, "EWR/")  # once, and without taking an identity of the catalog's
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer("EWR", "weather", checkpoint_every=3) as writer:
        for number in range(3):
            fake.move(3600)
            known = {} if number != 1 else {"app_id": "load", "app_version": 7}
            words = {"source": "file"} if number == 1 else None
            with writer.transaction(**known, summary=words) as tx:
                data = hourly("EWR", 3 * number, 3)
                last = tx.write("hourly", data, partition=f"day {number + 1}")
        fake.move(3600)
        with writer.transaction() as tx:
            tx.remove(last[0])
            tx.write("hourly", hourly("EWR", 6, 2), partition="day 3")
    with catalog.writer("JFK", "weather") as writer:
        for number in range(2):
            fake.move(3600)
            data = hourly("JFK", number, 2)
            if number:
                wide = data.column("hour").cast(pa.int64())
                data = data.drop_columns(["temp"]).set_column(2, "hour", wide)
            with writer.transaction() as tx:
                tx.write("hourly", data)
        fake.move(3600)
        with writer.transaction() as tx:
            tx.write("stations", pa.table({"id": ["JFK"], "name": ["John F. Kennedy"]}))


@pytest.fixture(scope="session")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The catalog of `fill`; only to be read."""
    folder = tmp_path_factory.mktemp("cli") / "catalog"
    fill(str(folder))
    before = sorted(folder.rglob("*"))
    yield str(folder)
    assert sorted(folder.rglob("*")) == before, "a test that writes takes `own_weather`"


@pytest.fixture
def own_weather(weather: str, tmp_path: Path) -> str:
    """A copy of it, to be changed and damaged."""
    url = tmp_path / "catalog"
    shutil.copytree(weather, url)
    return str(url)


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Call a command in this process: `cli("tables", url, "weather")`."""
    for name in ("STORAGE_OPTIONS", "TRACEBACK", "PROGRESS", "URL"):
        monkeypatch.delenv(f"LAKELOG_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*args: object) -> Result:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def log_object(own_weather: str) -> Callable[..., Path]:
    """The file of one object of the log in `own_weather`: `log_object("EWR", 2, "checkpoint")`."""

    def find(writer: str, revision: int, kind: str = "transaction") -> Path:
        folder = Path(own_weather) / writer / "weather" / "transactions"
        (found,) = folder.glob(f"*-{revision}.*.{kind}")
        return found

    return find
