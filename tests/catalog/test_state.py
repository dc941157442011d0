"""Replay: what each action does to the state, and that a wrong one changes nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import data_path, first_slot_uuid, successor_uuid
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.log.features import check_writer_features
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.log.validate import check_written, validate
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    UnsupportedFeature,
    UsageError,
)
from lakelog.testing.logs import (
    SCHEMA,
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    remove_action,
    replay,
    schema_action,
)

A, B, C = "data/a", "data/b", "data/c"


def add(path):
    return add_action(path)


def remove(path):
    return remove_action(path)


@pytest.fixture
def log():
    """A log whose first commit makes the schema known."""
    built = LogBuilder()
    built.commit(schema_action())
    return built


def facts(state):
    """All that a state says, in a form that compares."""
    files, columns = state.files, ["path", "partition", "size_bytes", "row_count", "revision"]
    return (
        state.log, state.revision, state.uuid, state.successor_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_id, state.named, state.sealed_for,
        state.reader_features, state.writer_features, state.applications.versions(),
        sorted(state.schemas.entries),
        {
            name: sorted(
                files.table(name).select(columns).to_pylist(), key=lambda row: row["path"]
            )
            for name in files.tables()
        },
        state.history.table().to_pylist(),
    )  # fmt: skip


# --- Adds and removes (the ancestor's list) -----------------------------------------------------


def in_one(log, *actions):
    log.commit(*actions)


def one_by_one(log, *actions):
    for action in actions:
        log.commit(action)


EACH_WAY = pytest.mark.parametrize("commit", [in_one, one_by_one])


@EACH_WAY
def test_add(log, commit):
    commit(log, add(A), add(B))
    assert log.live() == {"t": [A, B]}


@EACH_WAY
def test_remove(log, commit):
    log.commit(add(A), add(B))
    commit(log, remove(A))
    assert log.live() == {"t": [B]}


@EACH_WAY
def test_add_and_remove(log, commit):
    commit(log, add(A), add(B), remove(A))
    assert log.live() == {"t": [B]}


@EACH_WAY
def test_remove_and_add(log, commit):
    log.commit(add(A))
    commit(log, remove(A), add(A))
    assert log.live() == {"t": [A]}


@EACH_WAY
def test_add_remove_add(log, commit):
    commit(log, add(A), remove(A), add(A))
    assert log.live() == {"t": [A]}


@EACH_WAY
def test_remove_add_remove(log, commit):
    log.commit(add(A), add(B))
    commit(log, remove(A), add(A), remove(A))
    assert log.live() == {"t": [B]}


def test_add_again_says_the_newer_revision_and_size(log):
    log.commit(add(A))
    log.commit(remove(A))
    log.commit(add_action(A, row_count=77))
    row = log.state.files.table("t").to_pylist()[0]
    assert (row["revision"], row["row_count"], row["size_bytes"]) == (3, 77, 177)


def test_a_removed_file_may_come_back_in_another_table(log):
    log.commit(schema_action("u"), add(A))
    log.commit(remove(A), add_action(A, "u"))
    assert log.live() == {"t": [], "u": [A]}
    assert log.state.files.tables_of(A) == ["u"]


def test_a_table_whose_files_are_all_removed_is_still_one(log):
    log.commit(add(A))
    log.commit(remove(A))
    assert log.live() == {"t": []}
    assert log.state.files.count == 0
    assert log.state.files.tables() == []
    assert log.state.schemas.tables() == {"t"}


def test_an_empty_transaction_is_a_revision(log):
    log.commit()
    assert log.state.revision == 1
    assert log.state.history.table().column("operation").to_pylist() == ["maintenance"] * 2


# --- Refused, with the state unchanged ----------------------------------------------------------


BAD = {
    "duplicate add": ([add(A)], DuplicateFile),
    "duplicate add in one": ([add(C), add(C)], DuplicateFile),
    "duplicate add in another table": ([schema_action("u"), add_action(A, "u")], DuplicateFile),
    "add again without a remove between": ([remove(A), add(A), add(A)], DuplicateFile),
    "remove of the absent": ([remove(C)], FileNotLive),
    "double remove": ([remove(A), remove(A)], FileNotLive),
    "remove of the removed": ([remove(B)], FileNotLive),
    "remove before the add": ([remove(C), add(C)], FileNotLive),
    "a good action before a bad one": ([add(C), remove(A), remove(A)], FileNotLive),
    "unknown schema": ([add_action(C, schema=pa.schema([("z", pa.int8())]))], UsageError),
    "schema of another table": ([add_action(C, "u")], UsageError),
    "schema after the file": ([add_action(C, "u"), schema_action("u")], UsageError),
}


@pytest.mark.parametrize("name", BAD)
def test_a_committer_refuses_it_with_the_state_unchanged(log, name):
    actions, error = BAD[name]
    log.commit(add(A), add(B))
    log.commit(remove(B))
    before = facts(log.state)
    with pytest.raises(error) as caught:
        validate(log.state, actions)
    assert caught.value.key
    assert facts(log.state) == before
    log.commit(add(C))  # and goes on as if nothing had been
    assert log.live() == {"t": [A, C]}


UNFIT = {
    name: actions for name, (actions, _) in BAD.items() if name != "duplicate add in another table"
}


@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("name", UNFIT)
def test_a_table_that_does_not_fit_is_unusable_from_there_on_and_others_are_not(
    log, name, preloaded
):
    """The revision exists all the same: only the chain decides that."""
    log.commit(schema_action("other"), add(A), add(B), add_action("data/o", "other"))
    log.commit(remove(B))
    before = log.copy()
    if preloaded:
        assert log.state.files.count == 2
    bad = log.commit(*UNFIT[name])
    table = "u" if "another table" in name or "after the file" in name else "t"
    log.commit(add_action("data/o2", "other"))
    for state in (log.state, log.replayed()):
        assert state.revision == 4
        assert state.history.holds(3)
        with pytest.raises(CorruptObject, match="can't be told") as caught:
            state.files_of(table)
        assert caught.value.key == bad.key
        with pytest.raises(CorruptObject):
            state.files.table(table)
        other = state.files_of("other").table("other")
        assert other["path"].to_pylist() == ["data/o", "data/o2"]
    assert live_paths(before)["t"] == [A]
    assert live_paths(log.replayed(2))["t"] == [A]
    with pytest.raises(CorruptObject):
        log.checkpoint()


def test_two_tables_may_name_one_path_as_far_as_readers_are_concerned(log):
    log.commit(schema_action("u"), add(A))
    with pytest.raises(DuplicateFile):
        validate(log.state, [add_action(A, "u")])
    log.commit(add_action(A, "u"))
    assert log.live() == {"t": [A], "u": [A]}
    log.commit(remove(A))
    assert log.live() == {"t": [], "u": [A]}


def test_a_file_that_is_named_after_its_transaction_is_not_looked_up(log):
    """So a plain append reads nothing of the files before."""
    log.commit(*map(add, [A, B]))
    encoded = log.checkpoint()
    state = log.reload(encoded)
    state.older = state.fetch = None
    own = b"\x07" * 16
    validate(state, [add(data_path("", "t", 1, own, 0))], {own})
    assert state._files is None
    with pytest.raises(DuplicateFile):
        validate(log.state, [add(A)], {own})


def test_validate_agrees_with_apply_on_any_sequence():
    """All sequences of four adds and removes of two paths, over every starting state."""
    steps = [add(A), remove(A), add(B), remove(B)]
    for first in ([], [add(A)], [add(A), add(B)]):
        log = LogBuilder()
        log.commit(schema_action(), *first)
        for actions in itertools.product(steps, repeat=4):
            expected = {action.add.path for action in first}
            good = True
            for action in actions:
                path = action.add.path or action.remove.path
                if (action.WhichOneof("kind") == "add") == (path in expected):
                    good = False
                    break
                expected ^= {path}
            try:
                validate(log.state, actions)
                accepted = True
            except (DuplicateFile, FileNotLive):
                accepted = False
            assert accepted == good
            if good:
                state = log.state.copy()
                apply(state, log.decode(*log.encode(*actions)))
                assert set(live_paths(state).get("t", [])) == expected
                assert state.files.count == len(expected)


# --- The chain ----------------------------------------------------------------------------------


def broken(log, change, **options):
    """Apply the next transaction, altered, and return the error."""
    before = facts(log.state)
    with pytest.raises(CorruptError) as caught:
        apply(log.state, log.decode(*log.encode(add(C), change=change, **options)))
    assert facts(log.state) == before
    assert log.state.revision < 0 or caught.value.key
    return caught.value


@pytest.fixture
def longer(log):
    log.commit(add(A))
    log.commit(add(B))
    return log


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


def upgrade(readers=(), writers=()):
    item = wire.Upgrade(required_reader_features=readers, required_writer_features=writers)
    return wire.Action(upgrade=item)


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


def test_delete_predicates_are_refused_by_type(longer):
    """Soft deletes are reserved: a log that holds one must not be read as if it held none."""
    tombstone = wire.Action(tombstone=wire.Tombstone(table="t", predicate="a > 1"))
    with pytest.raises(UnsupportedFeature, match="tombstones"):
        longer.decode(*longer.encode(tombstone))


def test_an_unknown_action_is_refused(longer):
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(wire.Action()))


def unknown(tag, optional=False, **known):
    """An action with a field of this version's future: its tag (field and wire type), 3 bytes."""
    action = wire.Action(optional=optional, **known)
    action.MergeFromString(tag + b"\x03abc")
    return action


KIND_13, FIELD_16, FIELD_100 = b"\x6a", b"\x82\x01", b"\xa2\x06"


@pytest.mark.parametrize("tag", [KIND_13, FIELD_100], ids=["kind 13", "field 100"])
def test_an_optional_unknown_action_is_passed_over(longer, tag):
    longer.commit(unknown(tag, optional=True), add(C))
    assert longer.live() == {"t": [A, B, C]}


@pytest.mark.parametrize("known", [{}, {"remove": wire.Remove(path=A, table="t")}])
def test_an_unknown_kind_decides_whatever_stands_beside_it(longer, known):
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(unknown(KIND_13, **known)))
    longer.commit(unknown(KIND_13, optional=True, **known))
    assert longer.live() == {"t": [A, B]}


def test_an_unknown_field_that_is_no_kind_is_ignored(longer):
    longer.commit(unknown(FIELD_16, remove=wire.Remove(path=A, table="t")))
    assert longer.live() == {"t": [B]}
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(unknown(FIELD_16)))


def test_optional_means_nothing_on_a_known_kind(longer):
    longer.commit(wire.Action(optional=True, remove=wire.Remove(path=A, table="t")))
    assert longer.live() == {"t": [B]}
    with pytest.raises(UnsupportedFeature, match="tombstones"):
        longer.decode(
            *longer.encode(wire.Action(optional=True, tombstone=wire.Tombstone(table="t")))
        )


def test_too_new_comes_before_damaged_in_one_message(longer):
    def change(message):
        message.epoch = 0

    with pytest.raises(UnsupportedFeature):
        longer.decode(*longer.encode(unknown(KIND_13, optional=True), wire.Action(), change=change))


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


# --- Whose log it is ----------------------------------------------------------------------------


def identity(writer, database):
    return wire.Action(identity=wire.Identity(writer=writer, database=database))


def seal(incarnation, mark=b"\x05" * 16):
    return wire.Action(seal=wire.Seal(next_incarnation=incarnation, rebuild_id=mark))


def test_revision_0_begins_with_an_identity():
    log = LogBuilder()
    assert log.state.next_uuid == first_slot_uuid("w", "db")
    first = log.commit(schema_action())
    assert first.message.actions[0].identity == wire.Identity(writer="w", database="db")
    assert (log.state.named, log.state.is_foreign) == (("w", "db"), False)

    def no_identity(message):
        del message.actions[0]

    def later_identity(message):
        message.actions.append(message.actions.pop(0))

    for change in (no_identity, later_identity):
        other = LogBuilder()
        with pytest.raises(CorruptObject, match="first whose log"):
            other.decode(*other.encode(schema_action(), change=change))


def test_the_newest_identity_counts(log):
    log.commit(identity("w2", "db2"))
    assert (log.state.named, log.state.is_foreign) == (("w2", "db2"), True)
    for state in (log.reload(log.checkpoint()), log.replayed()):
        assert (state.named, state.is_foreign) == (("w2", "db2"), True)
    log.commit(identity("x", "x"), identity("w", "db"))
    assert not log.state.is_foreign


@pytest.mark.parametrize("names", [("", "db"), ("w", "_refs"), ("-w", "db"), ("w", "a/b")])
def test_an_identity_that_cannot_be_is_refused(log, names):
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(identity(*names)))


def test_an_empty_state_is_nobodys():
    assert not empty_state("w", "db").is_foreign


def test_no_transaction_follows_a_seal(log):
    log.commit(add(A))
    after = log.encode(add(C))
    log.commit(seal(2), epoch=2)
    assert (log.state.sealed_for, log.state.revision) == (2, 2)
    assert log.live() == {"t": [A]}
    before = facts(log.state)
    with pytest.raises(BrokenChain, match="seal"):
        apply(log.state, log.decode(*log.encode(add(C), epoch=2)))
    with pytest.raises(BrokenChain):
        apply(log.state, log.decode(*after))
    assert facts(log.state) == before
    with pytest.raises(AssertionError):
        log.checkpoint()


@pytest.mark.parametrize(
    "actions",
    [
        [seal(1)],
        [seal(0)],
        [seal(1000)],
        [seal(2, b"short")],
        [seal(2), add(A)],
        [add(A), seal(2)],
        [seal(2), seal(3)],
    ],
    ids=["its own", "none", "beyond the last", "no rebuild id", "before", "behind", "two"],
)
def test_a_seal_that_cannot_be_is_refused(log, actions):
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(*actions))


def test_another_log_and_another_incarnation_break_the_chain(longer):
    other = LogBuilder(seed=9)
    other.state = longer.copy()
    with pytest.raises(BrokenChain, match="belongs to the log"):
        apply(longer.state, longer.decode(*other.encode(add(C))))
    rebuilt = LogBuilder(incarnation=2)
    rebuilt.log = replace(rebuilt.log, log_id=longer.log.log_id)
    rebuilt.state = longer.copy()
    with pytest.raises(BrokenChain, match="belongs to the log"):
        apply(longer.state, longer.decode(*rebuilt.encode(add(C))))


def test_a_successor_follows_from_the_seed_but_readers_do_not_ask(longer):
    commit = longer.transactions[-1].message.commit
    assert commit.slot_seed == longer.slot_seed
    assert commit.successor_uuid == successor_uuid(longer.slot_seed, 2)

    def change(message):
        message.commit.successor_uuid = message.commit.slot_seed = b"\x09" * 16

    longer.commit(change=change)
    assert longer.state.next_uuid == b"\x09" * 16


@pytest.mark.parametrize("field", ["successor_uuid", "slot_seed"])
@pytest.mark.parametrize("value", [b"", b"x" * 15, b"x" * 17])
def test_broken_slot_seed_and_successor(longer, field, value):
    def change(message):
        setattr(message.commit, field, value)

    assert isinstance(broken(longer, change), CorruptObject)


# --- Forgetting ---------------------------------------------------------------------------------


def forget(tables=(), schemas=(), before_us=0):
    item = wire.Forget(tables=tables, applications_before_us=before_us)
    for table, fingerprint in schemas:
        item.schemas.add(table=table, fingerprint=fingerprint)
    return wire.Action(forget=item)


OTHER = pa.schema([pa.field("z", pa.int8())])
OLD_MARK, OTHER_MARK = (encode_schema(schema).fingerprint for schema in (SCHEMA, OTHER))


@pytest.mark.parametrize("through_checkpoint", [False, True])
def test_schemas_and_tables_are_forgotten(log, through_checkpoint):
    log.commit(schema_action("u"), schema_action(schema=OTHER), add(A))
    if through_checkpoint:
        log.state = log.reload(log.checkpoint())
    action = forget(["u", "never was"], [("t", OTHER_MARK), ("nor this", OTHER_MARK)])
    validate(log.state, [action])
    log.commit(action)
    for state in (log.state, log.reload(log.checkpoint())):
        assert set(state.schemas.entries) == {("t", OLD_MARK)}
        assert live_paths(state) == {"t": [A]}
    with pytest.raises(UsageError):
        validate(log.state, [add_action(C, schema=OTHER)])
    log.commit(schema_action(schema=OTHER))
    revisions = {e.fingerprint: e.revision for e in log.state.schemas.of_table("t")}
    assert revisions == {OLD_MARK: 0, OTHER_MARK: 3}, "named again, it is first named there"


@pytest.mark.parametrize("action", [forget(["t"]), forget(schemas=[("t", OLD_MARK)])])
@pytest.mark.parametrize("through_checkpoint", [False, True])
def test_what_files_need_is_not_forgotten(log, action, through_checkpoint):
    log.commit(schema_action("other"), add(A), add_action(B, "other"))
    if through_checkpoint:
        log.state = log.reload(log.checkpoint())
    with pytest.raises(UsageError, match="forgotten"):
        validate(log.state, [action])
    bad = log.commit(action)
    with pytest.raises(CorruptObject) as caught:
        log.state.files_of("t")
    assert caught.value.key == bad.key
    assert log.state.files_of("other").table("other")["path"].to_pylist() == [B]
    log.commit(remove(A), schema_action())
    with pytest.raises(CorruptObject):
        log.state.files_of("t")


def test_a_table_without_files_may_be_forgotten_in_the_transaction_that_removes_them(log):
    log.commit(add(A))
    log.commit(remove(A), forget(["t"]))
    assert log.live() == {}
    log.commit(schema_action(), add(A))
    assert log.live() == {"t": [A]}


@pytest.mark.parametrize("mark", [b"", b"x" * 15])
def test_a_forgotten_schema_is_named_by_16_bytes(log, mark):
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(forget(schemas=[("t", mark)])))


@pytest.mark.parametrize("through_checkpoint", [False, True])
def test_applications_are_forgotten_by_their_time(log, through_checkpoint):
    for second, app in enumerate([("old", 1), ("kept", 5), ("late", 2), ("old", 1)]):
        log.commit(app=app, now_us=START_US + (second + 10) * 1_000_000)
    if through_checkpoint:
        log.state = log.reload(log.checkpoint())
    assert log.state.applications.versions() == {"old": 1, "kept": 5, "late": 2}
    for before in (-5, 0, START_US):
        log.commit(forget(before_us=before))
    assert len(log.state.applications.versions()) == 3
    # `old` was committed again with its version, so its time is that of its newest commit.
    log.commit(forget(before_us=START_US + 12 * 1_000_000))
    for state in (log.state, log.replayed(), log.reload(log.checkpoint())):
        assert state.applications.versions() == {"old": 1, "late": 2}
        assert [state.applications.version(name) for name in ("old", "kept", "late")] == [1, -1, 2]
    log.commit(app=("kept", 3))
    assert log.state.applications.version("kept") == 3, "what was forgotten begins anew"
    assert log.reload(log.checkpoint()).applications.versions() == {"old": 1, "late": 2, "kept": 3}


# --- Applications -------------------------------------------------------------------------------


def test_the_highest_version_of_each_application_is_kept(log):
    for app in [("x", 3), ("y", 1), ("x", 2), ("z", 0)]:
        log.commit(app=app)
    assert log.state.applications.versions() == {"x": 3, "y": 1, "z": 0}
    assert [log.state.applications.version(name) for name in "xyza"] == [3, 1, 0, -1]


def test_committers_ask_their_own_object_what_readers_will(log):
    many = [add(f"data/{number}") for number in range(300)]
    sound = log.decode(*log.encode(*many))
    check_written(log.state, sound)

    def change(message):
        message.actions[-1].add_batch.segments[0].segment.total_rows += 1

    with pytest.raises(CorruptObject):
        check_written(log.state, log.decode(*log.encode(*many, change=change)))
    with pytest.raises(BrokenChain):
        check_written(empty_state("w", "db"), sound)


# --- History ------------------------------------------------------------------------------------


def test_history_has_a_row_a_revision(log):
    log.commit(add(A), add(B), app=("x", 1))
    log.commit(remove(A), add_action(C, row_count=5))
    log.commit(remove(C))
    table = log.state.history.table()
    assert table.column("revision").to_pylist() == [0, 1, 2, 3]
    assert table.column("operation").to_pylist() == ["maintenance", "append", "overwrite", "delete"]
    assert table.column("files_added").to_pylist() == [0, 2, 1, 0]
    assert table.column("files_removed").to_pylist() == [0, 0, 1, 1]
    assert table.column("rows_added").to_pylist() == [0, 20, 5, 0]
    assert table.column("bytes_added").to_pylist() == [0, 220, 105, 0]
    assert table.column("digest").to_pylist() == [found.digest for found in log.transactions]
    marks = [[m.transaction_id for m in t.message.commit.members] for t in log.transactions]
    assert table.column("transaction_ids").to_pylist() == marks


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(-3, 50))
def test_the_revision_at_a_time_is_the_newest_committed_by_then(steps, at):
    log = LogBuilder()
    now, times = START_US, []
    for step in steps:
        now += step
        log.commit(now_us=now)
        times.append(log.state.committed_at_us)
    expected = max((r for r, time in enumerate(times) if time <= START_US + at), default=None)
    assert log.state.history.revision_at(START_US + at) == expected


def test_commit_times_ascend_even_when_the_clock_goes_back(log):
    log.commit(now_us=START_US + 10**9)
    log.commit(now_us=5)
    log.commit(now_us=START_US)
    times = log.state.history.table().column("committed_at").cast(pa.int64()).to_pylist()
    assert times[1:] == [START_US + 10**9 + step for step in range(3)]


# --- Copies -------------------------------------------------------------------------------------


def test_a_copy_is_independent(log):
    log.commit(add(A), app=("x", 1))
    before = facts(log.state)
    copy = log.copy()
    assert facts(copy) == before
    other = LogBuilder()
    other.state = copy
    other.commit(schema_action("u"), remove(A), add_action(B, "u"), app=("x", 2))
    assert facts(log.state) == before
    assert live_paths(copy) == {"t": [], "u": [B]}


def test_replay_gives_the_state_that_the_commits_left(log):
    log.commit(add(A), add(B), app=("x", 7))
    log.commit(remove(A), schema_action("u"), add_action(A, "u"))
    again = replay(empty_state("w", "db"), [log.decode(*item) for item in log.objects])
    assert facts(again) == facts(log.state)


def test_a_committer_counts_what_the_same_transaction_forgets(log):
    log.commit(schema_action("u"))
    with pytest.raises(UsageError):
        validate(log.state, [forget(["u"]), add_action(C, "u")])
    with pytest.raises(UsageError):
        validate(log.state, [forget(schemas=[("u", OLD_MARK)]), add_action(C, "u")])
    with pytest.raises(UsageError):
        validate(log.state, [add_action(C, "u"), forget(["u"])])
    validate(log.state, [forget(["u"]), schema_action("u"), add_action(C, "u")])
