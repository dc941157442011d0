"""Which files that lie elsewhere may be taken in, and under which names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from in_place_cases import HERE, parquet, values
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.adopt import NewFile
from lakelog.catalog.format.names import MAX_LOCATIONS
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    InvalidParquet,
    InvalidPath,
    InvalidUrl,
    LakelogError,
    ObjectNotFound,
    SchemaConflict,
    UsageError,
)
from lakelog.testing.logs import LogBuilder, add_action, schema_action

# --- What may be added ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("s3://key:secret@b/x.parquet", InvalidUrl),
        ("s3://key@b/x.parquet", InvalidUrl),
        ("s3://b/../x.parquet", InvalidPath),
        ("s3://b/y/./x.parquet", InvalidPath),
        ("s3://b/x.parquet?versionId=1", InvalidPath),
        ("s3://b/x.parquet#1", InvalidPath),
        ("s3://b", InvalidPath),
        ("s3://b/y/", InvalidPath),
        ("s3:///x.parquet", InvalidUrl),
        ("s3://b/y\\x.parquet", InvalidPath),
        ("s3://b/" + "x" * 900, InvalidPath),
        ("http://b/x.parquet", InvalidUrl),
        ("memory://b/x.parquet", InvalidUrl),
        ("file://host/x.parquet", InvalidUrl),
        ("file:///x/../y.parquet", InvalidPath),
        ("file:///x.parquet?y", InvalidPath),
        ("/x/../y.parquet", InvalidPath),
        ("x.parquet", InvalidPath),
        ("at/0123456789abcdef/x.parquet", InvalidPath),
    ],
)
def test_what_is_refused_by_its_name(lake: Catalog, name: str, kind: type[LakelogError]) -> None:
    with lake.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(kind) as caught:
            tx.add("t", name)
        tx.commit()
    assert "secret" not in str(caught.value)
    assert not list(Path(lake.url).glob("w/db/transactions/*"))


def test_a_disk_that_folds_names_is_not_given_one_file_twice(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here both files exist. On such a disk the second name would be the first file again."""
    one, other = parquet(tmp_path / "in/Day.parquet", 1), parquet(tmp_path / "in/day.parquet", 1)
    monkeypatch.setattr("lakelog.catalog.commit.session.probe_names", lambda *_, **__: "case")
    with lake.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.add("t", one)
        with pytest.raises(DuplicateFile), writer.transaction() as tx:
            tx.add("t", other)
    assert values(lake) == [1]


def test_files_of_the_lake_itself(in_place: Catalog) -> None:
    """What is below the folder of a log is refused, of the own one too."""
    root = Path(in_place.url)
    own = parquet(root / "w/db/data/_/t/mine.parquet", 5)
    other = parquet(root / "v/db/data/x.parquet", 6)
    link = root.parent / "link"
    link.symlink_to(root)
    with in_place.writer("w", "db") as writer:
        tx = writer.transaction()
        for name in (own, str(link / "w/db/data/_/t/mine.parquet"), "data/_/t/mine.parquet"):
            with pytest.raises(InvalidPath, match="lakelog's own files only"):
                tx.add("t", name)
        for name in (other, str(link / "v/db/data/x.parquet")):
            with pytest.raises(InvalidPath, match="v/db"):
                tx.add("t", name)
        with pytest.raises(InvalidPath, match="scratch"):
            tx.add("t", str(root / "_tmp/x.parquet"))
        tx.add("t", parquet(root / "landing/x.parquet", 7))  # no log's
        tx.commit()
    assert values(in_place) == [0, 1, 7, 10, 11, 100]


def test_a_file_has_one_name_whatever_links_lead_to_it(in_place: Catalog, out: Path) -> None:
    link = out.parent / "elsewhere"
    link.symlink_to(out)
    with in_place.writer("w", "db") as writer:
        for name in (link / "x0.parquet", out / "x0.parquet", f"file://localhost{link}/x0.parquet"):
            tx = writer.transaction()
            tx.add("t", name)
            with pytest.raises(DuplicateFile):
                tx.commit()


def test_names_that_need_care(lake: Catalog, out: Path) -> None:
    names = ["a b.parquet", "100%.parquet", "%41.parquet", "ü#?*[x].parquet", "y=1/m=ä/x.parquet"]
    with lake.writer("w", "db") as writer, writer.transaction() as tx:
        for number, name in enumerate(names):
            tx.add("t", parquet(out / name, number))
        tx.add("t", f"file://{out}/%78%31.parquet")  # a URL of a file is percent-encoded: x1
    assert values(lake) == [0, 1, 1, 2, 3, 4, 11]
    urls = lake.snapshot("db").files("t")["url"].to_pylist()
    assert {str(out / name) for name in [*names, "x1.parquet"]} == set(urls)


def test_a_name_of_lakelogs_making_says_nothing_elsewhere(lake: Catalog, out: Path) -> None:
    """A file of another lake, of any epoch and transaction: nobody's gc here knows it."""
    name = out / f"77-{'ab' * 16}-0.parquet"
    with lake.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", parquet(name, 1))
    assert values(lake) == [1]


def test_the_own_transaction_in_a_name_elsewhere(lake: Catalog, out: Path) -> None:
    """Below `data/` such a file is new by its name; elsewhere it is looked up."""
    with lake.writer("w", "db") as writer:
        tx = writer.transaction()
        name = parquet(out / f"1-{tx.transaction_id}-0.parquet", 1)
        with writer.transaction() as other:
            other.add("t", name)
        tx.add("t", name)
        with pytest.raises(DuplicateFile):
            tx.commit()
    assert values(lake) == [1]


def test_a_bad_file_is_named_and_nothing_is_added(lake: Catalog, out: Path) -> None:
    (out / "bad.parquet").write_bytes(b"PAR1 no, it isn't")
    files = [NewFile(str(out / name)) for name in ("x0.parquet", "bad.parquet", "x1.parquet")]
    with lake.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(InvalidParquet, match=r"bad\.parquet"):
            tx.add_all("t", files)
        with pytest.raises(ObjectNotFound, match=r"no\.parquet"):
            tx.add_all("t", [*files[:1], NewFile(str(out / "no.parquet"))])
        assert tx.commit() is None
        with writer.transaction() as tx:
            found = tx.add_all("t", files, skip_bad=True)
    assert [name for name, _ in found.bad] == [str(out / "bad.parquet")]
    assert (len(found.paths), found.rows, found.known) == (2, 4, [])
    assert values(lake) == [0, 1, 10, 11]


def test_a_conflict_names_the_files(in_place: Catalog, out: Path) -> None:
    bad = [parquet(out / f"text{n}.parquet", "x") for n in range(2)]
    files = [NewFile(name) for name in (*bad, str(out / "x2.parquet"))]
    with in_place.writer("w", "db") as writer:
        tx = writer.transaction()
        with pytest.raises(SchemaConflict) as caught:
            tx.add_all("t", files)
        assert all(name in str(caught.value) for name in bad)
        assert tx.commit() is None
        tx = writer.transaction()
        with pytest.raises(SchemaConflict, match="text1"):  # with one another
            tx.add_all("new", [files[2], files[1]])


def test_files_that_are_live_are_left_out(in_place: Catalog, out: Path) -> None:
    files = [NewFile(str(out / f"x{n}.parquet")) for n in (0, 1, 2, 2)]
    with in_place.writer("w", "db") as writer, writer.transaction() as tx:
        found = tx.add_all("t", files)
        assert found.paths == [f"at/{HERE}{out}/x2.parquet"]
        assert sorted(found.known) == sorted(str(out / f"x{n}.parquet") for n in (0, 1, 2))
        assert tx.add_all("t", files).paths == []
    assert values(in_place) == [0, 1, 2, 10, 11, 12, 100]


def test_a_thousand_files_go_into_columns(lake: Catalog, out: Path) -> None:
    """More than 256 adds become an AddBatch; the locations stand before it."""
    names = [parquet(out / f"n={n % 7}" / f"{n}.parquet", n) for n in range(300)]
    with lake.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [-1]}))
        tx.add_all("t", [NewFile(name, f"n={n % 7}") for n, name in enumerate(names)])
    kinds = [a.WhichOneof("kind") for a in lake.snapshot("db")._states[0].tail[0].message.actions]
    assert kinds == ["identity", "schema", "upgrade", "location", "add_batch"]
    assert values(lake) == list(range(-1, 300))
    assert values(lake, partition="n=6") == list(range(6, 300, 7))


def test_no_more_places_than_a_log_can_name(out: Path, tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "full"))
    builder = LogBuilder()
    builder.commit(schema_action("t"))
    for number in range(MAX_LOCATIONS):
        builder.commit(wire.Action(location=wire.Location(url=f"s3://b{number}")))
    builder.put_into(catalog.store)
    with catalog.writer("w", "db") as writer:
        with pytest.raises(UsageError, match="256"):
            writer.transaction().add("u", str(out / "x0.parquet"))
        writer.checkpoint()
    assert len(catalog.snapshot("db")._states[0].locations) == MAX_LOCATIONS


def test_a_place_that_no_log_names_is_damage_to_who_asks_where(tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "odd"))
    builder = LogBuilder()
    builder.commit(schema_action("t"), add_action("at/0123456789abcdef/x", "t"))
    builder.put_into(catalog.store)
    snapshot = catalog.snapshot("db")
    for ask in (snapshot.files, snapshot.file_parts):
        with pytest.raises(CorruptObject, match="where that is"):
            ask("t")


def test_a_file_of_another_table_is_refused_by_its_url_and_that_table(
    in_place: Catalog, out: Path
) -> None:
    url = f"file://{out / 'x0.parquet'}"
    with in_place.writer("w", "db") as writer:
        tx = writer.transaction()
        tx.add("u", str(out / "x0.parquet"))
        with pytest.raises(DuplicateFile) as caught:
            tx.commit()
        assert caught.value.message == f"{url} is in the log already, in table 't'"
        assert caught.value.key == url
        with pytest.raises(FileNotLive) as gone:
            writer.transaction().remove(str(out / "none.parquet"))
        assert gone.value.key == str(out / "none.parquet")
        first, second = writer.transaction(), writer.transaction()
        for tx in (first, second):
            tx.remove(f"file://{out / 'x1.parquet'}")
        first.commit()
        with pytest.raises(FileNotLive) as gone:
            second.commit()
        assert gone.value.key == f"file://{out / 'x1.parquet'}"
