"""The local store: crashes, races between processes, links that lead out, and what the OS says."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.errors import AccessDenied, InvalidPath, ObjectExists, ObjectNotFound, StorageError
from lakelog.store import local as files
from lakelog.store import open_store

BODY_SIZE = 200_000


def run(code: str, *args: object, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


# --- crashes and races, with real processes -------------------------------------------------------

WRITE_FOREVER = f"""
import sys
from lakelog.store import open_store
store, run = open_store(sys.argv[1]), sys.argv[2]
number = 0
while True:
    number += 1
    body = b"%08d" % number * ({BODY_SIZE} // 8)
    store.put(f"w/log/{{run}}-{{number:08d}}", body, if_absent=number % 2 == 0)
    store.put("w/log/head", body)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_whole_objects_only(tmp_path):
    store = open_store(tmp_path)
    chance = random.Random(7)
    for attempt in range(12):
        with run(WRITE_FOREVER, tmp_path, attempt) as child:
            acknowledged = int(child.stdout.readline())
            time.sleep(chance.uniform(0, 0.03))
            child.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().split())])
        found = list(store.list("w/log/"))
        mine = f"w/log/{attempt}-"
        numbers = {int(info.key[-8:]) for info in found if info.key.startswith(mine)}
        assert numbers >= set(range(1, acknowledged + 1))
        for info in found:
            body = store.get(info.key)
            assert len(body) == info.size_bytes == BODY_SIZE
            assert body == body[:8] * (BODY_SIZE // 8)
    assert all(name.startswith(("w/log/", "_tmp/")) for name in everything_below(tmp_path))


CLAIM = """
import sys
from lakelog.errors import ObjectExists
from lakelog.store import open_store
store, name = open_store(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for number in range(500):
    try:
        store.put(f"w/log/{number:03d}", name.encode(), if_absent=True)
        print(number)
    except ObjectExists:
        pass
"""


def test_of_two_processes_exactly_one_creates_a_name(tmp_path):
    names = ("one", "two")
    children = [run(CLAIM, tmp_path, name, stdin=subprocess.PIPE) for name in names]
    time.sleep(0.5)  # both have imported
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    won = [sorted(map(int, child.communicate(timeout=60)[0].split())) for child in children]
    assert sorted(won[0] + won[1]) == list(range(500))
    store = open_store(tmp_path)
    for name, numbers in zip(names, won, strict=True):
        assert all(store.get(f"w/log/{number:03d}") == name.encode() for number in numbers)
    assert everything_below(tmp_path / "_tmp") == []


# --- durability -----------------------------------------------------------------------------------


def test_a_put_syncs_the_file_and_every_name_on_the_way(tmp_path, monkeypatch):
    synced: list[tuple[str, str]] = []
    real_sync = os.fsync

    def spy(descriptor: int) -> None:
        where = os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path)
        names = ",".join(sorted(os.listdir(descriptor))) if os.path.isdir(tmp_path / where) else ""
        synced.append((where, names))
        real_sync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    store = open_store(tmp_path / "deep" / "down")
    store.put("w/log/0", b"x", if_absent=True)
    folders = [(where, names) for where, names in synced if "_tmp/" not in where]
    assert folders == [
        (".", "deep"),
        ("deep", "down"),
        ("deep/down", "w"),
        ("deep/down/w", "log"),
        ("deep/down", "_tmp,w"),
        ("deep/down/w/log", "0"),
    ]
    assert [where for where, _ in synced if "_tmp/" in where] != []
    for if_absent in (True, False):
        synced.clear()
        store.put("w/log/1" if if_absent else "w/log/0", b"y", if_absent=if_absent)
        first, second = synced
        assert first[0].startswith("deep/down/_tmp/")  # the bytes before the name
        assert second == ("deep/down/w/log", "0,1")


def test_nothing_stays_in_the_temporary_folder(tmp_path):
    store = open_store(tmp_path)
    store.put("w/a", b"1")
    store.put("w/a", b"2")
    store.put("w/b", b"1", if_absent=True)
    with pytest.raises(ObjectExists):
        store.put("w/b", b"2", if_absent=True)
    assert everything_below(tmp_path) == ["w/a", "w/b"]


def test_a_spool_gets_its_name_or_goes(tmp_path):
    store = open_store(tmp_path)
    for key, if_absent in (("w/a", False), ("w/b", True), ("w/b", False)):
        with store.spool() as spool:
            spool.write(key.encode())
            store.put_file(key, spool, if_absent=if_absent)
            inode = os.fstat(spool.fileno()).st_ino
        del spool
        assert store.get(key) == key.encode()
        assert os.stat(tmp_path / key).st_ino == inode, "nothing is copied"
    spool = store.spool()
    spool.write(b"2")
    with pytest.raises(ObjectExists):
        store.put_file("w/b", spool, if_absent=True)
    del spool
    assert store.get("w/b") == b"w/b"
    assert everything_below(tmp_path) == ["w/a", "w/b"]


def test_a_spool_is_brought_to_a_folder_that_was_removed(tmp_path):
    store = open_store(tmp_path)
    store.put("w/log/0", b"1")
    spool = store.spool()
    spool.write(b"2")
    subprocess.run(["rm", "-r", str(tmp_path / "w")], check=True)
    store.put_file("w/log/0", spool, if_absent=True)
    assert store.get("w/log/0") == b"2"


def test_leftovers_of_killed_writers_are_swept_after_a_day(tmp_path):
    folder = tmp_path / "_tmp"
    folder.mkdir()
    old, young, foreign = (folder / name for name in ("0" * 24, "1" * 24, "notes.txt"))
    for path, age_s in ((old, 25 * 3600), (young, 3600), (foreign, 99 * 3600)):
        path.write_bytes(b"left over")
        os.utime(path, (time.time() - age_s,) * 2)
    store = open_store(tmp_path)
    store.put("w/a", b"1")
    assert everything_below(folder) == ["1" * 24, "notes.txt"]
    assert [info.key for info in store.list("")] == ["w/a"]


def test_the_temporary_folder_is_not_part_of_the_store(tmp_path):
    store = open_store(tmp_path)
    store.put("w/a", b"1")
    store.put("w/_tmp/a", b"only in the root is the name special")
    (tmp_path / "_tmp" / ("2" * 24)).write_bytes(b"in progress")
    assert [info.key for info in store.list("")] == ["w/_tmp/a", "w/a"]
    assert store.list_folders("") == ["w"]
    assert store.list_folders("w/") == ["_tmp"]
    with pytest.raises(InvalidPath):
        store.put("_tmp/x", b"1")


def test_a_removed_folder_is_made_again(tmp_path):
    store = open_store(tmp_path / "down")
    store.put("w/log/0", b"1")
    subprocess.run(["rm", "-r", str(tmp_path / "down" / "w")], check=True)
    assert list(store.list("w/log/")) == []
    assert store.get_many(["w/log/0"]) == [None]
    store.put("w/log/0", b"2", if_absent=True)
    assert store.get("w/log/0") == b"2"
    subprocess.run(["rm", "-r", str(tmp_path / "down" / "_tmp")], check=True)
    store.put("w/log/1", b"3", if_absent=True)
    assert store.get_many(["w/log/0", "w/log/1"]) == [b"2", b"3"]


@pytest.mark.parametrize("empty", [False, True], ids=["gone", "an empty mount point"])
@pytest.mark.parametrize("key", ["w/log/1", "w/new/0", "new/log/0", "top"])
@pytest.mark.parametrize("written", [True, False], ids=["written before", "only read before"])
def test_a_root_that_went_away_is_not_made_anew(tmp_path, empty, key, written):
    root, away = tmp_path / "down", tmp_path / "away"
    open_store(root).put("w/log/0", b"1")
    store = open_store(root)
    if written:
        store.put("w/log/0", b"1")
    assert store.get("w/log/0") == b"1"
    root.rename(away)
    if empty:
        root.mkdir()
    for _ in range(2):  # a caller that insists gets the same answer
        for if_absent in (True, False):
            with pytest.raises(StorageError, match="unmounted or moved") as caught:
                store.put(key, b"2", if_absent=if_absent)
            assert type(caught.value) is StorageError
    assert everything_below(tmp_path) == ["away/w/log/0"]
    if empty:
        root.rmdir()
    assert not root.exists()
    away.rename(root)
    store.put(key, b"2")
    assert store.get(key) == b"2"


def failing_sync(monkeypatch, folder: Path, code: int) -> list[str]:
    """Let the sync of one folder fail as long as the list that is returned isn't empty."""
    real, broken = files.sync_folder, ["broken"]

    def sync(path: str) -> None:
        if broken and Path(path) == folder:
            raise OSError(code, os.strerror(code))
        real(path)

    monkeypatch.setattr(files, "sync_folder", sync)
    return broken


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOENT])
@pytest.mark.parametrize("if_absent", [True, False])
def test_a_name_that_could_not_be_synced_may_be_there(
    local_store, tmp_path, monkeypatch, code, if_absent
):
    folder = tmp_path / "down" / "w" / "db"
    broken = failing_sync(monkeypatch, folder, code)
    with pytest.raises(StorageError, match="may be there") as caught:
        local_store.put("w/db/b", b"x", if_absent=if_absent)
    assert type(caught.value) is StorageError, "AccessDenied would say that nothing was written"
    assert local_store.get("w/db/b") == b"x"
    assert everything_below(tmp_path / "down" / "_tmp") == []
    broken.clear()


def test_a_name_found_taken_is_synced_before_that_is_told(local_store, tmp_path, monkeypatch):
    broken = failing_sync(monkeypatch, tmp_path / "down" / "w" / "db", errno.EIO)
    for _ in range(2):
        with pytest.raises(StorageError, match="may be there"):
            local_store.put("w/db/b", b"x", if_absent=True)
    broken.clear()
    with pytest.raises(ObjectExists):
        local_store.put("w/db/b", b"x", if_absent=True)


# --- what the operating system says ---------------------------------------------------------------


def test_a_name_can_not_be_a_file_and_a_folder(local_store):
    for key in ("w/db/a/below", "w/db"):
        for if_absent in (True, False):
            with pytest.raises(StorageError, match="file and a folder") as caught:
                local_store.put(key, b"x", if_absent=if_absent)
            assert caught.value.key == key
            with pytest.raises(ObjectNotFound):
                local_store.get(key)
    assert [info.key for info in local_store.list("")] == ["w/db/a"]


def test_a_name_too_long_is_a_storage_error(local_store):
    with pytest.raises(StorageError, match="255 bytes"):
        local_store.put("w/" + "x" * 300, b"1")


AS_NOBODY = """
import os, sys, pyarrow
from lakelog.errors import AccessDenied
from lakelog.store import open_store
if os.getuid() == 0:
    os.setuid(65534)
store = open_store(sys.argv[1])
calls = {
    "write": lambda: store.put("w/new", b"x"),
    "write new": lambda: store.put("w/new", b"x", if_absent=True),
    "read": lambda: store.get("w/private"),
    "read many": lambda: store.get_many(["w/private"]),
    "delete": lambda: store.delete(["w/private"]),
    "list": lambda: list(store.list("closed/")),
    "list folders": lambda: store.list_folders("closed/"),
}
for name, call in calls.items():
    try:
        call()
    except AccessDenied as error:
        print("denied", name, error.key, flush=True)
"""


def test_what_is_not_allowed_is_access_denied():
    # Not below pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = open_store(root)
        store.put("w/private", b"1")
        store.put("closed/x", b"1")
        for path, mode in (
            ("w/private", 0),
            ("w", 0o555),
            ("closed", 0),
            ("_tmp", 0o555),
            ("", 0o555),
        ):
            (root / path).chmod(mode)
        said = run(AS_NOBODY, root).communicate(timeout=60)[0].splitlines()
        for path in ("", "w", "closed", "_tmp"):
            (root / path).chmod(0o755)
    assert said == [
        "denied write w/new",
        "denied write new w/new",
        "denied read w/private",
        "denied read many w/private",
        "denied delete w/private",
        "denied list closed/",
        "denied list folders closed/",
    ]


@pytest.mark.parametrize(
    ("code", "verb", "kind", "hint"),
    [
        (errno.ENOSPC, "write", StorageError, "disk is full"),
        (errno.EDQUOT, "write", StorageError, "quota"),
        (errno.EROFS, "write", AccessDenied, "Read-only"),
        (errno.EIO, "read", StorageError, "Input/output"),
        (errno.EMFILE, "read", StorageError, "ulimit"),
        (errno.ESTALE, "list", StorageError, "Stale"),
    ],
)
def test_an_error_of_the_system_is_typed_and_explained(code, verb, kind, hint):
    with pytest.raises(kind, match=hint) as caught:
        files.fail(OSError(code, os.strerror(code)), "w/a", verb)
    assert type(caught.value) is kind
    assert caught.value.key == "w/a"
    assert isinstance(caught.value.__cause__, OSError)


def test_a_file_name_that_is_not_utf8_is_left_out(local_store, tmp_path):
    folder = os.fsencode(tmp_path / "down" / "w")
    with open(folder + b"/\xff\xfe", "wb"):
        os.mkdir(folder + b"/folder\xff")
    assert [info.key for info in local_store.list("")] == ["w/db/a"]
    assert local_store.list_folders("w/") == ["db"]


def test_the_working_directory_may_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("relative")
    monkeypatch.chdir("/")
    store.put("w/a", b"1")
    assert store.url == str(tmp_path / "relative")
    assert Path(store.object_url("w/a")).read_bytes() == b"1"


segments = st.text("ab-./0é", min_size=1, max_size=3).filter(lambda s: set(s) - {".", "/"})

paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


def is_key(path: str) -> bool:
    return all(part not in {"", ".", ".."} for part in path.split("/"))


@given(st.sets(paths.filter(is_key), max_size=12), paths, st.sampled_from(["", "a/", "b/", "a/b/"]))
def test_a_listing_is_what_a_sorted_set_would_say(tmp_path_factory, keys, after, prefix):
    keys = {key for key in keys if not any(other.startswith(key + "/") for other in keys)}
    store = open_store(tmp_path_factory.mktemp("listed"))
    for key in keys:
        store.put(key, b"x")
    for point in (None, after, *keys):
        expected = sorted(k for k in keys if k.startswith(prefix) and (point is None or k > point))
        assert [info.key for info in store.list(prefix, after=point)] == expected


def test_a_file_is_as_old_as_its_arrival(tmp_path):
    """`mv`, `tar` and `rsync` keep the time at which the bytes were written."""
    store = open_store(tmp_path / "lake")
    store.put("w/other", b"1")
    moved = tmp_path / "moved"
    moved.write_bytes(b"1")
    os.utime(moved, (1.6e9, 1.6e9))
    moved.rename(tmp_path / "lake" / "w" / "a")
    (listed, _) = store.list("w/")
    assert listed == store.head("w/a")
    assert abs(listed.modified_at.timestamp() - time.time()) < 3600
