"""A small log in a store, all that can be asked of it, and what is true of it: after any damage
each answer is the truth, or an error that names the object."""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpus import FOLDER, SEGMENTS, grown_log
from decoded_once import decoded_once
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.read.cut_tables import TablesWarning
from lakelog.catalog.read.history_table import history_for_users
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.read.statistics import StatisticsWarning
from lakelog.errors import CorruptObject, LakelogError
from lakelog.gc.collect import plan_gc
from lakelog.rebuild.check import check
from lakelog.rebuild.findings import CheckReport
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import START_US, FakeAmbient
from lakelog.testing.keys import log_keys
from loose import Loose

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = dt.datetime.fromtimestamp(START_US / 1e6, dt.UTC)
QUICK = Ambient(sleep_s=lambda _: None)
TABLES = ("t", "u")
LOG = grown_log(0)
CHECKPOINT = FOLDER + LOG.checkpoints[-1][0]


def small_log(*, pruned: bool) -> MemoryStore:
    """The log of the corpus, in a store.

    Args:
        pruned: Only its last checkpoint is left of it, with its segments and their copies.
    """
    moment = [NOW]
    store = MemoryStore("small", now=lambda: moment[0])
    LOG.put_into(store)
    for path in LIVE:
        store.put(path, b"PAR1")
    if pruned:
        store.delete([key for key in log_keys(store) if key != CHECKPOINT])
        for key in (CHECKPOINT, *(SEGMENTS + piece.name for piece in LOG.state.pieces)):
            store.put(mirror_key(key), store.get(key))
    moment[0] += dt.timedelta(days=90)
    return store


def live_keys() -> set[str]:
    """Keys of the live data files."""
    files = LOG.copy().files
    return {"w/db/" + path for table in TABLES for path in files.table(table)["path"].to_pylist()}


LIVE = live_keys()


@dataclass
class Answers:
    """What a log said.

    Attributes:
        parts: By what was asked: the answer, or the error.
        warned: What was warned of, as text, by the type of the warning.
        report: What a check of the log says.
    """

    parts: dict[str, Any] = field(default_factory=dict)
    warned: dict[type, list[str]] = field(default_factory=dict)
    report: CheckReport | None = None

    @property
    def refused(self) -> set[str]:
        """What was answered by an error."""
        return {name for name, found in self.parts.items() if isinstance(found, LakelogError)}


def ask(store: MemoryStore) -> Answers:
    """Ask for each part, each from the beginning; what is no error of lakelog is raised."""
    found = Answers()
    with decoded_once(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, part in _parts(store).items():
            try:
                found.parts[name] = part()
            except LakelogError as error:
                found.parts[name] = error
        found.report = check(Catalog(store, ambient=QUICK), "db", level="log")
    for one in caught:
        if one.category in (CheckpointWarning, StatisticsWarning):
            found.warned.setdefault(one.category, []).append(str(one.message))
    return found


def _parts(store: MemoryStore) -> dict[str, Callable[[], Any]]:
    catalog = Catalog(store, ambient=QUICK)

    def rows(call: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: _in_order(call(catalog.snapshot("db")).to_pylist())

    def gc() -> str:
        later = FakeAmbient(now_us=START_US + 90 * 86_400_000_000)
        plan = plan_gc(store, "w", "db", ambient=later.ambient)
        assert not LIVE & {action.key for action in plan.actions}, "live files are deleted"
        return "no live file is deleted"

    def tables() -> list[str]:
        """The names of all tables; that only some can be listed is a refusal too."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            names = catalog.snapshot("db").tables()
        for item in said:
            if issubclass(item.category, TablesWarning):
                assert set(names) <= set(TRUTH["tables"])
                raise CorruptObject(str(item.message))
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
        return names

    def state() -> Any:
        return LogReader(store, "w", "db", QUICK).load()

    parts: dict[str, Callable[[], Any]] = {
        "head": lambda: catalog.snapshot("db").token,
        "tables": tables,
        "history": lambda: history_for_users(state().history.table(), "w").to_pylist(),
        "applications": lambda: state().applications.versions(),
        "all files": lambda: (state().files.count, state().files.tables()),
        "gc": gc,
    }
    for name in TABLES:
        parts |= {
            f"files {name}": rows(lambda s, n=name: s.files(n)),
            f"details {name}": rows(lambda s, n=name: s.files(n, details=True)),
            f"schema {name}": lambda n=name: str(catalog.snapshot("db").schema(n)),
            f"parts {name}": lambda n=name: _named(catalog.snapshot("db").file_parts(n)),
            f"statistics {name}": rows(lambda s, n=name: s.statistics(n)),
            f"group statistics {name}": rows(lambda s, n=name: s.statistics(n, row_groups=True)),
        }
    return parts


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["path"], row.get("column", ""), row.get("row_group")))


def _named(parts: Any) -> list[str]:
    return sorted(f"{part.key} {part.size_bytes} {part.row_count}" for part in parts)


TRUTH = ask(small_log(pruned=False)).parts


def damaged_answers(found: Answers, keys: set[str]) -> set[str]:
    """What was refused; all else is the truth, or part of it for statistics.

    Args:
        keys: The objects that may be named as damaged.
    """
    for name, answer in found.parts.items():
        if isinstance(answer, LakelogError):
            assert answer.exit_code == 5, (name, answer)
            assert any(key in f"{answer.key} {answer}" for key in keys), (name, str(answer))
        elif "statistics" in name:
            assert all(row in TRUTH[name] for row in answer), name
            if answer != TRUTH[name]:
                text = " ".join(found.warned.get(StatisticsWarning, ()))
                assert any(key in text for key in keys), name
        else:
            assert answer == TRUTH[name], name
    assert found.report is not None
    if found.refused or found.warned:
        named = " ".join(f"{item.object} {item.problem}" for item in found.report.findings)
        assert any(key in named for key in keys), named
    return found.refused


def copies(store: MemoryStore, key: str) -> list[str]:
    """Where an object of the log lies: its key, and that of its copy if it has one."""
    return [one for one in (key, mirror_key(key)) if store.get_many([one])[0] is not None]


LOOSE = Loose.of_checkpoint(LOG.checkpoints[-1][1], CHECKPOINT, LOG.segments)


def put(store, body, objects):
    """Write a checkpoint in the place of the last one, and of its copy; returns the keys that may
    be named."""
    for key in copies(store, CHECKPOINT):
        store.put(key, body)
    for name, one in objects.items():
        store.put(SEGMENTS + name, one)
    return {CHECKPOINT, *(SEGMENTS + name for name in objects)}


def judge(*, pruned, spill, lie=lambda rows: None, table=lambda rows: rows, loose=None):
    """What is refused of the log with such a checkpoint."""
    body, objects = (loose or LOOSE.copy()).build(spill=spill, lie=lie, table=table)
    store = small_log(pruned=pruned)
    keys = put(store, body, objects)
    found = ask(store)
    refused = damaged_answers(found, keys)
    if not pruned:  # the transactions and a checkpoint below give all that this one doesn't
        assert refused <= {"gc"}
    return refused, found
