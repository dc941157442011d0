"""History: rows from a checkpoint and rows since are one list, whoever asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.pieces import Piece, describe
from lakelog.catalog.format.segments import HISTORY, HISTORY_COLUMNS, encode_ipc
from lakelog.catalog.log.history import History, history_rows, summary_of, transaction_row
from lakelog.errors import CorruptObject
from lakelog.testing.logs import START_US, LogBuilder, add_action, schema_action

COUNT = 6
LOG = LogBuilder()
for number in range(COUNT):
    actions = [schema_action(), add_action(f"data/{number}")] if number else [schema_action()]
    LOG.commit(*actions, now_us=START_US + 7 * number + 1, guest=number == 2)
ROWS = [transaction_row(found) for found in LOG.transactions]
IDS = [row["transaction_ids"][0] for row in ROWS]


def piece(rows):
    """Rows as a segment."""
    table = history_rows(rows)
    data = encode_ipc(table)
    return Piece(describe(HISTORY, table), b"", len(data), "key", memoryview(data))


def split(border, chunks=1, first=0):
    """The same history: rows before the border in pieces, the others as rows."""
    base = ROWS[first:border]
    parts = [base] if chunks == 1 else [base[:1], base[1:]]
    last = base[-1] if base else None
    return History(
        tuple(piece(part) for part in parts if part),
        lambda pieces: [one.inline for one in pieces],
        list(ROWS[border:]),
        last and (last["revision"], last["digest"], last["committed_at"]),
    )


BORDERS = st.integers(0, COUNT)


@given(BORDERS, st.integers(1, 2))
def test_the_table_is_the_same_however_it_came(border, chunks):
    table = split(border, chunks).table()
    assert table.schema.equals(HISTORY_COLUMNS)
    assert table.equals(history_rows(ROWS))


@given(BORDERS, st.integers(-2, COUNT + 1))
def test_rows_after_a_revision(border, revision):
    found = split(border).after(revision)
    assert found == [row for row in ROWS if row["revision"] > revision]


@given(BORDERS, st.sets(st.sampled_from([*IDS, b"\x00" * 16])), st.integers(1, 2))
def test_rows_of_transactions(border, wanted, chunks):
    found = split(border, chunks).of_transactions(wanted)
    assert found == {
        transaction_id: row
        for transaction_id, row in zip(IDS, ROWS, strict=True)
        if transaction_id in wanted
    }


@given(BORDERS, st.integers(-1, COUNT))
def test_whether_a_revision_is_still_there(border, revision):
    assert split(border).holds(revision) == (0 <= revision < COUNT)


@given(BORDERS, st.integers(-2, 60))
def test_the_revision_at_a_time(border, offset):
    at_us = START_US + offset
    known = [row["revision"] for row in ROWS if row["committed_at"] <= at_us]
    assert split(border).revision_at(at_us) == (known[-1] if known else None)


def test_a_pruned_history_begins_later():
    history = split(4, first=3)
    assert not history.holds(2)
    assert history.revision_at(ROWS[2]["committed_at"]) is None
    assert history.revision_at(ROWS[3]["committed_at"]) == 3


@pytest.mark.parametrize("border", [0, 3])
def test_a_copy_is_independent(border):
    history = split(border)
    copy = history.copy()
    copy.rows.append({**ROWS[-1], "revision": COUNT})
    assert not history.holds(COUNT)
    assert copy.holds(COUNT)


def broken(change, rows=4):
    """A history whose only piece, or the place that it is looked for in, was altered."""
    history = split(rows)
    change(history)
    return history


def lie(field, value):
    def change(history):
        setattr(history.pieces[0].segment, field, value)

    return change


def expect(*end):
    def change(history):
        history.expected = end

    return change


def rows_with(place, **changes):
    def change(history):
        rows = [dict(row) for row in ROWS[:4]]
        rows[place].update(changes)
        history.pieces = (piece(rows),)

    return change


END = (3, ROWS[3]["digest"], ROWS[3]["committed_at"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lie("first_revision", 1), id="another first revision"),
        pytest.param(lie("last_revision", 4), id="another last revision"),
        pytest.param(expect(4, *END[1:]), id="not the checkpoint's revision"),
        pytest.param(expect(3, bytes(32), END[2]), id="not its digest"),
        pytest.param(expect(*END[:2], 7), id="not its time"),
        pytest.param(rows_with(1, revision=2), id="a gap"),
        pytest.param(rows_with(1, committed_at=ROWS[0]["committed_at"]), id="times not ascending"),
        pytest.param(rows_with(0, committed_at=0), id="no time"),
        pytest.param(rows_with(3, committed_at=1 << 55), id="a time beyond all"),
        pytest.param(rows_with(2, epoch=0), id="no epoch"),
        pytest.param(rows_with(2, files_added=-1), id="a negative count"),
    ],
)
def test_a_piece_that_is_not_that_of_its_revisions_is_refused(change):
    with pytest.raises(CorruptObject):
        broken(change).table()
    assert split(4).table().num_rows == COUNT


def test_pieces_follow_one_another():
    history = split(4, chunks=2)
    history.pieces = (history.pieces[1], history.pieces[0])
    with pytest.raises(CorruptObject):
        history.table()


def test_only_the_pieces_that_are_asked_for_are_read():
    history, read = split(4, chunks=2), []
    fetch = history.fetch
    history.fetch = lambda pieces: read.extend(pieces) or fetch(pieces)
    assert history.revision_at(ROWS[5]["committed_at"]) == 5
    assert history.after(4) == ROWS[5:]
    assert history.holds(0)
    assert read == []
    assert history.revision_at(ROWS[2]["committed_at"]) == 2
    assert read == [history.pieces[1]]
    history.table()
    assert len(read) == 2


def test_a_damaged_piece_is_had_from_an_older_checkpoint():
    def older(error):
        assert "key" in error.key
        return split(2)

    history = broken(expect(4, *END[1:]))
    history.older = older
    assert history.table().equals(history_rows(ROWS))
    assert history.rows == ROWS[2:]
    again = broken(expect(4, *END[1:]))
    again.older = lambda error: (_ for _ in ()).throw(error)
    with pytest.raises(CorruptObject):
        again.table()


def test_what_a_row_says():
    row = ROWS[2]
    assert row["revision"] == 2
    assert row["guest"] is True
    assert (row["files_added"], row["rows_added"], row["bytes_added"]) == (1, 10, 110)
    assert row["operation"] == "append"
    assert row["digest"] == LOG.transactions[2].digest
    assert summary_of(row) == {}


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
    assert summary_of(row) == {"a": "ü", "b": "1"}
    assert len(row["transaction_ids"]) == 2
