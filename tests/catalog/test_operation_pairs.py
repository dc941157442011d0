"""Any two operations on one base: what stands in the end is what one of two serial orders gives, or
the second has a typed conflict that names the first. Held against plain Python rows."""

from __future__ import annotations

import math
import warnings

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.errors import OperationConflict
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from operation_rows import WHERE, found, meets, plain, table

PARTITIONS = ["", "p"]
ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(0, 4),
        "x": st.none() | st.sampled_from([0.0, -0.0, 2.0, math.nan]),
        "s": st.none() | st.sampled_from(["a", "b"]),
    }
)
FILE = st.tuples(st.lists(ROW, min_size=1, max_size=3), st.sampled_from(PARTITIONS))
KINDS = st.sampled_from([pa.int8(), pa.int32(), pa.int64()])
NAMES = [name for name in WHERE if name != "arrow place"]
OPERATION = st.one_of(
    st.tuples(st.just("append"), FILE, KINDS),
    st.tuples(
        st.just("overwrite"), FILE, KINDS,
        st.sampled_from([None, *NAMES, "k = 2", "k = 2"]),
        st.sampled_from([None, *PARTITIONS]),
    ),
    st.tuples(st.just("delete"), st.integers(1, 7)),
    st.tuples(st.just("rewrite"), st.integers(1, 7)),
)  # fmt: skip
ROLES = st.sampled_from([("guest", "guest"), ("owner", "guest"), ("guest", "owner")])


def chosen(bits, files):
    return [name for at, name in enumerate(files) if bits >> at & 1]


def begin(writer, operation, paths):
    """The transaction that does an operation, ready to be committed."""
    tx = writer.transaction()
    name, *rest = operation
    if name == "append":
        (rows, partition), kind = rest
        tx.append("t", table(rows, kind, with_s=True), partition)
    elif name == "overwrite":
        (rows, _), kind, where, partition = rest
        rows = incoming(operation)
        expression = None if where is None else WHERE[where][0]
        tx.overwrite("t", table(rows, kind, with_s=True), expression, partition)
    elif name == "delete":
        for path in chosen(rest[0], paths):
            tx.remove(path)
    else:
        tx.rewrite("t", chosen(rest[0], paths))
    return tx


def incoming(operation):
    (rows, _), _, where, _ = operation[1:]
    return rows if where is None else [row for row in rows if meets(where, row)]


def after(operation, rows):
    """What an operation makes of rows, alone."""
    name, *rest = operation
    if name == "append":
        (new, partition), _ = rest
        return rows + [{**row, "in": partition, "file": None} for row in new]
    if name == "overwrite":
        _, _, where, partition = rest
        stay = [
            row
            for row in rows
            if (where is not None and not meets(where, row))
            or (partition is not None and row["in"] != partition)
        ]
        return stay + [{**row, "in": partition or "", "file": None} for row in incoming(operation)]
    if name == "delete":
        return [row for row in rows if row["file"] not in chosen(rest[0], [0, 1, 2])]
    return rows


def run(files, first, second, roles, *, is_rebased):
    catalog = Catalog(MemoryStore("pairs"), ambient=FakeAmbient().ambient)
    rows, paths = [], []
    owner = catalog.writer("w", "db", checkpoint_every=0)
    for number, (some, partition) in enumerate(files):
        with owner.transaction() as tx:
            paths += tx.append("t", table(some, pa.int32(), with_s=True), partition)
        rows += [{**row, "in": partition, "file": number} for row in some]
    one, two = (
        owner if role == "owner" else catalog.writer("w", "db", shared=True, checkpoint_every=0)
        for role in roles
    )
    mine, theirs = begin(two, second, paths), begin(one, first, paths)
    theirs.commit()
    if is_rebased and theirs.commit_info is not None:
        one.checkpoint()
        committer = two._session._committer
        committer._look_again(committer.state.revision)
    error = None
    try:
        mine.commit()
    except OperationConflict as raised:
        error = raised
    seen = found(catalog.snapshot("db").to_arrow("t"))
    if error is not None:
        assert seen == sorted(map(plain, after(first, rows)))
        # After a checkpoint the log tells no more who has taken a file out.
        assert error.transaction_id in {theirs.transaction_id, ""}
        if not is_rebased:
            assert error.transaction_id == theirs.transaction_id
            assert error.revision == theirs.commit_info.revision
            assert (error.operation, error.table) == (
                theirs._intent.said_operation, "t",
            )  # fmt: skip
        assert second[0] != "append"

        return True
    orders = [after(second, after(first, rows)), after(first, after(second, rows))]
    assert seen in [sorted(map(plain, order)) for order in orders]
    return False


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(FILE, min_size=3, max_size=3), OPERATION, OPERATION, ROLES, st.booleans()
)  # fmt: skip
def test_serial_or_a_typed_conflict(files, first, second, roles, is_rebased):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(files, first, second, roles, is_rebased=is_rebased)


@pytest.mark.long
@pytest.mark.timeout(0)
@settings(deadline=None, max_examples=10_000, suppress_health_check=list(HealthCheck))
@given(
    st.lists(FILE, min_size=3, max_size=3), OPERATION, OPERATION, ROLES, st.booleans()
)  # fmt: skip
def test_serial_or_a_typed_conflict_for_long(files, first, second, roles, is_rebased):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(files, first, second, roles, is_rebased=is_rebased)


def row(k, partition=""):
    return [{"k": k, "x": 0.0, "s": "a"}], partition


FILES = [row(0), row(2), row(4, "p")]
# What each pair must do: operations that don't meet both commit.
PAIRS = [
    (("append", row(3), pa.int64()), ("overwrite", row(2), pa.int64(), "k = 2", None), False),
    (("append", row(2), pa.int64()), ("overwrite", row(2), pa.int64(), "k = 2", None), True),
    (("append", row(2), pa.int64()), ("overwrite", row(2), pa.int64(), None, "p"), False),
    (("append", row(2, "p"), pa.int64()), ("overwrite", row(2), pa.int64(), None, "p"), True),
    (("append", row(2), pa.int64()), ("append", row(2), pa.int64()), False),
    (("overwrite", row(2), pa.int64(), None, None), ("append", row(2), pa.int64()), False),
    (("overwrite", row(2), pa.int64(), "k = 2", None),
     ("overwrite", row(0), pa.int64(), "k IN (0, 3)", None), False),
    (("overwrite", row(2), pa.int64(), "k = 2", None),
     ("overwrite", row(2), pa.int64(), "k >= 2", None), True),
    (("delete", 1), ("delete", 2), False),
    (("delete", 1), ("delete", 1), True),
    (("delete", 2), ("overwrite", row(0), pa.int64(), "k IN (0, 3)", None), False),
    (("delete", 1), ("overwrite", row(0), pa.int64(), "k IN (0, 3)", None), True),
    (("rewrite", 3), ("rewrite", 4), False),
    (("rewrite", 3), ("rewrite", 6), True),
    (("rewrite", 1), ("overwrite", row(2), pa.int64(), "k = 2", None), False),
    (("rewrite", 2), ("overwrite", row(2), pa.int64(), "k = 2", None), True),
    (("rewrite", 7), ("append", row(2), pa.int64()), False),
    (("append", row(2), pa.int64()), ("rewrite", 7), False),
]  # fmt: skip


ALL_ROLES = [("guest", "guest"), ("guest", "owner"), ("owner", "guest")]


def test_operations_that_do_not_meet_both_commit():
    for number, (first, second, meet) in enumerate(PAIRS):
        pair = named(first), named(second)
        roles, is_rebased = ALL_ROLES[number % 3], number % 2 == 1
        assert run(FILES, *pair, roles, is_rebased=is_rebased) == meet, pair


def named(operation):
    """With the name of its predicate, instead of the text."""
    if operation[0] != "overwrite" or operation[3] is None:
        return operation
    names = {text: name for name, (text, _) in WHERE.items() if isinstance(text, str)}
    return (*operation[:3], names[operation[3]], operation[4])
