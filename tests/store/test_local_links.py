"""Symbolic links below a local root: never followed, never written through."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakelog.errors import AccessDenied, ObjectExists
from lakelog.store import local as files
from lakelog.store import open_store


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


def reads(store, key):
    return [
        lambda: store.get(key),
        lambda: store.get(key, start=0, end=1),
        lambda: store.get_many([key]),
        lambda: store.head(key),
        lambda: store.open_input(key),
    ]


@pytest.mark.parametrize("warm", [True, False])
def test_a_linked_folder_leads_nowhere(local_store, outside, tmp_path, warm):
    local_store = local_store if warm else open_store(tmp_path / "down")
    (tmp_path / "down" / "w" / "link").symlink_to(outside)
    calls = [
        *reads(local_store, "w/link/secret"),
        lambda: local_store.put("w/link/new", b"x"),
        lambda: local_store.put("w/link/deep/new", b"x", if_absent=True),
        lambda: local_store.delete(["w/link/secret"]),
        lambda: list(local_store.list("w/link/")),
        lambda: local_store.list_folders("w/link/"),
    ]
    for call in calls:
        with pytest.raises(AccessDenied, match="symbolic link"):
            call()
    assert everything_below(outside) == ["secret"]
    assert [info.key for info in local_store.list("")] == ["w/db/a"]
    with pytest.warns(files.LinkWarning, match="w/link is a symbolic link") as told:
        assert local_store.list_folders("w/") == ["db"]
    assert len(told) == 1


@pytest.mark.filterwarnings("error")
def test_links_to_no_folder_are_left_out_in_silence(local_store, outside, tmp_path):
    for name, target in (("file", outside / "secret"), ("broken", "nowhere"), ("loop", "loop")):
        (tmp_path / "down" / "w" / name).symlink_to(target)
    assert local_store.list_folders("w/") == ["db"]


def test_a_linked_file_is_neither_read_nor_written_through(local_store, outside, tmp_path):
    link = tmp_path / "down" / "w" / "db" / "link"
    link.symlink_to(outside / "secret")
    for call in reads(local_store, "w/db/link"):
        with pytest.raises(AccessDenied, match="symbolic link"):
            call()
    assert [info.key for info in local_store.list("")] == ["w/db/a"]
    with pytest.raises(ObjectExists):
        local_store.put("w/db/link", b"x", if_absent=True)
    local_store.put("w/db/link", b"replaces the link")
    assert (outside / "secret").read_bytes() == b"secret"
    assert local_store.get("w/db/link") == b"replaces the link"
    link.unlink()
    link.symlink_to(outside / "secret")
    local_store.delete(["w/db/link"])
    assert (outside / "secret").read_bytes() == b"secret"
    assert not link.is_symlink()


def test_a_loop_of_links_ends(local_store, tmp_path):
    (tmp_path / "down" / "w" / "loop").symlink_to(tmp_path / "down")
    assert [info.key for info in local_store.list("")] == ["w/db/a"]


def test_a_linked_temporary_folder_is_refused(outside, tmp_path):
    (tmp_path / "down").mkdir()
    (tmp_path / "down" / "_tmp").symlink_to(outside)
    with pytest.raises(AccessDenied, match="symbolic link"):
        open_store(tmp_path / "down").put("w/a", b"1")
    assert everything_below(outside) == ["secret"]


def test_the_root_itself_may_be_a_link(outside, tmp_path):
    (tmp_path / "alias").symlink_to(outside)
    store = open_store(tmp_path / "alias")
    store.put("w/a", b"1")
    assert store.get("secret") == b"secret"
    assert (outside / "w" / "a").read_bytes() == b"1"
