"""A pipeline from end to end, in processes that die: three collectors write, a Spark stream follows
them into a second table, a Spark job aggregates that into a second database, and a replica follows
both. One executor and the driver are killed on the way, and all counts agree."""

from __future__ import annotations

from pathlib import Path

import lakelog
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakelog.cli.commands.demo import AIRPORTS, source
from lakelog.errors import NotFoundError
from newer_spark import STREAMS, needs
from processes import HERE

STREAM = "spark-stream"
KILLED_AFTER = 4  # batches of the stream, of ten or more


def transactions(url: str, writer: str) -> list[str]:
    """Names of a writer's commits."""
    return [p.name for p in Path(url, writer, "weather").glob("transactions/*.transaction")]


def set_back(progress: Path, batches: int) -> None:
    """Spark's notes as they are right after the last commit to the log, which the driver mostly
    dies of; but a machine may be slow to kill."""
    for kind, noted in (("offsets", batches), ("commits", batches - 1)):
        for path in (progress / kind).iterdir():
            if int(path.name.strip(".").partition(".")[0]) >= noted:
                path.unlink()


@needs(STREAMS)
@pytest.mark.slow("starts a Spark with executors in processes of their own twice: some 40 s alone")
def test_all_counts_agree_whatever_is_killed(processes, tmp_path):
    url, copy = str(tmp_path / "lake"), str(tmp_path / "copy")
    for airport in AIRPORTS:
        processes.python(airport, HERE / "pipeline_collector.py", airport, url, tmp_path)
    processes.until(lambda: all(transactions(url, each) for each in AIRPORTS), *AIRPORTS)
    driver = (HERE / "pipeline_driver.py", url, tmp_path)
    processes.python("first", *driver)
    follow = ("-m", "lakelog", "replicate", url, copy, "--follow", "--every", "0.5")
    processes.python("replica", *follow)
    processes.until(lambda: transactions(url, STREAM), "first")
    (tmp_path / "reads along").touch()
    processes.until(lambda: len(transactions(url, STREAM)) >= KILLED_AFTER, "first")
    processes.kill("first")
    assert (tmp_path / "executor killed").exists()
    set_back(tmp_path / "progress", len(transactions(url, STREAM)))
    processes.python("second", *driver)
    assert [processes.ended(airport) for airport in AIRPORTS] == [0, 0, 0]
    (tmp_path / "collected").touch()
    assert processes.ended("second") == 0, processes.said("second")
    assert "skipped: [False, True]" in processes.said("second")
    processes.until(lambda: tokens(copy) == tokens(url), "replica")
    assert processes.terminate("replica") == 0, processes.said("replica")
    assert len(transactions(url, STREAM)) > KILLED_AFTER
    agree(url)
    agree(copy)


def tokens(url: str) -> dict[str, str]:
    catalog = lakelog.open_catalog(url)
    try:
        return {name: catalog.snapshot(name).token for name in ("weather", "climate")}
    except NotFoundError:
        return {}  # the replica isn't so far


def agree(url: str) -> None:
    """All tables have what follows from the source: no row more, none less, none another."""
    catalog, rows = lakelog.open_catalog(url), source()
    weather = catalog.snapshot("weather")
    hourly, metric = weather.to_arrow("hourly"), weather.to_arrow("metric")
    monthly = catalog.snapshot("climate").to_arrow("monthly")
    assert hourly.num_rows == metric.num_rows == pc.sum(monthly["hours"]).as_py() == 26_115
    assert_same(hourly, rows)
    celsius = pc.divide(pc.subtract(rows["temp"], 32.0), 1.8)
    wanted = rows.select(["origin", "month", "time_hour"]).append_column("celsius", celsius)
    assert_same(metric, wanted)
    groups = rows.group_by(["origin", "month"]).aggregate([([], "count_all")])
    assert_same(monthly, groups.rename_columns(["origin", "month", "hours"]))


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    """The same rows, in whatever order."""
    order = [(name, "ascending") for name in wanted.column_names]
    found = found.select(wanted.column_names).cast(wanted.schema)
    assert found.sort_by(order).equals(wanted.sort_by(order))
