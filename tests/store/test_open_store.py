"""From a URL to a store: what is understood, what is refused, and what the store calls itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lakelog.errors import InvalidUrl, MissingDependency
from lakelog.store import open_store
from lakelog.store.open import nested


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/lake/x", "/lake/x"),
        ("/lake/x/", "/lake/x"),
        ("/lake//x/../y", "/lake/y"),
        ("/", "/"),
        ("file:///lake/x", "/lake/x"),
        ("file:///lake/x/", "/lake/x"),
        ("FILE:///lake/x", "/lake/x"),
        ("file://localhost/lake/x", "/lake/x"),
        ("file:/lake/x", "/lake/x"),
        ("file:///lake/with%20space", "/lake/with space"),
        ("/lake/with%20space", "/lake/with%20space"),
        (Path("/lake/x"), "/lake/x"),
        ("/lake/a:b", "/lake/a:b"),
    ],
)
def test_a_path_is_a_local_store(url, path):
    store = open_store(url)
    assert (store.backend, store.url) == ("file", path)
    assert store.object_url("w/a") == f"{path.rstrip('/')}/w/a"


@pytest.mark.parametrize("url", ["lake", "./lake", "sub/../lake", "file", "s3", "a:b"])
def test_a_relative_path_becomes_absolute(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store(url).url == str(tmp_path / Path(url).name)


def test_the_home_folder_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert open_store("~/lake").url == "/home/somebody/lake"


def test_memory_is_shared_by_name_within_the_process():
    one, same, other = (open_store(f"memory://{name}") for name in ("m-one", "m-one/", "m-other"))
    one.put("w/a", b"1")
    assert same.get("w/a") == b"1"
    assert list(other.list("")) == []
    assert (one.backend, one.url) == ("memory", "memory://m-one")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("S3://bucket/a", "s3://bucket/a"),
        ("s3://bucket/ä/with space?x#y", "s3://bucket/ä/with space?x#y"),
    ],
)
def test_an_s3_url_is_normalised(url, shown):
    store = open_store(url)
    assert (store.backend, store.url) == ("s3", shown)
    assert store.object_url("w/a") == f"{shown}/w/a"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "empty"),
        ("nul\0", "not a path"),
        ("ftp://host/x", r"unknown scheme 'ftp://'.*memory://.*s3://"),
        ("s33://bucket/x", "unknown scheme"),
        ("s3:/bucket/x", r"two slashes.*s3://bucket/x"),
        ("memory:/x", "two slashes"),
        ("s3://bucket/x?X-Amz-Signature=SECRET", "the URL is signed"),
        ("az://c/x?sv=1&sig=SECRET", "the URL is signed"),
        ("dbfs:/mnt/lake", r"unknown scheme 'dbfs:/'.*/dbfs/"),
        ("hdfs:/user/lake", "unknown scheme 'hdfs:/'.*HDFS"),
        ("hdfs://name/lake", "unknown scheme 'hdfs://'.*HDFS"),
        ("wasbs:/c@a.blob.core.windows.net/x", "unknown scheme.*abfss://"),
        ("s3n:/bucket/x", "unknown scheme.*s3://bucket"),
        ("oss:/bucket/x", "unknown scheme.*endpoint_url"),
        ("odd:/bucket/x", r"unknown scheme.*\./odd:/bucket/x"),
        ("C:\\data\\lake", "path of Windows"),
        ("c:/data/lake", "path of Windows"),
        ("\\\\server\\share", "path of Windows"),
        ("file://host/x", "file URL"),
        ("file://relative", "file URL"),
        ("s3://", "no bucket"),
        ("s3:///x", "no bucket"),
        ("s3://bucket/a/../b", "path"),
        ("s3://bucket/a//b", "path"),
        ("s3://bucket/./b", "path"),
    ],
)
def test_what_is_no_url_is_refused_with_the_reason(url, why):
    with pytest.raises(InvalidUrl, match=why) as refused:
        open_store(url)
    assert "SECRET" not in str(refused.value) + repr(refused.value)


@pytest.mark.parametrize(
    ("scheme", "package", "extra"),
    [
        ("s3", "s3fs", "s3"),
        ("s3a", "s3fs", "s3"),
        ("gs", "gcsfs", "gcs"),
        ("gcs", "gcsfs", "gcs"),
        ("az", "adlfs", "azure"),
        ("abfs", "adlfs", "azure"),
        ("abfss", "adlfs", "azure"),
    ],
)
def test_a_missing_package_names_the_extra(scheme, package, extra, monkeypatch):
    monkeypatch.setitem(
        sys.modules, package, None
    )  # what import does for a package that isn't there
    with pytest.raises(MissingDependency, match=rf"pip install 'lakelog\[{extra}\]'") as caught:
        open_store(f"{scheme}://bucket/x")
    assert package in str(caught.value)


@pytest.mark.parametrize("url", [None, 5, b"q"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(InvalidUrl, match="is no URL"):
        open_store(url)


def test_dotted_names_of_options_are_those_of_inner_ones():
    given = {"key": "k", "client_kwargs": {"a": 1}, "client_kwargs.region_name": "eu-west-1"}
    found = nested({**given, "config_kwargs.s3.addressing_style": "path", "s3.region": "x"})
    assert found == {
        "key": "k",
        "client_kwargs": {"a": 1, "region_name": "eu-west-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
        "s3.region": "x",  # of another tool: the backend's error says what it is here
    }
    assert given["client_kwargs"] == {"a": 1}
