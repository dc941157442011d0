"""What is large works, or is refused by type before anything is written; no step grows with the
square of a size.

In CI each case runs at two sizes, and lines of Python, requests and objects are compared: no clock
is asked. The full sizes are `long`. Ten million files: `bench/opening.py --ten-million`; a million
revisions listed and read: `test_long_log.py`.
"""

from __future__ import annotations

import datetime as dt
import resource
import time
from types import SimpleNamespace

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.objects import encode_transaction
from lakelog.catalog.format.pieces import Attachments
from lakelog.catalog.format.run import files_rows
from lakelog.catalog.format.segments import FILES
from lakelog.catalog.log import files as files_module
from lakelog.catalog.log.replay import apply
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import UsageError
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import START_US, FakeAmbient
from lakelog.testing.logs import add_action, schema_action
from limit_cases import FOLDER, StoredLog, lines_run, with_files
from table_cases import table

PER_COMMIT = 40_000  # ids, unless they are long
MOST_BYTES = 7_000_000
TABLES_PER_COMMIT = 5_000
SMALL = {"revisions": 100, "batches": 50}
STEEPEST = 5.5  # four times as much takes at most so many times the lines; a square takes 16


def opened(store):
    return Catalog(store).writer("w", "db", checkpoint_every=0)


# --- Each makes a log of some size, and gives the work with it ------------------------------------


def removals(count):
    log, paths = with_files(count)

    def work(store):
        with opened(store) as writer, writer.transaction() as tx:
            for path in paths:
                tx.remove(path)
        assert Catalog(store).snapshot("db").files("t").num_rows == 0

    return log, work


def applications(count, name="app-{}".format):
    log, step = StoredLog(), min(PER_COMMIT, MOST_BYTES // (len(name(count)) + 50))
    for start in range(0, count, step):
        members = [
            wire.Member(transaction_id=bytes(16), operation="append", app_id=name(n), app_version=n)
            for n in range(start, min(start + step, count))
        ]
        log.commit(change=lambda message, more=members: message.commit.members.extend(more))

    def again(store):
        """Of a version that is there, and of one that isn't."""
        with opened(store) as writer:
            for version in (count - 1, count):
                tx = writer.transaction(app_id=name(count - 1), app_version=version)
                tx.write("t", table(1))
                assert tx.commit().skipped == (version < count)
            writer.checkpoint()

    def work(store):
        again(store)
        with opened(store) as writer:
            tx = writer.transaction(app_id=name(0), app_version=0)
            assert tx.commit().skipped
            with writer.transaction(app_id="one more", app_version=1) as tx:
                tx.write("t", table(1))
            writer.checkpoint()
        assert Catalog(store).snapshot("db").files("t").num_rows == 2

    return log, work


def many_tables(count):
    log, names = StoredLog(), [f"t{number:06d}" for number in range(count)]
    for start in range(0, count, TABLES_PER_COMMIT):
        some = names[start : start + TABLES_PER_COMMIT]
        log.commit(*map(schema_action, some))
        log.commit(*(add_action(f"data/_/{name}/a", name) for name in some))

    def work(store):
        with opened(store) as writer:
            writer.checkpoint()
            with writer.transaction() as tx:
                tx.write(names[-1], table(1))
            writer.checkpoint()
        snapshot = Catalog(store).snapshot("db")
        assert snapshot.tables() == names
        assert [snapshot.files(names[at]).num_rows for at in (0, -1)] == [1, 2]

    return log, work


def revisions(count):
    now = SimpleNamespace(us=START_US)
    log = StoredLog(lambda: dt.datetime.fromtimestamp(now.us / 1e6, dt.UTC))
    log.commit(schema_action())
    for number in range(1, count):
        log.commit(add_action(f"data/{number:07d}"))
    log.checkpoint()
    now.us += (count + 90 * 86_400) * 1_000_000
    ambient = FakeAmbient(now_us=now.us).ambient

    def work(store):
        catalog = Catalog(store, ambient=ambient)
        assert catalog.history("db").num_rows == count
        plan = plan_prune(catalog, "w", "db", keep_revisions=1)
        assert len(plan.actions) == count - 1
        assert execute_prune(catalog, plan).deleted_objects == count - 1
        assert catalog.snapshot("db").files("t").num_rows == count - 1

    return log, work


def batches(count):
    """One transaction with so many batches of a file each, as another writer might make it."""
    log, files = StoredLog(), Attachments()
    log.commit(schema_action())
    builder = log.builder
    message = builder.decode(*builder.encode()).message
    for number in range(count):
        add = add_action(f"data/{number:06d}").add
        piece = files.add_rows(FILES, files_rows([add], [1]))
        message.actions.append(wire.Action(add_batch=wire.AddBatch(segments=[piece])))
    message.commit.members[0].action_count = count
    name, _ = builder.encode()
    body, _ = encode_transaction(builder.log, message, files.joined())
    log.put(FOLDER + name, body)
    apply(builder.state, builder.decode(name, body))

    def work(store):
        assert Catalog(store).snapshot("db").files("t").num_rows == count
        with opened(store) as writer:
            with writer.transaction() as tx:
                tx.write("t", table(1))
            writer.checkpoint()

    return log, work


CASES = {case.__name__: case for case in (removals, applications, many_tables, revisions, batches)}


def spent(case, count):
    """Lines, requests, and objects that were put."""
    log, work = case(count)
    store = CountingStore(log.store)
    lines, _ = lines_run(lambda: work(store))
    return SimpleNamespace(lines=lines, asked=store.reset())


@pytest.mark.parametrize("name", CASES)
def test_four_times_as_much_takes_four_times_the_work(name):
    case = CASES[name]
    spent(case, 3)  # what is imported or cached at the first time
    size = SMALL.get(name, 250)
    small, large = spent(case, size), spent(case, 4 * size)
    assert large.lines < STEEPEST * small.lines
    if name == "revisions":  # read, and deleted, one by one
        assert all(large.asked[kind] <= 4 * small.asked[kind] + 4 for kind in small.asked)
    else:
        assert large.asked == small.asked


@pytest.mark.long
def test_a_step_that_is_a_square_shows(monkeypatch):
    """The old one: each batch of a transaction was looked up among all others."""
    monkeypatch.setattr(files_module, "FEW_PARTS", 10**9)
    spent(batches, 3)
    assert spent(batches, 200).lines > STEEPEST * spent(batches, 50).lines


# --- The full sizes -------------------------------------------------------------------------------


def told(what, begun, log, before):
    """One line with figures."""
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{what}: {time.perf_counter() - begun:.1f} s, at most {megabytes:,.0f} MB; "
        f"{before:,} objects before, {len(log.keys()):,} after"
    )


FULL = {
    "a million applications": lambda: applications(1_000_000),
    "131,073 short names": lambda: applications(131_073, "{:x}".format),
    "200,000 long names": lambda: applications(200_000, "{:01024d}".format),
    "100,000 tables": lambda: many_tables(100_000),
    "4,000 batches": lambda: batches(4_000),
    "100,000 revisions": lambda: revisions(100_000),
    "a million revisions": lambda: revisions(1_000_000),
    "130,000 removals": lambda: removals(130_000),
}


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", FULL)
def test_full_size(name):
    log, work = FULL[name]()
    before, begun = len(log.keys()), time.perf_counter()
    work(log.store)
    told(name, begun, log, before)
    assert len(log.keys()) < before + 200


@pytest.mark.long
@pytest.mark.timeout(0)
def test_300_000_removals_are_refused_before_anything_is_written():
    log, paths = with_files(300_000)
    store = CountingStore(log.store)
    writer, keys, begun = opened(store), log.keys(), time.perf_counter()
    tx, taken = writer.transaction(), 0
    store.reset()
    with pytest.raises(UsageError, match="too large"):  # noqa: PT012 - the one that doesn't fit
        for path in paths:
            tx.remove(path)
            taken += 1
    told(f"300,000 removals, refused after {taken:,}", begun, log, len(keys))
    assert 130_000 < taken < 140_000
    assert store.reset()["put"] == 0
    assert log.keys() == keys


@pytest.mark.long
@pytest.mark.timeout(0)
def test_batches_of_a_transaction_are_no_square():
    """4,000 of them took 9 s, and 1,000 a sixteenth of it."""
    times = []
    for count in (1_000, 4_000):
        log, work = batches(count)
        begun = time.process_time()
        work(log.store)
        times.append(time.process_time() - begun)
    print(times)
    assert times[1] < 6 * times[0]
