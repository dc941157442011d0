"""`lakelog demo`: a tour on real data, from the first commit to a lost log.

The weather of New York's airports in 2013 is committed month by month. The three airports are three
writers that never talk to each other. Each has a clock of its own, set to the time of the year when
its month was complete; only that differs from real life.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import shlex
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...catalog.ambient import SYSTEM, Ambient
from ...catalog.catalog import Catalog
from ...errors import CorruptError, LakelogError, MissingDependency, UsageError
from ...store import open_store
from .. import options
from ..command_list import Command
from ..output import bold, line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from ...catalog.commit.writer import Writer

Answers = list[tuple[Any, ...]]
JUNE: Final = "2013-06-15T00:00:00Z"
_SQL: Final = """\
SELECT origin, count(*) AS hours, min(temp) AS coldest_may_hour
FROM {view} WHERE month = 5 GROUP BY origin ORDER BY origin"""
_MADE_BY_DEMO: Final = ".lakelog-demo"
_HOT: Final = "temp > 99"
_BOTH: Final = """\
SELECT origin, min(june.temp) AS coldest_may_hour_in_june, min(now.temp) AS and_now
  FROM hourly AS now JOIN june.hourly AS june USING (origin, time_hour)
  WHERE now.month = 5 GROUP BY ALL ORDER BY ALL"""


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    folder = _prepare(args.directory)
    url = str(folder) if folder.is_absolute() or os.sep in str(folder) else f"./{folder}"
    _step("Three airports, three writers, no server")
    _say(
        "EWR, JFK and LGA measure the weather every hour. Each commits its months by itself, below",
        f"a prefix of its own in {url}/. Nothing is shared between them: no lock, no database.",
    )
    for text in commit_year(url):
        line(f"  {text}")
    _step("What exists now")
    _tree(folder)
    _step("The log")
    _lakelog("log", url, DATABASE, "--limit", "6")
    _step("Time travel")
    _say("Each commit is a point in time that can be read. The files of JFK in the middle of June:")
    _lakelog("files", url, DATABASE, TABLE, "--writer", "JFK", "--as-of", JUNE)
    _say("And now, with May corrected since (revision 6):")
    _lakelog("files", url, DATABASE, TABLE, "--writer", "JFK")
    _step("A question")
    table = (url, DATABASE, TABLE, "--where", _HOT)
    _lakelog("scan", *table, "--columns", "origin,time_hour,temp")
    _say("The log knows what each file can hold, so that only one of them was read:")
    _lakelog("explain", *table, "--limit", "8", lines=12)
    _step("SQL over two points in time")
    before = _compare(url)
    _step("Spark reads both points in time")
    with spark_reader(url) as spark_reads:
        spark_before = spark_reads()
        _step("The log of LGA is lost")
        _say("Each log is stored twice. So one copy can be lost, and readers read the other:")
        line(f"  $ rm -r {url}/LGA/{DATABASE}/transactions")
        shutil.rmtree(folder / "LGA" / DATABASE / "transactions")
        _lakelog("tables", url, DATABASE, "--writer", "LGA")
        _say("A writer refuses to go on until the copy is restored:")
        _lakelog("repair", url, DATABASE, "--writer", "LGA", "--execute")
        _lakelog("check", url, DATABASE, "--level", "data")
        _say("The same question has the same answer:")
        after = _compare(url)
        if spark_before:
            _say("And Spark reads the same again:")
        if after != before or spark_reads() != spark_before:
            raise CorruptError("After the repair other rows are read than before", key=url)
    _farewell(url, time.monotonic() - started)
    return 0


def _prepare(directory: str | None) -> Path:
    if directory is None:
        folder = Path(tempfile.mkdtemp(prefix="lakelog-demo-"))
    else:
        folder = Path(directory)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{directory} is a file", key=directory, hint="Name a folder")
        if (folder / _MADE_BY_DEMO).exists():
            shutil.rmtree(folder)
        elif folder.exists() and any(folder.iterdir()):
            raise UsageError(
                f"{directory} isn't empty, and no demo made it",
                key=directory,
                hint="Name a new folder, or none for a temporary one",
            )
        folder.mkdir(parents=True, exist_ok=True)
    (folder / _MADE_BY_DEMO).write_text("Made by `lakelog demo`, which may delete this folder.\n")
    return folder


def _tree(folder: Path) -> None:
    """The objects of one writer, and how many the others have."""
    _say(f"The objects below JFK/{DATABASE}/ (EWR and LGA have the like):")
    root = folder / "JFK" / DATABASE
    for part in ("transactions", "data"):
        found = sorted(path for path in (root / part).rglob("*") if path.is_file())
        for number, path in enumerate(found):
            if number < 3 or number == len(found) - 1:
                line(f"  {path.relative_to(root)}  {path.stat().st_size:,} bytes")
            elif number == 3:
                line(f"  ... {len(found) - 4} more")
    _say(
        f"A checkpoint after every {CHECKPOINT_EVERY} commits: a reader takes the newest and",
        "the few transactions after it.",
    )


def _compare(url: str) -> str:
    """Run one query over both points in time; returns its output."""
    return _lakelog("query", url, DATABASE, "--also", f"june={JUNE}", _BOTH)


def _farewell(url: str, seconds: float) -> None:
    _step(f"Done in {seconds:.0f} seconds. What to try next")
    lakelog = "lakelog"
    if not shutil.which("lakelog"):  # as this one was called
        is_module = os.path.basename(sys.argv[0]) == "__main__.py"
        module = f"{shlex.quote(sys.executable)} -m lakelog"
        lakelog = module if is_module else shlex.quote(os.path.relpath(sys.argv[0]))
    for text in (
        f"tables {url} weather",
        f"show {url} weather --writer JFK --revision 6",
        f"scan {url} weather hourly --columns origin,time_hour,temp --limit 5",
        f"explain {url} weather hourly --where 'temp < 15' --skipped",
        f"files {url} weather hourly --as-of EWR=2,JFK=6 --output json",
        f"doctor {url}",
        f"prune {url} weather --writer EWR --keep-revisions 3",
    ):
        line(f"  {lakelog} {text}")


def _step(title: str) -> None:
    line()
    line(bold(title))


def _say(*lines: str) -> None:
    for text in lines:
        line(text)


def _lakelog(*argv: str, lines: int | None = None) -> str:
    """Run a command as the user would, and show it with `lines` of its output, or all; returns the
    output."""
    from ..main import main

    line(f"  $ lakelog {shlex.join(argv)}")
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        code = main(list(argv))
    if code:
        raise LakelogError(f"`lakelog {argv[0]}` ended with exit code {code}", key=argv[0])
    for text in answer.getvalue().splitlines()[:lines]:
        line(f"  {text}" if text else "")
    return answer.getvalue()


# --- Spark ----------------------------------------------------------------------------------------


@contextmanager
def spark_reader(url: str) -> Iterator[Callable[[], Answers]]:
    """A session of Spark, for as long as the block lasts.

    Yields:
        A function that reads both points in time, prints the answers and returns them. Without
        Spark or Java, which is noted once, it returns no answers.
    """
    from ...spark import session

    try:
        with warnings.catch_warnings():  # Spark's own, about Python packages, are no part of a tour
            warnings.simplefilter("ignore")
            spark = session("lakelog demo")
    except MissingDependency as error:
        line(f"  left out: {error}")
        yield list
        return
    try:
        yield lambda: _read_both(spark, url)
    finally:
        spark.stop()


def _read_both(spark: Any, url: str) -> Answers:
    """Read both, and compare the counts with the source."""
    from ...spark import read

    answers: Answers = []
    rows = source()
    june = dt.datetime.fromisoformat(JUNE)
    for view, as_of, months in (("june", june, 5), ("now", None, 12)):
        frame = read(spark, url, DATABASE, TABLE, as_of=as_of)
        frame.createOrReplaceTempView(view)
        count = frame.count()
        expected = sum(
            month_of(rows, airport, month).num_rows
            for airport in AIRPORTS
            for month in range(1, months + 1)
        )
        if count != expected:
            raise CorruptError(
                f"Spark counts {count} rows where the source has {expected}", key=url
            )
        line(f"  as of {JUNE if as_of else 'now'}: {count:,} rows, as many as in the source")
        found = [tuple(row) for row in spark.sql(_SQL.format(view=view)).collect()]
        for origin, hours, coldest in found:
            line(f"    {origin}  {hours} hours in May, the coldest {coldest:.2f} °F")
        answers += [(view, count), *found]
    return answers


DEMO: Final = Command(
    """\
Make a small catalog of real data and look at it: three writers commit the hourly weather of New
York's airports of 2013, one month is corrected, questions are asked of two points in time, and the
log of one writer is lost and repaired. Takes under a minute. Needs the `duckdb` extra; with the
`spark` extra and Java 17 or newer, Spark reads both points in time as well.

The catalog stays in DIR, to go on with. A DIR that an earlier demo made is replaced; any other that
isn't empty is refused.""",
    """
lakelog demo
lakelog demo ./demo-lake
""",
    (
        options.argument(
            "directory",
            "DIR",
            "where to put the catalog; a new temporary folder if not given",
            nargs="?",
        ),
    ),
    _run,
)


# --- The data -------------------------------------------------------------------------------------


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
    """All 26,115 rows, as they were published: origin, year, month, day, hour, temp (°F), dewp,
    humid, wind_dir, wind_speed, wind_gust, precip, pressure, visib, time_hour (µs, UTC)."""
    import pyarrow.parquet as pq

    path = Path(__file__).resolve().parents[2] / "fixtures" / "weather" / "weather.parquet"
    return pq.read_table(path)


def month_of(rows: pa.Table, airport: str, month: int) -> pa.Table:
    """One airport's rows of one month."""
    import pyarrow.compute as pc

    wanted = pc.and_(pc.equal(rows["origin"], airport), pc.equal(rows["month"], month))
    return rows.filter(wanted)


def commit_year(url: str) -> Iterator[str]:
    """Commit all months of all airports, and in July the correction of JFK's May, to a local
    folder. Returns a line about each month as it is done."""
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
    """Take out the reading that can't be (13.1 °F in a May night of 55 °F)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    airport, month = CORRECTED
    faulty = month_of(rows, airport, month)
    temp = pc.if_else(
        pc.equal(faulty["temp"], FAULTY_F), pa.scalar(None, pa.float64()), faulty["temp"]
    )
    clock.set(CORRECTED_AT)
    with writer.transaction(summary={"reason": "faulty thermometer"}) as tx:
        for path in old:
            tx.remove(path)  # before the write: the new file's footer then says what it replaces
        fixed = faulty.set_column(faulty.schema.get_field_index("temp"), "temp", temp)
        tx.write(TABLE, fixed, partition=f"2013-{month:02d}")
