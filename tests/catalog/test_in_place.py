"""Files that lie elsewhere: taken in, read by everything that reads, checked, and never touched."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from in_place_cases import HERE, parquet, values
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.adopt import NewFile
from lakelog.catalog.log.admission import check_writer_features
from lakelog.errors import (
    CorruptObject,
    FileNotLive,
    InvalidPath,
    InvalidUrl,
    ObjectNotFound,
    UsageError,
)
from lakelog.store import WideStore
from lakelog.testing.counting import CountingStore


def before(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.glob("*.parquet")}


@pytest.mark.parametrize("checkpointed", [False, True])
def test_all_that_reads_reads_them(in_place: Catalog, out: Path, checkpointed: bool) -> None:
    if checkpointed:
        with in_place.writer("w", "db") as writer:
            writer.checkpoint()
    snapshot = in_place.snapshot("db")
    files = {row["path"]: row for row in snapshot.files("t").to_pylist()}
    path = f"at/{HERE}{out}/x0.parquet"
    assert files[path]["url"] == str(out / "x0.parquet")
    assert files[path]["size_bytes"] == (out / "x0.parquet").stat().st_size
    assert all(Path(row["url"]).exists() for row in files.values())
    want = [0, 1, 10, 11, 100]
    assert values(in_place) == want
    assert values(in_place, partition="p=1") == [1, 11]
    assert values(in_place, where="a > 10") == [11, 100]
    assert sorted(snapshot.to_arrow("t").column("a").to_pylist()) == want
    assert sorted(snapshot.dataset("t").to_table().column("a").to_pylist()) == want
    assert sorted(snapshot.to_polars("t").collect()["a"].to_list()) == want
    assert sorted(snapshot.to_pandas("t")["a"]) == want
    assert snapshot.to_duckdb().sql("select sum(a) from t").fetchall() == [(sum(want),)]
    told = {row["path"]: row for row in snapshot.statistics("t").to_pylist()}
    assert (told[path]["min"], told[path]["max"]) == (bytes(8), bytes([10, *bytes(7)]))
    kept = [row["path"] for row in snapshot.explain("t", "a = 10").to_pylist() if row["kept"]]
    assert path in kept
    assert f"at/{HERE}{out}/x1.parquet" in kept  # 1 to 11
    assert {Path(part.key).name for part in snapshot.file_parts("t", where="a = 0")} == {
        "x0.parquet"
    }


def test_the_log_says_where_and_requires_the_feature(in_place: Catalog) -> None:
    for _ in range(2):
        (state,) = in_place.snapshot("db")._states
        assert state.locations == {"file://"}
        assert state.reader_features == state.writer_features == {"locations"}
        check_writer_features(state)
        with in_place.writer("w", "db") as writer:
            writer.checkpoint()


def test_the_feature_and_the_place_are_named_once(in_place: Catalog, out: Path) -> None:
    with in_place.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", out / "x2.parquet")
    kinds = [
        a.WhichOneof("kind") for a in in_place.snapshot("db")._states[0].tail[-1].message.actions
    ]
    assert kinds == ["add"]


def test_a_lake_that_is_opened_anew_reads_them_without_being_told(in_place: Catalog) -> None:
    assert values(open_catalog(in_place.url)) == [0, 1, 10, 11, 100]


# --- Changed and vanished -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gone", "shorter", "same size", "folder"])
def test_a_file_that_is_not_what_it_was_is_an_error_that_names_it(
    in_place: Catalog, out: Path, how: str
) -> None:
    file = out / "x0.parquet"
    body = file.read_bytes()
    if how == "same size":
        at = body.rindex(b"created_by") if b"created_by" in body else len(body) - 30
        file.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    elif how == "shorter":
        parquet(file, 7)
    else:
        file.unlink()
        if how == "folder":
            file.mkdir()
    kind = CorruptObject if how in ("same size", "shorter") else ObjectNotFound
    for read in (
        lambda: in_place.snapshot("db").scan("t").read_all(),
        lambda: in_place.snapshot("db").to_arrow("t"),
        lambda: in_place.snapshot("db").to_polars("t").collect(),
    ):
        with pytest.raises(Exception, match=r"x0\.parquet") as caught:
            read()
        assert "tx.remove" in str(caught.value)
    with pytest.raises(kind):
        in_place.snapshot("db").scan("t").read_all()
    assert values(in_place, partition="p=1") == [1, 11]
    named = [f.object for f in in_place.check("db").findings if f.severity == "error"]
    assert named == ([] if how == "same size" else [f"file://{file}"])
    (found,) = in_place.check("db", level="footers").findings
    assert (found.object, found.severity) == (f"file://{file}", "error")


def test_it_is_taken_out_by_its_url_and_added_anew(in_place: Catalog, out: Path) -> None:
    file = out / "x0.parquet"
    parquet(file, 7, 8, 9)
    with in_place.writer("w", "db") as writer, writer.transaction() as tx:
        tx.remove(f"file://{file}")
        tx.add("t", file)
    assert values(in_place) == [1, 7, 8, 9, 11, 100]
    with in_place.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.remove(str(file))
        with pytest.raises(FileNotLive):
            writer.transaction().remove(str(file))
    assert values(in_place) == [1, 11, 100]
    with in_place.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", f"at/{HERE}{file}")  # as the log has it
    assert values(in_place) == [1, 7, 8, 9, 11, 100]


def test_check_finds_nothing_where_all_is_well(in_place: Catalog) -> None:
    assert in_place.check("db", level="data").findings == ()


# --- Nothing but reading --------------------------------------------------------------------------


def test_nothing_is_written_elsewhere(in_place: Catalog, out: Path) -> None:
    seen = before(out)
    folder = sorted(os.listdir(out))
    with in_place.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.add("t", out / "x2.parquet")
        with writer.transaction() as tx:
            tx.remove(str(out / "x2.parquet"))
        writer.checkpoint()
    values(in_place)
    assert (before(out), sorted(os.listdir(out))) == (seen, folder)
    wide = WideStore(in_place.store)
    with pytest.raises(InvalidPath):
        wide.put(f"file://{out}/x.parquet", b"x")
    with pytest.raises(InvalidPath):
        wide.delete([f"file://{out}/x0.parquet"])
    assert before(out) == seen


# --- Another store --------------------------------------------------------------------------------


@pytest.mark.s3
def test_buckets_of_other_stores(moto, tmp_path: Path, out: Path, monkeypatch) -> None:
    """A local lake, and one on S3, with files in another bucket, by the options of that bucket."""
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    bucket, own = moto.make_bucket(), moto.make_bucket()
    s3fs.S3FileSystem(**moto.storage_options).put(f"{out}/", f"{bucket}/raw/y=1/", recursive=True)
    url = f"s3://{bucket}/raw/y=1/x0.parquet"
    options = {f"s3://{bucket}/raw": moto.storage_options}
    for lake in (
        open_catalog(str(tmp_path / "local"), location_options=options),
        open_catalog(f"s3://{own}/lake", moto.storage_options),
    ):
        with lake.writer("w", "db") as writer:
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [100]}))
                tx.add("t", url)
                tx.add("t", f"s3a://{bucket}/raw/y=1/x1.parquet")
            writer.checkpoint()
        assert values(lake) == [0, 1, 10, 11, 100]
        urls = lake.snapshot("db").files("t")["url"].to_pylist()
        assert url in urls
        assert f"s3://{bucket}/raw/y=1/x1.parquet" in urls
        assert lake.check("db", level="footers").is_sound
    lake.wide.at(f"s3://{bucket}").delete(["raw/y=1/x0.parquet"])
    with pytest.raises(ObjectNotFound, match=f"{bucket}/raw/y=1/x0.parquet"):
        values(lake)
    (mine,) = (one for one in urls if own in one)
    own_only = pytest.raises(InvalidPath, match="lakelog's own files only")
    with lake.writer("w", "db") as writer, own_only:
        writer.transaction().add_all("t", [NewFile(mine)])


def test_options_of_a_place_are_given_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="twice"):
        open_catalog(str(tmp_path), location_options={"s3://b": {}, "s3a://b/x": {}})
    with pytest.raises(InvalidUrl):
        open_catalog(str(tmp_path), location_options={"b": {}})


def test_one_request_or_two_a_file(lake: Catalog, out: Path) -> None:
    """1 HEAD and 1 GET; no HEAD where the size is known."""
    wide = WideStore(lake.store)
    counting = CountingStore(wide.at("file://"))
    wide._stores["file://"] = counting
    catalog = Catalog(lake.store, wide=wide)
    with catalog.writer("w", "db") as writer:
        writer.transaction().add("t", out / "x0.parquet")
        assert {k: n for k, n in counting.reset().items() if n} == {"head": 1, "get": 1}
        sized = NewFile(str(out / "x0.parquet"), size_bytes=(out / "x0.parquet").stat().st_size)
        writer.transaction().add_all("t", [sized])
        assert {k: n for k, n in counting.reset().items() if n} == {"get": 1}
