"""Garbage collection: what is an orphan, what is not, and what keeps it from deleting at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lakelog.catalog.format.names import LogObject, data_path
from lakelog.catalog.format.objects import encode_transaction
from lakelog.catalog.margins import Margins
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    CorruptObject,
    ForkError,
    LakelogError,
    MissingTransaction,
    PlanOutdated,
    UnsupportedFeature,
    WriterNotFound,
)
from lakelog.gc import Plan, execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.store import Capabilities

DAY_S = 86_400.0
GRACE_S = 7 * DAY_S
W, D = "EWR", "weather"
BASE = f"{W}/{D}/"


def gc(lake, **options):
    options = {"margins": lake.margins, **options}
    plan = plan_gc(lake.catalog, W, D, **options)
    return plan, execute_gc(lake.catalog, plan, **options)


def planned(plan):
    return {action.key.removeprefix(BASE) for action in plan.actions}


def take_over(lake, value=99):
    """A new owner's first commit: every epoch before it is superseded."""
    with lake.writer() as writer:
        return lake.commit(writer, value)


@pytest.fixture
def begins_anew(monkeypatch):
    """A writer refuses to begin a log where one was lost; others may have done so all the same, and
    gc must not make it worse."""
    monkeypatch.setattr("lakelog.catalog.commit.birth.refuse_lost_log", lambda *_: None)


def test_tracked_files_stay_and_orphans_go(any_lake):
    lake = any_lake
    with lake.writer() as writer:
        paths = [lake.commit(writer, value) for value in range(4)]
        lake.commit(writer, 4, remove=[paths[0]])
        writer.checkpoint()
        lake.commit(writer, 5, remove=[paths[1]])
        orphan = lake.orphan(writer)
    take_over(lake)
    foreign = lake.put_foreign("somebody/else's.parquet")
    note = lake.put_foreign("_SUCCESS")
    lake.pass_time(30 * DAY_S)
    before = lake.data()
    plan, report = gc(lake)
    assert planned(plan) == {orphan, foreign}
    assert lake.data() == before - {orphan, foreign}
    assert note in lake.data()
    assert lake.retained_paths() <= lake.data()
    assert {paths[0], paths[1]} <= lake.data()  # removed, and yet named by a retained revision
    assert report.deleted_objects == 2
    assert report.deleted_bytes == plan.size_bytes > 0
    assert sorted(lake.read()) == [2, 3, 4, 5, 99]
    again, report = gc(lake)
    assert (again.objects, report.deleted_objects) == (0, 0)


def test_files_of_pruned_revisions_go(any_lake):
    lake = any_lake
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    assert not gc(lake)[0].actions
    execute_prune(
        lake.catalog,
        plan_prune(lake.catalog, W, D, keep_revisions=1, margins=lake.margins),
        margins=lake.margins,
    )
    plan, _ = gc(lake)
    assert planned(plan) == {first}
    assert lake.data() == lake.retained_paths() == lake.paths_at()


def test_files_of_a_large_commit_are_named_too(lake):
    """More than 256 adds travel as one batch of columns."""
    with lake.writer() as writer:
        with writer.transaction() as tx:
            paths = [tx.write("hourly", lake.rows(i), partition=f"p{i % 7}")[0] for i in range(300)]
        with writer.transaction() as tx:
            for path in paths[:299]:
                tx.remove(path)
    take_over(lake)
    lake.pass_time(30 * DAY_S)
    first = lake.log().transaction(lake.log().names().transactions[0][0])
    assert len(first.batches) == 1
    plan, _ = gc(lake)
    assert not plan.actions
    assert set(paths) <= lake.data()


def test_the_plan_says_why(lake):
    with lake.writer() as writer:
        lake.commit(writer, 0)
        orphan = lake.orphan(writer)
    take_over(lake)
    foreign = lake.put_foreign("x.parquet")
    notes = lake.put_foreign("p/hourly/notes.txt")
    plan = plan_gc(lake.catalog, W, D)
    (deletion,) = plan.actions
    assert deletion.key == BASE + orphan
    assert "epoch 1, superseded by 2" in deletion.reason
    kept = {kept.reason.split(":")[0]: kept for kept in plan.kept}
    assert kept["named by a retained revision"].objects == 2
    assert kept["young"].names == (BASE + foreign,)
    assert kept["unknown name"].names == (BASE + notes,)
    assert (plan.facts.head, plan.facts.epoch, plan.facts.exclusive) == (1, 2, True)
    assert Plan.from_json(plan.to_json()) == plan


# --- rule A: epochs -----------------------------------------------------------------------------


def test_a_superseded_epoch_needs_no_clock(lake, hooked):
    with lake.writer() as writer:
        lake.commit(writer, 0)
        orphan = lake.orphan(writer)
    live = lake.orphan(lake.writer())  # of the next epoch, whose owner has not committed yet
    take_over(lake)
    newest = lake.orphan(lake.writer())
    timeless = hooked(lake.store, infos=lambda info: replace(info, modified_at=None))
    timeless.probed = lake.store.probed
    plan = plan_gc(timeless, W, D, margins=Margins(gc_grace_s=0))
    assert planned(plan) == {orphan}
    assert execute_gc(timeless, plan).deleted_objects == 1
    assert {live, newest} <= lake.data()


def test_files_of_the_live_epoch_and_of_the_next_wait_for_grace(lake):
    owner = lake.writer()
    lake.commit(owner, 0)
    guest = lake.writer(shared=True)
    files = {lake.orphan(owner), lake.orphan(guest), lake.orphan(lake.writer())}
    assert {path.rsplit("/", 1)[-1][0] for path in files} == {"1", "2"}
    lake.pass_time(GRACE_S - 1)
    assert not plan_gc(lake.catalog, W, D).actions
    lake.pass_time(1)
    assert planned(plan_gc(lake.catalog, W, D)) == files


def test_a_guests_files_live_and_die_with_the_epoch_they_carry(lake):
    owner = lake.writer()
    lake.commit(owner, 0)
    guest = lake.writer(shared=True)
    tx = guest.transaction()
    (path,) = tx.write("hourly", lake.rows(1))
    assert not gc(lake)[0].actions  # it can still be committed
    take_over(lake)
    plan, _ = gc(lake)
    assert planned(plan) == {path}
    with pytest.raises(LakelogError):
        tx.commit()
    assert lake.paths_at() <= lake.data()


def test_a_guest_commit_supersedes_nothing(lake):
    owner = lake.writer()
    lake.commit(owner, 0)
    tx = owner.transaction()
    (path,) = tx.write("hourly", lake.rows(1))
    with lake.writer(shared=True) as guest:
        lake.commit(guest, 2)
    assert not gc(lake)[0].actions
    tx.commit()
    assert path in lake.paths_at() & lake.data()


def test_without_put_if_absent_all_wait_for_grace(lake):
    lake.store.probed = Capabilities("memory", False, "switched off by the test")
    with lake.writer() as writer:
        lake.commit(writer, 0)
        orphan = lake.orphan(writer)
    take_over(lake)
    plan, _ = gc(lake)
    assert not plan.actions
    assert not plan.facts.exclusive
    lake.pass_time(GRACE_S)
    assert planned(gc(lake)[0]) == {orphan}


def test_where_the_probe_may_not_write_epochs_prove_nothing(lake, hooked):
    from lakelog.errors import AccessDenied

    with lake.writer() as writer:
        lake.commit(writer, 0)
        lake.orphan(writer)
    take_over(lake)

    def deny(request, key):
        if request == "put":
            raise AccessDenied("not allowed to write", key=key)

    guarded = hooked(lake.store, deny)
    guarded.probed = None
    plan = plan_gc(guarded, W, D, ambient=lake.clock.ambient())
    assert not plan.actions
    assert not plan.facts.exclusive


def test_a_name_of_ours_in_a_place_of_its_own_is_foreign(lake):
    """Somebody's copy: that its name looks like one of a superseded epoch proves nothing."""
    take_over(lake)
    take_over(lake)
    lake.put_foreign("backup/p/hourly/1-" + "0" * 32 + "-0.parquet")
    lake.put_foreign("1-" + "0" * 32 + "-0.parquet")
    assert not gc(lake)[0].actions


@pytest.mark.usefixtures("begins_anew")
def test_files_of_an_epoch_that_the_log_has_not_come_to_stay(lake):
    """A log was lost and a new one begun: its files are what a rebuild will find."""
    for value in range(4):
        take_over(lake, value)
    old = lake.data()
    lake.store.delete([info.key for info in lake.store.list(f"{BASE}transactions/")])
    take_over(lake)
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert planned(plan) == {p for p in old if p.rsplit("/", 1)[-1][0] in "12"}
    other = [kept for kept in plan.kept if "rebuild" in kept.reason]
    assert {name.removeprefix(BASE) for name in other[0].names} == old - planned(plan)
    assert len(old - planned(plan)) == 2


# --- rule B: grace ------------------------------------------------------------------------------


def test_foreign_files_wait_for_grace(lake):
    take_over(lake)
    path = lake.put_foreign("x.parquet")
    lake.pass_time(GRACE_S - 1)
    assert not gc(lake)[0].actions
    lake.pass_time(1)
    assert planned(gc(lake)[0]) == {path}
    assert path not in lake.data()


def test_unknown_times_and_times_of_the_future_are_young(lake, hooked):
    take_over(lake)
    lake.put_foreign("x.parquet")
    ambient = lake.clock.ambient()
    zero = Margins(gc_grace_s=0)
    timeless = hooked(lake.store, infos=lambda info: replace(info, modified_at=None))
    assert not plan_gc(timeless, W, D, ambient=ambient, margins=zero).actions
    assert plan_gc(lake.store, W, D, ambient=ambient, margins=zero).objects == 1
    lake.clock.now_s -= 3600
    assert not plan_gc(lake.store, W, D, ambient=ambient, margins=zero).actions


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_execution_asks_the_stores_clock(
    request, backend, make_memory_lake, make_local_lake, tmp_path
):
    lake = make_memory_lake() if backend == "memory" else make_local_lake(tmp_path)
    take_over(lake)
    path = lake.put_foreign("x.parquet")
    ahead = lake.clock.ambient(ahead_s=30 * DAY_S)
    plan = plan_gc(lake.store, W, D, ambient=ahead)
    assert planned(plan) == {path}
    report = execute_gc(lake.store, plan, ambient=ahead)
    assert report.deleted_objects == 0
    assert report.kept[0].names == (BASE + path,)
    assert "young" in report.kept[0].reason
    assert path in lake.data()
    assert not list(lake.store.list(f"{W}/_probe/"))


@pytest.mark.parametrize(
    "name",
    [
        "p/hourly/x.parquet.tmp",
        "p/hourly/x.PARQUET",
        "p/hourly/x",
        "p/.parquet",
        "back\\slash.parquet",
        "new\nline.parquet",
        "s" * 300 + ".parquet",
        "_delta_log/00000000000000000000.json",
    ],
)
def test_unknown_names_stay_for_ever(lake, name):
    take_over(lake)
    path = lake.put_foreign(name)
    lake.pass_time(365 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    (unknown,) = [kept for kept in plan.kept if kept.reason.startswith("unknown name")]
    assert unknown.names == (BASE + path,)
    assert path in lake.data()


def test_only_this_writers_data_is_looked_at(lake):
    take_over(lake)
    elsewhere = [
        f"{W}/{D}2/data/x.parquet",
        f"{W}2/{D}/data/x.parquet",
        f"{W}/{D}/x.parquet",
        f"{W}/{D}/data2/x.parquet",
        f"{W}/{D}/segments/x.parquet",
    ]
    for key in elsewhere:
        lake.store.put(key, b"x")
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    assert all(lake.store.get(key) == b"x" for key in elsewhere)


# --- doubt --------------------------------------------------------------------------------------


def damage_transaction(lake):
    lake.damage(lake.log_key("t3"))


def damage_base(lake):
    lake.damage(lake.log_key("c2"))


def damage_bases_transaction(lake):
    lake.damage(lake.log_key("t2"))


def lose_transaction(lake):
    lake.store.delete([lake.log_key("t4")])


def leave_a_stray_checkpoint(lake):
    """As a checkpoint would that its writer put long after the log had been pruned."""
    lake.store.put(f"{BASE}transactions/{LogObject(1, 0, 'ab' * 4, 'checkpoint').name}", b"stray")


def lose_the_tail_below_a_checkpoint(lake):
    with lake.writer() as writer:
        lake.commit(writer, 7)
        writer.checkpoint()
    lake.store.delete([lake.log_key("t6"), lake.log_key("t7")])


def fork(lake):
    key = lake.log_key("t5")
    lake.store.put(key.replace(key.split(".")[1], "00000000"), lake.store.get(key))


def lose_log(lake):
    lake.store.delete([info.key for info in lake.store.list(f"{BASE}transactions/")])


def require_a_feature(lake):
    with lake.writer() as writer:
        tx = writer.transaction()
        tx._intent.actions.append(
            wire.Action(upgrade=wire.Upgrade(required_writer_features=["delete files"]))
        )
        tx.commit()


def hold_an_unknown_optional_action(lake):
    key = lake.log_key("t6")
    found = lake.log().transaction(_item(lake, 6))
    message = wire.Transaction.FromString(found.message.SerializeToString())
    action = wire.Action(optional=True)
    action.MergeFromString(b"\x72\x04data")  # field 14, a kind of the future
    message.actions.append(action)
    lake.store.put(key, encode_transaction(found.log, message, b"")[0])


def _item(lake, revision):
    return lake.log().names().transactions[revision][0]


DOUBTS = {
    damage_transaction: CorruptObject,
    damage_base: CorruptObject,
    damage_bases_transaction: CorruptObject,
    lose_transaction: MissingTransaction,
    leave_a_stray_checkpoint: MissingTransaction,
    lose_the_tail_below_a_checkpoint: MissingTransaction,
    fork: ForkError,
    lose_log: WriterNotFound,
    require_a_feature: UnsupportedFeature,
    hold_an_unknown_optional_action: UnsupportedFeature,
}


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_doubt_about_what_is_retained_is_a_refusal(lake, doubt):
    """A log pruned to revision 2, with checkpoint 4, and an orphan that anybody may see."""
    with lake.writer() as writer:
        for value in range(6):
            lake.commit(writer, value)
            if value in (2, 4):
                writer.checkpoint()
        lake.orphan(writer)
    lake.pass_time(30 * DAY_S)
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=4))
    assert lake.log_names() == "t2 c2 t3 t4 c4 t5"
    take_over(lake)
    good = plan_gc(lake.catalog, W, D)
    assert good.objects == 1
    doubt(lake)
    before = lake.data()
    with pytest.raises(DOUBTS[doubt]):
        plan_gc(lake.catalog, W, D)
    with pytest.raises(DOUBTS[doubt]):
        execute_gc(lake.catalog, good)
    assert lake.data() == before


# --- execution ----------------------------------------------------------------------------------


def careless(lake):
    """A committer that doesn't keep the promise of rule B: it commits files of any age."""
    lake.promised = Margins(gc_grace_s=10_000 * DAY_S)
    writer = lake.writer()
    lake.promised = Margins()
    return writer


def test_what_was_named_since_the_plan_stays(lake):
    with careless(lake) as writer:
        lake.commit(writer, 0)
        (real,) = [path for path in lake.data()]
        body = lake.store.get(BASE + real)
        late = lake.put_foreign("late.parquet", body)
        other = lake.put_foreign("other.parquet", body)
        lake.pass_time(30 * DAY_S)
        plan = plan_gc(lake.catalog, W, D)
        assert planned(plan) == {late, other}
        with writer.transaction() as tx:
            tx.add("hourly", late)
    report = execute_gc(lake.catalog, plan)
    assert report.deleted_objects == 1
    assert report.kept[0].names == (BASE + late,)
    assert "named by a commit" in report.kept[0].reason
    assert late in lake.data()
    assert other not in lake.data()
    assert lake.read() == [0, 0]


def test_what_was_put_anew_since_the_plan_stays(lake):
    take_over(lake)
    paths = [lake.put_foreign(f"{name}.parquet", b"old") for name in "abc"]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert planned(plan) == set(paths)
    lake.put_foreign("a.parquet", b"new")  # as large as before, and young
    lake.put_foreign("b.parquet", b"newer")
    lake.store.delete([BASE + paths[2]])
    report = execute_gc(lake.catalog, plan, margins=Margins(gc_grace_s=1))
    assert (report.deleted_objects, report.gone_objects) == (0, 1)
    assert sorted(kept.reason.split(":")[0] for kept in report.kept) == [
        "not the object that was planned",
        "young",
    ]
    assert set(paths[:2]) <= lake.data()


def test_a_plan_deletes_no_more_than_it_names(lake):
    take_over(lake)
    paths = [lake.put_foreign(f"{n}.parquet") for n in range(4)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    part = replace(plan, actions=plan.actions[1:3])
    assert execute_gc(lake.catalog, part).deleted_objects == 2
    assert {paths[0], paths[3]} <= lake.data()


def test_a_plan_that_names_live_files_deletes_none(lake):
    """Made by hand, or by a bug: execution believes the log and nothing else."""
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    orphan = lake.put_foreign("x.parquet")
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    (template,) = plan.actions
    infos = list(lake.store.list(f"{BASE}data/"))
    everything = tuple(
        replace(template, key=info.key, size_bytes=info.size_bytes) for info in infos
    )
    report = execute_gc(lake.catalog, replace(plan, actions=everything))
    assert report.deleted_objects == 1
    assert report.kept[0].objects == 3
    assert orphan not in lake.data()
    assert lake.read() == [0, 1, 2]


def test_batches_look_again_before_each(lake, hooked, monkeypatch):
    """A commit between two batches names a file of the second: it stays."""
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 2)
    with careless(lake) as writer:
        real = lake.commit(writer, 0)
        body = lake.store.get(BASE + real)
        paths = [lake.put_foreign(f"{n}.parquet", body) for n in range(6)]
        lake.pass_time(30 * DAY_S)
        plan = plan_gc(lake.catalog, W, D)
        deletions = []

        def commit_one(request, key):
            if request == "delete" and "/data/" in key:
                deletions.append(key)
                if len(deletions) == 2:
                    with writer.transaction() as tx:
                        tx.add("hourly", paths[4])

        report = execute_gc(hooked(lake.store, commit_one), plan, ambient=lake.clock.ambient())
    assert report.deleted_objects == 5
    assert report.kept[0].names == (BASE + paths[4],)
    assert paths[4] in lake.data()
    assert lake.read() == [0, 0]


def test_a_prune_between_batches_is_no_harm(lake, hooked, monkeypatch):
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 1)
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    paths = [lake.put_foreign(f"{n}.parquet") for n in range(3)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    done = []

    def commit_and_prune(request, key):
        if request == "delete" and "/data/" in key and not done:
            done.append(key)
            with lake.writer() as writer:
                for value in range(3, 6):
                    lake.commit(writer, value)
                writer.checkpoint()
            zero = Margins(prune_floor_s=0)
            prune = plan_prune(lake.catalog, W, D, keep_revisions=1, margins=zero)
            execute_prune(lake.catalog, prune, margins=zero)

    report = execute_gc(hooked(lake.store, commit_and_prune), plan, ambient=lake.clock.ambient())
    assert lake.log_names() == "t5 c5"
    assert report.deleted_objects == 3
    assert not set(paths) & lake.data()
    assert lake.read() == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("begins_anew")
def test_a_log_replaced_between_batches_is_read_anew(lake, hooked, monkeypatch):
    """Not by lakelog, but it costs one look at the head's name to find out."""
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 1)
    with lake.writer() as writer:
        real = lake.commit(writer, 0)
        lake.commit(writer, 1)
    body = lake.store.get(BASE + real)
    paths = [lake.put_foreign(f"{n}.parquet", body) for n in range(3)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    done = []

    def replace_log(request, key):
        if request == "delete" and "/data/" in key and not done:
            done.append(key)
            lose_log(lake)
            with careless(lake) as writer:
                for path in (real, paths[2]):
                    with writer.transaction() as tx:
                        tx.add("hourly", path)

    report = execute_gc(hooked(lake.store, replace_log), plan, ambient=lake.clock.ambient())
    assert report.deleted_objects == 2
    assert lake.paths_at() <= lake.data()
    assert lake.read() == [0, 0]


@pytest.mark.usefixtures("begins_anew")
def test_an_outdated_plan_deletes_nothing(lake, make_memory_lake):
    for _ in range(3):
        take_over(lake)
    path = lake.put_foreign("x.parquet")
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    lake.store.delete([lake.log_key("t2")])
    with pytest.raises(PlanOutdated, match="ended at revision 2"):
        execute_gc(lake.catalog, plan)
    lake.store.delete([lake.log_key("t0"), lake.log_key("t1")])
    for _ in range(4):
        take_over(lake)
    with pytest.raises(PlanOutdated, match="another transaction"):
        execute_gc(lake.catalog, plan)
    assert path in lake.data()


def test_names_with_hard_characters(any_lake):
    lake = any_lake
    with lake.writer() as writer, writer.transaction() as tx:
        kept = tx.write("ta/b le%", lake.rows(1), partition="../ß..")
    with lake.writer() as writer:
        tx = writer.transaction()
        orphans = tx.write("..", lake.rows(2), partition="ü \\ +?#&")
        tx.discard()
    take_over(lake)
    take_over(lake)
    plan, _ = gc(lake)
    assert planned(plan) == set(orphans)
    assert set(kept) <= lake.data()
    assert not set(orphans) & lake.data()


def test_progress_is_told(lake):
    with lake.writer() as writer:
        lake.commit(writer, 0)
    lake.put_foreign("x.parquet")
    lake.pass_time(30 * DAY_S)
    told = []
    plan = plan_gc(lake.catalog, W, D, progress=lambda *a: told.append(a))
    execute_gc(lake.catalog, plan, progress=lambda *a: told.append(a))
    assert {what for *_, what in told} == {
        "data files listed",
        "transactions read",
        "objects deleted",
    }
    assert told[-1] == (1, 1, "objects deleted")


def test_a_log_wiped_to_its_last_checkpoint(any_lake):
    """All but one checkpoint is lost: it reads, it commits, and maintenance stays careful."""
    lake = any_lake
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        lake.commit(writer, 2)
        writer.checkpoint()
    checkpoint = lake.log_key("c2")
    names = list(lake.store.list(f"{BASE}transactions/"))
    lake.store.delete([info.key for info in names if info.key != checkpoint])
    assert lake.read() == [1, 2]
    lake.pass_time(30 * DAY_S)
    assert not plan_prune(lake.catalog, W, D, keep_revisions=1, margins=lake.margins).actions
    plan, _ = gc(lake)
    assert planned(plan) == {first}
    assert lake.read() == [1, 2]
    with lake.writer() as writer:
        lake.commit(writer, 3)
    assert lake.read() == [1, 2, 3]
    assert not gc(lake)[0].actions


def test_the_paths_of_this_test_are_those_of_lakelog(lake):
    path = take_over(lake)
    name = path.rsplit("/", 1)[-1]
    epoch, identity, _ = name.removesuffix(".parquet").split("-")
    assert path == data_path("p", "hourly", int(epoch), bytes.fromhex(identity), 0)
