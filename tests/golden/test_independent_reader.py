"""A reader written from docs/format.md alone agrees with lakelog: the text is enough."""

from __future__ import annotations

import ast
import base64
import datetime as dt
import json
import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import independent_reader as theirs
import independent_table
import pyarrow as pa
import pytest
from independent_segments import plain_column
from independent_wire import Refused, TooNew
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet
from lakelog.catalog.data.unify import FileSchema, unify, widen
from lakelog.catalog.format.cut import parse_token
from lakelog.catalog.format.schema import generation
from lakelog.catalog.log import build, checkpoint
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.wire import lakelog_cut_pb2 as wire
from lakelog.errors import (
    CorruptError,
    InvalidToken,
    LakelogError,
    NotFoundError,
    UnsupportedFeature,
)
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from make_fixtures import dump

if TYPE_CHECKING:
    from independent_state import State as TheirState
    from lakelog.catalog.log.state import State

GOLDEN = Path(__file__).parents[2] / "fixtures" / "v1"
HERE = Path(__file__).parent
HISTORIES = 50
DATABASE = "weather"


# --- Both, in one form ----------------------------------------------------------------------------


def ours_told(state: State) -> dict[str, Any]:
    """A state of lakelog as plain values."""
    files: dict[str, Any] = {}
    for table, found in state.tables.items():
        schemas = state.arrow_schemas(table)
        for row in rows_of(found.table(schemas)):
            path = row.pop("path")
            files[path] = {"table": table, **row, "groups": []}
        groups = sorted(
            rows_of(found.row_groups_table(schemas)), key=lambda g: (g["path"], g["row_group"])
        )
        for row in groups:
            path = row.pop("path")
            files[path]["groups"].append({**row, "row_group": None})
    history = state.history.table()
    times = history.column("committed_at").cast(pa.int64()).to_pylist()
    rows = history.drop_columns("committed_at").to_pylist()
    return {
        "head": (state.revision, state.uuid, state.digest, state.epoch, state.committed_at_us),
        "features": (state.reader_features, state.writer_features),
        "apps": state.app_versions,
        "schemas": {
            mark: (entry.schema, list(entry.key), list(entry.sort_order), entry.revision)
            for mark, entry in state.schemas.items()
        },
        "files": files,
        "history": [
            {**row, "committed_at": at, "summary": json.loads(row["summary"] or "null")}
            for row, at in zip(rows, times, strict=True)
        ],
    }


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows without nulls, times as numbers."""
    columns = {name: plain_column(table.column(name)) for name in table.schema.names}
    return [
        {name: values[row] for name, values in columns.items() if values[row] is not None}
        for row in range(table.num_rows)
    ]


def theirs_told(state: TheirState) -> dict[str, Any]:
    """A state of the independent reader as plain values."""
    return {
        "head": (state.revision, state.uuid, state.digest, state.epoch, state.committed_at),
        "features": (state.reader_features, state.writer_features),
        "apps": state.app_versions,
        "schemas": {
            mark: (entry["schema"], entry["key"], entry["sort_order"], entry["revision"])
            for mark, entry in state.schemas.items()
        },
        "files": {
            path: {
                "table": file.table,
                **file.facts,
                **file.statistics,
                "groups": [
                    {"row_count": rows, **known, "row_group": None} for rows, known in file.groups
                ],
            }
            for path, file in state.files.items()
        },
        "history": state.history,
    }


def assert_logs_agree(root: Path, writer: str) -> int:
    """Both read the same at every revision, or both refuse; returns how many could be read."""
    log = LogReader(open_store(str(root)), writer, DATABASE, FakeAmbient().ambient)
    read = 0
    for revision in range(log.names().head + 2):
        expected = outcome(lambda revision=revision: ours_told(log.load(revision)))
        found = outcome(lambda revision=revision: told_at(root, writer, revision))
        assert found == expected, (writer, revision)
        replay = outcome(lambda revision=revision: told_at(root, writer, revision, False))
        if isinstance(expected, dict):
            read += 1
            assert replay == expected or isinstance(replay, str), (writer, revision)
    return read


def told_at(root: Path, writer: str, revision: int, checkpoints: bool = True) -> dict[str, Any]:
    """What the independent reader says."""
    state = theirs.read_log(root, writer, DATABASE, revision, checkpoints=checkpoints)
    return theirs_told(state)


def outcome(read: Any) -> dict[str, Any] | str:
    """What a reader says, or how it refuses."""
    try:
        found: dict[str, Any] = read()
    except (UnsupportedFeature, TooNew):
        return "too new"
    except (LakelogError, Refused):
        return "refused"
    return found


def assert_rows_agree(catalog: Catalog, root: Path, as_of: Any = None) -> None:
    """Both give the same rows of every table at a cut."""
    snapshot = catalog.snapshot(DATABASE, as_of)
    states = theirs.read_token(root, snapshot.token)
    assert {s.writer: s.revision for s in states} == dict(snapshot.cut.revisions)
    for table in snapshot.tables():
        try:
            expected: Any = snapshot.to_arrow(table)
        except LakelogError:
            with pytest.raises(Refused):
                independent_table.rows(root, states, table)
            continue
        found = independent_table.rows(root, states, table)
        assert found.schema.equals(expected.schema), table
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), table  # NaN is NaN there


# --- The golden catalog ---------------------------------------------------------------------------


def test_it_imports_nothing_of_lakelog() -> None:
    sources = sorted(HERE.glob("independent_*.py"))
    assert len(sources) == 5
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                own = top.startswith("independent_") or top in ("pyarrow", "__future__")
                assert own or top in sys.stdlib_module_names, (source.name, name)


@pytest.mark.filterwarnings("error")
def test_it_agrees_on_the_golden_catalog() -> None:
    root = GOLDEN / "catalog"
    assert theirs.writers(root, DATABASE) == ["EWR", "JFK"]
    assert theirs.writers(root, "other") == []
    assert assert_logs_agree(root, "EWR") == 7
    assert assert_logs_agree(root, "JFK") == 3
    catalog = Catalog(open_store(str(root)))
    for told in json.loads((GOLDEN / "catalog.json").read_text()):
        assert_rows_agree(catalog, root, told["token"])
        states = theirs.read_token(root, told["token"])
        for table, expected in told["tables"].items():
            files = [
                {"writer": s.writer, "path": path, "partition": file.facts["partition"]}
                for s in states
                for path, file in sorted(s.files.items())
                if file.table == table
            ]
            assert files == [
                {k: f[k] for k in ("writer", "path", "partition")} for f in expected["files"]
            ]


def test_it_reads_the_golden_chain_as_lakelog_does(tmp_path: Path) -> None:
    folder = tmp_path / "EWR" / DATABASE / "transactions"
    folder.mkdir(parents=True)
    for path in (GOLDEN / "objects").glob("*/0*"):
        if path.suffix != ".json" and "refused" not in path.parent.name:
            shutil.copy(path, folder)
    assert assert_logs_agree(tmp_path, "EWR") == 7
    for case in ("refused-action", "refused-feature"):
        (path,) = (GOLDEN / "objects" / case).glob("*.transaction")
        shutil.copy(path, folder)
        assert outcome(lambda: told_at(tmp_path, "EWR", 7)) == "too new"
        assert assert_logs_agree(tmp_path, "EWR") == 7


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, HERE / "independent_reader.py", GOLDEN / "catalog", "EWR", DATABASE]
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["revision"] == 0
    assert [file["row_count"] for file in told["files"]] == [3]
    assert told["files"][0]["statistics"]["min:double:temp"] == -2.0


# --- Random histories -----------------------------------------------------------------------------

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
        born = rng.choice([0, 0, 0, 1, 2]) if name == "c" else 0
        metadata = {"lakelog.generation": str(born)} if born else None
        fields.append(pa.field(name, kind, metadata=metadata))
        columns.append(random_column(rng, kind, rows))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def random_commit(rng: random.Random, writer: Any, live: list[str]) -> None:
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
                added += tx.write(table, data, partition=partition, file_bytes=size)
    if tx.commit_info is not None and not tx.commit_info.skipped:
        live += added


def random_history(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog of one or two writers with some ten commits each."""
    rng = random.Random(seed)
    fake = FakeAmbient(seed)
    store = MemoryStore(f"history {seed}")
    catalog = Catalog(store, ambient=fake.ambient)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", rng.choice([1, 3, 1 << 20]))
    live: dict[str, list[str]] = {}
    for _ in range(rng.randint(1, 5)):
        name = rng.choice(["EWR", "JFK"])
        monkeypatch.setattr(build, "BATCH_FROM_FILES", rng.choice([0, 256]))
        monkeypatch.setattr(checkpoint, "SPILL_FROM_BYTES", rng.choice([0, 4_000, 1 << 20]))
        every = rng.choice([0, 2, 5])
        shared = rng.random() < 0.3
        with catalog.writer(name, DATABASE, shared=shared, checkpoint_every=every) as writer:
            for _ in range(rng.randint(1, 5)):
                random_commit(rng, writer, live.setdefault(name, []))
                fake.move(rng.choice([0, 0.5, 60]))
            if rng.random() < 0.3:
                writer.checkpoint()
    dump(store, root)
    return Catalog(open_store(str(root)), ambient=fake.ambient)


def damage(root: Path, writer: str, rng: random.Random) -> None:
    """Something that happens to the objects of a log."""
    folder = root / writer / DATABASE / "transactions"
    victim = rng.choice(sorted(folder.iterdir()))
    what = rng.randrange(5)
    if what == 0:
        victim.unlink()
    elif what == 1:
        body = bytearray(victim.read_bytes())
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        victim.write_bytes(body)
    elif what == 2:
        victim.write_bytes(victim.read_bytes()[: rng.randrange(100)])
    elif what == 3:  # a sibling, so a fork; of a segment, just another name
        number, _, rest = victim.name.split(".", 2)
        shutil.copy(victim, folder / f"{number}.0000000f.{rest}")
    else:  # pruned up to here
        for path in list(folder.iterdir()):
            if path.name < victim.name and path.suffix == ".transaction":
                path.unlink()


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_it_agrees_on_random_histories(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = random_history(tmp_path, seed, monkeypatch)
    rng = random.Random(-seed - 1)
    writers = catalog.writers(DATABASE)
    assert theirs.writers(tmp_path, DATABASE) == writers
    heads = {writer: theirs.read_log(tmp_path, writer, DATABASE).revision for writer in writers}
    for writer, head in heads.items():
        assert assert_logs_agree(tmp_path, writer) == head + 1
    assert_rows_agree(catalog, tmp_path)
    for _ in range(3):
        cut = {writer: rng.randint(0, head) for writer, head in heads.items()}
        assert_rows_agree(catalog, tmp_path, cut)
    assert_times_agree(catalog, tmp_path, rng)
    for writer in writers:
        damage(tmp_path, writer, rng)
        assert_logs_agree(tmp_path, writer)


def assert_times_agree(catalog: Catalog, root: Path, rng: random.Random) -> None:
    """Both find the same revisions at points in time."""
    states = [theirs.read_log(root, writer, DATABASE) for writer in theirs.writers(root, DATABASE)]
    times = [row["committed_at"] for state in states for row in state.history]
    for at_us in rng.sample(times, min(4, len(times))):
        for moved in (at_us - 1, at_us):
            at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=moved)
            found = {state.writer: theirs.revision_at(state, moved) for state in states}
            known = {writer: r for writer, r in found.items() if r is not None}
            try:
                assert dict(catalog.snapshot(DATABASE, at).cut.revisions) == known
            except NotFoundError:
                assert not known


# --- Rules of section 5.3 and refusals ------------------------------------------------------------

WIDE_KINDS = [
    *KINDS, pa.int16(), pa.uint8(), pa.uint32(), pa.float16(), pa.null(), pa.large_string(),
    pa.string_view(), pa.large_binary(), pa.date64(), pa.timestamp("ns", "Europe/Berlin"),
    pa.timestamp("s"), pa.time32("ms"), pa.time64("ns"), pa.duration("ns"), pa.decimal128(38, 20),
    pa.decimal256(60, 3), pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_(pa.string()),
    pa.struct([("x", pa.int32()), ("y", pa.string())]), pa.struct([("x", pa.string())]),
    pa.struct([("x", pa.int8()), ("x", pa.int8())]), pa.binary(4), pa.list_(pa.int8(), 2),
    pa.map_(pa.string(), pa.int8()), pa.dictionary(pa.int32(), pa.large_string()),
]  # fmt: skip


@pytest.mark.parametrize("left", WIDE_KINDS, ids=str)
def test_the_text_widens_types_as_lakelog_does(left: pa.DataType) -> None:
    for right in WIDE_KINDS:
        assert independent_table.common(left, right) == widen(left, right), (left, right)


def test_the_text_unifies_generations_as_lakelog_does() -> None:
    rng = random.Random(5)
    for _ in range(200):
        schemas = [random_data(rng, "safe").schema for _ in range(rng.randint(1, 5))]
        expected = unify([FileSchema(schema, "w") for schema in schemas], "t")
        state = theirs.State("w", DATABASE)
        for number, schema in enumerate(schemas):
            entry = {"schema": schema, "key": [], "sort_order": [], "revision": number}
            state.schemas["t", bytes([number]) * 16] = entry
        assert independent_table.unify([state], "t").equals(expected)
        newest = independent_table.newest_generations([state], "t")
        assert newest == {field.name: generation(field) for field in expected}


@pytest.mark.parametrize(
    "token", ["", "ll1-", "ll2-AAAA", "ll1-AAAA", "ll1-AAAAAA", "ll1-" + "A" * (1 << 20)]
)
def test_both_refuse_what_is_no_token(token: str) -> None:
    with pytest.raises(Refused):
        theirs.parse_token(token)
    with pytest.raises(LakelogError):
        Catalog(open_store(str(GOLDEN / "catalog"))).snapshot(DATABASE, token)


def test_both_refuse_every_token_with_one_other_character() -> None:
    catalog = Catalog(open_store(str(GOLDEN / "catalog")))
    token = catalog.snapshot(DATABASE).token
    for at in range(len(token)):
        other = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(Refused):
            theirs.parse_token(other)
        with pytest.raises(LakelogError):
            catalog.snapshot(DATABASE, other)


def token_of(cut: wire.Cut) -> str:
    """The token of any cut message, sound or not."""
    body = cut.SerializeToString()
    body += zlib.crc32(body).to_bytes(4, "little")
    return "ll1-" + base64.urlsafe_b64encode(body).decode().rstrip("=")


@pytest.mark.parametrize("writers", [["w", "w"], ["_w"], ["w/x"], [""], ["w" * 65], ["é"]])
def test_both_refuse_a_token_with_writers_that_can_not_be(writers: list[str]) -> None:
    cut = wire.Cut(database="weather")
    for name in writers:
        cut.writers.add(writer=name, revision=0)
    with pytest.raises(Refused, match="ids"):
        theirs.parse_token(token_of(cut))
    with pytest.raises(InvalidToken):
        parse_token(token_of(cut))


def test_both_take_a_token_with_any_sound_writers() -> None:
    cut = wire.Cut(database="-")
    for name in ("b", "A-_9", "w" * 64):
        cut.writers.add(writer=name, revision=(1 << 62) - 1, digest=b"12345678")
    database, found = theirs.parse_token(token_of(cut))
    assert (database, {n: r for n, (r, _) in found.items()}) == (
        "-",
        dict(parse_token(token_of(cut)).revisions),
    )


def test_a_token_of_a_replaced_log_is_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "catalog", tmp_path / "c")
    token = Catalog(open_store(str(tmp_path / "c"))).snapshot(DATABASE, {"EWR": 1}).token
    folder = tmp_path / "c" / "EWR" / DATABASE / "transactions"
    for path in folder.iterdir():
        path.unlink()
    for case in ("append", "remove"):
        (path,) = (GOLDEN / "objects" / case).glob("*.transaction")
        shutil.copy(path, folder)
    with pytest.raises(Refused, match="replaced"):
        theirs.read_token(tmp_path / "c", token)
    with pytest.raises(NotFoundError, match="another transaction"):
        Catalog(open_store(str(tmp_path / "c"))).snapshot(DATABASE, token)


def test_a_broken_checkpoint_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "catalog", tmp_path / "c")
    (path,) = (tmp_path / "c" / "EWR" / DATABASE / "transactions").glob("*.checkpoint")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning):
        assert assert_logs_agree(tmp_path / "c", "EWR") == 7
    for gone in path.parent.glob("0*0[01].*.transaction"):
        gone.unlink()
    log = LogReader(open_store(str(tmp_path / "c")), "EWR", DATABASE, FakeAmbient().ambient)
    with pytest.raises(CorruptError), pytest.warns(CheckpointWarning):
        log.load(5)
    with pytest.raises(Refused, match="length"):
        theirs.read_log(tmp_path / "c", "EWR", DATABASE, 5)
