"""Which incarnation is in use, and that none falls back in silence; points in time from before a
rebuild."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object
from lakelog.errors import CorruptError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash
from lakelog.testing.doubles import FakeAmbient, PassingStore

LOG, MIRROR = "w/db/transactions/", "w/db/mirror/transactions/"


@pytest.fixture
def fake() -> FakeAmbient:
    return FakeAmbient()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("incarnations")


@pytest.fixture
def catalog(store, fake) -> Catalog:
    return Catalog(store, ambient=fake.ambient)


def write(catalog, fake, *values: int) -> dt.datetime:
    fake.move(10)
    with catalog.writer("w", "db", checkpoint_every=0) as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": list(values)}))
    return dt.datetime.fromtimestamp(fake.ambient.now_us() / 1e6, dt.UTC) + dt.timedelta(seconds=1)


def rows(catalog, as_of=None) -> list[int]:
    return sorted(catalog.snapshot("db", as_of).to_arrow("t")["a"].to_pylist())


def rebuild(catalog, fake):
    fake.move(10)
    return execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))


def delete_of(store, incarnation: int, kind: str, folders=(LOG, MIRROR)) -> None:
    for folder in folders:
        for info in list(store.list(folder)):
            item = parse_log_object(info.key[len(folder) :])
            if item.incarnation == incarnation and item.kind == kind:
                store.delete([info.key])


def test_revisions_go_on_through_incarnations_and_points_before_are_read(catalog, fake):
    times = [write(catalog, fake, n) for n in range(3)]
    first = rebuild(catalog, fake)
    times.append(write(catalog, fake, 3))
    second = rebuild(catalog, fake)
    write(catalog, fake, 4)
    assert 2 < first.revision < first.revision + 1 < second.revision
    assert rows(catalog) == [0, 1, 2, 3, 4]
    for n, at in enumerate(times):
        assert rows(catalog, at) == list(range(n + 1))
    for n in range(3):
        assert rows(catalog, {"w": n}) == list(range(n + 1))
    assert rows(catalog, {"w": first.revision + 1}) == [0, 1, 2, 3]


@pytest.mark.parametrize("commits", [0, 1])
def test_an_opening_that_is_lost_is_read_from_its_copy_else_refused(catalog, store, fake, commits):
    """B6, A1: never the incarnation before, now or at a time."""
    for n in range(3):
        write(catalog, fake, n)
    rebuild(catalog, fake)
    at = None
    for n in range(commits):
        at = write(catalog, fake, 3 + n)
    expected = list(range(3 + commits))
    delete_of(store, 2, "checkpoint", (LOG,))
    with pytest.warns(UserWarning, match=r"mirror|copy") if commits else _nothing():
        assert rows(Catalog(store, ambient=fake.ambient)) == expected
    delete_of(store, 2, "checkpoint")
    for as_of in (None, at):
        with pytest.raises(CorruptError):
            rows(Catalog(store, ambient=fake.ambient), as_of)


def test_a_sealed_log_is_refused_until_the_rebuild_is_run_again(catalog, store, fake):
    for n in range(3):
        write(catalog, fake, n)
    token = catalog.snapshot("db").token

    class Dying(PassingStore):
        def put(self, key, body, *, if_absent=False):
            self.inner.put(key, body, if_absent=if_absent)
            if key.startswith(MIRROR):
                raise Crash

    with pytest.raises(Crash):
        execute_rebuild(Dying(store), plan_rebuild(catalog, "w", "db"), ambient=fake.ambient)
    with pytest.raises(CorruptError, match="sealed for a rebuild"):
        rows(Catalog(store, ambient=fake.ambient))
    assert rows(Catalog(store, ambient=fake.ambient), token) == [0, 1, 2]
    rebuild(catalog, fake)
    assert rows(Catalog(store, ambient=fake.ambient)) == [0, 1, 2]


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False
