"""execute_rebuild dies at each of its writing requests, before and after it took effect.

After each death: nothing that was there is changed or gone; whoever reads gets the whole old state
or the whole new one (a typed error only where the old log couldn't be read before); planning and
executing again gives the whole, by the same names and bytes.

With each change a sample of the places to die at is tried, another with each commit; `make soak`
tries every one.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    ConflictError,
    CorruptError,
    DatabaseNotFound,
    LakelogError,
    NotACatalog,
    PlanOutdated,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash, CrashingStore
from lakelog.testing.doubles import FakeAmbient, PassingStore, PlainStore
from rebuild_cases import BASE, LOG, item_of
from sample import EVERY, some

pytestmark = pytest.mark.usefixtures("parts_decoded_once")


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
        files = state.files
        for table in files.tables():
            files.check(table)
    return {path for paths in files.paths() for path in paths.to_pylist()}


def plan_of(store):
    return plan_rebuild(store, "EWR", "weather")


def rebuild(store):
    return execute_rebuild(store, plan_of(store))


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
    keys = [info.key for info in store.list(LOG) if item_of(info.key)]
    checkpoints = [key for key in keys if key.endswith("checkpoint")]
    assert checkpoints
    if lost == "all":
        store.delete(keys)
    elif lost == "a middle one":
        store.delete([*(key for key in keys if item_of(key).revision == 2), *checkpoints])
    elif lost == "the head":  # damaged: nobody knows the next name
        (head,) = (k for k in keys if item_of(k).revision == 5 and k not in checkpoints)
        store.put(head, store.get(head)[:-9])
        store.delete([key for key in checkpoints if item_of(key).revision == 5])
    elif lost == "the end":  # footers tell of more than is left
        store.delete([key for key in keys if item_of(key).revision >= 4])
    elif lost == "the start":  # as after a prune
        first = item_of(checkpoints[0]).revision
        store.delete([key for key in keys if item_of(key).revision < first])
    else:
        assert lost == "nothing"
    return everything(store)


@pytest.fixture(autouse=True)
def _few_names(monkeypatch):
    """Fewer names to take, so fewer places to die at."""
    monkeypatch.setattr("lakelog.rebuild.seal_names._AHEAD", 2)


LOSSES = ["all", "a middle one", "the head", "the end", "the start", "nothing"]
EXPECTED = (CorruptError, DatabaseNotFound, NotACatalog, ConflictError)


def check_death(
    store, before: dict[str, bytes], whole: set[str], old: set[str] | None, *, cut: bool = False
) -> None:
    """What is true right after a death, and after another rebuild.

    Args:
        cut: The old log reads as whole and is not: names beyond its end are taken, and then say so.
    """
    now = everything(store)
    assert before.items() <= now.items(), "something is changed or gone"
    try:
        seen = live_files(store)
    except EXPECTED:
        assert old is None or cut, "the old log could be read, and can't any more"
    else:
        expected = (whole, old) if old is not None or any(map(item_of, now)) else (set(),)
        assert seen in expected, "neither the old log nor the new one"
    with contextlib.suppress(LakelogError):
        Catalog(store).snapshot("weather").to_arrow("hourly")
    rebuild(store)
    assert live_files(store) == whole
    after = everything(store)
    assert now.items() <= after.items(), "the second rebuild changed what the first one wrote"
    with Catalog(store).writer("EWR", "weather") as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [7]}))
    assert live_files(store) == whole | {path}


def names_of(store) -> dict[int, int]:
    """How many names of each incarnation there are."""
    found: dict[int, int] = {}
    for info in store.list(LOG):
        item = item_of(info.key)
        if item is not None:
            found[item.incarnation] = found.get(item.incarnation, 0) + 1
    return found


def check_deaths(make_store, before: dict[str, bytes], count: int | None) -> None:
    """So many deaths, or all."""
    sound = fill(make_store(), before)
    try:
        old = live_files(sound) if any(map(item_of, before)) else None
    except LakelogError:
        old = None
    whole = set(plan_of(sound).live)
    counting = CrashingStore(sound)
    rebuild(counting)
    assert live_files(sound) == whole
    assert counting.requests >= 9
    places = [(at, after) for after in (False, True) for at in range(counting.requests)]
    for at, after in some(str(count), places, count):
        inner = fill(make_store(), before)
        dying = CrashingStore(inner, at, after=after)
        plan = plan_of(dying)
        with pytest.raises(Crash):
            execute_rebuild(dying, plan)
        check_death(inner, before, whole, old, cut=bool(plan.seal.others))
        if 3 not in names_of(inner):  # it went on where the first one died
            written = dict(names_of(inner))
            written[2] -= 1  # the commit
            assert written == names_of(sound)


@pytest.mark.parametrize("count", [4, EVERY])
@pytest.mark.parametrize("lost", LOSSES)
def test_a_death_at_any_request_is_repaired_by_another_rebuild(lost, count):
    check_deaths(MemoryStore, make_history(lost=lost), count)


@pytest.mark.parametrize("count", [3, EVERY])
@pytest.mark.parametrize("lost", LOSSES)
def test_the_same_without_put_if_absent(lost, count):
    check_deaths(lambda: PlainStore(MemoryStore()), make_history(lost=lost), count)


@pytest.mark.slow("each death and its repair on a test server are hundreds of requests")
@pytest.mark.parametrize("count", [2, EVERY])
@pytest.mark.parametrize("lost", ["all", "nothing"])
def test_the_same_on_each_backend(any_store, lost, count):
    check_deaths(any_store, make_history(lost=lost), count)


@pytest.mark.parametrize("count", [4, EVERY])
@pytest.mark.parametrize("lost", ["nothing", "the head"])
def test_two_deaths_in_a_row(lost, count):
    before = make_history(lost=lost)
    reference = fill(MemoryStore(), before)
    whole = set(plan_of(reference).live)
    old = live_files(reference) if lost == "nothing" else None
    pairs = [(first, second) for first in range(32) for second in range(32)]
    for pair in some("two", pairs, count):
        store = fill(MemoryStore(), before)
        for at in pair:
            dying = CrashingStore(store, at, after=True)
            plan = plan_of(dying)
            with contextlib.suppress(Crash):  # or it had fewer requests, and is through
                execute_rebuild(dying, plan)
        check_death(store, before, whole, old)


@pytest.mark.parametrize("lost", ["nothing", "all"])
def test_without_its_checkpoint_the_new_incarnation_is_not_in_use(lost):
    before = make_history(lost=lost)
    store = fill(MemoryStore(), before)
    info = execute_rebuild(store, plan_of(store))
    assert info.incarnation == 2
    store.delete([info.checkpoint_key])
    if lost == "nothing":
        assert live_files(store) == live_files(fill(MemoryStore(), before))
    else:
        with pytest.raises(EXPECTED):
            live_files(store)


def test_the_same_plan_can_be_executed_again_after_a_death():
    before = make_history(lost="nothing")
    store = fill(MemoryStore(), before)
    dying = CrashingStore(store, 9)
    plan = plan_of(dying)
    with pytest.raises(Crash):
        execute_rebuild(dying, plan)
    info = execute_rebuild(store, plan)
    assert live_files(store) == set(plan.live)
    assert names_of(store)[2] == info.revision + 2


def test_what_does_not_read_back_stops_before_the_switch():
    class Bad(PassingStore):
        def put(self, key, body, *, if_absent=False):
            cut = item_of(key) is not None and item_of(key).incarnation == 2
            super().put(key, body[:-1] if cut else body, if_absent=if_absent)

    before = make_history(lost="nothing")
    inner = fill(MemoryStore(), before)
    with pytest.raises(CorruptError):
        rebuild(Bad(inner))
    assert before.items() <= everything(inner).items()
    assert live_files(inner) == live_files(fill(MemoryStore(), before))
    assert not any(key.endswith("checkpoint") and item_of(key).incarnation == 2
                   for key in everything(inner) if item_of(key))  # fmt: skip


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
    assert live_files(store) == set(plan_rebuild(store, "EWR", "weather").live)
    assert info.revision == 5


# --- Two at once ----------------------------------------------------------------------------------


class Meeting(PassingStore):
    """Runs a function before the nth put."""

    def __init__(self, store, at, hook):
        super().__init__(store)
        self.puts, self._at, self._hook = 0, at, hook

    def put(self, key, body, *, if_absent=False):
        self.puts += 1
        if self.puts == self._at:
            self._hook()
        self.inner.put(key, body, if_absent=if_absent)


@pytest.mark.parametrize("count", [4, EVERY])
@pytest.mark.parametrize("lost", LOSSES)
def test_of_two_at_once_one_stands(lost, count):
    """The second is planned before the first begins, and runs whole at each of its puts; or, where
    the first has ended before, not at all."""
    before = make_history(lost=lost)
    outcomes = {"first": 0, "second": 0}
    alone = Meeting(fill(MemoryStore(), before), 0, None)
    rebuild(alone)
    places = some(f"at once {lost}", range(2, alone.puts + 1), count)
    for at in [1, *places, alone.puts + 1]:
        inner = fill(MemoryStore(), before)
        second = plan_of(inner)

        def run(inner=inner, second=second):
            try:
                execute_rebuild(inner, second)
                outcomes["second"] += 1
            except PlanOutdated:
                pass

        store = Meeting(inner, at, run)
        plan = plan_of(store)
        refusal = ""
        try:
            execute_rebuild(store, plan)
            outcomes["first"] += 1
        except PlanOutdated as error:
            refusal = str(error)
        assert outcomes["second"] or not refusal
        assert "delete the objects" not in refusal, "they are in use"
        assert live_files(inner) == set(plan.live)
        assert sorted(names_of(inner)) in ([1, 2], [2]), "another incarnation was begun"
        assert names_of(inner)[2] == len(plan.transactions) + 1, "two logs stand side by side"
        assert (at > alone.puts) == (store.puts < at)
    assert min(outcomes.values()) >= 1


def test_two_that_go_on_from_one_seal_with_other_content_cant_mix(monkeypatch):
    """They race for revision 0, which says what is to follow."""
    before = make_history(lost="all")
    inner = fill(MemoryStore(), before)
    unproven = plan_of(inner).unproven[-1].transaction_id
    with pytest.raises(Crash):
        rebuild(CrashingStore(inner, len(plan_of(inner).seal.others) + 5))
    assert any(item_of(key) for key in everything(inner) if item_of(key))
    plans = [plan_of(inner), plan_rebuild(inner, "EWR", "weather", exclude=[unproven])]
    assert plans[0].rebuild_id == plans[1].rebuild_id
    info = execute_rebuild(inner, plans[0])
    with pytest.raises(PlanOutdated, match="has changed"):
        execute_rebuild(inner, plans[1])
    assert live_files(inner) == set(plans[0].live)
    assert names_of(inner)[2] == info.revision + 2


@pytest.mark.parametrize(
    ("lost", "why"),
    # Of a log that can be read nothing is unproven, so that there are no other options.
    [("all", "a file came"), ("nothing", "a file came"), ("all", "other options")],
)
def test_a_broken_off_rebuild_with_other_content_says_so_and_its_way_out_works(lost, why):
    before = make_history(lost=lost)
    store = fill(MemoryStore(), before)
    first = plan_of(store)
    with pytest.raises(Crash):
        execute_rebuild(CrashingStore(store, len(first.seal.others) + 6), first)
    assert not any("can't be executed" in note for note in plan_of(store).notes)
    options = {}
    if why == "a file came":
        store.put(f"{BASE}data/_/hourly/new.parquet", parquet(pa.table({"n": [3]})))
        options["include_foreign"] = True
    else:
        options["exclude"] = [first.unproven[-1].transaction_id]
    plan = plan_rebuild(store, "EWR", "weather", **options)
    note = plan.notes[0]
    assert "can't be executed as it is" in note
    assert f"memory://memory/{LOG}997-*" in note or "/EWR/weather/transactions/997-*" in note
    assert "`lakelog rebuild URL weather --writer EWR --execute`" in note
    with pytest.raises(PlanOutdated, match="began incarnation 2 with other content") as caught:
        execute_rebuild(store, plan)
    assert caught.value.hint in note
    # As it says.
    store.delete([info.key for info in list(store.list(f"{LOG}997-"))])
    plan = plan_rebuild(store, "EWR", "weather", **options)
    assert not any("can't be executed" in note for note in plan.notes)
    execute_rebuild(store, plan)
    assert live_files(store) == set(plan.live)
    assert sorted(names_of(store)) == [1, 2]


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
