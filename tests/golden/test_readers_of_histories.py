"""What lakelog's own writers made, lakelog and the independent reader read alike: every revision,
cuts, points in time, rows of tables, tokens, and logs to which something happened."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import independent_reader as theirs
import independent_table
import package_verdict
import pyarrow as pa
import pytest
from hand_tokens import token_of
from independent_content import Schema
from independent_cut import parse_token as their_token
from independent_log import Log
from independent_table import Part, part_of
from independent_verdict import describe
from independent_wire import Damaged, Refusal
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.unify import FileSchema, unify
from lakelog.catalog.format.cut import parse_token
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.format.schema import common_type, encode_schema, widen
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import InvalidToken, LakelogError, NotFoundError
from lakelog.store import open_store
from lakelog.testing.doubles import FakeAmbient
from lakelog.testing.keys import log_keys
from lakelog.testing.logs import numbered
from random_catalog import DATABASE, KINDS, damage, random_catalog, random_data
from seeds import base_seed

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[2] / "fixtures" / "v1"
HISTORIES = 6


# --- Logs -----------------------------------------------------------------------------------------


def said(read: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """What a reader says, or how it refuses; without tables of which no schema is known."""
    try:
        found = read()
    except Refusal as error:
        return error.kind
    except LakelogError as error:
        return package_verdict.kind_of(error)
    for name in [n for n, t in found["tables"].items() if t["schemas"] in ("damaged", "too-new")]:
        del found["tables"][name]
    return found


def assert_logs_agree(root: Path, writer: str) -> list[int]:
    """Both read the same at every revision and one more, or refuse alike; those that can be
    read."""
    store = open_store(str(root))
    reader = LogReader(store, writer, DATABASE, FakeAmbient().ambient)
    transactions, segments = theirs.read_folder(root, writer, DATABASE)
    log, objects = Log(transactions, segments), theirs.read_deletes(root, writer, DATABASE)
    read = []
    for revision in range(log.head + 2):
        expected = said(lambda revision=revision: describe(log.read(revision), objects))

        def ours(revision: int = revision) -> dict[str, Any]:
            return package_verdict.describe(reader.load(revision), store)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert said(ours) == expected, (writer, revision)
        if isinstance(expected, dict):
            read.append(revision)
    return read


def parts_at(root: Path, token: str, table: str) -> list[Part]:
    return [
        part_of(state, writer, root / writer / DATABASE, table)
        for writer, state in theirs.read_token(root, token).items()
    ]


def assert_rows_agree(catalog: Catalog, root: Path, as_of: Any = None) -> None:
    """Both give the same rows of every table at a cut."""
    snapshot = catalog.snapshot(DATABASE, as_of)
    states = theirs.read_token(root, snapshot.token)
    assert {w: s.head.revision for w, s in states.items()} == dict(snapshot.cut.revisions)
    for table in snapshot.tables():
        parts = parts_at(root, snapshot.token, table)
        try:
            expected = snapshot.to_arrow(table)
        except LakelogError:
            with pytest.raises(Damaged):
                independent_table.rows(parts)
            continue
        found = independent_table.rows(parts)
        assert found.schema.remove_metadata().equals(expected.schema.remove_metadata()), table
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), table  # NaN is NaN there


def assert_times_agree(catalog: Catalog, root: Path, rng: random.Random) -> None:
    """Both find the same revisions at points in time."""
    times = [
        row["committed_at"]
        for writer in theirs.writers(root, DATABASE)
        for row in theirs.read_log(root, writer, DATABASE).history()
    ]
    for at_us in rng.sample(times, min(4, len(times))):
        for moved in (at_us - 1, at_us):
            at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=moved)
            try:
                states = theirs.cut_at(root, DATABASE, moved)
            except Refusal:
                with pytest.raises(NotFoundError):
                    catalog.snapshot(DATABASE, at)
                continue
            known = {writer: state.head.revision for writer, state in states.items()}
            assert dict(catalog.snapshot(DATABASE, at).cut.revisions) == known


@pytest.mark.parametrize("number", range(HISTORIES))
def test_they_agree_on_random_histories(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree_on_a_history(base_seed() * HISTORIES + number, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_they_agree_on_many_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        agree_on_a_history(base_seed() + number, tmp_path / str(number), monkeypatch)


def agree_on_a_history(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = random_catalog(tmp_path, seed, monkeypatch)
    rng = random.Random(-seed - 1)
    writers = catalog.writers(DATABASE)
    assert theirs.writers(tmp_path, DATABASE) == writers
    heads = {w: theirs.read_log(tmp_path, w, DATABASE).head.revision for w in writers}
    for writer, head in heads.items():
        assert assert_logs_agree(tmp_path, writer) == list(range(head + 1))
    assert_rows_agree(catalog, tmp_path)
    for _ in range(2):
        cut = {writer: rng.randint(0, head) for writer, head in heads.items()}
        assert_rows_agree(catalog, tmp_path, cut)
    assert_times_agree(catalog, tmp_path, rng)
    for writer in writers:
        for _ in range(2):
            damage(tmp_path, writer, rng)
            if any((tmp_path / writer / DATABASE / "transactions").iterdir()):
                assert_logs_agree(tmp_path, writer)


# --- The golden catalog ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_they_agree_on_the_golden_catalog() -> None:
    root = GOLDEN / "catalog"
    assert theirs.writers(root, DATABASE) == ["EWR", "JFK"]
    assert theirs.writers(root, "other") == []
    assert assert_logs_agree(root, "EWR") == list(range(7))
    assert assert_logs_agree(root, "JFK") == list(range(3))
    catalog = Catalog(open_store(str(root)))
    for told in json.loads((GOLDEN / "catalog.json").read_text()):
        assert_rows_agree(catalog, root, told["token"])
        for table, expected in told["tables"].items():
            parts = parts_at(root, told["token"], table)
            files = [
                {"writer": part.writer, **{k: file.facts[k] for k in ("path", "partition")}}
                for part in parts
                for _, file in sorted(part.files.items())
            ]
            assert files == [
                {k: f[k] for k in ("writer", "path", "partition")} for f in expected["files"]
            ]


def test_it_runs_as_a_program() -> None:
    program = Path(theirs.__file__)
    command = [sys.executable, program, GOLDEN / "catalog", "EWR", DATABASE]
    told = [
        json.loads(subprocess.run([*command, *more], capture_output=True, check=True).stdout)
        for more in (["0"], [], ["99"])
    ]
    assert [one["verdict"] for one in told] == ["ok", "ok", "not-found"]
    assert (told[0]["revision"], told[1]["revision"]) == (0, 6)
    assert list(told[0]["tables"]) == ["hourly"]


def test_a_broken_checkpoint_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    root = tmp_path / "c"
    shutil.copytree(GOLDEN / "catalog", root)
    store = open_store(str(root))
    (key,) = log_keys(store, "checkpoint", writer="EWR", database=DATABASE)
    (root / key).write_bytes((root / key).read_bytes()[:-1])
    assert assert_logs_agree(root, "EWR") == list(range(7))
    with pytest.warns(CheckpointWarning):
        LogReader(store, "EWR", DATABASE, FakeAmbient().ambient).load()
    keys = log_keys(store, "transaction", writer="EWR", database=DATABASE)[:2]
    store.delete(keys)
    assert assert_logs_agree(root, "EWR") == list(range(7))  # from their copies
    store.delete(map(mirror_key, keys))
    assert assert_logs_agree(root, "EWR") == []


# --- One schema for a cut -------------------------------------------------------------------------

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
        for third in WIDE_KINDS:
            kinds = (left, right, third)
            assert independent_table.common_of(kinds) == common_type(kinds), kinds


def test_the_text_unifies_schemas_as_lakelog_does() -> None:
    rng = random.Random(5)
    for _ in range(200):
        schemas = [random_data(rng, "safe").schema for _ in range(rng.randint(1, 5))]
        expected = unify([FileSchema(schema, "w") for schema in schemas], "t")
        known = {}
        for number, schema in enumerate(schemas):
            encoded = encode_schema(numbered(schema))
            entry = Schema(encoded.message, (), (), number)
            known.setdefault(encoded.fingerprint, entry)
        parts = [Part("w", Path(), {}, known)]
        assert independent_table.unify(parts).equals(expected.remove_metadata())


# --- Tokens ---------------------------------------------------------------------------------------

W: dict[str, Any] = {"writer": "w", "revision": 3, "digest": b"12345678", "log_id": b"L" * 16}
SOUND: list[list[dict[str, Any]]] = [
    [{"writer": "w"}],
    [{"writer": "A-_9"}, {**W, "incarnation": 999, "revision": 10**12 - 1}],
    [{"writer": "w" * 64, "digest": b"12345678"}],
]
UNSOUND: list[list[dict[str, Any]]] = [
    [], [W], [{**W, "incarnation": 1000}], [{"writer": "w", "incarnation": 1}],
    [{"writer": "w"}, {"writer": "w"}], [{"writer": "x"}, {"writer": "w"}], [{"writer": "_"}],
    [{"writer": "w", "digest": b"1"}], [{"writer": "w", "revision": 10**12}],
    [{**W, "log_id": b"1", "incarnation": 1}], [{"writer": "w/x"}], [{"writer": "é"}],
    [{"writer": "w" * 65}], [{"writer": ""}],
]  # fmt: skip


@pytest.mark.parametrize("writers", [*SOUND, *UNSOUND], ids=str)
def test_both_take_the_same_tokens(writers: list[dict[str, Any]]) -> None:
    token = token_of("d", *writers)
    if writers in UNSOUND:
        with pytest.raises(Damaged):
            their_token(token)
        with pytest.raises(InvalidToken):
            parse_token(token)
        return
    database, found = their_token(token)
    cut = parse_token(token)
    assert cut.database == database
    assert cut.revisions == {name: entry.revision for name, entry in found.items()}
    for name, entry in found.items():
        at = cut.writers[name]
        log = (at.log.log_id, at.log.incarnation) if at.log else (b"", 0)
        assert (at.digest, *log) == (entry.digest, entry.log_id, entry.incarnation)


@pytest.mark.parametrize("change", ["", "ll1-", "ll2-AAAA", "ll1-AAAA", "ll1-" + "A" * (1 << 20)])
def test_both_refuse_what_is_no_token(change: str) -> None:
    for refuse, kind in ((their_token, Damaged), (parse_token, InvalidToken)):
        with pytest.raises(kind):
            refuse(change)


def test_both_refuse_every_token_with_one_other_character_or_something_around_it() -> None:
    token = token_of("d", *SOUND[1])
    others = [
        token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        for at in range(len(token))
    ]
    around = [f"{token}{space}" for space in (" ", "\n", "\r\n", "=", "A")] + [f" {token}"]
    for other in (*others, *around):
        with pytest.raises(Damaged):
            their_token(other)
        with pytest.raises(InvalidToken):
            parse_token(other)


def test_a_token_of_a_replaced_log_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "c"
    shutil.copytree(GOLDEN / "catalog", root)
    catalog = Catalog(open_store(str(root)))
    token = catalog.snapshot(DATABASE, {"EWR": 1}).token
    shutil.rmtree(root / "EWR")
    with catalog.writer("EWR", DATABASE) as writer:
        for value in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [value]}))
    with pytest.raises(Refusal):
        theirs.read_token(root, token)
    with pytest.raises(NotFoundError, match="another"):
        catalog.snapshot(DATABASE, token)
