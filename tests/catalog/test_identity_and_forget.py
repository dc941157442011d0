"""Actions that say whose log it is, seal it, or forget what it knows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from lakelog.catalog.format.names import data_path, first_slot_uuid, successor_uuid
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply, validate
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptObject,
    UnknownSchema,
    UsageError,
)
from lakelog.testing.logs import (
    SCHEMA,
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    numbered,
    schema_action,
)
from replay_cases import A, B, C, add, broken, facts, remove

# --- Whose log it is ----------------------------------------------------------------------------


def identity(writer, database):
    return wire.Action(identity=wire.Identity(writer=writer, database=database))


def seal(incarnation, rebuild_id=b"\x05" * 16):
    return wire.Action(seal=wire.Seal(next_incarnation=incarnation, rebuild_id=rebuild_id))


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
OLD_MARK, OTHER_MARK = (encode_schema(numbered(one)).fingerprint for one in (SCHEMA, OTHER))


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
    with pytest.raises(UnknownSchema):
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
        log.state.table_of("t")[0]
    assert caught.value.key == bad.key
    assert log.state.table_of("other")[0].table("other")["path"].to_pylist() == [B]
    log.commit(remove(A), schema_action())
    with pytest.raises(CorruptObject):
        log.state.table_of("t")[0]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("action", [forget(["t"]), forget(schemas=[("t", OLD_MARK)])])
def test_no_checkpoint_hides_that_what_files_need_was_forgotten(log, action, loaded):
    """Also where the files stand in the checkpoint before, and the schema is named again."""
    transaction_id = log.new_id()
    log.commit(add_action(data_path("", "t", 1, transaction_id, 0)), transaction_id=transaction_id)
    log.state = log.reload(log.checkpoint())
    assert not loaded or log.state.files.count == 1
    bad = log.commit(action, schema_action())
    with pytest.raises(CorruptObject) as caught:
        encode_state(log.state)
    assert caught.value.key == bad.key


def test_a_table_without_files_may_be_forgotten_in_the_transaction_that_removes_them(log):
    log.commit(add(A))
    log.commit(remove(A), forget(["t"]))
    assert log.live() == {}
    log.commit(schema_action(), add(A))
    assert log.live() == {"t": [A]}


@pytest.mark.parametrize("fingerprint", [b"", b"x" * 15])
def test_a_forgotten_schema_is_named_by_16_bytes(log, fingerprint):
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(forget(schemas=[("t", fingerprint)])))


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


def test_a_committer_counts_what_the_same_transaction_forgets(log):
    log.commit(schema_action("u"))
    with pytest.raises(UnknownSchema):
        validate(log.state, [forget(["u"]), add_action(C, "u")])
    with pytest.raises(UnknownSchema):
        validate(log.state, [forget(schemas=[("u", OLD_MARK)]), add_action(C, "u")])
    with pytest.raises(UsageError):
        validate(log.state, [add_action(C, "u"), forget(["u"])])
    validate(log.state, [forget(["u"]), schema_action("u"), add_action(C, "u")])
