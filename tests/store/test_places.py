"""Where files lie, by URL or path: one name for one place."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakelog.errors import InvalidPath, InvalidUrl
from lakelog.store.places import place_below, place_of, root_of


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("s3://b/x/y.parquet", "s3://b/x/y.parquet"),
        ("S3A://b//x.parquet", "s3://b/x.parquet"),
        ("gcs://b/x", "gs://b/x"),
        ("gs://b/a%20b", "gs://b/a%20b"),
        ("abfs://c/x", "az://c/x"),
        ("az://c/x", "az://c/x"),
        ("abfs://c@a.host/x", "abfss://c@a.host/x"),
        ("abfss://c@a.host/x", "abfss://c@a.host/x"),
        ("file:///no/such%20place/x", "file:///no/such place/x"),
        ("file://localhost/no/x", "file:///no/x"),
        ("/no/such/x", "file:///no/such/x"),
        ("/no//such/x#1?y", "file:///no/such/x#1?y"),
    ],
)
def test_one_place_has_one_name(name: str, url: str) -> None:
    place = place_of(name)
    assert place.url == url
    assert root_of(name) == place.root


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ftp://b/x", InvalidUrl),
        ("s3:///x", InvalidUrl),
        ("gs://u:p@b/x", InvalidUrl),
        ("abfss://u:p@host/x", InvalidUrl),
        ("s3://b", InvalidPath),
        ("s3://b/", InvalidPath),
        ("s3://b/x//y", InvalidPath),
        ("s3://b/x/../y", InvalidPath),
        ("s3://b/x?y=1", InvalidPath),
        ("relative/x", InvalidPath),
        ("/a/../b", InvalidPath),
        ("/", InvalidPath),
    ],
)
def test_what_names_no_file(name: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        place_of(name)


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/y").symlink_to("x")
    for name in ("link/x", "link/y", "real/y"):
        assert place_of(str(tmp_path / name)) == place_of(str(tmp_path / "real/x"))


def test_what_a_store_calls_its_objects() -> None:
    assert place_below("/a/b") == ("file://", "a/b")
    assert place_below("s3://b/x y") == ("s3://b", "x y")
    assert place_below("abfs://c@h/x") == ("abfss://c@h", "x")
    assert place_below("memory://m/x") is None


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/x.parquet?X-Amz-Credential=AKIA&X-Amz-Signature=SECRET",
        "az://c/x.parquet?sig=SECRET",
        "abfss://c@a.dfs.core.windows.net/x.parquet?sv=2024&sig=SECRET",
        "file:///x.parquet?sig=SECRET",
    ],
)
def test_a_signature_is_not_shown(url):
    with pytest.raises(InvalidPath, match="no query") as refused:
        place_of(url)
    assert "SECRET" not in str(refused.value) + repr(refused.value) + str(refused.value.key)


def test_a_key_with_such_a_sign_is_shown():
    with pytest.raises(InvalidPath, match=r"p=1#2/f\.parquet"):
        place_of("s3://b/p=1#2/f.parquet")
