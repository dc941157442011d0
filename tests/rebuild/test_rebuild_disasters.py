"""Random histories of one log that lose and damage its objects: always followed by a rebuild, and a
week later by prune and gc. One seed is one history.

Commits add, replace and remove files, take a removal back (`undo`), try one batch several times
(`retry`: attempts that died, and such as were refused) and add files that landed (`adopt`). Then
objects of the log are lost (its end, any of them, all) or damaged, and whoever is still at work may
go on.

What must hold: what was acknowledged is live after the rebuild, or the plan names it as undecided;
and its file is there, also after prune and gc. What was added by a transaction that can be decoded
is live, unless one that nothing proves replaces it.
"""

from __future__ import annotations

import datetime as dt
import random
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import LogObject
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import LakelogError
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from rebuild_cases import BASE, LOG, item_of, parquet
from seeds import base_seed

pytestmark = pytest.mark.usefixtures("parts_decoded_once")

W, D = "EWR", "weather"
DAY_S = 86_400.0
HISTORIES = 8
PARTS = 4  # for the workers to share
STEPS = 9
ROUNDS = 2


class World:
    """A log, and what is true of it.

    Attributes:
        live: Paths that are live, by all that was acknowledged.
        removed: Paths that were, and are not.
        removed_once: Paths that were ever removed.
        added_by: Keys of the transactions that added paths last, in the incarnation in use.
        spoiled: Keys of damaged objects.
        doubted: Paths that transactions replace which were never committed.
        owed: Paths that were acknowledged, and that a rebuild could not decide.
        told: What happened.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.fake = FakeAmbient(seed)
        self.store = MemoryStore("disasters", now=self.now)
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        self.live, self.removed, self.owed = set(), set(), set()
        self.removed_once, self.added_by, self.spoiled = set(), {}, set()
        self.doubted = set()
        self.told, self.version, self.number = [], 0, 0
        self.writer = None
        while not self.live:
            self.commit("add")

    def now(self):
        return dt.datetime.fromtimestamp(self.fake.wall_us / 1e6, dt.UTC)

    def note(self, *words):
        self.told.append(" ".join(map(str, words)))

    # --- Commits ----------------------------------------------------------------------------------

    def rows(self):
        self.number += 1
        return pa.table({"n": [self.number]})

    def open(self):
        try:
            self.writer = self.catalog.writer(W, D, checkpoint_every=self.random.choice([0, 2, 4]))
        except LakelogError as error:
            self.note("not opened", type(error).__name__)

    def commit(self, kind=None):
        kind = kind or self.random.choice(
            ["add", "add", "replace", "replace", "remove", "undo", "retry", "adopt", "dead"]
        )
        if self.writer is None or self.random.random() < 0.15:
            self.open()
        if self.writer is None:
            return
        self.fake.move(self.random.choice([0.01, 1.0]))
        try:
            getattr(self, f"do_{kind}")()
        except LakelogError as error:
            self.note(kind, "refused", type(error).__name__)

    def end(self, tx, kind, added, gone=()):
        info = tx.commit()
        if info is None or info.skipped:
            self.note(kind, "skipped")
            return
        self.note(kind, info.revision, *added)
        incarnation = self.writer._session._committer.identity.incarnation
        name = LogObject(incarnation, info.revision, info.uuid[:8], "transaction").name
        self.added_by |= dict.fromkeys(added, LOG + name)
        self.live = (self.live - set(gone)) | set(added)
        self.removed = (self.removed | set(gone)) - self.live
        self.removed_once |= set(gone)

    def some(self, paths):
        known = sorted(path for path in paths if BASE + path in self.there())
        return self.random.sample(known, min(len(known), self.random.randint(1, 2)))

    def do_add(self):
        tx = self.writer.transaction()
        self.end(tx, "add", tx.write("hourly", self.rows()))

    def do_dead(self):
        """Written and never committed, in place of others or not."""
        tx = self.writer.transaction()
        for path in self.some(self.live)[: self.random.randint(0, 1)]:
            tx.remove(path)
            self.doubted.add(path)
        self.note("dead", *tx.write("hourly", self.rows()))

    def do_replace(self, tx=None):
        tx, gone = self.writer.transaction(), self.some(self.live)
        for path in gone:
            tx.remove(path)
        self.end(tx, "replace", tx.write("hourly", self.rows()), gone)

    def do_remove(self):
        tx, gone = self.writer.transaction(), self.some(self.live)
        for path in gone:
            tx.remove(path)
        if gone:
            self.end(tx, "remove", (), gone)

    def do_undo(self):
        """What was removed is added again."""
        tx, back = self.writer.transaction(), self.some(self.removed)[:1]
        gone = self.some(self.live)[:1]
        for path in back:
            tx.add("hourly", path)
        for path in gone if back else ():
            tx.remove(path)
        if back:
            self.end(tx, "undo", back, gone)

    def do_retry(self):
        """Attempts at one batch: some die, some come too late, one stands."""
        self.version += 1
        batch = [self.writer.transaction("job", self.version) for _ in range(3)]
        good = self.random.randrange(3)
        rows = self.rows()
        written = []
        for number, tx in enumerate(batch):
            files = 2 if number == good else self.random.randint(1, 2)
            written.append([path for _ in range(files) for path in tx.write("hourly", rows)])
            self.fake.move(1.0)
        self.end(batch[good], "retry", written[good])
        late = self.random.randrange(3)
        if late != good:
            assert batch[late].commit().skipped

    def do_adopt(self):
        folder = self.random.choice(["in", "_/hourly"])
        self.number += 1
        path = f"data/{folder}/landed-{self.number}.parquet"
        self.store.put(BASE + path, parquet(pa.table({"n": [self.number]})))
        tx = self.writer.transaction()
        tx.add("hourly", path)
        self.end(tx, "adopt", [path])

    def checkpoint(self):
        try:
            self.writer.checkpoint()
        except LakelogError as error:
            self.note("no checkpoint", type(error).__name__)

    # --- Disasters --------------------------------------------------------------------------------

    def log_objects(self):
        """Keys of the incarnation in use, by revision."""
        found = {}
        for info in self.store.list(f"{BASE}transactions/"):
            found.setdefault(item_of(info.key).incarnation, []).append(info.key)
        keys = found[max(found)] if found else []
        return sorted(keys, key=lambda key: (item_of(key).revision, key))

    def lose(self):
        keys = self.log_objects()
        head = item_of(keys[-1]).revision if keys else -1
        kind = self.random.choice(["end", "end", "some", "all"])
        if kind == "end":
            lowest = head + 1 - self.random.randint(1, 3)
            keys = [key for key in keys if item_of(key).revision >= max(lowest, 1)]
        elif kind == "some":
            keys = [key for key in keys if self.random.random() < 0.4]
        else:
            keys = [info.key for info in self.store.list(f"{BASE}transactions/")]
        self.store.delete(keys)
        self.note("lost", kind, *(key.rsplit("/", 1)[1] for key in keys))

    def damage(self):
        keys = self.log_objects()
        spoiled = [key for key in keys if self.random.random() < 0.25] or keys[-1:]
        for key in spoiled:
            body = bytearray(self.store.get(key))
            body[-1] ^= 1
            self.store.put(key, bytes(body))
            self.spoiled.add(key)
        self.note("damaged", *(key.rsplit("/", 1)[1] for key in spoiled))

    def disaster(self):
        self.random.choice([self.lose, self.lose, self.damage])()
        sound = {info.key for info in self.store.list(LOG)} - self.spoiled
        self.decodable = {path for path in self.live if self.added_by.get(path) in sound}
        if self.random.random() < 0.5:  # who was at work goes on, or somebody begins
            self.decodable = set()  # two histories, maybe
            if self.random.random() < 0.5:
                self.open()
            for _ in range(self.random.randint(1, 2)):
                self.commit()

    # --- What must hold ---------------------------------------------------------------------------

    def rebuild(self):
        plan = plan_rebuild(self.store, W, D, ambient=self.fake.ambient)
        undecided = plan.undecided
        missing = self.live - plan.live.keys() - undecided.keys()
        if plan.is_whole:  # of a last commit that is lost nothing tells; its files stay
            missing -= self.removed_once
        assert not missing, f"acknowledged, and neither live nor undecided: {sorted(missing)}"
        doubted = {
            path
            for item in plan.transactions
            if item.proof == "unproven"
            for _, path in item.removes
        }
        wrong = self.decodable - plan.live.keys() - doubted - (self.doubted & undecided.keys())
        assert not wrong, f"live by what can be decoded, and not live: {sorted(wrong)}"
        execute_rebuild(self.store, plan, ambient=self.fake.ambient)
        state = LogReader(self.store, W, D, self.fake.ambient).load()
        seen = {path for paths in state.files.paths() for path in paths.to_pylist()}
        assert seen == plan.live.keys()
        self.note("rebuilt", plan.incarnation, "undecided:", *undecided)
        self.owed |= self.live - seen
        self.removed, self.live, self.writer = self.removed - seen, seen, None
        self.added_by = {}
        self.check()

    def maintain(self):
        """A week later, twice: so that a checkpoint of what is left is old enough to begin with."""
        for _ in range(2):
            self.open()
            self.do_add()
            self.writer.checkpoint()
            self.fake.move(9 * DAY_S)
        self.open()
        self.do_add()
        ambient = self.fake.ambient
        execute_prune(
            self.store, plan_prune(self.store, W, D, keep_revisions=1, ambient=ambient),
            ambient=ambient,
        )  # fmt: skip
        plan = plan_gc(self.store, W, D, ambient=ambient)
        execute_gc(self.store, plan, ambient=ambient)
        self.note("collected", *(action.key for action in plan.actions))
        self.check()

    def there(self):
        return {info.key for info in self.store.list(f"{BASE}data/")}

    def check(self):
        gone = {path for path in self.live | self.owed if BASE + path not in self.there()}
        assert not gone, f"acknowledged, and deleted: {sorted(gone)}"
        if self.live:
            rows = self.catalog.snapshot(D).to_arrow("hourly").num_rows
            assert rows == len(self.live)

    def run(self):
        for _ in range(ROUNDS):
            for _ in range(self.random.randint(2, STEPS)):
                self.random.choice([self.commit] * 5 + [self.checkpoint])()
            self.check()
            self.disaster()
            self.rebuild()
            self.maintain()


def run_history(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = World(seed)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}\n" + "\n".join(world.told)) from error
    return world


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_of_disasters(part):
    count = HISTORIES // PARTS
    first = base_seed() + part * count
    for seed in range(first, first + count):
        run_history(seed)


@pytest.mark.long
def test_many_histories_of_disasters():
    for seed in range(base_seed(), base_seed() + 3_000):
        run_history(seed)


def test_histories_come_to_all_of_it():
    told = [words for seed in range(10) for words in run_history(seed).told]
    for begin in (
        "add", "replace", "remove", "undo", "retry", "adopt", "dead", "lost end", "lost some",
        "lost all", "damaged", "rebuilt", "collected",
    ):  # fmt: skip
        assert any(words.startswith(begin) for words in told), begin
