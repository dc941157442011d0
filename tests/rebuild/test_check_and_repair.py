"""Check and repair: whatever one object of a log loses, every point in time reads the same rows,
check names the object, and repair makes the store byte-equal again.
"""

from __future__ import annotations

import io
import math
import warnings
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.checkpointer import put_segments
from lakelog.catalog.data import parquet
from lakelog.catalog.format.names import mirror_key, parse_log_object
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import LogReader
from lakelog.cli.main import main
from lakelog.errors import DatabaseNotFound, ForkError, LakelogError, LogLost, LostTail, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.rebuild.check import check
from lakelog.rebuild.findings import CheckReport, Finding, RepairPlan, Subset
from lakelog.rebuild.repair import execute_repair, plan_repair
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore, PlainStore


def objects(store):
    return {info.key: store.get(info.key) for info in store.list("")}


def read(store, points):
    """The rows at each point in time, by a reader that knows nothing yet."""
    catalog = Catalog(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            token: sorted(catalog.snapshot("db", token).to_arrow("t").to_pydict()["a"])
            for token in points
        }


@pytest.fixture(scope="module")
def lake():
    """A catalog of two writers, with each kind of change; its objects, and its points in time."""
    store = MemoryStore("drill")
    catalog = Catalog(store)
    points = []
    with catalog.writer("v", "db", checkpoint_every=4) as one, catalog.writer("w", "db") as two:
        for number in range(9):
            for writer, base in ((one, 0), (two, 100)):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"a": [base + number, base + number + 50]}))
            if number == 3:
                with one.transaction() as tx:
                    tx.delete("t", "a = 2", mode="rows")
                with two.transaction() as tx:
                    tx.delete("t", "a = 101", mode="predicate")
            if number == 5:
                tx = one.transaction()
                tx.delete("t", "a < 40", mode="rows")
                tx.discard()
                with two.transaction() as tx:
                    tx.overwrite("t", pa.table({"a": [777]}), where="a >= 153")
            points.append(Catalog(store).snapshot("db").token)
    return objects(store), read(store, points)


def restored(lake):
    store = MemoryStore("drill")
    for key, body in lake[0].items():
        store.put(key, body)
    return store


def log_objects(lake, *, mirror=True):
    return [k for k in lake[0] if "/data/" not in k and (mirror or "/mirror/" not in k)]


def test_a_sound_lake_has_no_findings(lake):
    for level in ("log", "files", "footers", "data"):
        report = check(Catalog(restored(lake)), level=level)
        assert not report.findings
        assert report.is_sound
        assert report.objects > 40
    assert report.files >= 20
    assert report.bytes_read > 0


def test_both_copies_lost_are_an_error_for_a_rebuild(lake):
    store = restored(lake)
    key = next(k for k in lake[0] if k.startswith("w/db/transactions/") and "-3." in k)
    store.delete([key, mirror_key(key)])
    report = check(Catalog(store), level="log")
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert errors
    assert errors[0].command == "lakelog rebuild URL db --writer w"
    assert errors[0].revision == 3
    done = Catalog(store).repair("db", execute=True)
    assert done.left


def test_each_transaction_that_is_missing_is_found(lake):
    store = restored(lake)
    keys = [
        next(k for k in lake[0] if k.startswith("w/db/transactions/") and f"-{revision}." in k)
        for revision in (3, 5, 6)
    ]
    store.delete([*keys, *map(mirror_key, keys)])
    errors = [f for f in check(Catalog(store), level="log").findings if f.severity == "error"]
    assert [finding.revision for finding in errors] == [3, 5, 6]


def test_a_fork_names_both_commits(lake):
    store = restored(lake)
    key = next(k for k in lake[0] if k.startswith("w/db/transactions/") and "-3." in k)
    twin = key.replace(key.split(".")[1], "deadbeef")
    store.put(twin, store.get(key))
    (finding,) = [f for f in check(Catalog(store), level="log").findings if f.severity == "error"]
    assert finding.remedy == "rebuild"
    assert key in finding.object
    assert twin in finding.object


# --- Checkpoints that lie -------------------------------------------------------------------------


def fill(catalog, *values):
    """Commits one file each; no checkpoint is written by itself."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for value in values:
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [value]}))


def state_of(store, revision=None):
    return LogReader(store, "w", "db").load(revision)


def put_checkpoint(store, state):
    """The checkpoint of a state that was changed; its key."""
    encoded = encode_state(state, retained_from=0, salt=b"s" * 16)
    log = LogReader(store, "w", "db")
    put_segments(log, encoded, exclusive=True)
    key = log.folder + encoded.name
    store.put(key, encoded.body)
    return key


def lies(catalog):
    """The checkpoints that check calls wrong, with what is."""
    findings = catalog.check("db").findings
    return {f.object: f.problem for f in findings if f.severity == "error"}


def lose_a_file(state):
    state.files.take_out([("t", state.files.table("t").column("path")[0].as_py())])


def lie_in_statistics(state):
    for adds in state.files.added.values():
        for add, _ in adds.values():
            for group in add.row_groups:
                for column in group.columns:
                    column.min = column.max = (100).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("lie", "words"),
    [(lose_a_file, "files of table 't'"), (lie_in_statistics, "statistics of table 't'")],
    ids=["a file", "statistics"],
)
def test_a_checkpoint_that_lies_is_found(store, catalog, lie, words):
    fill(catalog, 0, 1, 2, 3)
    state = state_of(store)
    lie(state)
    key = put_checkpoint(store, state)
    found = lies(catalog)
    assert list(found) == [key]
    assert words in found[key]
    catalog.repair("db", execute=True)
    assert catalog.check("db").is_sound


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (1 << 20, "says: statistics of table 'f'"),
        (2, "says: statistics of table 'f', statistics of row groups of table 'f'"),
    ],
)
def test_a_checkpoint_that_denies_nan_is_found(store, catalog, rows, words):
    """One that says less than the log does tells no lie."""
    with (
        catalog.writer("w", "db", checkpoint_every=0) as writer,
        mock.patch.object(parquet, "ROW_GROUP_ROWS", rows),
        writer.transaction() as tx,
    ):
        tx.write("f", pa.table({"d": [1.0, 2.0, math.nan], "g": [1.0, 2.0, 3.0]}))
    for no_nan in (False, True):
        state = state_of(store)
        ((add, _),) = state.files.added["f"].values()
        for group in add.row_groups:
            for column in group.columns:
                column.no_nan = no_nan
        key = put_checkpoint(store, state)
        found = lies(catalog)
        assert list(found) == [key] * no_nan
        assert all(words in problem for problem in found.values())
        store.delete([key])


def test_a_lie_that_a_later_checkpoint_took_over_is_found_in_both(store, catalog):
    fill(catalog, 0, 1, 2)
    state = state_of(store)
    lose_a_file(state)
    first = put_checkpoint(store, state)
    fill(catalog, 3)
    with catalog.writer("w", "db") as writer:
        second = writer.checkpoint().key
    assert set(lies(catalog)) == {first, second}


def test_pieces_that_both_refer_to_hide_nothing(store, catalog):
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0):
        fill(catalog, *range(20))
        with catalog.writer("w", "db") as writer:
            writer.checkpoint()
        fill(catalog, 20)
        state = state_of(store)
        lie_in_statistics(state)
        key = put_checkpoint(store, state)
        named = {piece.name for piece in state_of(store).pieces if piece.name}
        shared = named & {piece.name for piece in state_of(store, 19).pieces}
    assert shared, "the second checkpoint refers to pieces of the first"
    found = lies(catalog)
    assert list(found) == [key]
    assert "statistics of table 't'" in found[key]


def test_lost_segments_are_computed_and_the_checkpoints_written_again(spilled):
    store, points = spilled
    for number in (1, None):  # one, then all; a repair writes new ones under other names
        segments = [info.key for info in store.list("w/db/segments/")]
        assert len(segments) > 2
        store.delete(segments[:number])
        done = Catalog(store).repair("db", execute=True)
        assert done.checkpoints > 0
        assert not done.left
        assert Catalog(store).check("db").is_sound
        assert read(store, points) == points


@pytest.fixture
def spilled():
    """A log whose checkpoints have segments of their own; its points in time."""
    from unittest import mock

    from lakelog.catalog.log import checkpoint_files

    store = MemoryStore("spilled")
    tokens = []
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0):
        with Catalog(store).writer("w", "db", checkpoint_every=3) as writer:
            for number in range(8):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"a": [number]}))
                tokens.append(Catalog(store).snapshot("db").token)
        yield store, read(store, tokens)


def test_a_rebuilt_log_has_two_copies_of_what_it_begins_with(lake):
    """The opening checkpoint is all that the incarnation has: its copy is missed, and put back."""
    store = restored(lake)
    catalog = Catalog(store)
    key = next(k for k in lake[0] if k.startswith("w/db/transactions/") and "-3." in k)
    store.delete([key, mirror_key(key)])
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    before = sorted(Catalog(store).snapshot("db").to_arrow("t").to_pydict()["a"])
    copies = [info.key for info in store.list("w/db/mirror/") if info.key.endswith("checkpoint")]
    assert copies
    store.delete(copies)
    assert not Catalog(store).check("db", level="log").is_sound
    assert not Catalog(store).repair("db", execute=True).left
    assert {info.key for info in store.list("w/db/mirror/")} >= set(copies)
    store.delete([info.key for info in store.list("w/db/transactions/")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        after = sorted(Catalog(store).snapshot("db").to_arrow("t").to_pydict()["a"])
    assert after == before


# --- Data files -----------------------------------------------------------------------------------


def data_file(lake, store):
    catalog = Catalog(store)
    path = catalog.snapshot("db").files("t", details=True).to_pylist()[-1]
    return f"{path['writer']}/db/{path['path']}"


def test_what_a_rebuild_has_replaced_is_restored_from_its_copy(lake):
    store = restored(lake)
    catalog = Catalog(store)
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    assert check(catalog).is_sound
    before, tokens = objects(store), [token for token in lake[1] if token]
    for folder in ("w/db/transactions/", "w/db/mirror/transactions/"):
        old = [key for key in before if key.startswith(folder) and "/998-" in key]
        store.delete([key for key in before if key.startswith(folder)])
        assert old
        named = {finding.object for finding in check(catalog, level="log").findings}
        assert named.issuperset(key for key in old if key.endswith("transaction"))
        assert not catalog.repair("db", execute=True).left
        assert {key: objects(store).get(key) for key in old} == {key: before[key] for key in old}
        assert read(store, tokens) == lake[1]
        assert check(catalog).is_sound


def test_what_a_rebuild_has_replaced_is_no_error_if_it_is_damaged(lake):
    store = restored(lake)
    keys = [k for k in log_objects(lake) if revision_of(k, "w") == 3]
    for key in keys:
        store.put(key, b"damaged")
    execute_rebuild(Catalog(store), plan_rebuild(Catalog(store), "w", "db"))
    report = check(Catalog(store), "db")
    assert report.is_sound
    assert any("before a rebuild, can't be read" in one.problem for one in report.findings)


def test_a_log_lost_in_both_places_is_found_beside_others(lake):
    store = restored(lake)
    store.delete([key for key in log_objects(lake) if key.startswith("v/db/")])
    report = check(Catalog(store), "db")
    (finding,) = report.findings
    assert (finding.severity, finding.remedy, finding.writer) == ("error", "rebuild", "v")
    assert "the log is lost in both places" in finding.problem
    assert Catalog(store).repair("db", report=report, execute=True).left


def test_a_log_lost_in_both_places_is_not_begun_again(lake):
    store = restored(lake)
    store.delete([key for key in log_objects(lake) if key.startswith("v/db/")])
    with pytest.raises(LogLost, match="neither a log nor a mirror") as caught:
        Catalog(store).writer("v", "db")
    assert "lakelog rebuild URL db --writer v" in caught.value.hint


def test_files_of_a_log_that_was_begun_again_come_back():
    """A log is lost in both places, its data files are away for a while, and a new log begins."""
    store = MemoryStore("again")
    fill(Catalog(store), 1, 2, 3)
    files = {key: body for key, body in objects(store).items() if "/data/" in key}
    store.delete(list(objects(store)))
    fill(Catalog(store), 9)
    for key, body in files.items():
        store.put(key, body)
    (finding,) = check(Catalog(store), "db").findings
    assert (finding.severity, finding.remedy) == ("error", "rebuild")
    execute_rebuild(Catalog(store), plan_rebuild(Catalog(store), "w", "db"))
    rows = Catalog(store).snapshot("db").to_arrow("t").column("a").to_pylist()
    assert sorted(rows) == [1, 2, 3, 9]
    assert check(Catalog(store)).is_sound


def test_the_checkpoint_that_a_log_begins_with_is_missed(lake):
    store = restored(lake)
    catalog = Catalog(store)
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    lost = [key for key in objects(store) if "w/db/" in key and "/997-" in key]
    store.delete([key for key in lost if key.endswith("checkpoint")])
    errors = [one for one in check(catalog, "db").findings if one.severity == "error"]
    assert errors
    assert {one.remedy for one in errors} == {"rebuild"}
    assert "checkpoint" in errors[0].problem


def test_an_end_lost_in_both_places_is_found(lake):
    store = restored(lake)
    head = max(r for k in lake[0] if (r := revision_of(k, "w")) is not None)
    lost = [k for k in lake[0] if (revision_of(k, "w") or 0) > head - 3]
    store.delete(lost)
    (finding,) = check(Catalog(store), "db").findings
    assert (finding.severity, finding.remedy, finding.writer) == ("error", "rebuild", "w")
    assert "the end of the log is lost in both places" in finding.problem


def test_an_end_lost_in_one_place_is_an_error(lake):
    store = restored(lake)
    head = max(r for k in lake[0] if (r := revision_of(k, "w")) is not None)
    lost = [k for k in log_objects(lake, mirror=False) if revision_of(k, "w") == head]
    store.delete(lost)
    (finding,) = check(Catalog(store), "db").findings
    assert (finding.severity, finding.remedy) == ("error", "copy")
    assert "has lost its end" in finding.problem


def revision_of(key, writer):
    """The revision of an object of a writer's log, in either place; None for any other object."""
    item = parse_log_object(key.rsplit("/", 1)[-1]) if key.startswith(f"{writer}/db/") else None
    return None if item is None else item.revision


def test_a_data_file_that_is_gone_is_removed_by_a_commit_that_says_so(lake):
    store = restored(lake)
    store.delete([data_file(lake, store)])
    catalog = Catalog(store)
    with pytest.raises(LakelogError):
        catalog.snapshot("db").to_arrow("t")
    (finding,) = catalog.check("db").findings
    assert (finding.severity, finding.rows, finding.remedy) == ("error", 2, "remove-file")
    assert finding.first_at is not None
    plan = catalog.repair("db").plan
    assert "2 rows are lost" in plan.describe()
    done = catalog.repair("db", execute=True)
    assert (done.removed, done.rows_lost, done.left) == (1, 2, ())
    assert catalog.snapshot("db").to_arrow("t").num_rows > 0
    summary = catalog.history("db").to_pylist()[-1]["summary"]
    assert "2 rows of 't' are lost" in str(summary)
    assert [f.severity for f in catalog.check("db").findings] == ["note"]


@pytest.mark.parametrize("level", ["footers", "data"])
def test_a_damaged_data_file_is_found_at_its_level(lake, level):
    store = restored(lake)
    key = data_file(lake, store)
    body = bytearray(store.get(key))
    column = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0)
    last = column.data_page_offset + column.total_compressed_size - 1
    body[last if level == "data" else -20] ^= 1
    store.put(key, bytes(body))
    assert not check(Catalog(store), level="files").findings
    (finding,) = check(Catalog(store), level=level).findings
    assert finding.object == key
    assert finding.severity == "error"


def test_a_data_file_that_has_another_size_is_found(lake):
    store = restored(lake)
    key = data_file(lake, store)
    store.put(key, store.get(key) + b"x")
    (finding,) = check(Catalog(store)).findings
    assert (finding.object, finding.severity) == (key, "error")
    assert "the log says" in finding.problem


def test_a_file_that_a_listing_misses_is_asked_for_by_name(lake):
    class Short(PassingStore):
        def list(self, prefix, *, after=None, first_page=1000):
            found = list(self.inner.list(prefix, after=after, first_page=first_page))
            return iter(found[1:] if prefix.endswith("data/") else found)

    assert not check(Catalog(Short(restored(lake)))).findings


@pytest.mark.parametrize("how", ["gone", "cut", "of other rows"])
def test_deletion_vectors_that_are_not_what_the_log_says(store, catalog, how):
    fill(catalog, 1, 2, 3)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [7, 8, 9]}))
        for value in (7, 9):
            with writer.transaction() as tx:
                tx.delete("t", f"a = {value}", mode="rows")
    assert catalog.check("db", level="footers").is_sound
    (newest,) = LogReader(store, "w", "db").load().deletes.objects()
    one = f"w/db/{newest[0]}"
    (other,) = {i.key for i in store.list("w/db/data/") if i.key.endswith(".deletes")} - {one}
    body = store.get(one)
    store.delete([one])
    if how != "gone":
        store.put(one, body[:-1] if how == "cut" else store.get(other))
        assert catalog.check("db", level="files").is_sound
    (finding,) = catalog.check("db", level="footers").findings
    assert (finding.object, finding.severity, finding.table) == (one, "error", "t")
    assert ".parquet can't be read" in finding.problem
    assert finding.command.startswith("Restore the object from a backup; or")
    words = finding.command.split("lakelog remove URL db t ")[1]
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for path in words.split(" --writer w")[0].split():
            tx.remove(path)
    assert sorted(catalog.snapshot("db").to_arrow("t").column("a").to_pylist()) == [1, 2, 3]
    (finding,) = catalog.check("db", level="footers").findings
    assert (finding.object, finding.severity) == (one, "note")


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_the_base_of_a_rebuilt_log_can_only_be_rebuilt(store, catalog, how, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "SPILL_FROM_BYTES", 0)
    fill(catalog, 1, 2)
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    segments = [key for key in objects(store) if key.endswith(".segment")]
    assert segments
    keys = [key for key in objects(store) if "/997-" in key and key.endswith(".checkpoint")]
    store.delete(segments) if how == "gone" else [store.put(key, b"damaged") for key in keys]
    found = [one for one in check(catalog, "db").findings if one.severity != "note"]
    assert {(one.severity, one.remedy) for one in found} == {("error", "rebuild")}
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    assert sorted(catalog.snapshot("db").to_arrow("t").column("a").to_pylist()) == [1, 2]
    assert check(catalog, "db").is_sound


def test_a_damaged_page_comes_with_the_commands_that_remove_its_file(tmp_path, capsys):
    catalog = open_catalog(str(tmp_path))
    fill(catalog, 1, 2)
    (file, *_) = sorted(tmp_path.glob("w/db/data/**/*.parquet"))
    column = pq.read_metadata(file).row_group(0).column(0)
    body = bytearray(file.read_bytes())
    body[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file.write_bytes(body)
    (finding,) = catalog.check("db", level="data").findings
    commands = finding.command.replace("URL", str(tmp_path)).replace("FILE", f"{tmp_path}.json")
    for command in commands.split("`lakelog ")[1:]:
        main(command.split("`")[0].split())
    capsys.readouterr()
    assert catalog.check("db", level="data").is_sound
    assert open_catalog(str(tmp_path)).snapshot("db").to_arrow("t").num_rows == 1


def test_parts_of_a_share_cover_all_files(lake):
    names = [f"data/_/t/1-{n}.parquet" for n in range(200)]
    parts = [Subset.parse(f"{part}/7") for part in range(1, 8)]
    assert all(sum(part.holds(name) for part in parts) == 1 for name in names)
    assert Subset.parse("5%").parts == 20
    assert Subset.parse("10GiB").max_bytes == 10 << 30
    for wrong in ("0%", "8/7", "0/7", "ten", "10 GB", "-1%"):
        with pytest.raises(UsageError):
            Subset.parse(wrong)
    whole = check(Catalog(restored(lake)), level="data").bytes_read
    some = [
        check(Catalog(restored(lake)), level="data", read_data_subset=f"{part}/3").bytes_read
        for part in (1, 2, 3)
    ]
    assert sum(some) == whole
    little = check(Catalog(restored(lake)), level="data", read_data_subset="1KiB")
    assert 0 < little.bytes_read < whole


# --- Plans and reports ----------------------------------------------------------------------------


def test_a_report_and_a_plan_survive_being_saved(lake):
    store = restored(lake)
    store.delete([log_objects(lake, mirror=False)[0]])
    catalog = Catalog(store)
    report = check(catalog)
    again = CheckReport.from_json(report.to_json())
    assert again.findings == report.findings
    plan = plan_repair(catalog, report=again)
    assert plan == plan_repair(catalog, report=report)
    assert report.to_arrow().num_rows == len(report.findings)
    for text in ("", "{}", '{"repair": 9, "url": "", "steps": []}'):
        with pytest.raises(UsageError):
            CheckReport.from_json(text)


@pytest.mark.parametrize(
    "target", ["w/db/data/_/t/x.parquet", "v/db/transactions/../x", "elsewhere/db/transactions/x"]
)
def test_a_saved_plan_writes_nothing_but_objects_of_its_log(lake, target):
    catalog = Catalog(restored(lake))
    step = Finding("error", "w", "db", target, "is missing", "copy")
    with pytest.raises(UsageError):
        execute_repair(catalog, RepairPlan(catalog.url, (step,)))


def test_a_repair_executed_twice_does_nothing_the_second_time(lake):
    store = restored(lake)
    keys = [key for key in lake[0] if key.startswith("w/db/transactions/")][:4]
    store.delete(keys)
    plan = plan_repair(Catalog(store))
    assert execute_repair(Catalog(store), plan).copied == len(plan.steps)
    before = objects(store)
    assert execute_repair(Catalog(store), plan).copied == 0
    assert objects(store) == before


class Stopping(PassingStore):
    """Stops before or after one request that writes."""

    def __init__(self, inner, number, *, after):
        super().__init__(inner)
        self.left, self.after = number, after

    def put(self, key, body, *, if_absent=False):
        self.left -= 1
        if self.left < 0 and not self.after:
            raise KeyboardInterrupt
        self.inner.put(key, body, if_absent=if_absent)
        if self.left < 0:
            raise KeyboardInterrupt


def broken_everywhere(lake):
    """Lacks the end of one log, a middle and a copy of the other, and all of a checkpoint."""
    store = restored(lake)
    keys = sorted(log_objects(lake, mirror=False))
    ends = [key for key in keys if key.startswith("v/db/transactions/") and "transaction" in key][
        :2
    ]
    (middle,) = [key for key in keys if revision_of(key, "w") == 4 and key.endswith("transaction")]
    (copy,) = [key for key in keys if revision_of(key, "w") == 6 and key.endswith("transaction")]
    store.delete([*ends, middle, mirror_key(copy)])
    for key in [key for key in keys if key.endswith("checkpoint")][:1]:
        store.put(key, store.get(key)[:-7])
    return store


@pytest.mark.parametrize("after", [False, True])
def test_a_repair_that_is_stopped_after_any_request_can_be_run_again(lake, after):
    whole = broken_everywhere(lake)
    assert not Catalog(whole).repair("db", execute=True).left
    assert read(whole, lake[1]) == lake[1]
    for number in range(20):
        store = broken_everywhere(lake)
        try:
            Catalog(Stopping(store, number, after=after)).repair("db", execute=True)
        except KeyboardInterrupt:
            assert read(store, lake[1]) == lake[1]
            assert not Catalog(store).repair("db", execute=True).left
        else:
            break
        finally:
            assert check(Catalog(store), "db").is_sound
            assert {k for k in objects(store) if "segment" not in k} == {
                k for k in objects(whole) if "segment" not in k
            }
            assert read(store, lake[1]) == lake[1]
    assert 5 <= number < 19


def test_no_commit_is_put_over_another_one():
    """The end of a log is lost, and a guest that has not seen it commits in its place: log and
    mirror then have two acknowledged commits under one name, each of them once."""
    store = MemoryStore("two")
    catalog = Catalog(store)

    def commit(writer, value):
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [value] * value}))

    with catalog.writer("w", "db") as writer:
        commit(writer, 1)
    late = catalog.writer("w", "db", shared=True)
    with catalog.writer("w", "db", shared=True) as guest:
        commit(guest, 2)
    (key,) = (i.key for i in store.list("w/db/transactions/") if i.key.count("-1."))
    lost = store.get(key)
    store.delete([key])
    commit(late, 3)
    with pytest.raises(LostTail):
        late.close()
    report = check(catalog, "db")
    (finding,) = report.findings
    assert (finding.severity, finding.remedy, finding.rows) == ("error", "rebuild", 2)
    assert finding.object == mirror_key(key)
    plan = plan_repair(catalog, "db")
    assert not plan.steps
    copy = Finding("warning", "w", "db", mirror_key(key), "was saved long ago", "copy")
    assert execute_repair(catalog, RepairPlan(catalog.url, (copy,))).left
    assert store.get(mirror_key(key)) == lost
    assert store.get(key) != lost
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    rows = Catalog(store).snapshot("db").to_arrow("t").column("a").to_pylist()
    assert sorted(rows) == [1, 2, 2, 3, 3, 3]


def test_a_rebuild_keeps_one_branch_of_a_fork_and_adds_the_files_of_the_other():
    """On a store without put-if-absent two owners commit at once, and one goes on."""
    one = PlainStore(MemoryStore("one"))

    def commit(store, *values):
        with Catalog(store).writer("w", "db") as writer:
            for value in values:
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"a": [value]}))

    commit(one, 1, 2)
    other = PlainStore(MemoryStore("other"))
    for key, body in objects(one).items():
        other.put(key, body)
    commit(one, 3, 4)
    commit(other, 5)
    for key, body in objects(other).items():
        one.put(key, body)
    catalog = Catalog(one)
    with pytest.raises(ForkError):
        catalog.snapshot("db")
    assert {f.remedy for f in check(catalog, "db").findings} >= {"rebuild"}
    plan = plan_rebuild(catalog, "w", "db")
    execute_rebuild(catalog, plan)
    rows = Catalog(one).snapshot("db").to_arrow("t").column("a").to_pylist()
    assert sorted(rows) == [1, 2, 3, 4, 5]
    assert [one.proof for one in plan.transactions] == ["proven"]


def test_an_open_writer_is_no_finding_but_a_note():
    catalog = Catalog(MemoryStore("open"))
    writer = catalog.writer("w", "db")
    for number in range(3):
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [number]}))
    report = check(catalog)
    assert report.is_sound
    writer.close()
    with pytest.raises(DatabaseNotFound):
        check(catalog, "other")


def test_the_commands(tmp_path, capsys):
    url = str(tmp_path / "lake")
    with open_catalog(url).writer("w", "db") as writer:
        for number in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
    assert main(["check", url]) == 0
    folder = tmp_path / "lake/w/db/transactions"
    folder.rename(tmp_path / "kept")
    report = tmp_path / "report.json"
    assert main(["check", url, "db", "--report", str(report)]) == 1
    out = capsys.readouterr().out
    assert "is missing" in out
    assert "lakelog repair URL db --writer w --execute" in out
    assert main(["repair", url, "db", "--from", str(report)]) == 0
    assert not folder.exists()
    assert main(["repair", url, "db", "--from", str(report), "--execute"]) == 0
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in (tmp_path / "kept").iterdir()
    )
    assert main(["check", url, "--level", "data", "-o", "json"]) == 0
