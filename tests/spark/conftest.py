"""One Spark session for all tests, and the few helpers that write files for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them
from newer_spark import pytest_runtest_call  # noqa: F401
from processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from lakelog.testing.known_files import KnownFile
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two threads, started once; tests put back what they set."""
    from lakelog.spark.session import session

    made = session("lakelog tests", **{"spark.sql.shuffle.partitions": 2})
    yield made
    made.stop()


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[str, object], None]]:
    """Change settings of the session for one test: `settings(name, value)`."""
    before: dict[str, str | None] = {}

    def change(name: str, value: object) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))

    yield change
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., KnownFile]:
    """`write(name, table)` writes a Parquet file under the test folder: its path and its size."""

    from lakelog.testing.known_files import KnownFile

    def write_file(name: str, table: pa.Table, **options: object) -> KnownFile:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return KnownFile(str(path), path.stat().st_size)

    return write_file


@pytest.fixture
def no_file_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all reads go by the second-best way."""
    monkeypatch.setenv("LAKELOG_SPARK_FILE_INDEX", "off")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """What a test starts; nothing of it outlives the test."""
    started = Processes(tmp_path)
    yield started
    started.kill_all()
