"""Files that were listed once are judged as if they were listed by the predicate."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "running"))

import lakelog
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.format.names import is_own
from lakelog.catalog.read.file_parts import by_others
from lakes import build, predicate
from seeds import base_seed

CASES = 60


def test_judged_as_listed(tmp_path):
    random_ = random.Random(base_seed())
    catalog, database = build(str(tmp_path), random_, 8)
    snapshot = catalog.snapshot(database)
    keys = [part.key for part in snapshot.file_parts("t")]
    random_.shuffle(keys)
    judged = snapshot.judged("t", pa.chunked_array([[*keys, "w0/db/data/of/nobody.parquet"]]))
    for _ in range(CASES):
        text = predicate(random_)
        left = {part.key for part in snapshot.file_parts("t", where=text)}
        mask = judged.may_hold(snapshot.row_filter("t", text))
        assert mask[-1], "what no log knows is kept"
        assert {key for key, kept in zip(keys, mask) if kept} == left, text


def test_which_files_lakelog_wrote():
    own = [
        f"w/db/data/_/t/1-{'0' * 32}-0.parquet",
        f"w/db/data/replica-{'0' * 16}-{'1' * 40}.parquet",
    ]
    others = [f"s3://b/1-{'0' * 32}-0.parquet", "w/db/data/in/x.parquet", f"{own[0]}.x"]
    keys = pa.chunked_array([[*own, *others]])
    assert by_others(keys).tolist() == [False, False, True, True, True]
    assert [is_own(key) for key in keys.to_pylist()] == [True, True, False, False, False]


def test_an_external_file_of_two_logs(tmp_path):
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), path)
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    for name, day in (("a", 1), ("b", 2)):
        with catalog.writer(name, "db") as writer, writer.transaction() as tx:
            tx.add("t", path, f"day={day}", partition_by={"day": pa.int64()})
    snapshot = catalog.snapshot("db")
    keys = [part.key for part in snapshot.file_parts("t")]
    judged = snapshot.judged("t", pa.chunked_array([keys]))
    for text, left in [("day = 1", True), ("day = 2", True), ("day = 3", False), ("n > 2", False)]:
        assert judged.may_hold(snapshot.row_filter("t", text)).tolist() == [left, left], text
    some = judged.may_hold(snapshot.row_filter("t", "n > 2"), proven=True)
    assert some.all(), "another program's word proves nothing"


def test_of_a_writer_and_a_partition(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    for name in ("a", "b"):
        with catalog.writer(name, "db") as writer:
            for number in range(4):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [number]}), partition=f"p{number % 2}")
    snapshot = catalog.snapshot("db")
    wanted = snapshot.row_filter("t", "n >= 2")
    for given in ({}, {"writer": "b"}, {"partition": "p1"}, {"writer": "a", "partition": "p0"}):
        keys = [part.key for part in snapshot.file_parts("t", **given)]
        left = {part.key for part in snapshot.file_parts("t", where="n >= 2", **given)}
        mask = snapshot.judged("t", pa.chunked_array([keys], pa.string()), **given).may_hold(wanted)
        assert {key for key, kept in zip(keys, mask) if kept} == left
        assert np.count_nonzero(mask) == len(keys) // 2
