"""Rule by rule, as `test_rules_of_both`: what an AddBatch must be, and what its rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hand_objects import Attachments, Form, ipc
from hand_segments import facts_of, make_table
from hand_small import Small, add, remove
from independent_messages import FILES, SCHEMAS
from independent_wire import BIG
from rule_outcome import told_by_all

if TYPE_CHECKING:
    from three_readers import GoReader

OK, DAMAGED, TOO_NEW, FILES_BAD = "ok", "damaged", "too-new", "files damaged"


def trial() -> Small:
    """A log of six revisions: three files of t, and u has a schema."""
    return Small().schema("t").schema("u").file("data/a").file("data/b").file("data/c")


def batch_of(*paths: str, **columns: Any) -> pa.Table:
    """Rows of FILES of the next revision."""
    own = {"revision": 6, "original_revision": None, "row_groups": 0}
    rows = [{**add(path)["add"], **own} for path in paths]
    for row, place in zip(rows, range(len(rows))):
        row.update({name: values[place] for name, values in columns.items()})
    return make_table(FILES, rows)


def further(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.append_column(name, pa.array(values))


def recast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, table.column(name).cast(kind))


TWO = batch_of("data/x", "data/y")
BATCHES: dict[str, tuple[pa.Table, str]] = {
    "two files": (TWO, OK),
    "live": (batch_of("data/a", "data/x"), FILES_BAD),
    "not ascending": (batch_of("data/y", "data/x"), DAMAGED),  # the range is inverted
    "not ascending inside": (batch_of("data/x", "data/z", "data/y", "data/zz"), FILES_BAD),
    "twice": (batch_of("data/x", "data/x"), FILES_BAD),
    "UTF-8 order": (batch_of("data/z", "data/\uffee", "data/\U00010000"), OK),
    "bad path": (batch_of("data/x", "data/y/../z"), FILES_BAD),
    "other revision": (batch_of("data/x", revision=[2]), FILES_BAD),
    "one of another revision": (batch_of("data/x", "data/y", revision=[6, 5]), FILES_BAD),
    "schema unknown": (batch_of("data/x", schema_fingerprint=[b"x" * 16]), FILES_BAD),
    "negative size": (batch_of("data/x", footer_bytes=[-1]), FILES_BAD),
    "size at the bound": (batch_of("data/x", size_bytes=[BIG - 1]), OK),
    "null partition": (batch_of("data/x", partition=[None]), FILES_BAD),
    "columns in another order": (TWO.select(list(reversed(TWO.schema.names))), OK),
    "column missing": (TWO.drop_columns(["partition"]), FILES_BAD),
    "column twice": (further(TWO, "partition", ["", ""]), FILES_BAD),
    "column of another type": (recast(TWO, "row_groups", pa.int64()), FILES_BAD),
    "path as large string": (recast(TWO, "path", pa.large_string()), FILES_BAD),
    "column more": (further(TWO, "more", [1, 2]), OK),
    "column more, twice": (further(further(TWO, "more", [1, 2]), "more", ["", ""]), OK),
    "another table": (batch_of("data/x", table=["u"]), OK),
    "an unknown table": (batch_of("data/x", table=["v"]), OK),
}


def batch(table: pa.Table, **lies: Any) -> tuple[dict[str, Any], bytes]:
    """An AddBatch of one piece, and the attachments."""
    into = Attachments()
    into.put(b"12345678")
    data = lies.pop("data", None) or ipc(table, Form())
    where = {"offset": into.put(data), "length": len(data), "digest": b""}
    facts = facts_of(FILES, table)
    said_of = {**facts, **{name: new for name, new in lies.items() if name not in where}}
    where |= {name: new for name, new in lies.items() if name in where}
    return {"add_batch": {"segments": [{"segment": said_of, **where}]}}, into.data


def committed(before: list[Any], action: Any, attached: bytes, after: list[Any]) -> Small:
    log = trial()
    member = {"transaction_id": b"b" * 16, "operation": "append"}
    log.log.commit([*before, action, *after], [member], attached=attached)
    return log


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch(case: str, maybe_go: GoReader | None) -> None:
    table, expected = BATCHES[case]
    log = committed([], *batch(table), [])
    assert told_by_all(log, maybe_go) == expected


PLACES: dict[str, tuple[list[Any], dict[str, Any], list[Any], str]] = {
    "row count": ([], {"row_count": 3}, [], FILES_BAD),
    "no rows": ([], {"row_count": 0}, [], DAMAGED),
    "beyond the attachments": ([], {"offset": 1 << 20}, [], DAMAGED),
    "far beyond": ([], {"offset": (1 << 64) - 1}, [], DAMAGED),
    "a digest": ([], {"digest": bytes(32)}, [], DAMAGED),
    "no Arrow": ([], {"data": b"junk" * 100}, [], FILES_BAD),
    "Arrow cut": ([], {"data": ipc(TWO, Form())[:-20]}, [], FILES_BAD),
    "another range": ([], {"last_path": "data/z"}, [], FILES_BAD),
    "another range of tables": ([], {"first_table": "s"}, [], FILES_BAD),
    "a range that leaves the table out": (
        [],
        {"first_table": "x", "last_table": "y"},
        [],
        OK,
    ),
    "other partitions": ([], {"max_partition": "z"}, [], FILES_BAD),
    "partitions inverted": ([], {"min_partition": "z"}, [], DAMAGED),
    "other sums": ([], {"total_rows": 7}, [], FILES_BAD),
    "absurd sums": ([], {"total_rows": BIG}, [], DAMAGED),
    "columns of files": ([], {"columns": ["a"]}, [], DAMAGED),
    "kind 12": ([], {"kind": 12}, [], TOO_NEW),
    "kind 5": ([], {"kind": SCHEMAS}, [], DAMAGED),
    "added just before": ([add("data/x")], {}, [], FILES_BAD),
    "added and removed just before": ([add("data/x"), remove("data/x")], {}, [], OK),
    "removed and added again after": ([], {}, [remove("data/x"), add("data/x")], OK),
    "removed after": ([], {}, [remove("data/x")], OK),
    "added after": ([], {}, [add("data/x")], FILES_BAD),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_batch_in_its_transaction(case: str, maybe_go: GoReader | None) -> None:
    before, lies, after, expected = PLACES[case]
    log = committed(before, *batch(TWO, **lies), after)
    assert told_by_all(log, maybe_go) == expected


def test_a_batch_brings_back_what_its_transaction_removed(maybe_go: GoReader | None) -> None:
    log = committed([remove("data/a")], *batch(batch_of("data/a")), [])
    assert told_by_all(log, maybe_go) == OK
    assert log.files() == ["data/a", "data/b", "data/c"]
