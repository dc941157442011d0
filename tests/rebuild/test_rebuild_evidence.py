"""What footers prove: which transactions of a lost log were committed, and which never can have."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.footers.read import read_footer
from lakelog.errors import (
    UsageError,
)
from lakelog.rebuild import execute_rebuild
from rebuild_cases import (
    BASE,
    LOG,
    commit,
    described,
    item_of,
    kinds,
    lose_objects,
    lose_the_log,
    reasons,
    replacing,
    rows,
)


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


def test_a_replaced_file_proves_its_transaction(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        other, _ = commit(writer, 1)
        first, _ = commit(writer, 2)
        with writer.transaction() as tx:  # the next base is this one, which leaves no file
            tx.remove(other)
        replacing(writer, first, 3, done=False)
    lose_objects(store)
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
    assert any("gc takes none of them" in note for note in plan.notes)


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


def test_of_two_histories_a_later_owner_of_one_rules_nothing_of_the_other_out(
    catalog, store, plan_of
):
    """The end was lost, and another owner went on. No footer names what stood on revision 1
    before; but after that owner's epoch no lower one can have come."""
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        begun = [writer.transaction() for _ in range(2)]
        (path,), _ = [tx.write("hourly", rows(n)) for n, tx in enumerate(begun, 2)]
        for tx in begun:
            tx.commit()
        commit(writer, 4)
    names = [info.key for info in store.list(LOG)]
    store.delete([key for key in names if item_of(key).revision])
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 5)
        commit(writer, 6)
    lose_the_log(store)
    plan = plan_of()
    assert path in plan.live or path in plan.undecided
    assert kinds(plan) == {path: "undecided"}


def test_two_replacements_of_a_file_of_an_earlier_epoch_cant_both_have_been_committed(
    catalog, plan_of
):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
    with catalog.writer("EWR", "weather") as writer:
        failed, _ = replacing(writer, first, 2, done=False)
        good, _ = replacing(writer, first, 3)
        commit(writer, 4)
    plan = plan_of()
    assert kinds(plan) == {failed: "disproved"}
    assert "which was committed" in reasons(plan)[failed]
    assert good in plan.live
    assert first not in plan.live


@pytest.mark.parametrize("told", [True, False])
def test_a_replacement_of_a_file_that_may_have_been_added_again(catalog, store, plan_of, told):
    """In its own epoch a file can be removed, added again, and removed again: both count."""
    with catalog.writer("EWR", "weather") as writer:
        begun = writer.transaction()
        begun.write("hourly", rows(1))
        first, _ = commit(writer, 1)
        early, _ = replacing(writer, first, 2)  # no file was begun on it
        begun.add("hourly", first)
        begun.commit()
        late, _ = replacing(writer, first, 3)
        commit(writer, 4)
    if not told:
        lose_objects(store)
    plan = plan_of()
    assert late in plan.live
    if told:
        assert early in plan.live
    else:
        assert kinds(plan) == {early: "undecided"}
        assert "added again" in reasons(plan)[early]


def test_of_two_unproven_replacements_both_stand_until_one_is_excluded(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        failed, failed_tx = replacing(writer, first, 2, done=False)
        good, good_tx = replacing(writer, first, 3)
    plan = plan_of()
    assert not plan.left_out
    assert set(plan.live) == {failed, good}, "one of them was acknowledged"
    assert set(plan.undecided) == {first}
    (note,) = [note for note in plan.notes if "Undecided between" in note]
    assert good_tx.transaction_id in note
    assert failed_tx.transaction_id in note
    assert first in note
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
