"""`lakelog add`: files, folders and patterns into a table, where they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.format.names import hive_partition
from lakelog.cli.commands.add import _translated


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Twelve files in folders of months, and what is no file of theirs."""
    folder = tmp_path / "raw"
    for month in (1, 2, 3):
        place = folder / f"year=2026/month={month:02}"
        place.mkdir(parents=True)
        for number in range(4):
            value = 10 * month + number
            pq.write_table(pa.table({"a": [value]}), place / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "year=2026/.hidden.parquet").write_text("no")
    (folder / "_temporary").mkdir()
    (folder / "_temporary/x.parquet").write_text("no")
    (folder / "notes.txt").write_text("no")
    return folder


def rows(lake: Path) -> list[int]:
    return sorted(open_catalog(str(lake)).snapshot("db").scan("t").read_all()["a"].to_pylist())


def test_a_folder(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = cli("add", lake, "db", "t", raw, "--writer", "W")
    assert done.code == 0
    assert done.out.startswith("committed revision 0 of W/db: 12 files, 12 rows, ")
    files = open_catalog(str(lake)).snapshot("db").files("t").to_pylist()
    assert {row["partition"] for row in files} == {f"year=2026/month=0{n}" for n in (1, 2, 3)}
    assert rows(lake) == [10 * month + n for month in (1, 2, 3) for n in range(4)]
    again = cli("add", lake, "db", "t", raw, "--writer", "W")
    assert again.out == (
        "nothing was committed: there is nothing new\n12 files left out: live already\n"
    )
    pq.write_table(pa.table({"a": [99]}), raw / "year=2026/month=03/new.parquet")
    more = cli("add", lake, "db", "t", raw, "--writer", "W", "-o", "json").json
    assert {k: more[k] for k in ("revision", "found", "added", "known", "bad", "row_count")} == {
        "revision": 1, "found": 13, "added": 1, "known": 12, "bad": 0, "row_count": 1,
    }  # fmt: skip
    assert 99 in rows(lake)
    assert more["token"] == open_catalog(str(lake)).snapshot("db").token
    assert more["as_of"] == {"W": 1}
    nothing = cli("add", lake, "db", "t", raw, "--writer", "W", "-o", "json").json
    assert (nothing["added"], nothing["token"]) == (0, None)


def test_files_patterns_and_urls(cli, raw: Path, tmp_path: Path, monkeypatch) -> None:
    lake = tmp_path / "lake"
    monkeypatch.chdir(raw)
    for patterns, count in (
        (["year=2026/month=01/part-0.parquet"], 1),
        ([f"file://{raw}/year=2026/month=01/part-[01].parquet"], 1),
        (["year=2026/*2/part-?.parquet", str(raw / "year=2026/month=01")], 6),
    ):
        done = cli("add", lake, "db", "t", *patterns, "--writer", "W", "-o", "json").json
        assert done["added"] == count
    taken = cli("add", lake, "db", "u", "year=2026/month=01/part-0.parquet", "--writer", "W")
    assert taken.code != 0  # a file is of one table
    named = [lake, "db", "u", "year=2026/month=03/part-0.parquet", "--writer", "W"]
    assert cli("add", *named, "--partition", "mine").code == 0
    assert open_catalog(str(lake)).snapshot("db").files("u")["partition"].to_pylist() == ["mine"]


def test_a_dry_run_commits_nothing(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = cli("add", lake, "db", "t", raw, "--writer", "W", "--dry-run")
    assert done.out.startswith("nothing was committed; this would be added: 12 files, 12 rows")
    assert not list(lake.glob("W/db/transactions/*"))


def test_a_bad_file(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    bad = raw / "year=2026/month=02/part-1.parquet"
    bad.write_bytes(b"PAR1 it is not")
    done = cli("add", lake, "db", "t", raw, "--writer", "W")
    assert (done.code, done.out) == (2, "")
    assert str(bad) in done.err
    assert not list(lake.glob("W/db/transactions/*"))
    done = cli("add", lake, "db", "t", raw, "--writer", "W", "--skip-bad")
    assert done.code == 0
    assert "11 files, 11 rows" in done.out
    assert "1 file left out: no sound Parquet" in done.out
    assert str(bad) in done.out
    found = cli("add", lake, "db", "t", bad, "--writer", "W", "--skip-bad", "-o", "json").json
    assert found["bad_files"][0]["file"] == str(bad)


def test_a_conflict(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    cli("add", lake, "db", "t", raw, "--writer", "W")
    odd = raw / "odd.parquet"
    pq.write_table(pa.table({"a": ["text"]}), odd)
    done = cli("add", lake, "db", "t", raw, "--writer", "W")
    assert done.code != 0
    assert str(odd) in done.err
    assert "Nothing was added" in done.err
    assert "on_conflict" not in done.err  # which the command hasn't got
    assert len(rows(lake)) == 12


@pytest.mark.parametrize("inside", ["_delta_log/00.json", ".hoodie/x", "metadata/v1.metadata.json"])
def test_a_table_of_another_format_is_refused(cli, raw: Path, tmp_path: Path, inside: str) -> None:
    """Files that it has removed lie there still."""
    (raw / inside).parent.mkdir()
    (raw / inside).touch()
    done = cli("add", tmp_path / "lake", "db", "t", raw, "--writer", "W")
    assert done.code == 2
    assert "table of another format" in done.err


def test_a_lake_is_refused(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    cli("write", lake, "db", "t", raw / "year=2026/month=01/part-0.parquet", "--writer", "W")
    done = cli("add", tmp_path / "other", "db", "t", lake, "--writer", "W")
    assert done.code == 2
    assert "lakelog catalog" in done.err


@pytest.mark.parametrize("pattern", ["no.parquet", "no/*.parquet", "empty", "s3:///x"])
def test_what_names_nothing(cli, tmp_path: Path, pattern: str, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = cli("add", tmp_path / "lake", "db", "t", pattern, "--writer", "W")
    assert done.code != 0
    assert not (tmp_path / "lake").exists()


def test_show_says_where(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    cli("add", lake, "db", "t", raw, "--writer", "W")
    cli("checkpoint", lake, "db", "--writer", "W")
    actions = cli("show", lake, "db", "-r", "0", "-o", "json").json["actions"]
    (found,) = (action["fields"] for action in actions if action["kind"] == "location")
    assert found == {"id": "84c4e22388328df4", "url": "file://"}
    text = cli("show", lake, "db", "-r", "0").out
    assert "location\n        url  file://\n        id   84c4e22388328df4\n" in text
    shown = cli("show", lake, "db", "-r", "0", "--kind", "checkpoint", "-o", "json")
    if shown.code == 0:
        assert shown.json["locations"] == ["file://"]
    assert cli("doctor", lake, "--no-probe").code == 0


@pytest.mark.parametrize(
    ("path", "partition"),
    [
        ("/raw/year=2026/month=11/x.parquet", "year=2026/month=11"),
        ("s3://b/year=2026/x.parquet", "year=2026"),
        ("/a=1/b/c=2/d==3/x=4.parquet", "c=2/d==3"),
        ("/raw/x.parquet", ""),
        ("/raw/=1/x.parquet", ""),
        ("/raw/day=a%20b/é=/x.parquet", "day=a%20b/é="),
    ],
)
def test_the_partition_that_folders_name(path: str, partition: str) -> None:
    assert hive_partition(path) == partition


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a/*.parquet", "a/x.parquet", True),
        ("a/*.parquet", "a/b/x.parquet", False),
        ("a/**/*.parquet", "a/x.parquet", True),
        ("a/**/*.parquet", "a/b/c/x.parquet", True),
        ("a/**", "a/b/c", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("x[0-9]", "x7", True),
        ("x[!0-9]", "x7", False),
        ("a.b*", "axb", False),
    ],
)
def test_patterns_of_keys(pattern: str, name: str, fits: bool) -> None:
    assert bool(_translated(pattern).fullmatch(name)) == fits


@pytest.mark.s3
def test_a_bucket(cli, raw: Path, tmp_path: Path, moto, monkeypatch) -> None:
    """A local lake, files on S3: by the options of the place; and they are in no output."""
    import s3fs

    bucket = moto.make_bucket()
    s3fs.S3FileSystem(**moto.storage_options).put(f"{raw}/", f"{bucket}/raw/", recursive=True)
    options = json.dumps({f"s3://{bucket}": moto.storage_options})
    monkeypatch.setenv("LAKELOG_LOCATION_OPTIONS", options)
    lake = tmp_path / "lake"
    for pattern, count in (
        (f"s3://{bucket}/raw/year=2026/month=01/part-0.parquet", 1),
        (f"s3://{bucket}/raw/*/*/part-[12].parquet", 6),
        (f"s3://{bucket}/raw", 5),
    ):
        done = cli("add", lake, "db", "t", pattern, "--writer", "W", "-o", "json")
        assert done.json["added"] == count
        assert "testing-secret" not in done.out + done.err
    assert len(cli("scan", lake, "db", "t", "-o", "jsonl").out.splitlines()) == 12
    files = cli("files", lake, "db", "t", "-o", "json").json["files"]
    assert {row["partition"] for row in files} == {f"year=2026/month=0{n}" for n in (1, 2, 3)}


@pytest.mark.parametrize("text", ["no", "[]", '{"s3://b": 1}'])
def test_location_options_that_are_none(cli, weather: str, text: str, monkeypatch) -> None:
    monkeypatch.setenv("LAKELOG_LOCATION_OPTIONS", text)
    done = cli("tables", weather, "weather")
    assert done.code == 2
    assert "LAKELOG_LOCATION_OPTIONS is not a JSON object of objects" in done.err
