"""Random histories of appends, overwrites and rewrites against plain Python rows: no row is lost,
doubled or changed that an operation doesn't mean."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from operation_rows import WHERE, found, meets, plain, table

PARTITIONS = ["", "p", "q/r"]
ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(0, 4),
        "x": st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, math.inf]),
        "s": st.none() | st.sampled_from(["", "a", "ab", "b"]),
    }
)
ROWS = st.lists(ROW, max_size=6)
DATA = st.fixed_dictionaries(
    {
        "rows": ROWS,
        "k": st.sampled_from([pa.int8(), pa.int32(), pa.int64()]),
        "with_s": st.booleans(),
        "partition": st.sampled_from([*PARTITIONS, None]),  # None: by the values of k
    }
)
NAMES = [name for name in WHERE if name != "arrow place"]
STEP = st.one_of(
    st.tuples(st.just("append"), DATA),
    st.tuples(
        st.just("overwrite"),
        DATA,
        st.sampled_from([None, *NAMES]),
        st.sampled_from([None, None, *PARTITIONS]),
    ),
    st.tuples(st.just("rewrite"), st.integers(0, 255), st.sampled_from([None, "k", "data"])),
    st.tuples(st.just("commit")),
    st.tuples(st.just("checkpoint")),
)


class Model:
    """What must be there: rows with their partitions, and the real thing beside them."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.catalog = Catalog(MemoryStore("random"), ambient=FakeAmbient().ambient)
        self.writer = self.catalog.writer("w", "db", checkpoint_every=0)
        with self.catalog.writer("other", "db") as other, other.transaction() as tx:
            self.others = [{"k": 2, "x": 0.0, "s": "a"}, {"k": None, "x": math.nan, "s": None}]
            tx.write("t", table(self.others, pa.int64(), with_s=True))
        self.tx = self.writer.transaction()
        self.open = 0
        self.append({"rows": [{"k": 1, "x": 1.0, "s": "a"}], "k": pa.int64(), "with_s": True,
                     "partition": ""})  # fmt: skip
        self.commit()

    def append(self, data) -> None:
        self.tx.append("t", *self._data(data))
        self._come(data)

    def overwrite(self, data, name, partition) -> None:
        rows, options = data["rows"], {}
        if partition is None and data["partition"] is None:
            options["partition_by"] = ["k"]
        if name is not None:
            rows = [row for row in rows if meets(name, row)]
        data = {**data, "rows": rows}
        if partition is not None:
            data["partition"] = partition
        elif data["partition"]:
            data["partition"] = ""
        arrow = table(rows, data["k"], with_s=True)
        where = None if name is None else WHERE[name][0]
        before = len(self.rows)
        self.rows = [
            row
            for row in self.rows
            if (name is not None and not meets(name, row))
            or (partition is not None and row["in"] != partition)
        ]
        done = self.tx.overwrite("t", arrow, where, partition, **options)
        assert done.rows_removed == before - len(self.rows)
        assert done.rows_added == len(rows)
        self._come(data)

    def rewrite(self, bits, how) -> None:
        """Of the files that are committed, some."""
        files = self.catalog.snapshot("db").files("t", writer="w")
        gone = {a.remove.path for a in self.tx._intent.actions if a.HasField("remove")}
        paths = [path for path in sorted(files.column("path").to_pylist()) if path not in gone]
        chosen = [path for at, path in enumerate(paths) if bits >> (at % 8) & 1]
        if how != "data":
            self.tx.rewrite("t", chosen, sort_by=how)
            return
        parts = self.catalog.snapshot("db").scan("t", writer="w").read_all()
        if len(chosen) == files.num_rows and parts.num_rows:
            self.tx.rewrite("t", chosen, parts.take(list(range(parts.num_rows))[::-1]))
            for row in self.rows:
                row["in"] = "" if not row["new"] else row["in"]

    def commit(self) -> None:
        self.tx.commit()
        for row in self.rows:
            row["new"] = False
        self.check()
        self.tx = self.writer.transaction()

    def checkpoint(self) -> None:
        self.writer.checkpoint()

    def check(self) -> None:
        expected = sorted(map(plain, [*self.rows, *self.others]))
        rows = self.catalog.snapshot("db").to_arrow("t")
        assert Counter(found(rows)) == Counter(expected)

    def _data(self, data):
        arrow = table(data["rows"], data["k"], with_s=data["with_s"])
        return (arrow,) if data["partition"] is None else (arrow, data["partition"])

    def _come(self, data) -> None:
        for row in data["rows"]:
            k = "__HIVE_DEFAULT_PARTITION__" if row["k"] is None else row["k"]
            where = data["partition"] if data["partition"] is not None else f"k={k}"
            self.rows.append({**row, "in": where, "new": True})


def run(steps) -> None:
    model = Model()
    for name, *arguments in steps:
        if name == "append" and arguments[0]["partition"] is None:
            arguments = [{**arguments[0], "partition": ""}]
        getattr(model, name)(*arguments)
    model.commit()


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=8))
def test_no_row_is_lost_doubled_or_changed(steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(steps)


@pytest.mark.long
@pytest.mark.timeout(0)
@settings(deadline=None, max_examples=5_000, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, max_size=20))
def test_no_row_is_lost_in_long_histories(steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(steps)
