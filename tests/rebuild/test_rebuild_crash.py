"""execute_rebuild dies at each of its writing requests, before and after it took effect.

After each death: whoever reads gets a typed error, or the whole old state, or the whole new one;
planning and executing again with `replace` gives the whole; and no object of the old log is lost.
"""

from __future__ import annotations

import contextlib
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    ConflictError,
    CorruptError,
    DatabaseNotFound,
    LakelogError,
    MissingTransaction,
    NotACatalog,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash, CrashingStore
from lakelog.testing.doubles import FakeAmbient, PlainStore

BASE = "EWR/weather/"
LOG = f"{BASE}transactions/"


def everything(store) -> dict[str, bytes]:
    return {info.key: store.get(info.key) for info in store.list("")}


def fill(store, content: dict[str, bytes]):
    for key, body in content.items():
        store.put(key, body)
    return store


def live_files(store) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = LogReader(store, "EWR", "weather", FakeAmbient().ambient).load()  # doesn't wait
    return {
        path for files in state.tables.values() for path in files.table().column("path").to_pylist()
    }


def make_history(*, lost: str) -> dict[str, bytes]:
    """Two owners, replacements, checkpoints, two tables; then something happens to the log."""
    store = MemoryStore()
    fake = FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    path = ""
    for _ in range(2):
        with catalog.writer("EWR", "weather", checkpoint_every=2) as writer:
            for number in range(3):
                fake.move(1)
                with writer.transaction() as tx:
                    if path:
                        tx.remove(path)
                    (path,) = tx.write("hourly", pa.table({"n": [number]}))
                    tx.write("daily", pa.table({"n": [number]}))
    store.put(f"{LOG}not-ours.txt", b"unknown names stay")
    keys = [info.key for info in store.list(LOG)]
    if lost == "all":
        store.delete(keys)
    elif lost == "a middle one":
        store.delete([k for k in keys if "002." in k or k.endswith(("checkpoint", "segment"))])
    elif lost == "the head":  # damaged: nobody knows the next name
        (head,) = (key for key in keys if key.startswith(f"{LOG}{5:020d}") and "trans" in key[-12:])
        store.put(head, store.get(head)[:-9])
        store.delete([key for key in keys if key.endswith("checkpoint") and "005." in key])
    elif lost == "the start":  # as after a prune
        store.delete([key for key in keys if "000000." in key or "000001." in key])
    else:
        assert lost == "nothing"
    return everything(store)


def ours(content: dict[str, bytes]) -> dict[str, bytes]:
    """The log objects, by name."""
    return {
        key.rsplit("/", 1)[1]: body
        for key, body in content.items()
        if key.startswith(LOG) and parse_log_object(key.rsplit("/", 1)[1])
    }


def kept_somewhere(name: str, body: bytes, content: dict[str, bytes]) -> bool:
    return any(
        other == body and key.endswith(f"/{name}")
        for key, other in content.items()
        if key.startswith((LOG, f"{BASE}replaced/"))
    )


LOSSES = ["all", "a middle one", "the head", "the start", "nothing"]
EXPECTED = (CorruptError, DatabaseNotFound, NotACatalog, ConflictError)


def check_death(store, before: dict[str, bytes], whole: set[str], old: set[str] | None) -> None:
    """What is true right after a death, and after another rebuild."""
    now = everything(store)
    for name, body in ours(before).items():
        assert kept_somewhere(name, body, now), f"{name} is lost"
    try:
        seen = live_files(store)
    except EXPECTED:
        pass
    else:
        assert seen in (whole, old, set()), "a smaller log reads as a whole one"
        if not seen:
            assert not ours(now), "a log that is there reads as an empty one"
    plan = plan_rebuild(store, "EWR", "weather", replace=True)
    execute_rebuild(store, plan)
    assert live_files(store) == whole
    after = everything(store)
    for name, body in {**ours(now), **ours(before)}.items():
        assert kept_somewhere(name, body, after), f"{name} is lost by the second rebuild"
    data = {key: body for key, body in before.items() if not key.startswith(LOG)}
    assert data.items() <= after.items()
    if f"{LOG}not-ours.txt" in before:
        assert after[f"{LOG}not-ours.txt"] == b"unknown names stay"
    with Catalog(store).writer("EWR", "weather") as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [7]}))
    assert live_files(store) == whole | {path}


def check_all_deaths(make_store, before: dict[str, bytes], *, every: int = 1) -> int:
    sound = fill(make_store(), before)
    try:
        old = live_files(sound)
    except LakelogError:
        old = None
    plan = plan_rebuild(sound, "EWR", "weather", replace=True)
    whole = set(plan.live)
    counting = CrashingStore(sound)
    execute_rebuild(counting, plan_rebuild(counting, "EWR", "weather", replace=True))
    assert live_files(sound) == whole
    deaths = 0
    for after in (False, True):
        for at in range(0, counting.requests, every):
            inner = fill(make_store(), before)
            dying = CrashingStore(inner, at, after=after)
            plan = plan_rebuild(dying, "EWR", "weather", replace=True)
            with pytest.raises(Crash):
                execute_rebuild(dying, plan)
            check_death(inner, before, whole, old)
            deaths += 1
    return deaths


@pytest.mark.parametrize("lost", LOSSES)
def test_a_death_at_any_request_is_repaired_by_another_rebuild(lost):
    before = make_history(lost=lost)
    assert check_all_deaths(MemoryStore, before) >= 20


@pytest.mark.parametrize("lost", LOSSES)
def test_the_same_without_put_if_absent(lost):
    before = make_history(lost=lost)
    assert check_all_deaths(lambda: PlainStore(MemoryStore()), before) >= 20


@pytest.mark.slow("a rebuild dies at many requests, on a test server too")
@pytest.mark.parametrize(("lost", "every"), [("all", 4), ("nothing", 12)])
def test_the_same_on_each_backend(any_store, lost, every):
    before = make_history(lost=lost)
    assert check_all_deaths(any_store, before, every=every) >= 4


@pytest.mark.slow("81 pairs of deaths, each with three rebuilds")
def test_two_deaths_in_a_row():
    before = make_history(lost="nothing")
    reference = fill(MemoryStore(), before)
    whole = set(plan_rebuild(reference, "EWR", "weather", replace=True).live)
    for first in range(0, 60, 7):
        for second in range(0, 80, 9):
            store = fill(MemoryStore(), before)
            for at in (first, second):
                dying = CrashingStore(store, at, after=True)
                plan = plan_rebuild(dying, "EWR", "weather", replace=True)
                with contextlib.suppress(Crash):  # or it had fewer requests, and is through
                    execute_rebuild(dying, plan)
            check_death(store, before, whole, whole)


def test_without_revision_0_the_new_log_is_a_gap_not_a_smaller_log():
    before = make_history(lost="all")
    store = fill(MemoryStore(), before)
    execute_rebuild(store, plan_rebuild(store, "EWR", "weather"))
    first = min(key for key in everything(store) if key.startswith(LOG))
    store.delete([first, *(key for key in everything(store) if key.endswith("checkpoint"))])
    with pytest.raises(MissingTransaction):
        live_files(store)


def test_a_copy_that_does_not_read_back_stops_before_the_old_log_is_touched():
    class Bad(PlainStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body[:-1] if "/replaced/" in key else body, if_absent=if_absent)

    before = make_history(lost="nothing")
    store = Bad(fill(MemoryStore(), before))
    with pytest.raises(CorruptError, match="not what was written"):
        execute_rebuild(store, plan_rebuild(store, "EWR", "weather", replace=True))
    now = everything(store)
    assert {key: body for key, body in now.items() if "/replaced/" not in key} == before


def test_a_lost_answer_to_a_put_is_no_failure(any_store):
    class Deaf(CrashingStore):
        """Each put-if-absent reaches the store twice, as when a client retries by itself."""

        def put(self, key, body, *, if_absent=False):
            if if_absent and "/transactions/" in key:
                self.inner.put(key, body)
            self.inner.put(key, body, if_absent=if_absent)

    before = make_history(lost="all")
    store = fill(any_store(), before)
    deaf = Deaf(store)
    info = execute_rebuild(deaf, plan_rebuild(deaf, "EWR", "weather"))
    assert live_files(store) == set(plan_rebuild(store, "EWR", "weather", replace=True).live)
    assert info.revision == 5
