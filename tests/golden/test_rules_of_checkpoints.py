"""Rule by rule, as `test_rules_of_both`: what pieces of checkpoints and of batches must be. Each
case is one sound log with one thing told or done wrongly, and no lower base to fall back on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import independent_verdict
import pyarrow as pa
import pytest
from checkpoint_lies import (
    ALL_BAD,
    ALL_NEW,
    DAMAGED,
    FILES_BAD,
    HISTORY_BAD,
    NO_TABLES,
    OK,
    TOO_NEW,
    applications,
    files,
    groups,
    history,
    more,
    outcome,
    raw,
    rows_of,
    said,
    spilled,
    together,
    trial,
    value,
    with_children,
)
from hand_checkpoint import Made, sound, write
from hand_flat import (
    big_endian,
    body_of_block,
    nulls_of_node,
    old_footer,
    old_message,
)
from hand_objects import Form, Tree
from hand_segments import make_table
from independent_messages import (
    CHECKPOINT,
    FILES,
    REFERENCES,
    ROW_GROUPS,
    STATISTICS,
)
from independent_wire import BIG
from rule_outcome import put_in, told_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpoint_lies import Pieces
    from three_readers import GoReader

SCHEMAS_PIECE = 1
PARTITIONS = together(*(value(0, "partition", row, name) for row, name in enumerate("pßb")))
PIECES: dict[str, tuple[Callable[[Pieces], Any], str]] = {
    "nothing": (lambda pieces: None, OK),
    # Files
    "files in three parts": (files((0,), (1,), (2,)), OK),
    "files in three runs": (files((0,), (1,), (2,), runs=(0, 1, 2)), OK),
    "runs that overlap": (files((0, 2), (1,), runs=(0, 1)), OK),
    "parts out of order": (files((1, 2), (0,)), ALL_BAD),
    "parts that overlap": (files((0, 2), (1,)), ALL_BAD),
    "a file in two parts": (files((0, 1), (1, 2)), ALL_BAD),
    "a file in two runs": (files((0, 1), (1, 2), runs=(0, 1)), FILES_BAD),
    "runs from 1": (files((0,), (1, 2), runs=(1, 1)), ALL_BAD),
    "runs with a gap": (files((0,), (1, 2), runs=(0, 2)), ALL_BAD),
    "rows out of order": (files((1, 0, 2)), FILES_BAD),
    "rows descending": (files((2, 1, 0)), ALL_BAD),  # the range is inverted
    "a row twice": (files((0, 0, 1)), FILES_BAD),
    "no files": (lambda pieces: pieces.pop(0), OK),
    "a bad path": (value(0, "path", 1, "data/a/../b"), FILES_BAD),
    "a long partition": (value(0, "partition", 1, "%" * 86), FILES_BAD),
    "no table": (value(0, "table", 0, ""), FILES_BAD),
    "a null": (value(0, "footer_bytes", 1, None), FILES_BAD),
    "a negative size": (value(0, "size_bytes", 1, -1), FILES_BAD),
    "a size at the bound": (value(0, "size_bytes", 1, BIG - 1), OK),
    "a size beyond": (value(0, "size_bytes", 1, BIG), FILES_BAD),
    "any clock": (value(0, "first_clock", 1, -(1 << 63)), OK),
    "first added at any revision": (value(0, "original_revision", 1, -(1 << 63)), OK),
    "row groups below 0": (value(0, "row_groups", 1, -1), FILES_BAD),
    "of a revision to come": (value(0, "revision", 1, 6), FILES_BAD),
    "of this revision": (value(0, "revision", 1, 5), OK),
    "a schema that nobody knows": (value(0, "schema_fingerprint", 1, bytes(16)), FILES_BAD),
    # What references say
    "rows": (said(0, row_count=4), FILES_BAD),
    "no rows": (said(0, row_count=0), ALL_BAD),
    "first table": (said(0, first_table="s"), FILES_BAD),
    "last table": (said(0, last_table="u"), FILES_BAD),
    "first path": (said(0, first_path="data/A"), FILES_BAD),
    "last path": (said(0, last_path="data/d"), FILES_BAD),
    "partitions": (PARTITIONS, OK),
    "a lower partition": (together(PARTITIONS, said(0, min_partition="")), FILES_BAD),
    "a greater partition": (together(PARTITIONS, said(0, max_partition="z")), FILES_BAD),
    "partitions of other rows": (together(PARTITIONS, said(0, min_partition="p")), FILES_BAD),
    "partitions inverted": (said(0, min_partition="q"), ALL_BAD),
    "partitions of a history": (said(2, min_partition="q"), OK),
    "range inverted": (said(0, first_path="data/d"), ALL_BAD),
    "sum of rows": (said(0, total_rows=4), FILES_BAD),
    "sum of bytes": (said(0, total_bytes=4), FILES_BAD),
    "columns": (said(0, columns=["a"]), ALL_BAD),
    "revisions of files": (said(0, first_revision=7, last_revision=3), OK),
    "part 1": (said(0, part=1), ALL_BAD),
    "no part": (said(0, part=-1), ALL_BAD),
    "no run": (said(0, run=-1), ALL_BAD),
    "beyond the attachments": (said(0, offset=1 << 40), ALL_BAD),
    "a byte less": (lambda pieces: pieces[0].row.update(length=200), FILES_BAD),
    "of another kind": (said(0, kind=ROW_GROUPS, part=-1, run=-1), ALL_BAD),
    "kind 12": (said(0, kind=12), ALL_NEW),
    "kind 0, all else wrong": (said(1, kind=0, part=7, offset=-1), ALL_NEW),
    "kind 8": (said(2, kind=8), ALL_BAD),
    "a negative number": (said(2, total_rows=-1), ALL_BAD),
    "dead rows": (said(0, dead=b"\x02"), OK),
    "dead rows of a short bitmap": (said(0, dead=b""), ALL_BAD),
    "dead rows of a long bitmap": (said(0, dead=b"\x02\0"), ALL_BAD),
    "dead rows beyond": (said(0, dead=b"\x0a"), ALL_BAD),
    "dead rows of a history": (said(2, dead=b"\0"), ALL_BAD),
    # Schemas
    "schemas twice": (lambda pieces: pieces.append(pieces[1]), OK),
    "a wrong fingerprint": (value(1, "fingerprint", 0, bytes(16)), f"{NO_TABLES}"),
    "schemas of a revision to come": (value(1, "revision", 0, 6), NO_TABLES),
    "schemas not ascending": (
        lambda pieces: setattr(pieces[1], "table", rows_of(pieces[1].table, 1, 0)),
        ALL_BAD,
    ),
    "list children of another name": (
        lambda pieces: setattr(pieces[1], "table", with_children(pieces[1].table)),
        OK,
    ),
    "range of schemas": (said(1, last_table="v"), NO_TABLES),
    # History
    "history in two pieces": (history((0, 1, 2), (3, 4, 5)), OK),
    "history swapped": (history((3, 4, 5), (0, 1, 2)), HISTORY_BAD),
    "history twice": (history((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5)), HISTORY_BAD),
    "history pruned": (history((5,)), OK),
    "history with a gap": (history((0, 2, 3, 4, 5)), HISTORY_BAD),
    "history with a gap between pieces": (history((0, 1), (3, 4, 5)), HISTORY_BAD),
    "history without the end": (history((0, 1, 2, 3, 4)), HISTORY_BAD),
    "history descending": (history((5, 4, 3, 2, 1, 0)), ALL_BAD),
    "no history": (lambda pieces: pieces.pop(), HISTORY_BAD),
    "times equal": (value(2, "committed_at", 1, 1), HISTORY_BAD),
    "a time of 0": (value(2, "committed_at", 0, 0), HISTORY_BAD),
    "a time beyond": (value(2, "committed_at", 5, 1 << 55), HISTORY_BAD),
    "another digest at the end": (value(2, "digest", 5, bytes(32)), HISTORY_BAD),
    "another digest before": (value(2, "digest", 4, bytes(32)), OK),
    "another summary": (value(2, "summary_values", 3, ["x"]), HISTORY_BAD),
    "revisions of a history": (said(2, last_revision=6), HISTORY_BAD),
    # Applications
    "applications": (more(applications(("a", 1, 1), ("b", 0, 5))), OK),
    "applications in two pieces": (more(applications(("a", 1, 1)), applications(("a", 7, 3))), OK),
    "applications not ascending": (
        more(applications(("b", 1, 1), ("a", 0, 5))),
        "applications damaged",
    ),
    "no application": (more(applications(("", 1, 1))), "applications damaged"),
    "an application of 1,025 bytes": (
        more(applications(("é" * 512 + "x", 1, 1))),
        "applications damaged",
    ),
    "an application at no time": (more(applications(("a", 1, 0))), "applications damaged"),
    # What describes files costs nothing
    "row groups of no part": (more(groups((0, 0, 1), (0, 1, 1), part=3)), ALL_BAD),
    "row groups of nothing": (more(groups((0, 0, 1), (7, 1, 1))), OK),
    "row groups not ascending": (more(groups((0, 1, 1), (0, 0, 1))), OK),
    "statistics of no column": (
        more(Made(STATISTICS, make_table(ROW_GROUPS, []), {"part": 0, "row_count": 1})),
        ALL_BAD,
    ),
    # Objects of their own
    "files as an object": (spilled(0), OK),
    "files of a lower incarnation": (spilled(0, header={"incarnation": 1}), OK),
    "files of a higher incarnation": (spilled(0, header={"incarnation": 2}), FILES_BAD),
    "files of another log": (spilled(0, header={"log_id": b"M" * 16}), FILES_BAD),
    "an object of another kind": (spilled(0, header={"kind": 2}), FILES_BAD),
    "an object of a later version": (spilled(0, header={"version": 2}), "files too-new"),
    "an object of a later codec": (spilled(0, header={"codec": 2}), "files too-new"),
    "an object that is gone": (spilled(0, alter=lambda data: None), FILES_BAD),
    "an object with a bit turned": (spilled(0, alter=lambda data: data[:-1] + b"\xff"), FILES_BAD),
    "an object cut short": (spilled(0, alter=lambda data: data[:-1]), FILES_BAD),
    "an object of another length": (spilled(0, row={"length": 7}), FILES_BAD),
    "an object says other rows": (spilled(0, message={"row_count": 4}), FILES_BAD),
    "an object says another range": (spilled(0, message={"last_path": "data/d"}), FILES_BAD),
    "an object says other partitions": (spilled(0, message={"max_partition": "q"}), FILES_BAD),
    "an object says other sums": (spilled(0, message={"total_bytes": 9}), FILES_BAD),
    "any offset of an object": (spilled(0, row={"offset": 12345}), OK),
    "a digest of nothing": (said(0, digest=bytes(32)), FILES_BAD),
    "history as an object that is gone": (spilled(2, alter=lambda data: None), HISTORY_BAD),
    "schemas as an object that is gone": (spilled(1, alter=lambda data: None), NO_TABLES),
    # The form
    "zstd": (spilled(0, form=Form("zstd")), OK),
    "lz4": (spilled(0, form=Form("lz4")), FILES_BAD),
    "two batches": (spilled(0, form=Form(batches=2)), FILES_BAD),
    "a stream": (spilled(0, form=Form(stream=True)), FILES_BAD),
    "an old version": (spilled(0, form=Form(version=pa.ipc.MetadataVersion.V4)), FILES_BAD),
    "an old version in the footer": (raw(old_footer), FILES_BAD),
    "an old version in the message": (raw(old_message), FILES_BAD),
    "big-endian": (raw(big_endian), FILES_BAD),
    "a body of no length by its block": (raw(body_of_block(0)), FILES_BAD),
    "a longer body by its block": (raw(body_of_block(1 << 20)), FILES_BAD),
    "less nulls than none": (raw(nulls_of_node(0, -1)), FILES_BAD),
    "more nulls than rows": (raw(nulls_of_node(0, 4)), FILES_BAD),
    "a further column": (raw(further=True), OK),
    "a further column of less nulls than none": (raw(nulls_of_node(-1, -1), True), FILES_BAD),
    "a further column of more nulls than rows": (raw(nulls_of_node(-1, 4), True), FILES_BAD),
}


@pytest.mark.parametrize("case", PIECES)
def test_pieces(case: str, maybe_go: GoReader | None) -> None:
    change, expected = PIECES[case]
    log = trial()
    pieces = sound(log.log)
    change(pieces)
    count = sum(p.table.num_rows for p in pieces if p.kind == FILES)
    dead = int.from_bytes(pieces[0].row.get("dead") or b"", "little").bit_count()
    rows = (
        pieces[0].row.get("row_count", count) - dead if "dead" in case or case == "rows" else count
    )
    write(log.log, pieces, count=rows)
    assert outcome(log, maybe_go) == expected


def test_no_schemas(maybe_go: GoReader | None) -> None:
    """No table is listed; who asks for one all the same learns that it doesn't fit."""
    log = trial()
    pieces = sound(log.log)
    del pieces[SCHEMAS_PIECE]
    write(log.log, pieces)
    assert outcome(log, maybe_go) == OK
    assert log.files() == DAMAGED


def test_a_table_outside_the_range_that_is_said_is_given_by_the_base_below(
    maybe_go: GoReader | None,
) -> None:
    """The whole list comes from one base, and a table's schemas from that of its files."""
    log = trial()
    pieces = sound(log.log)
    said(1, first_table="u", last_table="u")(pieces)
    write(log.log, pieces)
    assert told_by_all(log, maybe_go) == OK
    found = independent_verdict.verdict(log.log.transactions, log.log.segments)
    assert sorted(found["tables"]) == ["t", "u"]


def ref(**lies: Any) -> Made:
    return Made(REFERENCES, None, lies)


def by_reference(**changes: Any) -> Made:
    return Made(REFERENCES, None, spilled=True, **changes)


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        (ref(), OK),
        (ref(row_count=4), ALL_BAD),
        (ref(row_count=0), DAMAGED),
        (ref(row_count=1 << 31), DAMAGED),
        (ref(kind=FILES), DAMAGED),
        (ref(kind=12), TOO_NEW),
        (ref(kind=0), TOO_NEW),
        (ref(offset=1 << 40), DAMAGED),
        (ref(offset=(1 << 64) - 1), DAMAGED),
        (ref(length=100), ALL_BAD),
        (ref(digest=b"x"), DAMAGED),
        (by_reference(), OK),
        (by_reference(row={"digest": bytes(32)}), ALL_BAD),
        (by_reference(alter=lambda data: None), ALL_BAD),
        (by_reference(header={"version": 2}), ALL_NEW),
        (by_reference(message={"row_count": 9}), ALL_BAD),
        (by_reference(row={"length": 1}), ALL_BAD),
        (by_reference(row={"offset": (1 << 64) - 1}), OK),
        (by_reference(header={"incarnation": 2}), ALL_BAD),
    ],
)
def test_references(references: Made, expected: str, maybe_go: GoReader | None) -> None:
    log = trial()
    write(log.log, sound(log.log), references=references)
    assert outcome(log, maybe_go) == expected


@pytest.mark.parametrize(("count", "expected"), [(3, OK), (2, ALL_BAD), (4, ALL_BAD), (0, ALL_BAD)])
def test_the_count_of_files(count: int, expected: str, maybe_go: GoReader | None) -> None:
    log = trial()
    write(log.log, sound(log.log), count=count)
    assert outcome(log, maybe_go) == expected


MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, OK),
    "revision": ({"revision": 2}, DAMAGED),
    "uuid": ({"uuid": b"x" * 16}, DAMAGED),
    "uuid none": ({"uuid": b""}, DAMAGED),
    "successor": ({"successor_uuid": b""}, DAMAGED),
    "digest short": ({"digest": b"x"}, DAMAGED),
    "digest other": ({"digest": b"x" * 32}, HISTORY_BAD),
    "epoch": ({"epoch": 0}, DAMAGED),
    "epoch beyond": ({"epoch": BIG}, DAMAGED),
    "time": ({"committed_at_us": 0}, DAMAGED),
    "time beyond": ({"committed_at_us": 1 << 55}, DAMAGED),
    "time other": ({"committed_at_us": 1000}, HISTORY_BAD),
    "transaction id": ({"transaction_id": b""}, DAMAGED),
    "first epoch": ({"first_epoch": 0}, DAMAGED),
    "first epoch above the epoch": ({"epoch": 7, "first_epoch": 8}, DAMAGED),
    "first epoch the epoch": ({"epoch": 7, "first_epoch": 7}, OK),
    "beginning": ({"begun_at_us": 0}, DAMAGED),
    "beginning before 1970": ({"begun_at_us": -1}, DAMAGED),
    "beginning after the head": ({"begun_at_us": (1 << 55) - 1}, OK),
    "beginning beyond": ({"begun_at_us": 1 << 55}, DAMAGED),
    "rows and bytes": ({"counts": {"files": 3, "rows": 1, "bytes": (1 << 64) - 1}}, OK),
    "no counts": ({"counts": {}}, ALL_BAD),
    "reader feature": ({"required_reader_features": ["x"]}, TOO_NEW),
    "known reader feature": ({"required_reader_features": ["partition_columns"]}, OK),
    "writer features": ({"required_writer_features": ["x", "y"]}, OK),
    "writer features out of order": ({"required_writer_features": ["y", "x"]}, DAMAGED),
    "a writer feature twice": ({"required_writer_features": ["x", "x"]}, DAMAGED),
    "257 writer features": ({"required_writer_features": [f"{n:03}" for n in range(257)]}, DAMAGED),
    "256 writer features": ({"required_writer_features": [f"{n:03}" for n in range(256)]}, OK),
    "a long writer feature": ({"required_writer_features": ["é" * 65]}, DAMAGED),
    "no writer": ({"writer": ""}, DAMAGED),
    "another writer": ({"writer": "x"}, OK),
    "no references": ({"references": {}}, TOO_NEW),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_checkpoints_message(case: str, maybe_go: GoReader | None) -> None:
    changes, expected = MESSAGES[case]
    log = trial()

    def message(what: str, found: Tree) -> Tree:
        for name, new in changes.items():
            put_in(CHECKPOINT, name, new)(found)
        return found

    log.log.hooks.message = message  # type: ignore[method-assign]
    write(log.log, sound(log.log))
    assert outcome(log, maybe_go) == expected
