"""Drills: one catalog is destroyed in every way in turn, object by object.

As long as one copy is left of each object, every retained point in time reads as before without any
command, check names what is lost or damaged, and repair gives every byte back. Where both copies
are lost, a rebuild loses no row that was committed and is live.

`make test` draws some of the drills by the run's seed, and the catalog too. All of them:

    LAKELOG_TURNS=every python -m pytest tests/rebuild/test_drill.py
"""

from __future__ import annotations

import os
import random
import warnings

import pytest
from drilled import WRITERS, Drilled
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import mirror_key
from salvage_lake import check
from sample import some
from seeds import base_seed

EVERY = os.environ.get("LAKELOG_TURNS") == "every"
pytestmark = pytest.mark.timeout(3_600 if EVERY else 300)
FOLDERS = ("transactions/", "segments/", "mirror/")


def flipped(body: bytes) -> bytes:
    at = random.Random(len(body)).randrange(len(body))
    return body[:at] + bytes([body[at] ^ 8]) + body[at + 1 :]


DAMAGES = {"empty": lambda body: b"", "cut": lambda body: body[:-7], "flipped": flipped}
WAYS = ("lost", *DAMAGES)


@pytest.fixture(scope="module")
def drilled() -> Drilled:
    return Drilled(random.Random(f"{base_seed()} drill"))


def drawn(name: str, items, count: int) -> list:
    """All of them, or some."""
    return some(name, items, None if EVERY else count)


def drill(drilled: Drilled, damage: dict[str, str]) -> None:
    """Damages objects, each in its way: rows stay, check names each, repair gives all back."""
    store = drilled.again()
    for key, how in damage.items():
        if how == "lost":
            store.delete([key])
        else:
            store.put(key, DAMAGES[how](store.get(key)))
    writers = {key.partition("/")[0] for key in damage}
    tokens = drilled.tokens(writers)
    assert not drilled.wrong(store, tokens), damage
    catalog = Catalog(store, ambient=drilled.fake.ambient)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        only = min(writers) if len(writers) == 1 else None
        report = catalog.check("db", writer=only, level="log")
        named = " ".join(finding.object for finding in report.findings)
        silent = {key for key in damage if key not in named} - unknowable(drilled, damage)
        assert not silent, (silent, damage)
        done = catalog.repair("db", report=report, execute=True)
    assert not done.left, damage
    after = {info.key: store.get(info.key) for info in store.list("")}
    changed = {key for key in drilled.bodies if after.get(key) != drilled.bodies[key]}
    computed = {key for key in damage if is_computed(drilled, key)}
    if computed:  # a checkpoint whose segments are computed is written again
        computed |= {key for key in drilled.log_keys("transactions/") if is_computed(drilled, key)}
    new = after.keys() - drilled.bodies
    assert changed <= computed | {key for key in damage if is_redundant(drilled, key)}, damage
    assert all(key.endswith((".checkpoint", ".segment")) for key in new), damage
    if changed or new:
        assert not drilled.wrong(store, tokens), damage
        assert catalog.check("db", writer=only, level="files").is_sound


def is_computed(drilled: Drilled, key: str) -> bool:
    """Whether it has no copy: a checkpoint, or a segment of one, that is computed again."""
    return "/mirror/" not in key and mirror_key(key) not in drilled.bodies


def is_redundant(drilled: Drilled, key: str) -> bool:
    """Whether it is the transaction of the checkpoint that a log begins with, which says it all."""
    stem = key.replace("/mirror/", "/").removesuffix(".transaction")
    return stem != key and mirror_key(f"{stem}.checkpoint") in drilled.bodies


def unknowable(drilled: Drilled, damage: dict[str, str]) -> set[str]:
    """What check need not name: a checkpoint without a copy that is not there may never have been;
    and of what is computed again together one object is named."""
    computed = {key for key in damage if is_computed(drilled, key)}
    never = {k for k in computed if k.endswith(".checkpoint") and damage[k] == "lost"}
    redundant = {key for key in damage if is_redundant(drilled, key)}
    segments = {key for key in computed if key.endswith(".segment")}
    return redundant | never | (segments if len(computed) > 1 else set())


# --- One copy is left -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", WAYS)
def test_each_object(drilled: Drilled, how: str) -> None:
    for key in drawn(f"drill {how}", drilled.log_keys(), 1):
        drill(drilled, {key: how})


def test_two_objects(drilled: Drilled) -> None:
    """But not both copies of one."""
    keys, random_ = drilled.log_keys(), drilled.random
    for _ in range(200 if EVERY else 2):
        one, two = random_.sample(keys, 2)
        if mirror_key(one) != two and mirror_key(two) != one:
            drill(drilled, {one: random_.choice(WAYS), two: random_.choice(WAYS)})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder(drilled: Drilled, folder: str) -> None:
    """Of one writer; and of all of them at once."""
    for names in drawn(f"drill {folder}", [(name,) for name in WRITERS], 1):
        keys = [key for key in drilled.log_keys(folder) if key.startswith(names)]
        for how in drawn(f"drill {folder}", WAYS, 1):
            drill(drilled, dict.fromkeys(keys, how))
    if EVERY:
        drill(drilled, dict.fromkeys(drilled.log_keys(folder), "lost"))


def test_the_end_of_a_log(drilled: Drilled) -> None:
    """Its newest transactions, up to all of them."""
    for name in drawn("drill end", WRITERS, 1):
        keys = [key for key in drilled.log_keys("transactions/") if key.startswith(f"{name}/")]
        keys = sorted(key for key in keys if key.endswith(".transaction"))  # the newest first
        for length in drawn("drill end", range(1, len(keys) + 1), 2):
            drill(drilled, dict.fromkeys(keys[:length], "lost"))


# --- Both are lost --------------------------------------------------------------------------------


def salvage(drilled: Drilled, name: str, lost: set[int] | None) -> None:
    """Loses both copies of some revisions, or everything but `data/`; then rebuilds."""
    lake = drilled.lakes[name].again()
    first = 0
    if lost is None:
        lake.lose_all()
    else:
        lake.lose(lost)
        first = min(lost)
        tokens = drilled.tokens([name])
        assert not drilled.wrong(lake.store, tokens, name, first)
    check(lake, set(lake.rows) if lost is None else lost)
    if lost is not None:
        assert not drilled.wrong(lake.store, tokens, name, first)


def retained(drilled: Drilled, name: str) -> list[int]:
    """The revisions that can be read."""
    return sorted({revisions[name] for revisions, _ in drilled.points.values()})


def test_both_copies_of_each_transaction(drilled: Drilled) -> None:
    everything = [(name, r) for name in WRITERS for r in retained(drilled, name)]
    for name, revision in drawn("drill both", everything, 3):
        salvage(drilled, name, {revision})


def test_both_copies_of_ranges(drilled: Drilled) -> None:
    for _ in range(40 if EVERY else 2):
        name = drilled.random.choice([*WRITERS])
        low, high = sorted(drilled.random.choices(retained(drilled, name), k=2))
        salvage(drilled, name, set(range(low, high + 1)))


def test_everything_but_the_data(drilled: Drilled) -> None:
    for name in drawn("drill all", WRITERS, 1):
        salvage(drilled, name, None)
