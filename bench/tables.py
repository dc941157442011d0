"""Catalogs of any size without any data: the same synthetic files in lakelog and in the peer.

Both get the same entries of path, size, rows and statistics of four columns; no Parquet exists.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from lakelog.catalog.catalog import open_catalog
from lakelog.catalog.commit.writer import Writer
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import numbered
from lakelog.testing.servers import moto_server

# The peer comes compiled, as whatever pip installs does; a fresh process of ours shall, too.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("temp", pa.float64()),
        ("name", pa.string()),
    ]
)
ENCODED = encode_schema(numbered(SCHEMA))
START_US = 1_700_000_000_000_000
STEP = 50_000


def digits(number: int) -> str:
    """32 hex digits that look random."""
    return f"{(number * 2654435761 + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"


def path(number: int, suffix: str = "", *, table: str = "t", partition: str = "2026-11") -> str:
    return f"data/{partition}/{table}/1-{digits(number)}-{number}{suffix}.parquet"


def schema_action(table: str = "t") -> wire.Action:
    item = wire.Schema(table=table, fingerprint=ENCODED.fingerprint, arrow_schema=ENCODED.message)
    return wire.Action(schema=item)


def add_action(
    number: int, suffix: str = "", *, table: str = "t", partition: str = "2026-11"
) -> wire.Action:
    add = wire.Add(
        path=path(number, suffix, table=table, partition=partition),
        table=table,
        partition=partition,
        size_bytes=1_000_000 + number % 1000,
        row_count=1000,
        schema_fingerprint=ENCODED.fingerprint,
        first_clock=number,
        last_clock=number,
        footer_bytes=900,
        footer_digest=bytes.fromhex(digits(number)[:16]),
    )
    group = add.row_groups.add(row_count=1000)
    bounds = (
        (struct.pack("<q", number), struct.pack("<q", number + 999)),
        (struct.pack("<q", START_US + number), struct.pack("<q", START_US + number + 999)),
        (struct.pack("<d", number * 0.5), struct.pack("<d", number * 0.5 + 30)),
        (b"station-%07d" % number, b"station-%07d" % (number + 9)),
    )
    for column, (low, high) in enumerate(bounds):
        group.columns.add(
            column=column, null_count=0, min=low, max=high, min_exact=True, max_exact=True
        )
    return wire.Action(add=add)


def commit(writer: Writer, actions: Sequence[wire.Action]) -> None:
    tx = writer.transaction()
    tx._intent.actions.extend(actions)
    tx.commit()


def lakelog_table(
    url: str,
    files: int,
    *,
    options: Mapping[str, object] | None = None,
    checkpoint: bool = True,
    tables: int = 1,
    partitions: int = 1,
    every: int = 0,
) -> Writer:
    """A log with so many files behind one checkpoint, open for writing.

    Args:
        tables: Among which the files are dealt out: `t`, `t1`, `t2` and so on.
        partitions: The same for partitions: `p0`, `p1` and so on; 1 for a single one.
        every: Commits between checkpoints of the writer that is given back.
    """
    writer = open_catalog(url, options).writer("w", "db", checkpoint_every=0)
    names = ["t", *(f"t{number}" for number in range(1, tables))]
    folders = [f"p{number}" for number in range(partitions)] if partitions > 1 else ["2026-11"]
    commit(writer, [schema_action(name) for name in names])
    for start in range(0, files, STEP):
        numbers = range(start, min(files, start + STEP))
        actions = [
            add_action(n, table=names[n % tables], partition=folders[n % partitions])
            for n in numbers
        ]
        commit(writer, actions)
    if checkpoint:
        writer.checkpoint()
    if not every:
        return writer
    writer.close()
    return open_catalog(url, options).writer("w", "db", checkpoint_every=every)


def delta_action(number: int, suffix: str = "", *, partition: str = ""):
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": 1000,
        "minValues": {
            "id": number,
            "at": "2023-11-14T22:13:20.000Z",
            "temp": number * 0.5,
            "name": f"station-{number:07d}",
        },
        "maxValues": {
            "id": number + 999,
            "at": "2023-11-14T22:13:21.000Z",
            "temp": number * 0.5 + 30,
            "name": f"station-{number + 9:07d}",
        },
        "nullCount": dict.fromkeys(SCHEMA.names, 0),
    }
    values = {"day": partition} if partition else {}
    return AddAction(
        path(number, suffix)[len("data/") :], 1_000_000 + number % 1000, values, START_US // 1000,
        True, json.dumps(stats),
    )  # fmt: skip


def delta_table(
    url: str,
    files: int,
    *,
    options: Mapping[str, str] | None = None,
    checkpoint: bool = True,
    own_options: Mapping[str, object] | None = None,
    partitions: int = 1,
):
    """The same in the peer. All commits after the first are written as the objects that it would
    write, which is a hundred times faster than to let it commit.

    Args:
        options: The peer's, for the store.
        own_options: Ours for the same store.
        partitions: Values of the column `day`, dealt out among the files; 1: there is none.
    """
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import create_table_with_add_actions

    schema, by, days = SCHEMA, None, [""]
    if partitions > 1:
        schema, by = SCHEMA.append(pa.field("day", pa.string())), ["day"]
        days = [f"p{number}" for number in range(partitions)]

    def actions(start: int) -> Iterator[object]:
        for n in range(start, min(files, start + STEP)):
            yield delta_action(n, partition=days[n % partitions])

    create_table_with_add_actions(
        url, Schema.from_arrow(schema), list(actions(0)), partition_by=by, storage_options=options
    )
    for start in range(STEP, files, STEP):
        delta_commit_by_hand(url, start // STEP, actions(start), own_options)
    table = DeltaTable(url, storage_options=options)
    if checkpoint:
        table.create_checkpoint()
    return DeltaTable(url, storage_options=options)


def delta_commit_by_hand(url: str, version: int, actions: Iterator, options=None) -> None:
    """One commit of the peer, written as the object that it would write."""
    from lakelog.store import open_store

    lines = []
    for action in actions:
        add = {
            "path": action.path,
            "size": action.size,
            "partitionValues": action.partition_values,
            "modificationTime": action.modification_time,
            "dataChange": True,
            "stats": action.stats,
        }
        lines.append(json.dumps({"add": add}))
    info = {"timestamp": START_US // 1000, "operation": "WRITE", "operationParameters": {}}
    lines.append(json.dumps({"commitInfo": info}))
    open_store(url, options).put(
        f"_delta_log/{version:020d}.json", "".join(line + "\n" for line in lines).encode()
    )


def delta_commits_by_hand(url: str, first: int, until: int, options=None) -> None:
    """The peer's commits `first` to `until`, of one file each."""
    for number in range(first, until):
        delta_commit_by_hand(url, number, iter([delta_action(number)]), options)


def delta_commit(table, actions) -> None:
    from deltalake import PostCommitHookProperties

    table.create_write_transaction(
        actions, "append", SCHEMA,
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False),
    )  # fmt: skip


@contextmanager
def places(where: Sequence[str], folder: str) -> Iterator[Mapping[str, tuple]]:
    """Where to measure: name to (function that gives a new URL, our options, the peer's)."""
    numbers = iter(range(10_000))
    found: dict[str, tuple] = {}
    if "local" in where:
        found["local"] = (lambda: f"{folder}/{next(numbers)}", None, None)
    if "moto" not in where:
        yield found
        return
    with moto_server() as server:
        bucket = server.make_bucket()
        bucket = bucket if "://" in bucket else f"s3://{bucket}"
        found["moto"] = (
            lambda: f"{bucket}/{next(numbers)}",
            server.storage_options,
            {
                "AWS_ENDPOINT_URL": server.endpoint_url,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            },
        )
        yield found


# Prepended to each script that `fresh` runs; it puts its results into `found`.
_BEFORE = """
import json, sys, time, importlib.util
began = time.perf_counter()
job, found = json.loads(sys.argv[1]), {}
assert importlib.util.find_spec("pandas"), "the figures are meant for where pandas is installed"
"""
# Not ru_maxrss: a child inherits that of the process that started it.
_AFTER = """
found["whole_s"] = time.perf_counter() - began
peak = next(l for l in open("/proc/self/status") if l.startswith("VmHWM"))
found["mb"] = int(peak.split()[1]) / 1024
found["pandas"] = "pandas" in sys.modules
print(json.dumps(found))
"""


def fresh(script: str, job: Mapping[str, object], times: int) -> list[dict]:
    """What a script tells, each time as the first and only thing that a process does; by time.

    Returns:
        Its `found` with `whole_s` (imports included, without Python's own start), `mb` (peak) and
        `pandas` (whether it was imported).
    """
    runs = []
    for _ in range(times):
        argv = [sys.executable, "-c", _BEFORE + script + _AFTER, json.dumps(job)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        runs.append(json.loads(done.stdout))
    return sorted(runs, key=lambda run: run.get("s", run["whole_s"]))


# What the kernel was asked to read: the second time, when nothing is imported any more (Linux).
_TWICE = """
def read():
    try:
        lines = open("/proc/self/io").read().split()
    except OSError:
        return 0, 0
    return int(lines[1]), int(lines[5])
for name in ("s", "again_s"):
    before, start, cpu = read(), time.perf_counter(), time.process_time()
    ask()
    found[name], found["cpu_s"] = time.perf_counter() - start, time.process_time() - cpu
    found["bytes"], found["reads"] = (now - then for now, then in zip(read(), before))
"""


def asked_twice(script: str, job: Mapping[str, object], times: int) -> dict:
    """The median of fresh processes that do the same twice; the first line of the script imports.

    Returns:
        `found` with `s` and `again_s`, and with `bytes`, `reads` and `cpu_s` of the second time;
        the last is the least of all processes.
    """
    imports, _, body = script.strip().partition("\n")
    function = f"{imports}\ndef ask():\n" + textwrap.indent(body, "    ")
    runs = fresh(function + _TWICE, job, times)
    return runs[len(runs) // 2] | {"cpu_s": min(run["cpu_s"] for run in runs)}


def timed(function, times: int) -> list[float]:
    """Seconds of each call, sorted."""
    taken = []
    for number in range(times):
        start = time.perf_counter()
        function(number)
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def percentile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    print(flush=True)
    row(*cells)
    row(*("---" for _ in cells))
