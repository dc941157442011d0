"""Objects of actions: gc keeps what a rebuild still needs, and takes the rest by the same rules."""

from __future__ import annotations

import pyarrow as pa
from collect_cases import BASE, D, W, gc, planned, take_over
from lakelog.gc import execute_prune, plan_prune

DAY_S = 86_400.0


def objects(lake) -> set[str]:
    keys = (info.key.removeprefix(BASE) for info in lake.store.list(f"{BASE}data/"))
    return {key for key in keys if key.endswith(".actions")}


def done(lake, writer, change) -> str:
    """One transaction; its object."""
    before = objects(lake)
    with writer.transaction() as tx:
        change(tx)
    (new,) = objects(lake) - before
    return new


def forget_history(lake) -> None:
    """Another owner, a checkpoint, and nothing before it."""
    take_over(lake)
    with lake.writer() as writer:
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    options = {"keep_revisions": 1, "margins": lake.margins}
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, **options), margins=lake.margins)


def test_all_of_retained_revisions_stay(lake) -> None:
    with lake.writer() as writer:
        path = lake.commit(writer, 1)
        kept = {
            done(lake, writer, lambda tx: tx.evolve("hourly", add={"a": pa.int64()})),
            done(lake, writer, lambda tx: tx.evolve("hourly", drop=["a"])),
            done(lake, writer, lambda tx: tx.remove(path)),
        }
    take_over(lake)
    lake.pass_time(30 * DAY_S)
    assert not gc(lake)[0].actions
    assert objects(lake) == kept


def test_only_what_still_counts_outlives_its_revision(lake) -> None:
    with lake.writer() as writer:
        lake.commit(writer, 1)
        over = done(lake, writer, lambda tx: tx.evolve("hourly", add={"a": pa.int64()}))
        last = done(lake, writer, lambda tx: tx.evolve("hourly", rename={"a": "b"}))
        stone = done(lake, writer, lambda tx: tx.delete("hourly", "value = 1", mode="predicate"))
    forget_history(lake)
    assert planned(gc(lake)[0]) == {over}
    assert objects(lake) == {last, stone}
    assert not gc(lake)[0].actions


def test_a_removal_outlives_its_file_by_one_collection(lake) -> None:
    with lake.writer() as writer:
        path = lake.commit(writer, 1)
        lake.commit(writer, 2)
        removal = done(lake, writer, lambda tx: tx.remove(path))
    forget_history(lake)
    assert planned(gc(lake)[0]) == {path}  # a crash between the two must not bring it back
    assert planned(gc(lake)[0]) == {removal}


def test_what_forgets_a_table_stays_until_nothing_of_it_is_left(lake) -> None:
    with lake.writer() as writer:
        lake.commit(writer, 1)
        with writer.transaction() as tx:
            (path,) = tx.write("gone", pa.table({"n": [1]}))
        defined = done(lake, writer, lambda tx: tx.evolve("gone", add={"m": pa.int64()}))
        removal = done(lake, writer, lambda tx: tx.remove(path))
        writer.forget(tables=["gone"])
    (forget,) = objects(lake) - {defined, removal}
    forget_history(lake)
    assert planned(gc(lake)[0]) == {path, defined}
    assert planned(gc(lake)[0]) == {removal}
    assert planned(gc(lake)[0]) == {forget}


def test_one_that_cant_be_read_stays(lake) -> None:
    """Nobody knows what it says; perhaps it was only damaged on its way."""
    with lake.writer() as writer:
        lake.commit(writer, 1)
        over = done(lake, writer, lambda tx: tx.evolve("hourly", add={"a": pa.int64()}))
        done(lake, writer, lambda tx: tx.evolve("hourly", rename={"a": "b"}))
    forget_history(lake)
    body = lake.store.get(BASE + over)
    lake.store.put(BASE + over, body[:-1])
    assert not gc(lake)[0].actions
    lake.store.put(BASE + over, body)
    lake.pass_time(7 * DAY_S)
    assert planned(gc(lake)[0]) == {over}


def test_an_attempt_that_failed_leaves_nothing_for_long(lake) -> None:
    from lakelog.catalog.commit.telling import tell

    with lake.writer() as writer:
        path = lake.commit(writer, 1)
        tx = writer.transaction()
        tx.remove(path)
        tell(writer._session, tx._intent)
        tx.discard()
        (left,) = objects(lake)
        assert not gc(lake)[0].actions  # it could still be committed
    take_over(lake)
    assert planned(gc(lake)[0]) == {left}
    assert path in lake.data()
