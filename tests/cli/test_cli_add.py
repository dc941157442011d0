"""`lakelog add`: files, folders and patterns into a table, where they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.format.names import hive_partition
from lakelog.cli.inputs.patterns import _translated


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
        f"1 file left out, by their names: {raw}/notes.txt (a pattern adds any name: 'FOLDER/*')\n"
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


MARKERS = [
    "_delta_log/00.json",
    ".hoodie/x",
    "metadata/v1.metadata.json",
    "metadata/00001-x.gz.metadata.json",
    "snapshot/snapshot-1",
    "_spark_metadata/0",
    "ducklake-0195f2a4-6d3f-7a51-9d3e-1f0a4a5b6c7d.parquet",
]
OF_ONE_FOLDER = [  # which are beside the files that they speak of
    "_started_4066814627736345733",
    "_committed_4066814627736345733",
    ".hoodie_partition_metadata",
    ".hoodie_partition_metadata.parquet",
    "base_0000005/000000_0",
    "delta_0000001_0000001_0000/000000_0",
]


@pytest.mark.parametrize("below", ["", "year=2026/month=01"])
@pytest.mark.parametrize("inside", [*MARKERS, *OF_ONE_FOLDER])
def test_a_table_of_another_format_is_refused(
    cli, raw: Path, tmp_path: Path, inside: str, below: str
) -> None:
    """Files that it has removed lie there still."""
    marker = raw / below / inside
    marker.parent.mkdir(exist_ok=True)
    marker.touch()
    named = [raw, f"{raw}/*/*/*"]
    if inside in OF_ONE_FOLDER and below:
        named += [marker.parent, f"{marker.parent}/*"]
    for each in named if below else named[:1]:
        done = cli("add", tmp_path / "lake", "db", "t", each, "--writer", "W")
        assert done.code == 2, each
        assert "table of another format" in done.err


def test_inside_an_iceberg_table_with_many_manifests(cli, raw: Path, tmp_path: Path) -> None:
    (raw / "metadata").mkdir()
    for number in range(1_100):
        (raw / f"metadata/{number:08x}-m0.avro").touch()
    (raw / "metadata/v3.metadata.json").touch()
    done = cli("add", tmp_path / "lake", "db", "t", raw / "year=2026", "--writer", "W")
    assert done.code == 2
    assert "v3.metadata.json" in done.err


def test_folders_that_only_look_so(cli, raw: Path, tmp_path: Path) -> None:
    for name in ("base_20240101", "delta_1", "snapshot", "metadata"):
        (raw / name).mkdir()
        (raw / name / "x.json").touch()
    for name in ("_SUCCESS", "_metadata", "_started"):
        (raw / name).touch()
    assert cli("add", tmp_path / "lake", "db", "t", raw, "--writer", "W").code == 0


@pytest.mark.parametrize("inside", [name for name in MARKERS if not name.startswith("ducklake")])
@pytest.mark.parametrize(
    "named",
    [
        "year=2026",
        "year=2026/month=01",
        "year=2026/month=01/*.parquet",
        "*/*/part-1.parquet",
        "../link",
    ],
)
def test_a_part_of_such_a_table_is_refused(
    cli, raw: Path, tmp_path: Path, inside: str, named: str
) -> None:
    (raw / inside).parent.mkdir(exist_ok=True)
    (raw / inside).touch()
    (tmp_path / "link").symlink_to(raw / "year=2026/month=02")
    done = cli("add", tmp_path / "lake", "db", "t", raw / named, "--writer", "W")
    assert done.code == 2
    assert "table of another format" in done.err
    assert inside in done.err
    one = raw / "year=2026/month=01/part-0.parquet"
    assert cli("add", tmp_path / "lake", "db", "t", one, "--writer", "W").code == 0


def test_a_log_of_another_lake_is_refused(cli, raw: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    cli("write", lake, "db", "t", raw / "year=2026/month=01/part-0.parquet", "--writer", "W")
    done = cli("add", tmp_path / "other", "db", "t", lake / "W/db/data", "--writer", "W")
    assert done.code == 2
    assert "lakelog catalog" in done.err


@pytest.mark.parametrize("name", ["no", "b.parquet"])
def test_a_link_to_nothing(cli, raw: Path, tmp_path: Path, name: str) -> None:
    link = raw / "year=2026/broken.parquet"
    link.symlink_to(tmp_path / name)
    done = cli("add", tmp_path / "lake", "db", "t", raw, "--writer", "W")
    assert done.code == 3
    assert f"{link} is a link to {tmp_path / name}, which is not there" in done.err
    skipped = cli("add", tmp_path / "lake", "db", "t", raw, "--writer", "W", "--skip-bad")
    assert skipped.code == 0
    assert str(link) in skipped.out


def test_names_without_an_ending_are_counted(cli, tmp_path: Path) -> None:
    folder = tmp_path / "hive"
    folder.mkdir()
    names = ["a.parquet", "b.pq", "000000_0", "part.parquet.snappy", "C.PARQUET"]
    for name in names:
        pq.write_table(pa.table({"n": [1]}), folder / name)
    (folder / "_SUCCESS").touch()
    done = cli("add", tmp_path / "lake", "db", "t", folder, "--writer", "W")
    assert "3 files left out, by their names: " in done.out
    assert f"{folder}/000000_0, " in done.out
    found = cli("add", tmp_path / "lake", "db", "t", folder, "--writer", "W", "-o", "json").json
    assert found["ignored"] == 3
    assert len(found["ignored_files"]) == 3
    cli("add", tmp_path / "lake", "db", "t", f"{folder}/*0_0", "--writer", "W")
    assert len(rows_of(tmp_path / "lake")) == 3


def rows_of(lake: Path) -> list[dict[str, object]]:
    return open_catalog(str(lake)).snapshot("db").to_arrow("t").to_pylist()


# --- Types of the columns that folders name -------------------------------------------------------


def folder(tmp_path: Path, *names: str) -> Path:
    """A new folder with a file in each of these below it."""
    top = tmp_path / f"in{len(list(tmp_path.iterdir()))}"
    for number, name in enumerate(names):
        (top / name).mkdir(parents=True)
        pq.write_table(pa.table({"n": [number]}), top / name / f"{number}.parquet")
    return top


NULL = "k=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("names", "kind", "values"),
    [
        (["k=09", "k=10"], pa.string(), ["09", "10"]),
        (["k=10", "k=09"], pa.int64(), [10, 9]),
        (["k=7", NULL], pa.int64(), [7, None]),
        (["k=a", NULL], pa.string(), ["a", None]),
        (["k=x", "k=5"], pa.string(), ["x", "5"]),
        (["k=2024-01-31", "k=2024-02-01"], pa.date32(), None),
    ],
)
@pytest.mark.parametrize("writer", ["W", "V"])
def test_the_table_says_the_type(cli, tmp_path: Path, names, kind, values, writer: str) -> None:
    lake = tmp_path / "lake"
    for name, who in zip(names, ("W", writer), strict=True):
        assert cli("add", lake, "db", "t", folder(tmp_path, name), "--writer", who).code == 0
    found = open_catalog(str(lake)).snapshot("db").to_arrow("t")["k"]
    assert found.type == kind
    if values is not None:
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, values))


@pytest.mark.parametrize("writer", ["W", "V"])
def test_a_type_that_the_table_has_not_is_refused(cli, tmp_path: Path, writer: str) -> None:
    lake = tmp_path / "lake"
    assert cli("add", lake, "db", "t", folder(tmp_path, "k=5"), "--writer", "W").code == 0
    done = cli("add", lake, "db", "t", folder(tmp_path, "k=x"), "--writer", writer)
    assert done.code == 4
    assert "--partition-type" in done.err
    assert cli("scan", lake, "db", "t").code == 0


def test_names_alone_in_python_have_the_types_of_the_table(tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "lake"))
    top = folder(tmp_path, "k=10", "k=09", NULL)
    with catalog.writer("W", "db") as writer:
        for number, name in enumerate(("k=10", "k=09", NULL)):
            with writer.transaction() as tx:
                tx.add("t", top / name / f"{number}.parquet", name, partition_by=["k"])
    found = catalog.snapshot("db").to_arrow("t")["k"]
    assert (found.type, found.to_pylist()) == (pa.int64(), [10, 9, None])


def test_an_option_says_the_type(cli, tmp_path: Path) -> None:
    lake, first = tmp_path / "lake", folder(tmp_path, NULL, "k=09")
    alone = folder(tmp_path, NULL)
    refused = cli("add", lake, "db", "t", alone, "--writer", "W")
    assert refused.code == 2
    assert "--partition-type" in refused.err
    typed = ("--writer", "W", "--partition-type", "k=int")
    assert cli("add", lake, "db", "t", alone, *typed).code == 0
    assert cli("add", lake, "db", "t", first, *typed).code == 0
    found = open_catalog(str(lake)).snapshot("db").to_arrow("t")["k"]
    assert (found.type, sorted(map(str, found.to_pylist()))) == (pa.int64(), ["9", "None", "None"])
    other = cli("add", lake, "db", "t", first, "--writer", "W", "--partition-type", "j=int")
    assert other.code == 2
    assert "No folder names a value of 'j'" in other.err
    misfit = cli("add", lake, "db", "u", first, "--writer", "W", "--partition-type", "k=date")
    assert misfit.code == 2


def test_a_column_in_the_file_counts(cli, tmp_path: Path) -> None:
    """What its folder says of it is nothing to the table."""
    lake, top = tmp_path / "lake", tmp_path / "raw"
    for number, name in enumerate(("day=2024-01-01", "day=x")):
        (top / name).mkdir(parents=True)
        pq.write_table(pa.table({"day": [number]}), top / name / "a.parquet")
        assert cli("add", lake, "db", "t", top / name, "--writer", "W").code == 0
    assert rows_of(lake) == [{"day": 0}, {"day": 1}]


# --- Keys of buckets ------------------------------------------------------------------------------


@pytest.mark.s3
@pytest.mark.parametrize("key", ["a//b.parquet", "deep//", "p=1#2/f.parquet", "p=1?2/f.parquet"])
def test_keys_that_no_folder_has(cli, tmp_path: Path, moto, monkeypatch, key: str) -> None:
    import s3fs

    bucket, files = moto.make_bucket(), s3fs.S3FileSystem(**moto.storage_options)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1]}), sink)
    body = sink.getvalue().to_pybytes()
    for name in ("good.parquet", key):
        files.call_s3("put_object", Bucket=bucket, Key=f"raw/{name}", Body=body)
    options = json.dumps({f"s3://{bucket}": moto.storage_options})
    monkeypatch.setenv("LAKELOG_LOCATION_OPTIONS", options)
    lake, pattern = tmp_path / "lake", f"s3://{bucket}/raw"
    if not key.endswith("/"):
        refused = cli("add", lake, "db", "t", pattern, "--writer", "W")
        assert refused.code == 2
        assert key in refused.err
    done = cli("add", lake, "db", "t", pattern, "--writer", "W", "--skip-bad", "-o", "json")
    assert (done.code, done.json["added"]) == (0, 1)
    assert [one["file"] for one in done.json["bad_files"]] == (
        [] if key.endswith("/") else [f"s3://{bucket}/raw/{key}"]
    )


@pytest.mark.s3
def test_a_partition_of_a_delta_table_in_a_bucket(cli, tmp_path: Path, moto, monkeypatch) -> None:
    import s3fs

    bucket, files = moto.make_bucket(), s3fs.S3FileSystem(**moto.storage_options)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1]}), sink)
    for top in ("delta", "plain"):
        files.pipe(f"{bucket}/{top}/k=1/a.parquet", sink.getvalue().to_pybytes())
    files.pipe(f"{bucket}/delta/_delta_log/00000000000000000000.json", b"{}")
    options = json.dumps({f"s3://{bucket}": moto.storage_options})
    monkeypatch.setenv("LAKELOG_LOCATION_OPTIONS", options)
    for pattern, code in (
        ("delta/k=1", 2),
        ("delta/k=*/*.parquet", 2),
        ("*/k=1/*.parquet", 2),
        ("plai*/k=1/*.parquet", 0),
        ("plain", 0),
        ("delta/k=1/a.parquet", 0),
    ):
        done = cli("add", tmp_path / "lake", "db", "t", f"s3://{bucket}/{pattern}", "--writer", "W")
        assert done.code == code, pattern


@pytest.mark.s3
def test_a_local_file_in_a_catalog_on_s3(cli, raw: Path, moto, monkeypatch) -> None:
    url = f"s3://{moto.make_bucket()}/lake"
    monkeypatch.setenv("LAKELOG_STORAGE_OPTIONS", json.dumps(dict(moto.storage_options)))
    for name in (raw, f"file://{raw}/year=2026/month=01/part-0.parquet"):
        done = cli("add", url, "db", "t", name, "--writer", "W")
        assert done.code == 2
        assert "--allow-local" in done.err
    assert cli("add", url, "db", "t", raw, "--writer", "W", "--allow-local").code == 0


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
    cli("checkpoint", lake, "db", "--writer", "W", "--execute")
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


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_spellings_of_a_folder(cli, raw: Path, tmp_path: Path, prefix: str) -> None:
    assert cli("add", tmp_path / "lake", "db", "t", f"{prefix}{raw}", "--writer", "W").code == 0
    assert len(rows(tmp_path / "lake")) == 12


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("dbfs:/mnt/x", "/dbfs/"),
        ("hdfs://name/x", "HDFS"),
        ("oss://b/x", "endpoint_url"),
        ("C:\\data", "WSL"),
    ],
)
def test_places_that_nothing_here_opens(cli, tmp_path: Path, monkeypatch, url, words) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("add", tmp_path / "lake", "db", "t", url, "--writer", "W")
    assert done.code == 2
    assert words in done.err
