"""Catalogs that lakelog's own writers make of random commits, and what may befall their objects."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from fixture_catalog import dump
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet
from lakelog.catalog.log import build, checkpoint_files
from lakelog.errors import SchemaConflict, TableNotFound, UsageError
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DATABASE = "weather"
KINDS: list[pa.DataType] = [
    pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(),
    pa.float64(), pa.string(), pa.binary(), pa.decimal128(7, 2), pa.date32(), pa.time32("s"),
    pa.time64("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.list_(pa.int32()),
    pa.struct([("x", pa.int8())]), pa.duration("s"), pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip
SAFE: dict[str, list[pa.DataType]] = {  # types of one column that have a common one
    "a": [pa.int16(), pa.int32(), pa.int64()],
    "b": [pa.float32(), pa.float64(), pa.int8()],
    "c": [pa.string()],
    "d": [pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")],
}


def random_column(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    """Values that make interesting statistics: nulls, NaN, both zeros, long text."""
    numbers = [rng.choice([0, 1, 2, 3, 5, 100]) for _ in range(rows)]
    values: list[Any] = list(numbers)
    types = pa.types
    if types.is_floating(kind):
        special = [float("nan"), 0.0, -0.0, float("inf"), -1.5]
        values = [rng.choice([*special, float(n)]) for n in numbers]
    elif types.is_string(kind) or types.is_dictionary(kind):
        values = [rng.choice(["", "é" * n, "x" * (n * 30), "\U0010ffff" * n]) for n in numbers]
    elif types.is_binary(kind):
        values = [rng.choice([b"", b"\xff" * n, bytes([n]) * 70]) for n in numbers]
    elif types.is_list(kind):
        values = [[n] * (n % 3) for n in numbers]
    elif types.is_struct(kind):
        values = [{"x": n} for n in numbers]
    elif types.is_boolean(kind):
        values = [n > 2 for n in numbers]
    chance = rng.choice([0.0, 0.3, 1.0])
    values = [None if rng.random() < chance else value for value in values]
    if types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).cast(kind)
    return pa.array(values, kind)


def random_data(rng: random.Random, table: str) -> pa.Table:
    """A few rows: of `safe` tables in types that unite, of others in any."""
    rows = rng.randint(1, 9)
    names = rng.sample(["a", "b", "c", "d"], rng.randint(1, 4))
    fields, columns = [], []
    for name in names:
        kind = rng.choice(SAFE[name] if table == "safe" else KINDS)
        fields.append(pa.field(name, kind))
        columns.append(random_column(rng, kind, rows))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def random_change(rng: random.Random) -> dict[str, Any]:
    """What is to become of columns that may be there."""
    name, other = rng.sample(["a", "b", "c", "d", "e"], 2)
    kind, value = rng.choice(
        [
            (pa.int16(), 5), (pa.string(), "é"), (pa.float64(), -0.5), (pa.bool_(), True),
            (pa.uint64(), 1 << 63), (pa.date32(), dt.date(2024, 2, 29)), (pa.binary(), b"\xff"),
            (pa.decimal128(5, 2), Decimal("-1.25")), (pa.timestamp("us", "UTC"), None),
        ]
    )  # fmt: skip
    return rng.choice(
        [
            {"drop": [name]},
            {"rename": {name: other}},
            {"rename": {name: other, other: name}},
            {"drop": [name], "add": {name: kind}, "default": {name: value}},
            {"add": {other: kind}, "default": {other: value}},
            {"widen": {name: rng.choice([pa.int64(), pa.float64(), pa.timestamp("us", "UTC")])}},
            {"order": [name]},
        ]
    )


def random_commit(rng: random.Random, writer: Any, live: list[tuple[str, str]]) -> None:
    """One transaction of some writes and removes."""
    app = (
        {"app_id": rng.choice("xy"), "app_version": rng.randint(0, 5)} if rng.random() < 0.3 else {}
    )
    summary = {rng.choice("kl"): str(rng.random())} if rng.random() < 0.3 else None
    with writer.transaction(**app, summary=summary) as tx:
        added: list[str] = []
        for _ in range(rng.randint(1, 4)):
            if live and rng.random() < 0.35:
                tx.remove(live.pop(rng.randrange(len(live))))
            else:
                table = rng.choice(["safe", "safe", "any", "t/ä%"])
                partition = rng.choice(["", "", "_", "2013/01", "..", "é"])
                data = random_data(rng, table)
                size = rng.choice([1, 1 << 20])  # some writes make several files
                with suppress(SchemaConflict):  # columns that were dropped or renamed
                    added += tx.write(
                        table, data, partition=partition, file_bytes=size, on_conflict="allow"
                    )
        if rng.random() < 0.35:
            with suppress(SchemaConflict, UsageError, TableNotFound):  # what can't be
                tx.evolve(rng.choice(["safe", "safe", "any"]), **random_change(rng))
    if tx.commit_info is not None and not tx.commit_info.skipped:
        live += added


def random_delete(rng: random.Random, writer: Any) -> None:
    """Rows of a table go, in any mode; whole files too."""
    where = rng.choice(["a >= 3", "a < 2", "a = 0", "c = ''", "c >= 'x'", "c < 'x'"])
    with suppress(SchemaConflict, UsageError, TableNotFound), writer.transaction() as tx:
        tx.delete("safe", where, mode=rng.choice(["auto", "predicate", "rows", "rows"]))


def live_paths(catalog: Catalog) -> set[str]:
    snapshot = catalog.snapshot(DATABASE)
    return {path for t in snapshot.tables() for path in snapshot.files(t)["path"].to_pylist()}


def random_catalog(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog of one or two writers with some ten commits each."""
    rng = random.Random(seed)
    fake = FakeAmbient(seed)
    store = MemoryStore(f"history {seed}")
    catalog = Catalog(store, ambient=fake.ambient)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", rng.choice([1, 3, 1 << 20]))
    live: dict[str, list[str]] = {}
    for _ in range(rng.randint(1, 4)):
        name = rng.choice(["EWR", "JFK"])
        monkeypatch.setattr(build, "BATCH_FROM_FILES", rng.choice([0, 256]))
        monkeypatch.setattr(checkpoint_files, "SPILL_FROM_BYTES", rng.choice([0, 4_000, 1 << 20]))
        every = rng.choice([0, 2, 5])
        shared = rng.random() < 0.3
        with catalog.writer(name, DATABASE, shared=shared, checkpoint_every=every) as writer:
            for _ in range(rng.randint(1, 4)):
                random_commit(rng, writer, live.setdefault(name, []))
                if rng.random() < 0.4:
                    random_delete(rng, writer)
                    left = live_paths(catalog)
                    live[name] = [path for path in live[name] if path in left]
                fake.move(rng.choice([0, 0.5, 60]))
            if rng.random() < 0.3:
                writer.checkpoint()
    dump(store, root)
    return Catalog(open_store(str(root)), ambient=fake.ambient)


def damage(root: Path, writer: str, rng: random.Random) -> str:
    """Something that happens to the objects of a log, and what."""
    folder = root / writer / DATABASE / "transactions"
    segments = root / writer / DATABASE / "segments"
    items = sorted(folder.iterdir())
    if segments.is_dir() and rng.random() < 0.3:
        items = sorted(segments.iterdir()) or items
    if not items:
        return "nothing left"
    victim = rng.choice(items)
    what = rng.randrange(5)
    if what == 0:
        victim.unlink()
        return f"{victim.name} gone"
    if what == 1 and victim.stat().st_size:
        body = bytearray(victim.read_bytes())
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        victim.write_bytes(body)
        return f"{victim.name} with a bit turned"
    if what == 2:
        victim.write_bytes(victim.read_bytes()[: rng.randrange(100)])
        return f"{victim.name} cut"
    if what == 3 and victim.suffix != ".segment":  # a sibling: a fork
        number, _, rest = victim.name.split(".", 2)
        shutil.copy(victim, folder / f"{number}.{rng.randrange(1 << 32):08x}.{rest}")
        return f"{victim.name} forked"
    for path in list(folder.iterdir()):  # pruned up to here: names descend
        if path.name > victim.name and path.suffix == ".transaction":
            path.unlink()
    return f"pruned below {victim.name}"
