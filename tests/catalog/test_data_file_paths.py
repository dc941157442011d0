"""Paths of data files: which may stand in a log, and what those of lakelog say."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import (
    MAX_PATH_BYTES,
    DataFile,
    check_path,
    data_path,
    parse_data_file,
    partition_folder,
)
from lakelog.errors import InvalidPath
from lakelog.store.base import check_key

ID = b"\x00\x01" + b"\xab" * 14


# --- Paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good",
    [
        "data/a",
        "data/a/b/c.parquet",
        "data/ü/日本語.parquet",
        "data/hour=3/x",
        "data/.hidden",
        "data/...",
        "data/a..b",
        "data/%2E%2E/x",
        "data/" + "x" * 255,
        "data/\x80",
        "data/a b",
    ],
)
def test_good_paths(good):
    assert check_path(good) == good
    check_key(good)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "data",
        "data/",
        "/data/x",
        "Data/x",
        "data//x",
        "data/x/",
        "data/.",
        "data/..",
        "data/../x",
        "data/x/../../../w2/db/data/secret",
        "data/./x",
        "data/x\\y",
        "data/x\x00",
        "data/x\ny",
        "data/\x7f",
        "data/\ud800",
        "data/" + "x" * 256,
        "data/" + "ü" * 128,
        "data/" + "x/" * 500 + "x",
        "s3://bucket/data/x",
        "transactions/00000000000000000000.00000000.transaction",
        "../data/x",
        None,
        7,
    ],
)
def test_bad_paths(bad):
    with pytest.raises(InvalidPath) as caught:
        check_path(bad)
    assert caught.value.hint


@pytest.mark.parametrize("path", [pa.scalar("data/x"), Path("data/x"), b"data/x", 7], ids=repr)
def test_what_is_no_text_is_no_path_and_the_error_says_that(path):
    with pytest.raises(InvalidPath, match=f"is of type {type(path).__name__}") as caught:
        check_path(path)
    assert "below" not in str(caught.value)
    assert ".as_py()" in caught.value.hint


def test_the_length_of_a_path_is_counted_in_bytes():
    def path(size):
        body = "data/" + "/".join(["x" * 200] * 4) + "/"
        return body + "y" * (size - len(body))

    assert check_path(path(MAX_PATH_BYTES))
    with pytest.raises(InvalidPath):
        check_path(path(MAX_PATH_BYTES + 1))


@given(st.text(st.sampled_from("data/.\\%x\x00\x7f\x80ü"), max_size=24).map("data/".__add__))
def test_a_good_path_is_a_good_key(path):
    try:
        check_path(path)
    except InvalidPath:
        return
    check_key(f"w/db/{path}")
    assert not {"", ".", ".."} & set(path.split("/"))


# --- Data files -----------------------------------------------------------------------------------


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(1, 2**62 - 1),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 999_999_999),
)
def test_data_paths_say_epoch_transaction_and_number(
    partition, table, epoch, transaction_id, number
):
    path = data_path(partition, table, epoch, transaction_id, number)
    assert parse_data_file(path) == DataFile(epoch, transaction_id, number)
    _, *folders, name, _ = path.split("/")
    assert unquote(name) == table
    parts = ["" if folder == "_" else unquote(folder) for folder in folders]
    assert "/".join(parts) == partition


@pytest.mark.parametrize(
    ("partition", "folders"),
    [
        ("", "_"),
        ("_", "%5F"),
        ("year=2026/month=11", "year=2026/month=11"),
        ("a//_/..", "a/_/%5F/%2E%2E"),
        ("/", "_/_"),
        ("a%2Fb/*", "a%252Fb/%2A"),
    ],
)
def test_a_partition_has_a_folder_a_level(partition, folders):
    assert partition_folder(partition) == folders
    assert data_path(partition, "t", 1, ID, 0).startswith(f"data/{folders}/t/1-")


@given(*[st.text(st.sampled_from("/_%5F.=a"), max_size=6)] * 2)
def test_no_two_partitions_have_one_folder(left, right):
    assert (partition_folder(left) == partition_folder(right)) == (left == right)


def test_the_empty_partition_and_one_called_underscore_are_two():
    paths = {data_path(name, "t", 1, ID, 0) for name in ("", "_", "%5F")}
    assert len(paths) == 3


@pytest.mark.parametrize(
    "path",
    [
        "data/_/t/x.parquet",
        "data/_/t/0-" + "ab" * 16 + "-0.parquet",
        "data/_/t/01-" + "ab" * 16 + "-0.parquet",
        "data/_/t/1-" + "AB" * 16 + "-0.parquet",
        f"data/_/t/{2**62}-" + "ab" * 16 + "-0.parquet",
        "data/_/t/1-" + "ab" * 15 + "-0.parquet",
        "data/_/t/1-" + "ab" * 16 + "-0.parquet.tmp",
        "data/_/t/1-" + "ab" * 16 + "-٣.parquet",
    ],
)
def test_foreign_data_files_have_no_epoch(path):
    assert parse_data_file(path) is None
