"""gc beside committers: at each request boundary, exhaustively; then with real threads.

The first part runs one gc, plan and execution, over a store that calls the test before each
request. A committer's steps (write a file, commit) and a takeover are put before any two or three
of these requests, in any order. Whatever the log names in the end must be there.

With each change a sample of these histories runs, another with each commit; `make soak` runs every
one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time

import pytest
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    ConflictError,
    LakelogError,
    SnapshotPruned,
    StorageError,
    TransactionExpired,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from race_cases import Interposed, before_request
from sample import EVERY, some

# No reader may take maintenance for damage.
pytestmark = [
    pytest.mark.filterwarnings("error::lakelog.catalog.read.log_reader.CheckpointWarning"),
    pytest.mark.usefixtures("parts_decoded_once"),
]

DAY_S = 86_400.0

W, D = "EWR", "weather"

BASE = f"{W}/{D}/"

NEVER = 10_000


class Committer:
    """One transaction in two steps, and whether it was acknowledged."""

    def __init__(self, lake, writer):
        self.lake, self.tx, self.path, self.committed = lake, writer.transaction(), None, False

    def write(self):
        (self.path,) = self.tx.write("hourly", self.lake.rows(7), partition="p")

    def commit(self):
        try:
            self.tx.commit()
            self.committed = True
        except ConflictError:
            pass


def prepared(make_memory_lake, hooked):
    """A log of two epochs with an old orphan and a zombie of the first, and gc's hooks."""
    lake = make_memory_lake()
    zombie = lake.writer()
    lake.commit(zombie, 0)
    orphan = lake.orphan(zombie)
    lake.pass_time(8 * DAY_S)
    owner = lake.writer()
    late = Committer(lake, zombie)  # begun before it is fenced
    lake.commit(owner, 1)
    hook = Interposed()
    store = hooked(lake.store, hook)
    store.probed = lake.store.probed
    return lake, store, hook, orphan, owner, late


def collect(lake, store, margins):
    ambient = lake.clock.ambient()
    plan = plan_gc(store, W, D, ambient=ambient, margins=margins)
    execute_gc(store, plan, ambient=ambient, margins=margins)


def check(lake, orphan, *committers):
    retained = lake.retained_paths()
    assert retained <= lake.data()
    assert orphan not in lake.data()
    for committer in committers:
        assert committer.committed == (committer.path in retained)


def boundaries(make_memory_lake, hooked, margins):
    """Numbers of gc's requests, and one after the last.

    The probe and the clock touch keys of their own: nothing changes whether a step comes before or
    after one of those.
    """
    lake, store, hook, orphan, *_ = prepared(make_memory_lake, hooked)
    collect(lake, store, margins)
    check(lake, orphan)
    shared = [n for n, (_, key) in enumerate(hook.requests) if "/_probe/" not in key]
    assert len(shared) > 8
    return [*shared, NEVER]


@pytest.mark.parametrize("count", [40, EVERY])
@pytest.mark.parametrize("who", ["owner", "guest", "next owner", "zombie"])
def test_a_commit_at_each_boundary(make_memory_lake, hooked, who, count):
    """Default margins: the file is young."""
    numbers = boundaries(make_memory_lake, hooked, Margins())
    outcomes = set()
    pairs = [*some(who, itertools.combinations_with_replacement(numbers, 2), count), (0, 0)]
    for i, j in [*pairs, (NEVER, NEVER)]:
        lake, store, hook, orphan, owner, late = prepared(make_memory_lake, hooked)
        writers = {
            "owner": lambda owner=owner: owner,
            "guest": lambda lake=lake: lake.writer(shared=True),
            "next owner": lambda lake=lake: lake.writer(),
        }
        committer = late if who == "zombie" else Committer(lake, writers[who]())
        hook.steps = [(i, committer.write), (j, committer.commit)]
        collect(lake, store, Margins())
        hook.finish()
        check(lake, orphan, committer)
        outcomes.add((committer.committed, committer.path in lake.data()))
    if who == "zombie":  # it is refused, and deletes what it has put
        assert outcomes == {(False, False)}
    else:
        assert outcomes == {(True, True)}


@pytest.mark.parametrize("count", [80, EVERY])
@pytest.mark.parametrize("who", ["owner", "guest"])
def test_a_takeover_at_each_boundary(make_memory_lake, hooked, who, count):
    """Around somebody's file and commit a new owner commits."""
    numbers = boundaries(make_memory_lake, hooked, Margins())
    outcomes = set()
    triples = [t for t in itertools.product(numbers, repeat=3) if t[0] <= t[1]]
    sure = [(0, 0, NEVER), (0, NEVER, 0), (NEVER, NEVER, 0)]  # gives each outcome
    for i, j, k in [*some(who, triples, count), *sure]:
        lake, store, hook, orphan, owner, _ = prepared(make_memory_lake, hooked)
        committer = Committer(lake, owner if who == "owner" else lake.writer(shared=True))
        heir = lake.writer()
        taken = Committer(lake, heir)

        def take_over(taken=taken, lake=lake):
            lake.pass_time(1)
            taken.write()
            taken.commit()

        # Where they are due together, once one goes first and once the other.
        hook.steps = [(i, committer.write), (k, take_over), (j, committer.commit)]
        collect(lake, store, Margins())
        hook.finish()
        check(lake, orphan, committer, taken)
        assert taken.committed
        outcomes.add((committer.committed, committer.path in lake.data()))
    assert {(True, True), (False, False)} == outcomes


@pytest.mark.parametrize("count", [25, EVERY])
def test_the_data_files_are_listed_before_the_log(make_memory_lake, hooked, count):
    """No grace at all: what is committed before the last look at the log stays all the same.

    This is what the order of the two listings is for. With the log read first, a file put and
    committed between the two would be taken.
    """
    none = Margins(gc_grace_s=0)
    lake, store, hook, orphan, *_ = prepared(make_memory_lake, hooked)
    collect(lake, store, none)
    log_folder = f"{BASE}transactions/"
    requests = list(enumerate(hook.requests))
    deletion = next(n for n, (what, key) in requests if what == "delete" and "/data/" in key)
    looks = [n for n, (what, key) in requests if what == "list" and key.startswith(log_folder)]
    last_look = max(n for n in looks if n < deletion)
    said = [r for r, _ in hook.requests[last_look:]]
    assert said == ["list", "get", "delete", "list", "get"]  # what was named meanwhile is raised
    pairs = itertools.combinations_with_replacement(range(last_look + 1), 2)
    for i, j in [*some("listed", pairs, count), (last_look, last_look)]:
        lake, store, hook, orphan, owner, _ = prepared(make_memory_lake, hooked)
        committer = Committer(lake, owner)
        hook.steps = [(i, committer.write), (j, committer.commit)]
        collect(lake, store, none)
        check(lake, orphan, committer)
        assert committer.committed
    # The test can fail: later than that, only the grace period protects a file. (The footer of that
    # file is read as well, so its collection makes more requests.)
    deletion = NEVER
    for committed in (False, True):
        lake, store, hook, orphan, owner, _ = prepared(make_memory_lake, hooked)
        committer = Committer(lake, owner)
        hook.steps = [(0, committer.write), (deletion, committer.commit)]
        with (
            pytest.raises(ConflictError, match="named it again")
            if committed
            else contextlib.nullcontext()
        ):
            collect(lake, store, none)
        requests = enumerate(hook.requests)
        deletion = next(n for n, (what, key) in requests if what == "delete" and "/data/" in key)
        assert committer.committed == committed
        assert committer.path not in lake.data()


def gc_beside_prune(make_memory_lake, hooked, number):
    """The whole prune before one of gc's requests; gives how many gc made."""
    lake = make_memory_lake()
    paths = []
    with lake.writer() as writer:
        for value in range(6):
            paths.append(lake.commit(writer, value, paths[-1:]))
            if value in (2, 4):
                writer.checkpoint()
        orphan = lake.orphan(writer)
    with lake.writer() as writer:
        lake.commit(writer, 6)
    lake.pass_time(30 * DAY_S)
    ambient = lake.clock.ambient()

    def prune():
        plan = plan_prune(lake.store, W, D, keep_revisions=1, ambient=ambient)
        assert execute_prune(lake.store, plan, ambient=ambient).deleted_objects == 9

    hook = before_request(number, prune)
    try:
        collect(lake, hooked(lake.store, hook), Margins())
    except LakelogError as error:
        raise AssertionError(f"prune before request {number} of gc") from error
    check(lake, orphan)
    assert lake.read() == [5, 6]
    return len(hook.requests)


@pytest.mark.parametrize("count", [12, EVERY])
def test_a_prune_at_each_boundary(make_memory_lake, hooked, count):
    """gc sees more than is needed, or less."""
    requests = gc_beside_prune(make_memory_lake, hooked, NEVER)
    assert requests > 20
    for number in some("prune", range(requests + 1), count):
        gc_beside_prune(make_memory_lake, hooked, number)


# --- real threads ---------------------------------------------------------------------------------


def run(name, target):
    """A thread whose exception is kept."""
    errors = []

    def body():
        try:
            target()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, name=f"gc-test-{name}")
    thread.start()
    return thread, errors


def test_prune_and_gc_beside_readers_and_committers(make_local_lake, tmp_path):
    """Everything at once for a few seconds: no reader sees damage, nothing live is lost."""
    lake = make_local_lake(tmp_path)
    lake.promised = margins = Margins(prune_floor_s=2.0, gc_grace_s=2.0)
    stop = threading.Event()
    with lake.writer() as writer:
        lake.commit(writer, 0)
    done = dict.fromkeys(("commits", "reads", "pruned", "collected"), 0)

    def commit():
        value = 0
        while not stop.is_set():
            with lake.writer() as writer:
                for _ in range(4):
                    value += 1
                    live = sorted(lake.paths_at())
                    with contextlib.suppress(TransactionExpired):  # this machine was too slow
                        lake.commit(writer, value, live[:1] if len(live) > 5 else [])
                        done["commits"] += 1
                lake.orphan(writer)
                with contextlib.suppress(StorageError):  # likewise
                    writer.checkpoint()

    def read():
        while not stop.is_set():
            paths = lake.paths_at()
            state = lake.log().load()
            assert paths
            with contextlib.suppress(SnapshotPruned):
                lake.paths_at(max(0, state.revision - 30))
            assert lake.read()
            done["reads"] += 1

    def maintain():
        while not stop.is_set():
            plan = plan_prune(lake.catalog, W, D, keep_revisions=10, margins=margins)
            done["pruned"] += execute_prune(lake.catalog, plan, margins=margins).deleted_objects
            plan = plan_gc(lake.catalog, W, D, margins=margins)
            done["collected"] += execute_gc(lake.catalog, plan, margins=margins).deleted_objects
            time.sleep(0.05)

    threads = [run(f.__name__, f) for f in (commit, read, maintain)]
    deadline = time.monotonic() + float(os.environ.get("LAKELOG_GC_RACE_S", "5"))
    while time.monotonic() < deadline and not any(errors for _, errors in threads):
        time.sleep(0.1)
    stop.set()
    for thread, errors in threads:
        thread.join(60)
        assert not thread.is_alive()
        assert not errors, errors
    assert lake.retained_paths() <= lake.data()
    assert all(count > 0 for count in done.values()), done
