"""The chain of transactions, and what a later version may put into it."""

from __future__ import annotations

import pytest
from lakelog.catalog.log.admission import check_writer_features
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptObject,
    UnsupportedFeature,
)
from lakelog.testing.logs import (
    LogBuilder,
    replay,
    schema_action,
)
from replay_cases import A, B, C, add, broken, facts, upgrade

# --- The chain ----------------------------------------------------------------------------------


def test_gap_in_revisions(longer):
    name, body = LogBuilder().encode()
    with pytest.raises(BrokenChain, match="is revision 0, after 2"):
        apply(longer.state, longer.decode(name, body))
    skipped = LogBuilder()
    for _ in range(5):
        skipped.commit()
    with pytest.raises(BrokenChain, match="is revision 4, after 2"):
        apply(longer.state, skipped.transactions[4])


def test_wrong_revision_inside_the_file(longer):
    def change(message):
        message.revision = 7

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_uuid_inside_the_file(longer):
    def change(message):
        message.uuid = b"\x09" * 16

    assert isinstance(broken(longer, change), CorruptObject)


def test_missing_uuid(longer):
    assert isinstance(broken(longer, lambda message: message.ClearField("uuid")), CorruptObject)


def test_broken_uuid(longer):
    def change(message):
        message.uuid = message.uuid[:15]

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_link_at_the_start():
    def change(message):
        message.previous_uuid = b"\x01" * 16

    assert isinstance(broken(LogBuilder(), change), CorruptObject)


def test_wrong_link_in_the_middle(longer):
    def change(message):
        message.previous_uuid = b"\x01" * 16

    error = broken(longer, change)
    assert isinstance(error, BrokenChain)
    assert "up to 2 can still be read" in error.hint


def test_missing_link(longer):
    def change(message):
        message.ClearField("previous_uuid")

    assert isinstance(broken(longer, change), CorruptObject)


def test_broken_link(longer):
    def change(message):
        message.previous_uuid = message.previous_uuid[:5]

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_digest_link(longer):
    """The same uuid with another body before: what a chain of uuids alone would not notice."""

    def change(message):
        message.previous_digest = bytes(32)

    assert isinstance(broken(longer, change), BrokenChain)


def test_broken_digest_link(longer):
    def change(message):
        message.previous_digest = b"x"

    assert isinstance(broken(longer, change), CorruptObject)


def test_an_altered_transaction_breaks_the_chain_at_its_successor(longer):
    other = LogBuilder()
    other.commit(schema_action())
    other.commit(add(C))
    with pytest.raises(BrokenChain):
        replay(empty_state("w", "db"), [*other.transactions, longer.transactions[2]])


def test_lower_epoch(longer):
    longer.commit(epoch=5)
    error = broken(longer, None, epoch=4)
    assert isinstance(error, BrokenChain)
    assert "epoch 4" in str(error)
    longer.commit(epoch=5)
    longer.commit(epoch=9)


@pytest.mark.parametrize("epoch", [0, 1 << 62, (1 << 64) - 1])
def test_absurd_epoch(longer, epoch):
    def change(message):
        message.epoch = epoch

    assert isinstance(broken(longer, change), CorruptObject)


def test_missing_commit(longer):
    assert isinstance(broken(longer, lambda message: message.ClearField("commit")), CorruptObject)


def test_missing_timestamp(longer):
    def change(message):
        message.commit.ClearField("committed_at_us")

    assert isinstance(broken(longer, change), CorruptObject)


@pytest.mark.parametrize("value", [-1, 1 << 55, (1 << 63) - 1, -(1 << 63)])
def test_broken_timestamp(longer, value):
    def change(message):
        message.commit.committed_at_us = value

    assert isinstance(broken(longer, change), CorruptObject)


def test_timestamp_that_does_not_ascend(longer):
    def change(message):
        message.commit.committed_at_us = longer.state.committed_at_us

    assert isinstance(broken(longer, change), BrokenChain)


def test_missing_successor(longer):
    def change(message):
        message.commit.successor_uuid = b""

    assert isinstance(broken(longer, change), CorruptObject)


def test_commit_without_members(longer):
    def change(message):
        del message.commit.members[:]

    assert isinstance(broken(longer, change), CorruptObject)


def test_broken_transaction_id(longer):
    def change(message):
        message.commit.members[0].transaction_id = b"short"

    assert isinstance(broken(longer, change), CorruptObject)


@pytest.mark.parametrize("path", ["x", "data/../x", "s3://b/data/x", "data//x", "/data/x", ""])
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_paths_outside_the_writer(longer, kind, path):
    def change(message):
        action = wire.Action(remove=wire.Remove(path=path)) if kind == "remove" else add(A)
        if kind == "add":
            action.add.path = path
        message.actions.append(action)

    assert isinstance(broken(longer, change), CorruptObject)


# --- Features and actions of the future ---------------------------------------------------------


def test_unsupported_upgrade_for_readers(longer):
    before = facts(longer.state)
    with pytest.raises(UnsupportedFeature, match="time-machine") as caught:
        apply(longer.state, longer.decode(*longer.encode(upgrade(["time-machine"]))))
    assert "read a revision before it" in caught.value.hint
    assert facts(longer.state) == before


def test_unsupported_upgrade_for_writers_leaves_the_log_readable(longer):
    longer.commit(upgrade(writers=["time-machine"]))
    assert longer.live() == {"t": [A, B]}
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        check_writer_features(longer.state)


def test_an_unknown_action_is_refused(longer):
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(wire.Action()))


def unknown(tag, optional=False, **known):
    """An action with a field of this version's future: its tag (field and wire type), 3 bytes."""
    action = wire.Action(optional=optional, **known)
    action.MergeFromString(tag + b"\x03abc")
    return action


KINDS = {"13": b"\x6a", "16": b"\x82\x01", "100": b"\xa2\x06"}
FIELD_15 = b"\x7a"  # the number of `optional`, with another wire type


@pytest.mark.parametrize("tag", KINDS.values(), ids=KINDS)
def test_an_optional_unknown_action_is_passed_over(longer, tag):
    longer.commit(unknown(tag, optional=True), add(C))
    assert longer.live() == {"t": [A, B, C]}


@pytest.mark.parametrize("tag", [*KINDS.values(), FIELD_15], ids=[*KINDS, "15"])
def test_an_unknown_field_beside_a_known_kind_is_ignored(longer, tag):
    longer.commit(unknown(tag, remove=wire.Remove(path=A, table="t")))
    assert longer.live() == {"t": [B]}
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(unknown(tag)))


def test_optional_means_nothing_on_a_known_kind(longer):
    longer.commit(wire.Action(optional=True, remove=wire.Remove(path=A, table="t")))
    assert longer.live() == {"t": [B]}


def test_too_new_comes_before_damaged_in_one_message(longer):
    def change(message):
        message.epoch = 0

    with pytest.raises(UnsupportedFeature):
        longer.decode(
            *longer.encode(unknown(KINDS["13"], optional=True), wire.Action(), change=change)
        )


def test_the_incarnation_of_the_header_comes_before_too_new(longer):
    name, body = longer.encode(wire.Action())
    with pytest.raises(CorruptObject, match="incarnation"):
        longer.decode(name.replace("998-", "997-"), body)


@pytest.mark.parametrize("names", [[""], ["x" * 65]])
def test_names_of_features_that_cannot_be(longer, names):
    with pytest.raises(CorruptObject):
        longer.decode(*longer.encode(upgrade(writers=names)))


def test_no_more_than_256_features_are_required_at_any_time(longer):
    names = [f"feature {number}" for number in range(256)]
    longer.commit(upgrade(writers=[*names[:200], *names[:100]]))  # repeating means nothing
    longer.commit(upgrade(writers=names[200:]))
    longer.commit(upgrade(writers=names))
    assert longer.state.writer_features == set(names)
    before = facts(longer.state)
    with pytest.raises(BrokenChain, match="256"):
        apply(longer.state, longer.decode(*longer.encode(upgrade(writers=["one more"]))))
    assert facts(longer.state) == before
    assert longer.reload(longer.checkpoint()).writer_features == set(names)
