"""Hints stay short, however much there is to name."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import TableNotFound, some_names


def test_a_few_names_are_all_told():
    assert some_names([]) == "none"
    assert some_names(["a", "b"]) == "a, b"


def test_of_many_tables_the_first_are_named(tmp_path):
    catalog = lakelog.open_catalog(tmp_path)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(23):
            tx.write(f"t{number:02d}", pa.table({"a": [1]}))
    with pytest.raises(TableNotFound) as caught:
        catalog.snapshot("db").files("no such")
    assert caught.value.hint.startswith("It has: t00, t01, ")
    assert caught.value.hint.endswith(", t19 and 3 more")
