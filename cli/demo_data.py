"""What the demo commits: the weather of New York's airports in 2013, month by month.

The three airports are three writers that never talk to each other. Each has a clock of its own,
set to the time of the year when its month was complete; that is all that isn't as in real life.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..catalog.ambient import SYSTEM, Ambient
from ..catalog.catalog import Catalog
from ..store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ..catalog.commit.writer import Writer

AIRPORTS: Final = ("EWR", "JFK", "LGA")
DATABASE: Final = "weather"
TABLE: Final = "hourly"
CHECKPOINT_EVERY: Final = 5
CORRECTED_AT: Final = dt.datetime(2013, 7, 15, 9, 30, tzinfo=dt.UTC)
CORRECTED: Final = ("JFK", 5)
FAULTY_F: Final = 13.1
_DONE_AFTER: Final = {"EWR": 5, "JFK": 12, "LGA": 45}  # minutes into the next month


@dataclass(slots=True)
class Clock:
    """A writer's clock: it shows what it was set to, and goes on by a millisecond a look."""

    at_us: int = 0

    def set(self, at: dt.datetime) -> None:
        """Show this time from now on."""
        self.at_us = int(at.timestamp() * 1_000_000)

    def __call__(self) -> int:
        self.at_us += 1_000
        return self.at_us


def source() -> pa.Table:
    """All 26,115 rows, as they were published.

    Returns:
        origin, year, month, day, hour, temp (°F), dewp, humid, wind_dir, wind_speed, wind_gust,
        precip, pressure, visib, time_hour (timestamp[us, UTC]).
    """
    import pyarrow.parquet as pq

    path = Path(__file__).resolve().parents[1] / "fixtures" / "weather" / "weather.parquet"
    return pq.read_table(path)


def month_of(rows: pa.Table, airport: str, month: int) -> pa.Table:
    """One airport's rows of one month."""
    import pyarrow.compute as pc

    wanted = pc.and_(pc.equal(rows["origin"], airport), pc.equal(rows["month"], month))
    return rows.filter(wanted)


def without_fault(rows: pa.Table) -> pa.Table:
    """The rows with the reading that can't be (13.1 °F in a May night of 55 °F) taken out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    faulty = pc.equal(rows["temp"], FAULTY_F)
    fixed = pc.if_else(faulty, pa.scalar(None, pa.float64()), rows["temp"])
    return rows.set_column(rows.schema.get_field_index("temp"), "temp", fixed)


def commit_year(url: str) -> Iterator[str]:
    """Commit all months of all airports, and in July the correction of JFK's May.

    Args:
        url: The catalog's root; a local folder.
    Returns:
        A line about each month, as it is done.
    """
    rows = source()
    clocks = {airport: Clock() for airport in AIRPORTS}
    writers = {airport: _open(url, airport, clocks[airport]) for airport in AIRPORTS}
    first_files: list[str] = []
    for month in range(1, 13):
        counts = []
        for airport, writer in writers.items():
            clocks[airport].set(_complete(airport, month))
            part = month_of(rows, airport, month)
            with writer.transaction() as tx:
                paths = tx.write(TABLE, part, partition=f"2013-{month:02d}")
            if (airport, month) == CORRECTED:
                first_files = paths
            counts.append(f"{airport} {part.num_rows}")
        yield f"2013-{month:02d}   " + "   ".join(f"{count} rows" for count in counts)
        if month == CORRECTED_AT.month - 1:
            _correct(writers[CORRECTED[0]], clocks[CORRECTED[0]], rows, first_files)
            yield "2013-05   JFK corrected on 15 July: one file removed, one written, one commit"
    for writer in writers.values():
        writer.close()


def _open(url: str, airport: str, clock: Clock) -> Writer:
    # Nothing beside the commits: this clock goes on by months from one to the next.
    ambient: Ambient = replace(SYSTEM, now_us=clock, in_background=False)
    clock.set(_complete(airport, 1))
    catalog = Catalog(open_store(url), ambient=ambient)
    return catalog.writer(airport, DATABASE, checkpoint_every=CHECKPOINT_EVERY)


def _complete(airport: str, month: int) -> dt.datetime:
    year, following = (2013, month + 1) if month < 12 else (2014, 1)
    return dt.datetime(year, following, 1, 0, _DONE_AFTER[airport], tzinfo=dt.UTC)


def _correct(writer: Writer, clock: Clock, rows: pa.Table, old: list[str]) -> None:
    airport, month = CORRECTED
    clock.set(CORRECTED_AT)
    with writer.transaction(summary={"reason": "faulty thermometer"}) as tx:
        for path in old:
            tx.remove(path)  # before the write: the new file's footer then says what it replaces
        fixed = without_fault(month_of(rows, airport, month))
        tx.write(TABLE, fixed, partition=f"2013-{month:02d}")
