"""Catalogs of any size without any data: the same synthetic files in lakelog and in the peer.

Both get a million entries of path, size, rows and statistics of four columns; no Parquet exists.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from lakelog.catalog.catalog import open_catalog
from lakelog.catalog.commit.writer import Writer
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.servers import moto_server

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("temp", pa.float64()),
        ("name", pa.string()),
    ]
)
MARK, MESSAGE = encode_schema(SCHEMA)
START_US = 1_700_000_000_000_000
STEP = 50_000


def path(number: int, suffix: str = "") -> str:
    return f"data/2026-11/t/1-{number * 2654435761 % (1 << 128):032x}-{number}{suffix}.parquet"


def add_action(number: int, suffix: str = "") -> wire.Action:
    add = wire.Add(
        path=path(number, suffix),
        table="t",
        partition="2026-11",
        size_bytes=1_000_000 + number % 1000,
        row_count=1000,
        schema_fingerprint=MARK,
        first_clock=number,
        last_clock=number,
        footer_bytes=900,
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
    url: str, files: int, *, options: Mapping[str, object] | None = None, checkpoint: bool = True
) -> Writer:
    """A log with so many files behind one checkpoint, open for writing."""
    writer = open_catalog(url, options).writer("w", "db", checkpoint_every=0)
    schema = wire.Action(schema=wire.Schema(table="t", fingerprint=MARK, arrow_schema=MESSAGE))
    commit(writer, [schema])
    for start in range(0, files, STEP):
        commit(writer, [add_action(n) for n in range(start, min(files, start + STEP))])
    if checkpoint:
        writer.checkpoint()
    return writer


def delta_action(number: int, suffix: str = ""):
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
    return AddAction(
        path(number, suffix)[len("data/") :], 1_000_000 + number % 1000, {}, START_US // 1000, True,
        json.dumps(stats),
    )  # fmt: skip


def delta_table(
    url: str, files: int, *, options: Mapping[str, str] | None = None, checkpoint: bool = True
):
    """The same in the peer."""
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(
        url,
        Schema.from_arrow(SCHEMA),
        [delta_action(n) for n in range(min(files, STEP))],
        storage_options=options,
    )
    for start in range(STEP, files, STEP):
        table = DeltaTable(url, storage_options=options)
        delta_commit(table, [delta_action(n) for n in range(start, min(files, start + STEP))])
    table = DeltaTable(url, storage_options=options)
    if checkpoint:
        table.create_checkpoint()
    return DeltaTable(url, storage_options=options)


def delta_commits_by_hand(url: str, first: int, until: int, options=None) -> None:
    """The peer's commits `first` to `until`, written as the objects that it would write: letting it
    commit ten thousand times itself takes longer than all the rest."""
    from lakelog.store import open_store

    store = open_store(url, options)
    for number in range(first, until):
        action = delta_action(number)
        add = {
            "path": action.path,
            "size": action.size,
            "partitionValues": {},
            "modificationTime": action.modification_time,
            "dataChange": True,
            "stats": action.stats,
        }
        info = {"timestamp": START_US // 1000, "operation": "WRITE", "operationParameters": {}}
        body = json.dumps({"add": add}) + "\n" + json.dumps({"commitInfo": info}) + "\n"
        store.put(f"_delta_log/{number:020d}.json", body.encode())


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
