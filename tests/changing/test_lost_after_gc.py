"""What says that a file was taken out outlives what would bring it back: of files that lie
elsewhere, and where the history was trimmed. Found by a reviewer's programs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing_cases import World
from lakelog.gc import execute_gc, plan_gc
from lakelog.gc.context import open_context
from lakelog.gc.retained import read_retained
from test_lost_afterwards import DAY_S, lose, rebuild, rows, shown

DATA = "oslo/weather/data/"


@pytest.fixture
def world():
    return World()


def there(world, suffix):
    keys = (one.key.removeprefix("oslo/weather/") for one in world.store.list(DATA))
    return {key for key in keys if key.endswith(suffix)}


def change(world, does):
    """Each by an owner of its own, so that gc asks for no age."""
    world.clock.now_s += 60
    with world.writer(checkpoint_every=0) as opened, opened.transaction() as tx:
        return does(tx)


def checkpoint(world):
    with world.writer() as opened:
        opened.checkpoint()


def forget(world, times=2):
    """Take the beginning of the log, so that the next checkpoint trims the history, and collect."""
    for value in range(times):
        world.prune()
        world.write(value, table="daily")
        checkpoint(world)
        world.gc()


# --- Files that lie elsewhere ---------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path):
    """A file to be added where it lies: the object that says so stays, for it says where the place
    is, and what schema its table has."""
    pq.write_table(rows(1, 2), tmp_path / "raw.parquet")
    return tmp_path / "raw.parquet"


def add(world, outside):
    world.write(0, table="daily")
    change(world, lambda tx: tx.add("hourly", str(outside)))


def removes(world, outside):
    change(world, lambda tx: tx.remove(str(outside)))


def drops(world, outside):
    world.catalog.drop("weather", "hourly", execute=True)


def overwrites(world, outside):
    for value in (5, 6):  # the second takes the place of what says that the first did
        change(world, lambda tx, value=value: tx.overwrite("hourly", rows(value)))


def moves(world, outside):
    def move(tx):
        tx.remove(str(outside))
        tx.add("daily", str(outside))

    change(world, move)
    change(world, lambda tx: tx.remove(str(outside)))


@pytest.mark.parametrize("asked", [False, True], ids=["", "undecided"])
@pytest.mark.parametrize("takes_out", [removes, drops, overwrites, moves])
def test_what_took_out_a_file_elsewhere_is_known_as_long_as_what_added_it(
    world, outside, takes_out, asked
):
    add(world, outside)
    takes_out(world, outside)
    forget(world)
    before = shown(world)
    for _ in range(2):
        lose(world)
        rebuild(world)
        assert shown(world) == before
        world.clock.now_s += 20 * DAY_S
        execute_gc(world.catalog, plan_gc(world.catalog, "oslo", "weather", undecided=asked))


def test_what_takes_the_place_of_files_elsewhere_is_kept_by_no_chain(world, outside):
    add(world, outside)
    overwrites(world, outside)
    forget(world)
    assert len([path for path in there(world, ".parquet") if "/hourly/" in path]) == 1


@pytest.mark.parametrize("damaged", [False, True])
def test_what_took_out_a_file_elsewhere_goes_after_what_added_it(world, outside, damaged):
    """In another collection, for one may break off; nor while nobody can read what added it."""
    add(world, outside)
    other = outside.with_name("other.parquet")
    pq.write_table(rows(3), other)
    change(world, lambda tx: tx.add("hourly", str(other)))
    added = newest_object(world)
    removes(world, other)
    removal = newest_object(world)
    change(world, lambda tx: tx.write("daily", rows(8)))
    world.prune()
    world.write(9, table="daily")
    body = world.store.get(f"oslo/weather/{added}")
    if damaged:
        world.store.put(f"oslo/weather/{added}", body[:-1])
        world.gc()
        assert {added, removal} <= there(world, ".actions")
        world.store.put(f"oslo/weather/{added}", body)
        world.clock.now_s += 7 * DAY_S  # it came anew
    world.gc()
    assert added not in there(world, ".actions")
    assert removal in there(world, ".actions")
    world.gc()
    assert removal not in there(world, ".actions")


def newest_object(world):
    epoch = lambda path: int(path.rsplit("/", 1)[-1].partition("-")[0])  # noqa: E731
    return max(there(world, ".actions"), key=epoch)


# --- Files of commits that the history doesn't hold any more --------------------------------------


def first_of(world):
    """The first revision of the history as gc knows it."""
    named = {"ambient": None, "margins": None, "progress": None}
    context = open_context(world.catalog, "oslo", "weather", **named)
    return read_retained(context).state.history.first()


def replace(path, *values):
    def change_of(tx):
        tx.remove(path)
        return tx.write("hourly", rows(*values))[0]

    return change_of


def trim(world, times):
    """Forget the beginning of the log; whole pieces of the history go."""
    for _ in range(times):
        world.prune()
        world.write(9, table="daily")
        checkpoint(world)


def test_a_file_of_a_commit_that_was_trimmed_says_what_it_replaced(world):
    """The first one stays by its age alone: its folders might be somebody's own."""
    (old,) = change(world, lambda tx: tx.write("hourly", rows(1, 2), "a/b"))
    second = change(world, replace(old, 20))
    third = change(world, replace(second, 300))
    trim(world, 3)
    assert first_of(world) > 1
    world.gc()
    assert {old, second, third} <= there(world, ".parquet")
    world.clock.now_s += 8 * DAY_S
    before = shown(world)
    copy = [(one.key, world.store.get(one.key)) for one in world.store.list("")]
    lose(world)
    rebuild(world)
    assert shown(world) == before == {"hourly": [300], "daily": [9, 9, 9]}
    world.store.delete([one.key for one in world.store.list("")])
    for key, body in copy:
        world.store.put(key, body)
    world.clock.now_s += 8 * DAY_S
    world.gc()
    world.gc()
    assert there(world, ".parquet").isdisjoint({old, second}), "no chain is left"


def test_a_file_that_was_begun_later_than_what_was_trimmed_has_failed(world):
    (old,) = change(world, lambda tx: tx.write("hourly", rows(1, 2), "a/b"))
    checkpoint(world)
    with world.writer() as opened:
        tx = opened.transaction()
        failed = replace(old, 10)(tx)
        tx.discard()
    new = change(world, replace(old, 20))
    trim(world, 2)
    assert first_of(world) == 1
    world.gc()
    assert {old, new} <= there(world, ".parquet")
    assert failed not in there(world, ".parquet")


def test_a_file_of_a_commit_that_was_trimmed_decides_nothing(world):
    """Nobody knows whether it was committed; so what it replaced stays undecided."""
    old, second = undecided_and_trimmed(world)
    before = shown(world)
    for _ in range(2):
        world.clock.now_s += 20 * DAY_S
        world.gc()
        assert {old, second} <= there(world, ".parquet")
    lose(world)
    rebuild(world)
    assert shown(world) == before == {"hourly": [300], "daily": [9, 9, 9]}


def test_it_was_committed_if_one_that_was_took_its_place(world):
    """So it decides, and no chain of replaced files is left behind it."""
    old, second = undecided_and_trimmed(world)
    third = min(path for path in there(world, ".parquet") if path.startswith("data/_/hourly/3-"))
    fourth = change(world, replace(third, 4_000))
    fifth = change(world, replace(fourth, 50_000))
    world.prune()
    for _ in range(3):
        world.clock.now_s += 20 * DAY_S
        world.gc()
    left = there(world, ".parquet")
    assert fifth in left
    assert left.isdisjoint({old, second, third, fourth})


def undecided_and_trimmed(world):
    """A file that nobody knows to be of this log, and one that says that it replaced it, of whose
    commit the history doesn't tell any more."""
    old = "data/in/old.parquet"
    body = pa.BufferOutputStream()
    pq.write_table(rows(1, 2), body)
    world.store.put(f"oslo/weather/{old}", body.getvalue().to_pybytes())
    world.clock.now_s += 60
    change(world, lambda tx: tx.add("hourly", old))
    second = change(world, replace(old, 20))
    change(world, replace(second, 300))
    trim(world, 3)
    assert first_of(world) > 1
    return old, second
