"""Writers, readers and `maintain --execute` in a loop, on one lake: `make soak-maintain`.

    python tests/maintenance/soak.py [--minutes 10] [--where local moto] [--writers 8]

Each is a process of its own. A writer notes each operation in a file before it begins and after it
is acknowledged; so a reader knows between which operations of each writer a cut must lie, and that
it holds exactly the rows of one of them. The job of maintenance is killed now and then, and taken
over. At the end every row is there once, all is sound, and no file is left that nobody needs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lakelog
import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import LakelogError, MaintenanceRunning
from lakelog.testing.servers import moto_server

DATABASE, TABLE = "db", "t"
ROWS = 5  # of an append
OF_A_WRITER = 10_000_000
POLICY = """\
keep_revisions = 3
checkpoint_after = 4
min_input_files = 4
check_parts = 8
[databases.db]
publish = "prod"
publish_keep_days = 0
"""
END = "keep_revisions = 1\ncheckpoint_after = 1\nmin_input_files = 2\ncheck_parts = 1\n"


class Job(NamedTuple):
    """What a process is told.

    Attributes:
        url, options: Of the lake.
        folder: Of the notes.
        floor_s: The prune floor; the grace of gc is twice that.
        seed: Of its random choices.
        pause_s: Of a writer between two operations, at most.
    """

    url: str
    options: dict | None
    folder: str
    floor_s: float
    seed: int
    pause_s: float

    def catalog(self) -> Catalog:
        margins = Margins(self.floor_s, 2 * self.floor_s, lease_s=self.floor_s)
        return Catalog(lakelog.open_catalog(self.url, self.options).store, margins=margins)

    def notes(self, writer: str) -> Path:
        return Path(self.folder, f"{writer}.jsonl")

    def is_over(self) -> bool:
        return Path(self.folder, "over").exists()


# --- Writers --------------------------------------------------------------------------------------


def write(job: Job, name: str) -> None:
    """Appends rows, and deletes some of its own; begins transactions and abandons them."""
    chance, catalog = random.Random(job.seed), job.catalog()
    base, there, version = int(name[1:]) * OF_A_WRITER, [], 0
    with job.notes(name).open("a") as notes, catalog.writer(name, DATABASE) as writer:
        while not job.is_over():
            version += 1
            new = [base + version * ROWS + n for n in range(ROWS)]
            gone = chance.sample(there, min(3, len(there))) if chance.random() < 0.3 else []
            note(notes, {"begun": version, "new": [] if gone else new, "gone": gone})
            commit(job, writer, version, new, gone)
            note(notes, {"done": version})
            there = [one for one in there if one not in gone] + ([] if gone else new)
            if chance.random() < 0.1:
                abandoned = writer.transaction()  # as a process leaves it that dies here
                abandoned.write(TABLE, pa.table({"id": [-1], "w": [name]}))
            time.sleep(chance.random() * job.pause_s)


def note(notes, record) -> None:
    notes.write(json.dumps(record) + "\n")
    notes.flush()


def commit(job: Job, writer, version: int, new, gone) -> None:
    """Commits an operation exactly once, however often it takes."""
    deadline = time.monotonic() + 20 * job.floor_s
    while True:
        try:
            with writer.transaction(app_id="soak", app_version=version) as tx:
                if gone:
                    tx.delete(TABLE, f"id in ({', '.join(map(str, gone))})")
                else:
                    tx.write(TABLE, pa.table({"id": new, "w": [writer.writer_id] * len(new)}))
            return
        except LakelogError as error:
            if time.monotonic() > deadline:
                raise
            print(f"{writer.writer_id} again: {type(error).__name__}: {error.message}", flush=True)


# --- What a writer did ----------------------------------------------------------------------------


class Known:
    """What a writer has noted: the rows after each of its operations."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_bytes = 0
        self.sets: list[frozenset[int]] = [frozenset()]
        self.done = 0

    def read(self) -> tuple[int, int]:
        """Returns how many operations were acknowledged, and how many begun, by now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self.read_bytes)
                whole = file.read().rpartition(b"\n")[0]
            self.read_bytes += len(whole) + bool(whole)
            for line in whole.splitlines():
                record = json.loads(line)
                if "done" in record:
                    self.done = record["done"]
                else:
                    self.sets.append((self.sets[-1] - {*record["gone"]}) | {*record["new"]})
        return self.done, len(self.sets) - 1


# --- Readers --------------------------------------------------------------------------------------


def read(job: Job, name: str) -> None:
    """Reads the newest cut, one that was published, and one again that it has read before."""
    catalog = job.catalog()
    known = {path.stem: Known(path) for path in sorted(Path(job.folder).glob("w*.jsonl"))}
    kept: tuple[str, float, list[int]] | None = None
    cuts = 0
    while not job.is_over():
        before = {writer: one.read()[0] for writer, one in known.items()}
        began_s = time.monotonic()
        try:
            snapshot = catalog.snapshot(DATABASE)
            rows = snapshot.to_arrow(TABLE, ["id"])["id"].to_pylist()
        except LakelogError:
            if time.monotonic() - began_s < job.floor_s:
                raise
            continue  # it took longer than files and log are left alone for
        after = {writer: one.read()[1] for writer, one in known.items()}
        compare(rows, known, before, after)
        cuts += 1
        if cuts == 1:
            print(f"{name} begins", flush=True)
        if kept is not None:
            token, since_s, expected = kept
            again = read_at(catalog, token, since_s + job.floor_s)
            assert again is None or again == expected, "a token was read as something else"
        if cuts % 3 == 0:
            kept = snapshot.token, began_s, sorted(rows)
            published = read_at(catalog, "@prod", began_s + job.floor_s)
            if published is not None:
                now = {writer: one.read()[1] for writer, one in known.items()}
                compare(published, known, dict.fromkeys(known, 0), now)
        time.sleep(0.1)
    print(f"{name}: {cuts} cuts", flush=True)
    assert cuts, "no cut was read"


def read_at(catalog: Catalog, at: str, until_s: float) -> list[int] | None:
    """The ids at a point in time; None where it may be gone: before it was published, or later."""
    try:
        found = catalog.snapshot(DATABASE, at).to_arrow(TABLE, ["id"])["id"].to_pylist()
    except lakelog.errors.TagNotFound:
        return None
    except LakelogError:
        if time.monotonic() < until_s and not at.startswith("@"):
            raise
        return None
    return sorted(found)


def compare(rows, known, before, after) -> None:
    """Checks that the rows of each writer are those after one of its operations."""
    assert len(rows) == len(set(rows)), "a row is there twice"
    assert -1 not in rows, "a row that was never committed"
    by_writer: dict[str, set[int]] = {writer: set() for writer in known}
    for one in rows:
        by_writer[f"w{one // OF_A_WRITER}"].add(one)
    for writer, found in by_writer.items():
        possible = known[writer].sets[before[writer] : after[writer] + 1]
        if found not in possible:
            lost, more = possible[-1] - found, found - possible[-1]
            raise AssertionError(
                f"{writer}: no cut between {before[writer]} and {after[writer]}: lacks {len(lost)} "
                f"rows ({sorted(lost)[:5]}), has {len(more)} more ({sorted(more)[:5]})"
            )


# --- Maintenance ----------------------------------------------------------------------------------


def maintain(job: Job, name: str) -> None:
    """Runs the job in a loop; what fails ends it."""
    catalog, runs = job.catalog(), 0
    while not job.is_over():
        try:
            report = catalog.maintain(policy=POLICY, execute=True)
        except MaintenanceRunning:  # the one before was killed, and its lease has not ended
            time.sleep(0.2)
            continue
        runs += 1
        done = {row.step: row.files_before for row in report.rows if row.status == "done"}
        print(f"{name}: {report.seconds:.1f} s, {done}", flush=True)
        for row in report.failed:
            # On a machine that is busy a commit may take longer than this lake's short margins.
            late = row.error == "TransactionExpired" or "took too long" in row.message
            assert late, f"{row.step}: {row.message}"
        time.sleep(0.2)
    print(f"{name}: {runs} runs", flush=True)


# --- All of them ----------------------------------------------------------------------------------

ROLES = {"writer": write, "reader": read, "maintain": maintain}


def started(role: str, name: str, job: Job) -> subprocess.Popen:
    argv = [sys.executable, __file__, "--role", role, "--name", name, "--job", json.dumps(job)]
    with Path(job.folder, f"{role}-{name}.txt").open("a") as output:
        return subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)


def printed(job: Job, role: str, name: str) -> str:
    return Path(job.folder, f"{role}-{name}.txt").read_text()


def soak(
    url: str, options, folder: str, *, seconds: float, floor_s: float, writers: int = 8,
    readers: int = 2, kill_every_s: float = 15.0, seed: int = 1,
    pause_s: float = 0.2,
) -> str:  # fmt: skip
    """Runs all of it; returns figures. Raises `AssertionError` if anything is wrong."""
    job = Job(url, options, folder, floor_s, seed, pause_s)
    names = [f"w{number}" for number in range(1, writers + 1)]
    for name in names:
        job.notes(name).touch()
    running = {("writer", n): started("writer", n, job._replace(seed=seed + i))
               for i, n in enumerate(names)}  # fmt: skip
    while not all(Known(job.notes(name)).read()[0] for name in names):
        assert all(one.poll() is None for one in running.values()), output_of(job, running)
        time.sleep(0.1)
    running |= {("reader", f"r{n}"): started("reader", f"r{n}", job) for n in range(readers)}
    running["maintain", "m"] = started("maintain", "m", job)
    while not all("begins" in printed(job, "reader", f"r{n}") for n in range(readers)):
        assert all(one.poll() is None for one in running.values()), output_of(job, running)
        time.sleep(0.1)
    killed, runs, next_kill_s = 0, 0, time.monotonic() + kill_every_s
    end_s = time.monotonic() + seconds
    try:
        while any(one.poll() is None for one in running.values()):
            assert not any(one.poll() for one in running.values()), output_of(job, running)
            if time.monotonic() > end_s:
                Path(folder, "over").touch()
            elif time.monotonic() > next_kill_s and runs_of(job) > runs:
                running["maintain", "m"].send_signal(signal.SIGKILL)
                running["maintain", "m"].wait()
                running["maintain", "m"] = started("maintain", "m", job)
                runs = runs_of(job)
                killed, next_kill_s = killed + 1, time.monotonic() + kill_every_s
            time.sleep(0.1)
    finally:
        for one in running.values():
            one.kill()
            one.wait()
    assert not any(one.returncode for one in running.values()), output_of(job, running)
    runs = runs_of(job)
    assert runs, "no job of maintenance came to its end"
    return f"{final(job, names)}; {runs} runs of maintain, {killed} killed"


def runs_of(job: Job) -> int:
    """How many jobs of maintenance have ended."""
    return printed(job, "maintain", "m").count(" s, {")


def output_of(job: Job, running) -> str:
    bad = [key for key, one in running.items() if one.poll()]
    return "\n".join(f"--- {role} {name}\n{printed(job, role, name)[-3000:]}" for role, name in bad)


def final(job: Job, names) -> str:
    """What must hold at the end: every row once, all sound, and nothing left that nobody needs."""
    catalog, known = job.catalog(), {name: Known(job.notes(name)) for name in names}
    operations = {name: one.read()[1] for name, one in known.items()}
    rows = catalog.snapshot(DATABASE).to_arrow(TABLE, ["id"])["id"].to_pylist()
    compare(rows, known, {n: one.done for n, one in known.items()}, operations)
    if any(ref.name == "prod" for ref in catalog.tags()):
        catalog.untag("prod")
    deadline_s = time.monotonic() + 60
    while True:
        try:
            report = catalog.maintain(policy=END, execute=True)
            break
        except MaintenanceRunning:  # the last one was killed, perhaps
            assert time.monotonic() < deadline_s
            time.sleep(0.5)
    assert not report.failed, report.describe()
    time.sleep(2 * job.floor_s + 1)  # what was rewritten, or abandoned, is old enough then
    report = catalog.maintain(policy=END, execute=True)
    assert not report.failed, report.describe()
    snapshot = catalog.snapshot(DATABASE)
    assert sorted(snapshot.to_arrow(TABLE, ["id"])["id"].to_pylist()) == sorted(rows)
    checked = catalog.check(DATABASE, level="data")
    assert checked.is_sound, checked.findings
    live = {
        f"{row['writer']}/{DATABASE}/{row['path']}" for row in snapshot.files(TABLE).to_pylist()
    }
    there = {
        info.key
        for name in names
        for info in catalog.store.list(f"{name}/{DATABASE}/data/")
        if info.key.endswith(".parquet")
    }
    assert there == live, f"orphans are left: {sorted(there - live)[:5]}"
    return f"{len(rows):,} rows, {sum(operations.values()):,} operations, {len(live)} files"


@contextmanager
def place(where: str, folder: str):
    """A lake to work on: its URL and options."""
    if where == "local":
        yield f"{folder}/lake", None
    else:
        with moto_server() as server:
            yield f"s3://{server.make_bucket()}/lake", server.storage_options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--where", nargs="+", default=["local", "moto"], choices=["local", "moto"])
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        ROLES[args.role](Job(*json.loads(args.job)), args.name)
        return
    for where in args.where:
        # One Python process serves all of moto's requests.
        floor_s, pause_s = {"local": (10.0, 0.2), "moto": (30.0, 2.0)}[where]
        with tempfile.TemporaryDirectory() as folder, place(where, folder) as (url, options):
            found = soak(
                url, options, folder, seconds=60 * args.minutes, floor_s=floor_s,
                writers=args.writers, kill_every_s=60.0, seed=args.seed, pause_s=pause_s,
            )  # fmt: skip
        print(f"{where}: {found}", flush=True)


if __name__ == "__main__":
    main()
