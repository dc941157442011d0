"""Paths and names that lead elsewhere are refused wherever they stand, before anything is asked of
the store; what only looks alike is told apart. Bombs: see `test_bombs.py`."""

from __future__ import annotations

import json
import os
import unicodedata
from functools import partial

import pyarrow as pa
import pytest
from corpus import build_corpus
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object, parse_segment_name
from lakelog.catalog.format.objects import decode_checkpoint, decode_transaction
from lakelog.catalog.format.segments import FILES, SCHEMAS, decode_segment, encode_ipc
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject, LakelogError, UsageError
from lakelog.gc.collect import plan_gc
from lakelog.gc.plan import Plan
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from own_files import add_own

CORPUS = build_corpus()
SCHEMES = ["file:///etc/passwd", "s3://bucket/key", "http://host/x", "memory://x", "C:/x", "//h/x"]
CONTROL = [f"data/a{chr(code)}b" for code in (*range(0x20), 0x7F)]
BAD = [
    "", "x", "/etc/passwd", "..", ".", "data", "data/", "data/..", "data/../../w2/db/data/x",
    "Data/x", "data/a/../b", "data/./b", "data//b", "data/b/", "/data/b", "./data/b", "data/\x00",
    "data/a\\..\\b", "data\\b", "data/" + "x" * 256, "data/" + "x/" * 500 + "y", "data/a/..",
    "data/" + "ü" * 128, "data/" + "ü/" * 296 + "üü",
    "\\data\\b", "DATA/b", "ｄａｔａ/b", "data／b", "data%2Fb", "%64ata/b",
    "transactions/998-999999999999-0.aaaaaaaa.transaction", "segments/" + "0" * 64 + ".segment",
    " data/b", *CONTROL, *SCHEMES,
]  # fmt: skip
# A percent sign is a character like any other: nobody decodes a path of a log.
LITERAL = ["data/%2e%2e/b.parquet", "data/%2E%2E%2fb.parquet", "data/..%2f..%2fb.parquet"]
# Long, odd, and sound.
GOOD = [
    "data/" + "x" * 255, "data/" + "x/" * 443 + "y", "data/" + "ü" * 127, "data/...", "data/..a/b",
    "data/ ", "data/\x80", "data/\u202e", "data/\u2028/b", "data/data/..x", *LITERAL,
]  # fmt: skip
LONG_NAMES = ["%" * 86, "ü" * 128, "x" * 256, "\x00" * 86, "𐏿" * 64, "." * 256, "*" * 85 + "x"]
FITTING = ["%" * 85, "ü" * 127, "x" * 255, "𐏿" * 63, ".", "..", "/", "\x00", "a/../b"]


def is_taken(call, key):
    """Whether something is sound; else it is refused by type, naming the object."""
    try:
        call()
    except LakelogError as error:
        if (type(error), error.key) != (CorruptObject, key):
            raise AssertionError(f"{error!r} of {error.key}") from error
        return False
    return True


def taken_with(change, seed=CORPUS.adds):
    """Whether a transaction is sound after a change."""
    data, attachments = seed.parts()
    message = wire.Transaction.FromString(data)
    change(message)
    body = seed.signed(message.SerializeToString(), attachments)
    return is_taken(lambda: decode_transaction(body, seed.key), seed.key)


def action_of(message, kind):
    """The first action of a kind."""
    found = next(a for a in message.actions if a.WhichOneof("kind") == kind)
    return getattr(found, kind)


@pytest.mark.parametrize("kind", ["add", "remove"])
def test_no_action_names_such_a_path(kind):
    def put(path):
        return lambda message: setattr(action_of(message, kind), "path", path)

    assert [path for path in BAD if taken_with(put(path))] == []
    assert [path for path in GOOD if not taken_with(put(path))] == []


def put_table(table):
    return {
        "add": lambda message: setattr(action_of(message, "add"), "table", table),
        "remove": lambda message: setattr(action_of(message, "remove"), "table", table),
        "schema": lambda message: setattr(action_of(message, "schema"), "table", table),
        "forget": lambda message: action_of(message, "forget").tables.append(table),
        "forget a schema": lambda message: action_of(message, "forget").schemas.add(
            table=table, fingerprint=bytes(16)
        ),
    }


@pytest.mark.parametrize("where", put_table(""))
def test_no_action_names_a_table_of_no_name_or_too_long_a_one(where):
    assert [name for name in ["", *LONG_NAMES] if taken_with(put_table(name)[where])] == []
    assert [name for name in FITTING if not taken_with(put_table(name)[where])] == []


def test_no_action_names_a_partition_of_too_long_a_name():
    def put(name):
        return lambda message: setattr(action_of(message, "add"), "partition", name)

    assert [name for name in LONG_NAMES if taken_with(put(name))] == []
    assert [name for name in ["", *FITTING] if not taken_with(put(name))] == []


BAD_IDS = ["", "_refs", "-a", "a/b", "..", "a.b", "ü", "a" * 65, "a\n", "a%2e", "W ", "\x00"]


@pytest.mark.parametrize("name", ["writer", "database"])
def test_no_object_says_that_it_is_of_a_log_that_cannot_be(name):
    for bad in BAD_IDS:
        assert not taken_with(lambda m, bad=bad: setattr(action_of(m, "identity"), name, bad)), bad
        loose = CORPUS.loose.copy()
        setattr(loose.message, name, bad)
        body, _ = loose.build(spill=False)
        read = partial(decode_checkpoint, body, CORPUS.inline.key)
        assert not is_taken(read, CORPUS.inline.key), bad


def column_taken(kind, name, values):
    """Which of some values a column of a segment may hold, each alone in its last or only row."""
    (piece, *_) = CORPUS.loose.of_kind(kind)
    row = piece.table().slice(0, 1)
    place = row.schema.get_field_index(name)
    found = []
    for value in values:
        changed = row.set_column(place, row.schema.field(name), pa.array([value]))
        data = encode_ipc(changed)
        if is_taken(lambda data=data: decode_segment(data, kind, 1, "k"), "k"):
            found.append(value)
    return found


def test_no_column_of_files_holds_such_a_path():
    """The rows of an AddBatch and of a checkpoint's FILES are read by the same code."""
    assert column_taken(FILES, "path", BAD) == []
    assert column_taken(FILES, "path", GOOD) == GOOD


@pytest.mark.parametrize("place", [0, 9_000, 19_999])
def test_no_path_hides_among_many_good_ones(place):
    """Columns are checked by array operations, and only what looks odd one by one."""
    paths = [f"data/{number:06d}" for number in range(20_000)]
    row = CORPUS.loose.of_kind(FILES)[0].table().slice(0, 1)
    table = pa.concat_tables([row] * len(paths)).combine_chunks()
    for suffix in ("/../x", "//x", "/", "/.", "/..", "\x1f", "\x7f", "\\", "/" + "x" * 256):
        spoiled = [*paths[:place], paths[place] + suffix, *paths[place + 1 :]]
        data = encode_ipc(table.set_column(1, row.schema.field("path"), pa.array(spoiled)))
        assert not is_taken(lambda data=data: decode_segment(data, FILES, len(paths), "k"), "k")


@pytest.mark.parametrize(
    ("kind", "name"), [(FILES, "table"), (FILES, "partition"), (SCHEMAS, "table")]
)
def test_no_column_holds_a_name_that_is_too_long(kind, name):
    assert column_taken(kind, name, LONG_NAMES) == []
    assert column_taken(kind, name, FITTING) == FITTING
    assert column_taken(kind, name, [""]) == ([""] if name == "partition" else [])


def test_a_segments_key_is_made_of_its_digest_alone():
    """No reference can lead out of its folder: it has no text to do it with."""
    for digest in (b"../../../../../../../etc/passwd!", b"/" * 32, bytes(32), b"\xff" * 32):
        loose = CORPUS.loose.copy()
        body, _ = loose.build(spill=False)
        loose.message.references.digest = digest
        data, attachments = loose.message.SerializeToString(), b""
        seed = CORPUS.spilled
        piece = decode_checkpoint(seed.signed(data, attachments), seed.key).references
        folder, _, name = piece.where.rpartition("/")
        assert folder == "w/db/segments"
        assert parse_segment_name(name) == digest
    for digest in (b"x", bytes(31), bytes(33), bytes(64)):
        loose.message.references.digest = digest
        body = seed.signed(loose.message.SerializeToString(), b"")
        assert not is_taken(lambda body=body: decode_checkpoint(body, seed.key), seed.key)


@pytest.mark.parametrize(
    "name",
    [
        "998-999999999999-0.aaaaaaaa.transaction/../x",
        "../998-999999999999-0.aaaaaaaa.transaction",
        "998-999999999999-0.AAAAAAAA.transaction", "998-999999999999-00.aaaaaaaa.transaction",
        "998-999999999999-0.aaaaaaaa.Transaction", "998-999999999999-0.aaaaaaaa.transaction\n",
        "９98-999999999999-0.aaaaaaaa.transaction", "998-999999999999-٠.aaaaaaaa.transaction",
        "998-999999999998-0.aaaaaaaa.transaction", "999-999999999999-0.aaaaaaaa.transaction",
        "998-999999999999-0.aaaaaaaa.segment", "998-999999999999-0.aaaaaaa.transaction", "", ".",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_name_of_the_log_is_none(name):
    assert parse_log_object(name) is None


LOOK_ALIKE = [
    ("data/É.parquet", "data/é.parquet"),
    tuple(unicodedata.normalize(form, "data/é.parquet") for form in ("NFC", "NFD")),
    ("data/a.parquet", "data/A.parquet"),
    ("data/%61.parquet", "data/a.parquet"),
    ("data/ß.parquet", "data/ss.parquet"),
    ("data/a .parquet", "data/a.parquet"),
]


@pytest.mark.parametrize("paths", LOOK_ALIKE)
def test_paths_that_look_alike_are_two_files(paths):
    store = MemoryStore("m")
    catalog = made_lake(store)
    made = catalog.snapshot("db").files("t")["path"][0].as_py()
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for path in paths:
            store.put("w/db/" + path, store.get("w/db/" + made))
            add_own(tx, "t", path)
    found = catalog.snapshot("db")
    assert sorted(found.files("t")["path"].to_pylist()) == sorted([made, *paths])
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.remove(paths[0])
    assert sorted(catalog.snapshot("db").files("t")["path"].to_pylist()) == sorted([made, paths[1]])


@pytest.mark.parametrize("path", LITERAL)
def test_percent_signs_are_never_decoded(path):
    """Such a file may be named; what is asked of the store is that very name, below the writer."""
    store = MemoryStore("m")
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (made,) = tx.write("t", pa.table({"a": [1]}))
        store.put("w/db/" + path, store.get("w/db/" + made))
        with writer.transaction() as tx:
            add_own(tx, "t", path)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 2


def made_lake(store):
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    return catalog


@pytest.mark.parametrize("path", [*BAD, *LITERAL, "w/db/data/../../w2/x.parquet"])
def test_no_plan_deletes_such_a_key(path):
    store = MemoryStore("m")
    text = json.loads(plan_gc(made_lake(store), "w", "db").to_json())
    for key in (path, "w/db/" + path, "w/../" + path):
        if key.removeprefix("w/db/") in LITERAL and key.startswith("w/db/"):
            continue  # a name like any other below data/
        action = {"key": key, "size_bytes": 1, "reason": "x", "table": "", "rule": ""}
        known = {"key", "size_bytes", "reason"}
        text["actions"] = [{name: action[name] for name in known}]
        with pytest.raises(UsageError):
            Plan.from_json(json.dumps(text))


def test_a_link_out_of_the_root_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.parquet").write_bytes(b"secret")
    root = tmp_path / "root"
    store = open_store(root)
    made_lake(store)
    os.symlink(outside, root / "w" / "db" / "data" / "out")
    os.symlink(outside / "secret.parquet", root / "w" / "db" / "data" / "s.parquet")
    for key in ("w/db/data/out/secret.parquet", "w/db/data/s.parquet"):
        with pytest.raises(LakelogError):
            store.get(key)
    with pytest.raises(LakelogError):
        store.put("w/db/data/out/secret.parquet", b"overwritten")
    with pytest.raises(LakelogError):
        store.delete(["w/db/data/out/secret.parquet"])
    store.put("w/db/data/s.parquet", b"overwritten")  # takes the place of the link itself
    assert [item.key for item in store.list("w/db/data/") if "secret" in item.key] == []
    assert (outside / "secret.parquet").read_bytes() == b"secret"
