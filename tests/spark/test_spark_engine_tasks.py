"""What a task of `SparkEngine` does, done twice at once as speculation does it: it is there once.

No Spark runs here: it makes no second attempt on the host of the first, so none on one machine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import lakelog
import pyarrow as pa
from lakelog.catalog.parallel import Embedded
from lakelog.replication import replicate
from lakelog.spark.engine import Openings, _Sizes, _wave, answer, pack, unpack


class Twice:
    """Each share is done by two tasks at once, and one of them counts."""

    def each(self, prepare, stores, items, number, *, share=8):
        wave = _wave(prepare, Openings(stores).now(), list(items), _Sizes(share, number))
        for number in range(len(wave.shares)):
            with ThreadPoolExecutor(2) as threads:
                both = [threads.submit(partial(answer, wave), number) for _ in range(2)]
            found, other = (unpack(pack(one.result())) for one in both)
            assert other.error is None
            assert len(other.results) == len(found.results)
            yield from found.results
            if found.error is not None:
                raise found.error


def test_a_replica_whose_files_are_copied_twice_at_once(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(40):
            tx.write("t", pa.table({"a": list(range(number, number + 1000))}))
    report = replicate(catalog, str(tmp_path / "copy"), engine=Twice())
    assert not report.errors
    copied = report.logs[0].copied
    assert copied.files + copied.files_there == 40
    plain = replicate(catalog, str(tmp_path / "plain"), engine=Embedded())
    assert plain.logs[0].copied.files == 40
    ends = [
        {path.relative_to(end): path.read_bytes() for path in end.rglob("*.parquet")}
        for end in (tmp_path / "lake", tmp_path / "copy", tmp_path / "plain")
    ]
    assert len(ends[0]) == 40
    assert ends[0] == ends[1] == ends[2]
    assert not list(Path(tmp_path).rglob("*.tmp"))
