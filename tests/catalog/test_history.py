"""History: rows from a checkpoint and rows since are one list, whoever asks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.segments import HISTORY
from lakelog.catalog.log.history import History, rows_to_table, transaction_row
from lakelog.testing.logs import START_US, LogBuilder, add_action, schema_action

COUNT = 6
LOG = LogBuilder()
for number in range(COUNT):
    actions = [schema_action(), add_action(f"data/{number}")] if number else [schema_action()]
    LOG.commit(*actions, now_us=START_US + 7 * number + 1, guest=number == 2)
ROWS = [transaction_row(found) for found in LOG.transactions]
MARKS = [row["transaction_ids"][0] for row in ROWS]


def split(border, chunks=1):
    """The same history: rows before the border in a table, the others as rows."""
    base = rows_to_table(ROWS[:border]) if border else None
    if base is not None and chunks > 1:
        base = pa.concat_tables([base.slice(0, 1), base.slice(1)])
    return History(base, list(ROWS[border:]))


BORDERS = st.integers(0, COUNT)


@given(BORDERS, st.integers(1, 2))
def test_the_table_is_the_same_however_it_came(border, chunks):
    table = split(border, chunks).table()
    assert table.schema.equals(HISTORY)
    assert table.equals(rows_to_table(ROWS))


@given(BORDERS, st.integers(-2, COUNT + 1))
def test_rows_after_a_revision(border, revision):
    found = split(border).after(revision)
    assert found == [row for row in ROWS if row["revision"] > revision]


@given(BORDERS, st.sets(st.sampled_from([*MARKS, b"\x00" * 16])), st.integers(1, 2))
def test_rows_of_transactions(border, wanted, chunks):
    found = split(border, chunks).of_transactions(wanted)
    assert found == {mark: row for mark, row in zip(MARKS, ROWS, strict=True) if mark in wanted}


@given(BORDERS, st.integers(-1, COUNT))
def test_whether_a_revision_is_still_there(border, revision):
    assert split(border).holds(revision) == (0 <= revision < COUNT)


@given(BORDERS, st.integers(-2, 60))
def test_the_revision_at_a_time(border, offset):
    at_us = START_US + offset
    known = [row["revision"] for row in ROWS if row["committed_at"] <= at_us]
    assert split(border).revision_at(at_us) == (known[-1] if known else None)


def test_a_pruned_history_begins_later():
    history = History(rows_to_table(ROWS[3:4]), list(ROWS[4:]))
    assert not history.holds(2)
    assert history.revision_at(ROWS[2]["committed_at"]) is None
    assert history.revision_at(ROWS[3]["committed_at"]) == 3


@pytest.mark.parametrize("border", [0, 3])
def test_a_copy_is_independent(border):
    history = split(border)
    copy = history.copy()
    copy.append({**ROWS[-1], "revision": COUNT})
    assert not history.holds(COUNT)
    assert copy.holds(COUNT)


def test_what_a_row_says():
    row = ROWS[2]
    assert row["revision"] == 2
    assert row["guest"] is True
    assert (row["files_added"], row["rows_added"], row["bytes_added"]) == (1, 10, 110)
    assert row["operation"] == "append"
    assert row["digest"] == LOG.transactions[2].digest
    assert row["summary"] is None


def test_members_of_one_commit_are_told_together():
    log = LogBuilder()

    def change(message):
        message.commit.members[0].summary["b"] = "1"
        other = message.commit.members.add()
        other.CopyFrom(message.commit.members[0])
        other.operation = "delete"
        other.transaction_id = b"\x09" * 16
        other.summary["a"] = "ü"

    row = transaction_row(log.commit(change=change))
    assert row["operation"] == "maintenance+delete"
    assert row["summary"] == '{"a": "ü", "b": "1"}'
    assert len(row["transaction_ids"]) == 2
