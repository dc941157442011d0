"""pyarrow's expressions as `where=`, over columns that are asked for and others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakelog.errors import SchemaConflict


def put(catalog, table, writer="w"):
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        tx.write("t", table)


EXPRESSIONS = {
    "by name": pc.field("b") > 15,
    "by place": pc.field(1) > 15,
    "by the place of its field": pc.field(2, 0) < 3,
    "nothing that predicates say": pc.field("a") < pc.field("b"),
}


@pytest.mark.parametrize("columns", [["a"], ["b"], ["s", "b"], ["b", "a", "s"], None])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_mean_columns_of_the_table_whichever_are_asked_for(catalog, name, columns):
    table = pa.table({"a": [1, 2, 30], "b": [30, 20, 10], "s": [{"x": n} for n in (1, 2, 3)]})
    put(catalog, table)
    wanted = table.filter(EXPRESSIONS[name]).select(columns or table.column_names)
    assert wanted.num_rows == 2
    found = catalog.snapshot("db").to_arrow("t", columns, where=EXPRESSIONS[name])
    assert found.to_pylist() == wanted.to_pylist()


def test_an_expression_needs_only_its_own_columns_to_agree(catalog):
    put(catalog, pa.table({"v": [1], "k": [1]}), writer="a")
    put(catalog, pa.table({"v": ["x"], "k": [2]}), writer="b")
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t", ["k"], where=pc.field("k") > 1).to_pylist() == [{"k": 2}]
    for expression in (pc.field("v") == 1, pc.field(1) > 1):
        with pytest.raises(SchemaConflict, match="'v'"):
            snapshot.to_arrow("t", ["k"], where=expression)
