"""Wherever a point in time is taken, `@name` is one: changes, restore, replication."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import UsageError
from lakelog.replication import replicate


@pytest.fixture
def lake(tmp_path):
    """Two commits, a tag, two more."""
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("oslo", "weather") as writer:
        for number in range(4):
            if number == 2:
                catalog.tag("half")
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [number]}))
    return catalog


def numbers(catalog, as_of=None):
    return sorted(catalog.snapshot("weather", as_of).to_arrow("t").column("n").to_pylist())


def test_changes_since_a_tag(lake):
    changes = lake.changes("weather", "t", since="@half").read_all()
    assert sorted(changes.column("n").to_pylist()) == [2, 3]
    lake.tag("whole")
    assert lake.changes("weather", "t", since="@half", until="@whole").read_all().num_rows == 2


def test_restore_to_a_tag(lake):
    lake.restore("weather", to="@half", execute=True)
    assert numbers(lake) == [0, 1]


def test_a_replica_of_a_published_cut(lake, tmp_path):
    mart = lakelog.open_catalog(str(tmp_path / "mart"))
    lake.publish("prod", "@half")
    assert replicate(lake, mart, tables=["t"], as_of="@prod").errors == []
    assert numbers(mart) == [0, 1]
    lake.publish("prod")
    assert replicate(lake, mart, tables=["t"], as_of="@prod").errors == []
    assert numbers(mart) == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="as_of="):
        replicate(lake, tmp_path / "whole", as_of="@prod")
