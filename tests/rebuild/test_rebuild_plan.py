"""What a plan takes in, leaves out, and says; one test per rule."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.footers.read import read_footer
from lakelog.catalog.format.names import rebuilt_slot_uuid
from lakelog.catalog.format.schema import GENERATION, generation
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    ForeignLog,
    InvalidName,
    NotFoundError,
    PlanOutdated,
    StorageError,
    UnsupportedFeature,
    UsageError,
)
from lakelog.plans import Effect
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore

BASE = "EWR/weather/"


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def lose_the_log(store) -> None:
    store.delete([info.key for info in store.list(f"{BASE}transactions/")])
    store.delete([info.key for info in store.list(f"{BASE}segments/")])


def commit(writer, *values: int, table: str = "hourly", partition: str = "p", **options):
    """One transaction of one file; its path and the transaction."""
    with writer.transaction(**options) as tx:
        (path,) = tx.write(table, rows(*values), partition)
    return path, tx


def replacing(writer, path: str, *values: int, done: bool = True):
    """A transaction of one file in place of another; discarded unless `done`."""
    tx = writer.transaction()
    tx.remove(path)
    (new,) = tx.write("hourly", rows(*values), "p")
    if done:
        tx.commit()
    return new, tx


@pytest.fixture
def plan_of(store, fake):
    """Loses the log and plans its rebuild."""

    def plan(**options):
        lose_the_log(store)
        return plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **options)

    return plan


def kinds(plan) -> dict[str, str]:
    return {item.path: item.kind for item in plan.left_out}


def described(plan) -> dict[str, tuple]:
    return {group.name: group.rows for group in plan.describe()}


def reasons(plan) -> dict[str, str]:
    return {item.path: item.reason for item in plan.left_out}


# --- Evidence ------------------------------------------------------------------------------------


def test_all_but_the_last_are_proven_and_have_their_old_numbers(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        ids = [commit(writer, n)[1].transaction_id for n in range(4)]
    plan = plan_of()
    assert [item.transaction_id for item in plan.transactions] == ids
    assert [item.proof for item in plan.transactions] == ["proven"] * 3 + ["unproven"]
    assert [item.original_revision for item in plan.transactions] == [0, 1, 2, None]
    assert plan.epoch == 2
    assert plan.incarnation == 2
    assert not plan.left_out


def test_a_replaced_file_proves_its_transaction(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        other, _ = commit(writer, 1)
        first, _ = commit(writer, 2)
        with writer.transaction() as tx:  # the next base is this one, which leaves no file
            tx.remove(other)
        replacing(writer, first, 3, done=False)
    plan = plan_of()
    assert [item.proof for item in plan.transactions] == ["proven", "proven", "unproven"]
    assert "replaces its files" in plan.transactions[1].why
    assert plan.transactions[1].original_revision is None


def test_a_crashed_owner_is_ruled_out_by_the_next_owners_commit(catalog, plan_of):
    first = catalog.writer("EWR", "weather")
    kept, _ = commit(first, 1)
    lost, lost_tx = replacing(first, kept, 2, done=False)
    with catalog.writer("EWR", "weather") as second:
        commit(second, 3)
        commit(second, 4)
    plan = plan_of()
    assert kinds(plan) == {lost: "disproved"}
    assert plan.left_out[0].transaction_id == lost_tx.transaction_id
    assert "later owner" in reasons(plan)[lost]
    assert kept in plan.live
    assert any("gc may delete" in note for note in plan.notes)


def test_a_predecessors_last_commit_is_not_ruled_out_by_the_owner_that_it_overtook(
    catalog, plan_of
):
    first = catalog.writer("EWR", "weather")
    commit(first, 1)
    with catalog.writer("EWR", "weather") as second:
        begun = second.transaction()  # on the same base as the next one
        begun.write("hourly", rows(3))
        overtaking, _ = commit(first, 2)
        begun.commit()
        commit(second, 4)
    plan = plan_of()
    assert not plan.left_out
    assert plan.transactions[1].files[0].path == overtaking
    assert plan.transactions[1].proof == "unproven"


def test_two_replacements_of_one_file_cant_both_have_been_committed(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        failed, _ = replacing(writer, first, 2, done=False)
        good, _ = replacing(writer, first, 3)
        commit(writer, 4)
    plan = plan_of()
    assert kinds(plan) == {failed: "disproved"}
    assert "which was committed" in reasons(plan)[failed]
    assert good in plan.live
    assert first not in plan.live


def test_of_two_unproven_replacements_the_later_is_kept_until_it_is_excluded(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        failed, failed_tx = replacing(writer, first, 2, done=False)
        good, good_tx = replacing(writer, first, 3)
    plan = plan_of()
    assert kinds(plan) == {failed: "conflicting"}
    assert set(plan.live) == {good}
    assert any(good_tx.transaction_id in note for note in plan.notes)  # unproven, and replacing
    other = plan_of(exclude=[good_tx.transaction_id])
    assert kinds(other) == {good: "excluded"}
    assert set(other.live) == {failed}
    neither = plan_of(exclude=[good_tx.transaction_id, failed_tx.transaction_id])
    assert set(neither.live) == {first}


def test_a_retried_batch_of_an_application_counts_once(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        tx = writer.transaction(app_id="stream", app_version=7)
        (failed,) = tx.write("hourly", rows(1))
        good, _ = commit(writer, 1, app_id="stream", app_version=7)
        commit(writer, 2)
    plan = plan_of()
    assert kinds(plan) == {failed: "disproved"}
    assert "'stream'" in reasons(plan)[failed]
    execute_rebuild(catalog, plan)
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction(app_id="stream", app_version=7) as tx:
            tx.write("hourly", rows(1))
        assert tx.commit_info.skipped
    assert good in catalog.snapshot("weather").files("hourly")["path"].to_pylist()


def test_a_discarded_transaction_is_unproven_and_can_be_excluded(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        tx = writer.transaction()
        (orphan,) = tx.write("hourly", rows(0))
        commit(writer, 1)
        commit(writer, 2)
    plan = plan_of()
    assert tx.transaction_id in {item.transaction_id for item in plan.unproven}
    assert orphan in plan.live
    assert tx.transaction_id in [row["transaction_id"] for row in described(plan)["transactions"]]
    plan = plan_of(exclude=[tx.transaction_id])
    assert kinds(plan) == {orphan: "excluded"}
    assert orphan not in plan.live


@pytest.mark.parametrize(("wanted", "words"), [("00" * 16, "No data file"), ("junk", "No data")])
def test_excluding_what_is_not_there(catalog, plan_of, wanted, words):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    with pytest.raises(UsageError, match=words):
        plan_of(exclude=[wanted])


def test_a_proven_transaction_cant_be_excluded(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        _, tx = commit(writer, 1)
        commit(writer, 2)
    with pytest.raises(UsageError, match="was committed"):
        plan_of(exclude=[tx.transaction_id])


def test_shared_commits_become_one_revision_each(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        both = [writer.transaction() for _ in range(2)]
        for number, tx in enumerate(both):
            tx.write("hourly", rows(number))
        writer._session._commit_all([tx._intent for tx in both])
        commit(writer, 2)
    plan = plan_of()
    assert [item.transaction_id for item in plan.transactions][:2] == [
        tx.transaction_id for tx in both
    ]
    assert [item.proof for item in plan.transactions] == ["unproven", "proven", "unproven"]
    assert len(plan.live) == 3


def test_a_log_begun_anew_beside_old_files_mixes_with_them_and_loses_nothing(
    catalog, store, fake, plan_of, monkeypatch
):
    # A writer refuses to begin anew; another tool, or a folder copied in, can do it all the same.
    monkeypatch.setattr("lakelog.catalog.commit.birth.refuse_lost_log", lambda *_: None)
    with catalog.writer("EWR", "weather") as writer:
        old = [commit(writer, n)[0] for n in range(3)]
    lose_the_log(store)
    fake.move(60)
    with Catalog(store, ambient=fake.ambient).writer("EWR", "weather") as writer:
        new = [commit(writer, n)[0] for n in range(10, 13)]
    plan = plan_of()
    assert set(plan.live) == {*old, *new}
    assert not plan.left_out


def test_what_one_write_of_several_files_replaces_is_named_once(catalog, store, monkeypatch):
    monkeypatch.setattr("lakelog.catalog.data.parquet.ROW_GROUP_ROWS", 2)
    with catalog.writer("EWR", "weather") as writer:
        first, second = commit(writer, 1)[0], commit(writer, 2)[0]
        with writer.transaction() as tx:
            tx.remove(first)
            paths = tx.write("hourly", rows(*range(6)), file_bytes=1)
            tx.remove(second)
            paths += tx.write("hourly", rows(7), file_bytes=1)
    assert len(paths) == 4
    metas = [read_footer(store, BASE + p, store.head(BASE + p).size_bytes).meta for p in paths]
    assert [meta.replaces for meta in metas] == [
        (("hourly", first),), (), (), (("hourly", second),)
    ]  # fmt: skip
    assert [meta.replaced for meta in metas] == [1, 1, 1, 2]


def test_removals_that_only_a_lost_file_named_are_said(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        with writer.transaction() as tx:
            tx.remove(first)
            (named,) = tx.write("hourly", rows(2))
            (other,) = tx.write("hourly", rows(3))
    store.delete([BASE + named])
    plan = plan_of()
    assert set(plan.live) == {first, other}
    assert any("1 replaced files are named only by files that are lost" in n for n in plan.notes)


# --- Files that are not what they seem -----------------------------------------------------------


def test_copies_and_strangers_are_quarantined_with_the_reason(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
        commit(writer, 2)
    with catalog.writer("JFK", "weather") as writer:
        theirs, _ = commit(writer, 3)
    with catalog.writer("EWR", "other") as writer:
        elsewhere, _ = commit(writer, 4)
    name = path.rsplit("/", 1)[1]
    body = store.get(BASE + path)
    copies = {
        "data/p/hourly/backup.parquet": (body, "copy under another name"),
        f"data/p/hourly/9-{name.split('-', 1)[1]}": (body, "copy under another name"),
        f"data/p/daily/{name}": (body, "table 'hourly'"),
        f"data/q/hourly/{name}": (body, "partition 'p'"),
        theirs: (store.get(f"JFK/weather/{theirs}"), "writer JFK"),
        elsewhere: (store.get(f"EWR/other/{elsewhere}"), "database other"),
        f"data/_/hourly/1-{'ab' * 16}-0.parquet": (parquet(rows(1)), "no lakelog metadata"),
    }
    for copy, (content, _) in copies.items():
        store.put(BASE + copy, content)
    plan = plan_of()
    assert kinds(plan) == dict.fromkeys(copies, "quarantined")
    for copy, (_, words) in copies.items():
        assert words in reasons(plan)[copy]
    assert path in plan.live
    assert len(plan.live) == 2


def damage(body: bytes, how: str) -> bytes:
    footer = int.from_bytes(body[-8:-4], "little")
    return {
        "cut": body[: len(body) // 2],
        "empty": b"",
        "flipped": body[: -footer - 4]
        + bytes(b ^ 0x55 for b in body[-footer - 4 : -8])
        + body[-8:],
        "metadata": body.replace(b"lakelog.base_revision", b"lakelog.base_rexision"),
        "version": body.replace(b"lakelog.version\x18\x011", b"lakelog.version\x18\x012"),
    }[how]


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "metadata", "version"])
def test_a_damaged_file_is_quarantined_and_stays_where_it_is(catalog, store, plan_of, how):
    with catalog.writer("EWR", "weather") as writer:
        bad, _ = commit(writer, 1)
        good, _ = commit(writer, 2)
    broken = damage(store.get(BASE + bad), how)
    assert broken != store.get(BASE + bad)
    store.put(BASE + bad, broken)
    plan = plan_of()
    assert kinds(plan) == {bad: "quarantined"}
    assert reasons(plan)[bad]
    assert set(plan.live) == {good}
    execute_rebuild(store, plan)
    assert store.get(BASE + bad) == broken
    assert catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist() == [2]


def test_a_file_that_kills_its_reader_is_quarantined(catalog, store, plan_of, monkeypatch):
    from lakelog.catalog.data.footers import pool as footer_pool
    from lakelog.catalog.data.footers.parse import NotParquet

    with catalog.writer("EWR", "weather") as writer:
        bad, _ = commit(writer, 1)
        commit(writer, 2)
    parse = footer_pool.FooterPool.parse

    def deadly(self, tail, size_bytes):
        if size_bytes == len(store.get(BASE + bad)):
            raise NotParquet("the Parquet library dies of its footer (SIGABRT)")
        return parse(self, tail, size_bytes)

    store.put(BASE + bad, store.get(BASE + bad)[:4] + b"x" + store.get(BASE + bad)[4:])
    monkeypatch.setattr(footer_pool.FooterPool, "parse", deadly)
    assert "SIGABRT" in reasons(plan_of())[bad]


def test_other_objects_below_data_are_ignored(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    junk = ["data/_SUCCESS", "data/p/hourly/.part.crc", "data/p/hourly/readme.txt"]
    for path in junk:
        store.put(BASE + path, b"junk")
    plan = plan_of()
    assert kinds(plan) == dict.fromkeys(junk, "ignored")
    assert "ignored" in [row["kind"] for row in described(plan)["left_out"]]


def test_foreign_files_are_reported_and_taken_in_on_request(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        own, _ = commit(writer, 1)
    store.put(f"{BASE}data/_/hourly/part-0.parquet", parquet(rows(5, 6)))
    store.put(f"{BASE}data/a%2Fb/new table/x.pq", parquet(rows(7)))
    store.put(f"{BASE}data/deep/er/still/x.parquet", parquet(rows(8)))
    plan = plan_of()
    assert set(kinds(plan).values()) == {"foreign"}
    assert len(plan.left_out) == 3
    assert set(plan.live) == {own}
    plan = plan_of(include_foreign=True)
    assert set(kinds(plan)) == {"data/deep/er/still/x.parquet"}
    last = plan.transactions[-1]
    assert (last.proof, last.revision, len(last.files)) == ("foreign", 1, 2)
    execute_rebuild(store, plan)
    snapshot = catalog.snapshot("weather")
    assert sorted(snapshot.to_arrow("hourly")["n"].to_pylist()) == [1, 5, 6]
    assert snapshot.files("new table")["partition"].to_pylist() == ["a/b"]
    assert snapshot.files("hourly")["partition"].to_pylist().count("") == 1


def test_a_foreign_file_that_was_replaced_is_not_taken_in(catalog, store, plan_of):
    store.put(f"{BASE}data/_/hourly/part-0.parquet", parquet(rows(5, 6)))
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/hourly/part-0.parquet")
        new, _ = replacing(writer, "data/_/hourly/part-0.parquet", 5, 6)
    plan = plan_of(include_foreign=True)
    assert set(plan.live) == {new}
    assert "replaced this one" in reasons(plan)["data/_/hourly/part-0.parquet"]


# --- What is kept, and what can't be -------------------------------------------------------------


def test_a_removal_without_replacement_is_lost_and_said(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        gone, _ = commit(writer, 1)
        with writer.transaction() as tx:
            tx.remove(gone)
        commit(writer, 2)
    plan = plan_of()
    assert gone in plan.live
    assert any("revisions up to 1" in note for note in plan.notes)
    assert any("live again" in note for note in plan.notes)


def test_files_that_gc_took_are_counted_and_warned_of(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        second, _ = replacing(writer, first, 2)
        third, _ = replacing(writer, second, 3)
        commit(writer, 4)
    store.delete([BASE + second])
    plan = plan_of()
    assert third in plan.live
    assert first in plan.live  # nobody left says that it was replaced
    assert any("1 replaced files" in note and "of 1 transactions" in note for note in plan.notes)


def test_commit_times_are_the_clocks_where_those_are_times(fake):
    store = MemoryStore(now=lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        at_us = fake.wall_us
        fake.move(10)
        for clock in [(1, 2), (-5, -4), (1 << 62, 1 << 62), (at_us + 10**15, at_us + 10**15)]:
            with writer.transaction() as tx:
                tx.write("hourly", rows(2), clock=clock)
        fake.move(10)
        commit(writer, 3)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    times = [item.committed_at_us for item in plan.transactions]
    stored_us = at_us + 10_000_000
    assert times == [at_us, *range(stored_us, stored_us + 4), at_us + 20_000_000]
    execute_rebuild(store, plan)
    history = catalog.history("weather")["committed_at"].to_pylist()
    assert history[0] == dt.datetime.fromtimestamp(at_us / 1e6, dt.UTC)
    clocks = catalog.snapshot("weather").files("hourly", details=True)["last_clock"].to_pylist()
    assert {2, -4, 1 << 62} <= set(clocks)


def test_generations_and_several_schemas_survive(catalog, plan_of):
    again = pa.schema([pa.field("b", pa.string(), metadata={GENERATION: b"1"})])
    with catalog.writer("EWR", "weather") as writer:
        for table in (rows(1), pa.table({"n": [2], "b": [1.5]}), pa.table({"b": ["x"]}, again)):
            with writer.transaction() as tx:
                tx.write("hourly", table)
    before = catalog.snapshot("weather")
    schema, data = before.schema("hourly"), before.to_arrow("hourly")
    execute_rebuild(catalog, plan_of())
    after = catalog.snapshot("weather")
    assert after.schema("hourly").equals(schema, check_metadata=True)
    assert generation(after.schema("hourly").field("b")) == 1
    assert after.to_arrow("hourly").equals(data)


def adds_of(store) -> dict[str, bytes]:
    """What the transactions of the log in use say of each file."""
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    actions = [action for item in names for action in log.transaction(item).message.actions]
    return {
        action.add.path: action.add.SerializeToString(deterministic=True)
        for action in actions
        if action.WhichOneof("kind") == "add"
    }


def test_facts_and_statistics_are_those_of_the_commit(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 3, 9)
        commit(writer, 4)
    before = adds_of(store)
    assert len(before) == 2
    execute_rebuild(store, plan_of())
    assert adds_of(store) == before


def test_a_transaction_of_many_files_becomes_a_batch(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            paths = [tx.write("hourly", rows(n), f"p{n % 7}")[0] for n in range(300)]
        tx = writer.transaction()
        for path in paths[:5]:
            tx.remove(path)
        for number in range(280):
            tx.write("daily" if number % 2 else "hourly", rows(number))
        tx.commit()
    info = execute_rebuild(catalog, plan_of())
    assert (info.files, info.revision) == (575, 1)
    assert catalog.snapshot("weather", {"EWR": 0}).files("hourly").num_rows == 300
    assert catalog.snapshot("weather").files("hourly").num_rows == 435


# --- The call ------------------------------------------------------------------------------------


def test_nothing_to_rebuild(store):
    with pytest.raises(NotFoundError, match="nothing to rebuild"):
        plan_rebuild(store, "EWR", "weather")
    assert list(store.list("")) == []


def test_nothing_usable_gives_a_report_and_no_log(catalog, store):
    store.put(f"{BASE}data/_/hourly/1-{'ab' * 16}-0.parquet", b"junk")
    plan = plan_rebuild(catalog, "EWR", "weather")
    assert len(plan.quarantined) == 1
    assert plan.effect == Effect("write", "transaction", 0, 0)
    with pytest.raises(NotFoundError, match="nothing to rebuild"):
        execute_rebuild(store, plan)
    assert [info.key for info in store.list("")] == [f"{BASE}data/_/hourly/1-{'ab' * 16}-0.parquet"]


def test_nothing_usable_never_ends_an_old_log(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
    store.put(BASE + path, b"junk")
    before = [info.key for info in store.list("")]
    plan = plan_rebuild(catalog, "EWR", "weather")
    assert any(path in note and "damaged or gone" in note for note in plan.notes)
    with pytest.raises(NotFoundError):
        execute_rebuild(store, plan)
    assert [info.key for info in store.list("")] == before


def test_a_log_that_was_begun_meanwhile_voids_the_plan(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather")
    commit(catalog.writer("EWR", "weather"), 2)
    before = {info.key: store.get(info.key) for info in store.list("")}
    with pytest.raises(PlanOutdated):
        execute_rebuild(store, plan)
    assert {info.key: store.get(info.key) for info in store.list("")} == before


def test_a_plan_is_void_when_files_or_log_have_changed(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        plan = plan_rebuild(store, "EWR", "weather")
        writer.transaction().write("hourly", rows(2))
        with pytest.raises(PlanOutdated, match="data/"):
            execute_rebuild(store, plan)
        commit(writer, 2)
        plan = plan_rebuild(store, "EWR", "weather")
        with writer.transaction() as tx:
            tx.remove(next(iter(plan.live)))
        with pytest.raises(PlanOutdated, match="log"):
            execute_rebuild(store, plan)
    assert catalog.snapshot("weather").cut.revisions == {"EWR": 2}


# --- An old log that can be read ------------------------------------------------------------------


def live_in(catalog, table="hourly") -> set[str]:
    return set(catalog.snapshot("weather").files(table)["path"].to_pylist())


def test_a_healthy_log_becomes_its_next_incarnation_with_the_same_files(catalog, store, fake):
    store.put(f"{BASE}data/_/x/part-0.parquet", parquet(rows(5, 6)))
    store.put(f"{BASE}data/_/hourly/never-added.parquet", parquet(rows(7)))
    with catalog.writer("EWR", "weather", checkpoint_every=2) as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/x/part-0.parquet", "q", clock=(3, 4))
        with writer.transaction() as tx:
            tx.remove(gone)
        lost, _ = replacing(writer, first, 9, done=False)
        commit(writer, 3, app_id="job", app_version=4)
    before = catalog.snapshot("weather").files("hourly", details=True).drop_columns("revision")
    old = catalog.snapshot("weather")
    data = old.to_arrow("hourly").sort_by("n")
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.unproven
    assert kinds(plan) == {lost: "disproved", "data/_/hourly/never-added.parquet": "foreign"}
    assert "doesn't hold it" in reasons(plan)[lost]
    info = execute_rebuild(store, plan, ambient=fake.ambient)
    assert info.incarnation == 2
    after = catalog.snapshot("weather").files("hourly", details=True).drop_columns("revision")
    assert after.sort_by("path").equals(before.sort_by("path"))
    assert catalog.snapshot("weather").to_arrow("hourly").sort_by("n").equals(data)
    assert catalog.snapshot("weather", old.token).to_arrow("hourly").sort_by("n").equals(data)
    (state,) = catalog.snapshot("weather")._states
    assert state.log.log_id == old._states[0].log.log_id
    assert state.applications.version("job") == 4
    times = catalog.history("weather")["committed_at"].to_pylist()
    assert times == sorted(times)
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 4)


def test_a_rebuild_of_a_rebuilt_log(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        paths = {commit(writer, n)[0] for n in range(3)}
    for incarnation in (2, 3, 4):
        plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
        assert execute_rebuild(store, plan, ambient=fake.ambient).incarnation == incarnation
        with catalog.writer("EWR", "weather") as writer:
            paths.add(commit(writer, incarnation)[0])
        assert live_in(catalog) == paths
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert plan.incarnation == 5  # above all that footers tell of
    assert plan.seal.log.incarnation == 4
    assert set(plan.live) == paths
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == paths


def test_the_way_back_after_a_rebuild(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.remove(gone)
    at_first = catalog.snapshot("weather").token
    execute_rebuild(store, plan_rebuild(store, "EWR", "weather", ambient=fake.ambient))
    with catalog.writer("EWR", "weather") as writer:
        late, _ = replacing(writer, first, 9)
    rebuilt = catalog.snapshot("weather").token
    assert live_in(catalog) == {late}
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=1)
    assert set(plan.live) == {first}
    assert kinds(plan)[late] == "disproved"
    assert "incarnation 1 ended with" in plan.notes[0]
    assert execute_rebuild(store, plan, ambient=fake.ambient).incarnation == 3
    assert live_in(catalog) == {first}
    for token, paths in ((at_first, {first}), (rebuilt, {late})):
        found = catalog.snapshot("weather", token).files("hourly")["path"].to_pylist()
        assert set(found) == paths
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 4)


def test_no_way_back_to_what_is_not_there(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    with pytest.raises(NotFoundError, match="EWR/weather has no incarnation 7") as caught:
        plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=7)
    assert "lakelog doctor" in caught.value.hint
    for bad in (0, 1000, True, "1"):
        with pytest.raises(UsageError, match="incarnation"):
            plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=bad)


def test_a_pruned_log_keeps_its_live_files_and_nothing_else(catalog, store, fake):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        first, _ = commit(writer, 1)
        gone, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.remove(gone)
        writer.checkpoint()
        kept, _ = commit(writer, 3)
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    store.delete([log.folder + item.name for item in names if item.revision < 3])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert set(plan.live) == {first, kept}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == {first, kept}


def test_a_log_whose_end_is_lost_and_what_footers_say_of_it(catalog, store, fake):
    store.put(f"{BASE}data/_/x/part-0.parquet", parquet(rows(5, 6)))
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        gone, _ = commit(writer, 1)
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/x/part-0.parquet")
            tx.remove(gone)
        later, _ = commit(writer, 2)
        last, _ = commit(writer, 3)
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    store.delete([log.folder + item.name for item in names if item.revision > 1])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert plan.seal.others  # names beyond the end that is left
    assert set(plan.live) == {"data/_/x/part-0.parquet", later, last}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live_in(catalog) == set(plan.live)


def test_a_foreign_log_is_refused_until_it_has_its_name(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    for info in list(store.list("EWR/")):
        store.put("JFK" + info.key.removeprefix("EWR"), store.get(info.key))
    with pytest.raises(ForeignLog):
        plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    catalog.writer("JFK", "weather").adopt_name()
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    info = execute_rebuild(store, plan, ambient=fake.ambient)
    assert info.files == 1  # a copy by its footer, and what a log says of a file counts


def test_a_log_of_a_later_version_is_refused(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    upgrade = wire.Upgrade(required_writer_features=["of-tomorrow"])
    with catalog.writer("EWR", "weather") as writer:
        tx = writer.transaction()
        tx._intent.actions.append(wire.Action(upgrade=upgrade))
        tx.commit()
    with pytest.raises(UnsupportedFeature, match="of-tomorrow"):
        plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)


def test_of_a_lost_log_the_id_is_that_of_the_newest_footers(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        commit(writer, 2)
    (state,) = catalog.snapshot("weather")._states
    plan = plan_of()
    assert (plan.log.log_id, plan.log.incarnation) == (state.log.log_id, 2)
    execute_rebuild(store, plan)
    assert catalog.snapshot("weather")._states[0].log == plan.log


def test_names_of_the_new_incarnation_follow_from_the_rebuild_id(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        for number in range(3):
            commit(writer, number)
    plan = plan_of()
    execute_rebuild(store, plan)
    log, rebuild_id = LogReader(store, "EWR", "weather"), bytes.fromhex(plan.rebuild_id)
    found = log.names().transactions
    assert sorted(found) == [0, 1, 2]
    for revision, (item,) in found.items():
        message = log.transaction(item).message
        assert message.uuid == rebuilt_slot_uuid(rebuild_id, revision)
        assert message.commit.successor_uuid == rebuilt_slot_uuid(rebuild_id, revision + 1)
        assert message.commit.slot_seed == rebuild_id
        assert (message.epoch, message.guest) == (plan.epoch, False)
    first = log.transaction(found[0][0]).message.actions[0]
    assert (first.identity.writer, first.identity.database) == ("EWR", "weather")
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 9)
    assert log.names().transactions[3][0].uuid8 == rebuilt_slot_uuid(rebuild_id, 3)[:4].hex()


# --- The store -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transaction", "checkpoint"])
def test_a_file_that_is_deleted_while_the_log_is_rebuilt_is_noticed(catalog, store, kind):
    class Deleting(PassingStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=if_absent)
            if key.endswith(kind):
                self.inner.delete([BASE + gone])

    with catalog.writer("EWR", "weather") as writer:
        gone, _ = commit(writer, 1)
    plan = plan_rebuild(store, "EWR", "weather")
    with pytest.raises(PlanOutdated, match="were deleted") as caught:
        execute_rebuild(Deleting(store), plan)
    assert caught.value.key == gone
    switched = LogReader(store, "EWR", "weather").names().incarnation == 2
    assert switched == (kind == "checkpoint")


def test_ids_are_checked(store):
    for writer, database in (("../x", "weather"), ("EWR", "a/b")):
        with pytest.raises(InvalidName):
            plan_rebuild(store, writer, database)


def test_requests_and_progress(any_store):
    counting = CountingStore(any_store())
    with Catalog(counting).writer("EWR", "weather") as writer:
        for number in range(6):
            commit(writer, number)
    lose_the_log(counting)
    counting.reset()
    seen = []
    plan = plan_rebuild(
        counting,
        "EWR",
        "weather",
        progress=lambda *told: seen.append(told),
    )
    assert seen == [(number, 6, "footers read") for number in range(1, 7)]
    assert counting.reset() == {"put": 0, "get": 6, "list": 2, "head": 0, "delete": 0}
    execute_rebuild(counting, plan)
    counts = counting.reset()
    seals = 1 + len(plan.seal.others)
    assert counts["put"] == seals + 6 + 1  # the probe's result is known from the writer
    assert counts["delete"] == 0
    assert counts["list"] <= 6


def test_a_store_that_fails_stops_the_plan_instead_of_shrinking_it(catalog, store):
    class Flaky(PassingStore):
        def get(self, key, **options):
            if "/data/" in key:
                raise StorageError("no answer", key=key)
            return super().get(key, **options)

    with catalog.writer("EWR", "weather") as writer:
        for number in range(3):
            commit(writer, number)
    lose_the_log(store)
    with pytest.raises(StorageError):
        plan_rebuild(Flaky(store), "EWR", "weather")


def test_a_plan_describes_itself(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        for number in range(30):
            tx = writer.transaction()
            tx.write("hourly", rows(number))
        commit(writer, 31)
    store.put(f"{BASE}data/x.parquet", b"junk")
    plan = plan_of()
    rows_of = described(plan)
    assert list(rows_of) == ["transactions", "unproven", "left_out", "incarnations"]
    assert len(rows_of["unproven"]) == 31
    assert [row["proof"] for row in rows_of["transactions"]] == ["unproven"] * 31
    assert [row["files_added"] for row in rows_of["transactions"]] == [1] * 31
    assert [row["kind"] for row in rows_of["left_out"]] == ["quarantined"]
    assert plan.effect.number == 31
    assert len(repr(plan)) < 500
    for group in plan.describe():
        for row in group.rows:
            assert list(row) == [field.name for field in group.fields]
