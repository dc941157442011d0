"""What prune refuses: damage, forks and features of the future in what would survive."""

from __future__ import annotations

import pytest
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.merge import DESCRIBING
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    CorruptObject,
    ForkError,
    MissingTransaction,
    PlanOutdated,
    UnsupportedFeature,
)
from lakelog.gc.prune import execute_prune, plan_prune
from prune_cases import LOG, SEGMENTS, D, W, build, prune

DAY_S = 86_400.0


def spoil_checkpoint(lake):
    lake.damage(lake.log_key("c3"))


def spoil_later_transaction(lake):
    lake.damage(lake.log_key("t5"))


def spoil_later_checkpoint(lake):
    lake.damage(lake.log_key("c5"))


def cut_checkpoint(lake):
    key = lake.log_key("c3")
    lake.store.put(key, lake.store.get(key)[:-1])


def lose_later_transaction(lake):
    lake.store.delete([lake.log_key("t4")])


def fork_above(lake):
    fork(lake, "t5")


def fork_below(lake):
    fork(lake, "t1")


def fork_checkpoint_below(lake):
    key = lake.log_key("t2")
    other = key.replace(key.split(".")[1], "00000000").removesuffix("transaction") + "checkpoint"
    lake.store.put(other, lake.store.get(lake.log_key("c3")))


def fork(lake, short):
    key = lake.log_key(short)
    lake.store.put(key.replace(key.split(".")[1], "00000000"), lake.store.get(key))


def belongs_elsewhere(lake):
    """The checkpoint of another log, under this one's name, as a copy by hand would make it."""
    lies(lake, 3, lambda state: setattr(state, "digest", bytes(32)))


def lies(lake, revision, change):
    """Put a checkpoint, sound in itself, that doesn't hold what its log says."""
    lake.store.delete([lake.log_key(f"c{revision}")])
    state = lake.log().load(revision)
    change(state)
    encoded = encode_state(state)
    for name, body in encoded.segments:
        lake.store.put(SEGMENTS + name, body)
    lake.store.put(LOG + encoded.name, encoded.body)


DOUBTS = {
    spoil_checkpoint: CorruptObject,
    spoil_later_transaction: CorruptObject,
    spoil_later_checkpoint: CorruptObject,
    cut_checkpoint: CorruptObject,
    lose_later_transaction: MissingTransaction,
    fork_above: ForkError,
    fork_below: ForkError,
    fork_checkpoint_below: ForkError,
    belongs_elsewhere: CorruptObject,
}


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_doubt_about_what_survives_is_a_refusal(lake, doubt):
    build(lake, 6, [3, 5])
    lake.pass_time(30 * DAY_S)
    good = plan_prune(lake.catalog, W, D, keep_revisions=3)
    assert good.objects == 6
    doubt(lake)
    lake.pass_time(30 * DAY_S)
    before = lake.log_names()
    with pytest.raises(DOUBTS[doubt]):
        plan_prune(lake.catalog, W, D, keep_revisions=3)
    with pytest.raises((DOUBTS[doubt], PlanOutdated)):
        execute_prune(lake.catalog, good)
    assert lake.log_names() == before


def kinds_of_segments(lake, short):
    """Names of the segment objects of a checkpoint, with whether they only help to skip."""
    item = lake.log_key(short).removeprefix(LOG)
    state = lake.log().checkpoint_state(parse_log_object(item))
    return {piece.name: piece.kind in DESCRIBING for piece in state.pieces if piece.name}


def test_a_spilled_segment_of_the_survivor_is_read_too(lake, spilling):
    build(lake, 6, [3])
    lake.pass_time(30 * DAY_S)
    skips = kinds_of_segments(lake, "c3")
    assert sorted(skips.values()) == [False, False, False, True], "statistics alone may be lost"
    for name in lake.segments():
        segment = SEGMENTS + name
        body = lake.store.get(segment)
        for spoil in (lake.damage, lambda key: lake.store.delete([key])):
            spoil(segment)
            if skips.get(name):
                plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
                assert sum(name in note and "No row is lost" in note for note in plan.notes) == 1
                assert plan.objects == 6
            else:
                with pytest.raises(CorruptObject):
                    plan_prune(lake.catalog, W, D, keep_revisions=1)
        lake.store.put(segment, body)
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert plan.objects == 6
    assert not any("No row is lost" in note for note in plan.notes)


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_unusable_statistics_stop_no_prune(lake, spilling, how):
    build(lake, 6, [3])
    (name,) = (name for name, skips in kinds_of_segments(lake, "c3").items() if skips)
    if how == "gone":
        lake.store.delete([SEGMENTS + name])
    else:
        lake.damage(SEGMENTS + name)
    lake.pass_time(30 * DAY_S)
    prune(lake, keep_revisions=1)
    assert lake.log_names() == "t3 c3 t4 t5"
    assert lake.read() == [3, 4, 5]


def test_damage_before_the_survivor_may_go(lake):
    build(lake, 6, [3])
    lake.damage(lake.log_key("t1"))
    lake.pass_time(30 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    assert any("could not be compared" in note for note in plan.notes)
    assert lake.log_names() == "t3 c3 t4 t5"
    assert lake.read() == [3, 4, 5]


def test_a_hole_below_the_survivor_may_go(lake):
    build(lake, 6, [3])
    lake.store.delete([lake.log_key("t1")])
    lake.pass_time(30 * DAY_S)
    prune(lake, keep_revisions=3)
    assert lake.log_names() == "t3 c3 t4 t5"


def test_a_hole_that_retention_reaches_below_is_a_refusal(lake):
    """Revisions 0 and 1 can still be read and are asked for: being cut off is no reason to go."""
    build(lake, 8, [4])
    lake.store.delete([lake.log_key("t2")])
    lake.pass_time(30 * DAY_S)
    with pytest.raises(MissingTransaction):
        plan_prune(lake.catalog, W, D, keep_revisions=8)


def test_refs_and_features_of_the_future_are_a_refusal(lake):
    build(lake, 6, [3])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    for ref in (f"_refs/stable/{0:020d}.ref", "_refs/x"):
        lake.store.put(ref, b"pins revision 1")
        for step in (
            lambda: plan_prune(lake.catalog, W, D, keep_revisions=1),
            lambda: execute_prune(lake.catalog, plan),
        ):
            with pytest.raises(UnsupportedFeature, match="no ref that this lakelog knows"):
                step()
        lake.store.delete([ref])
    upgrade(lake)
    with pytest.raises(UnsupportedFeature):
        plan_prune(lake.catalog, W, D, keep_revisions=1)
    with pytest.raises(UnsupportedFeature):
        execute_prune(lake.catalog, plan)
    assert lake.log_names() == "t0 t1 t2 t3 c3 t4 t5 t6"


def upgrade(lake):
    """A commit that requires a writer feature which this lakelog doesn't know."""
    with lake.writer() as writer:
        tx = writer.transaction()
        tx._intent.actions.append(
            wire.Action(upgrade=wire.Upgrade(required_writer_features=["pins"]))
        )
        tx.commit()


def test_a_later_checkpoint_of_another_history_is_a_refusal(lake):
    build(lake, 6, [3, 5])
    lies(lake, 5, lambda state: setattr(state, "digest", bytes(32)))
    lake.pass_time(30 * DAY_S)
    with pytest.raises(CorruptObject, match="is not of the transaction"):
        plan_prune(lake.catalog, W, D, keep_revisions=3)


def test_a_later_checkpoint_without_its_segments_is_a_refusal(lake, spilling):
    """Each that it alone needs, but for what only tells where rows may be."""
    build(lake, 6, [3, 5])
    lake.pass_time(30 * DAY_S)
    state = lake.log().checkpoint_state(parse_log_object(lake.log_key("c5").rsplit("/", 1)[-1]))
    costs_rows = {piece.name for piece in state.pieces if piece.kind not in DESCRIBING}
    alone = lake.needed("c5") - lake.needed("c3")
    assert len(alone & costs_rows) > 1
    for name in alone & costs_rows:
        body = lake.store.get(SEGMENTS + name)
        lake.store.delete([SEGMENTS + name])
        with pytest.raises(CorruptObject, match="is not there"):
            plan_prune(lake.catalog, W, D, keep_revisions=3)
        lake.store.put(SEGMENTS + name, body)
