"""Objects of actions, one thing at a time: what they bring back, when they are not believed, and
what is said of those that are lost or damaged."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from lakelog.catalog.commit.telling import tell
from lakelog.catalog.format.actions_object import decode_actions, encode_actions
from lakelog.catalog.format.frame import FrameKind, LogIdentity, encode_frame
from lakelog.catalog.wire import lakelog_actions_pb2 as actions_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import UnsupportedFeature
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import BASE, commit, kinds, lose_the_log, reasons


def objects(store, end=".actions") -> list[str]:
    return sorted(info.key for info in store.list(BASE) if info.key.endswith(end))


def plan(store, fake, **options):
    return plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **options)


def rows(catalog) -> list[int]:
    return sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist())


@pytest.fixture
def writer(catalog):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        yield writer


def delete(writer, where: str, mode: str) -> None:
    with writer.transaction() as tx:
        tx.delete("hourly", where, mode=mode)


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_deleted_rows_of_a_lost_log_stay_deleted(catalog, store, fake, writer, mode) -> None:
    commit(writer, 1, 2, 3)
    delete(writer, "n = 2", mode)
    commit(writer, 2)  # came after the delete
    lose_the_log(store)
    execute_rebuild(store, plan(store, fake), ambient=fake.ambient)
    assert rows(catalog) == [1, 2, 3]


def test_removals_and_versions_of_a_lost_log_come_back(catalog, store, fake, writer) -> None:
    path, _ = commit(writer, 1)
    commit(writer, 2)
    with writer.transaction(app_id="cleaner", app_version=4) as tx:
        tx.remove(path)
    with writer.transaction(app_id="idle", app_version=7):
        pass
    lose_the_log(store)
    found = plan(store, fake)
    assert {(item.app_id, item.app_version) for item in found.transactions} >= {
        ("cleaner", 4), ("idle", 7),
    }  # fmt: skip
    execute_rebuild(store, found, ambient=fake.ambient)
    assert rows(catalog) == [2]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("what", ["remove", "delete", "evolve"])
def test_what_was_never_committed(catalog, store, fake, writer, lost, what) -> None:
    """A log that can be read disproves it, and it is kept. Else it is named, for exclude."""
    path, _ = commit(writer, 1, 2)
    tx = writer.transaction()
    if what == "remove":
        tx.remove(path)
    elif what == "delete":
        tx.delete("hourly", "n = 1", mode="predicate")
    else:
        tx.evolve("hourly", rename={"n": "m"})
    tell(writer._session, tx._intent)
    tx.discard()
    (key,) = objects(store)
    before = seen_of(catalog)
    if lost:
        lose_the_log(store)
        found = plan(store, fake)
        assert tx.transaction_id in {item.transaction_id for item in found.unproven}
        found = plan(store, fake, exclude=[tx.transaction_id])
    else:
        found = plan(store, fake)
        assert kinds(found) == {key.removeprefix(BASE): "undecided"}
        assert "never committed" in reasons(found)[key.removeprefix(BASE)]
    execute_rebuild(store, found, ambient=fake.ambient)
    assert seen_of(catalog) == before
    assert objects(store) == [key]


def seen_of(catalog):
    return catalog.snapshot("weather").to_arrow("hourly").to_pydict()


def test_a_definition_that_was_refused_does_not_come_back(catalog, store, fake, writer) -> None:
    """Of two that take the place of one definition only one was committed: the proven one."""
    commit(writer, 1)
    late = writer.transaction()
    late.evolve("hourly", rename={"n": "late"})
    with writer.transaction() as tx:
        tx.evolve("hourly", add={"m": pa.int64()})
    late._intent.wrote(late._base, 0, ())  # as its commit does
    tell(writer._session, late._intent)
    late.discard()
    with writer.transaction() as tx:
        tx.write("hourly", pa.table({"n": [2], "m": [5]}))
    before = seen_of(catalog)
    lose_the_log(store)
    found = plan(store, fake)
    assert late.transaction_id not in {item.transaction_id for item in found.transactions}
    execute_rebuild(store, found, ambient=fake.ambient)
    assert seen_of(catalog) == before


def test_a_lost_bitmap_is_told_with_its_file_and_rows(store, fake, writer) -> None:
    path, _ = commit(writer, 1, 2, 3)
    delete(writer, "n < 3", "rows")
    (key,) = objects(store, ".deletes")
    body = store.get(key)
    for damaged in (None, body[:-1]):
        store.delete([key])
        if damaged is not None:
            store.put(key, damaged)
        (note,) = [note for note in plan(store, fake).notes if "can't be read until" in note]
        assert key.removeprefix(BASE) in note
        assert f"2 deleted rows of {path} in table 'hourly'" in note


def test_a_lost_object_of_several_is_missed(store, fake, writer) -> None:
    first, _ = commit(writer, 1)
    second, _ = commit(writer, 2, table="daily")
    with writer.transaction() as tx:
        tx.remove(first)
        tx.remove(second)
    commit(writer, 3)
    lose_the_log(store)
    assert len(objects(store)) == 2
    store.delete(objects(store)[:1])
    (note,) = [note for note in plan(store, fake).notes if "objects of actions are lost" in note]
    assert note.startswith("1 objects of actions are lost")


# --- Hostile objects ------------------------------------------------------------------------------


def spoilt(body: bytes) -> dict[str, bytes]:
    """Objects that are damaged, or say what can't be, by what is wrong."""
    meta, message = decode_actions(body, "x")

    def framed(change) -> bytes:
        copy = actions_wire.ActionsObject()
        copy.CopyFrom(message)
        change(copy)
        log = LogIdentity(meta.log_id, meta.incarnation)
        return encode_frame(FrameKind.ACTIONS, log, copy.SerializeToString())[0]

    other = wire.Remove(path="data/_/t/x.parquet", table="another")
    upgrade = wire.Upgrade(required_reader_features=["tombstones"])
    absurd = wire.Remove(path="data/../x", table=message.table)
    return {
        "cut short": body[:-1],
        "empty": b"",
        "another table": framed(lambda m: m.actions.append(wire.Action(remove=other))),
        "another kind": framed(lambda m: m.actions.append(wire.Action(upgrade=upgrade))),
        "no such path": framed(lambda m: m.actions.append(wire.Action(remove=absurd))),
        "no seed": framed(lambda m: m.ClearField("slot_seed")),
        "no object": framed(lambda m: m.ClearField("objects")),
        "epoch": framed(lambda m: setattr(m, "epoch", 1 << 63)),
        "another place": framed(lambda m: setattr(m, "number", 9)),
        "another writer": framed(lambda m: setattr(m, "writer", "LGA")),
        "operation": framed(lambda m: setattr(m, "operation", "x")),
        "kind of frame": encode_frame(
            FrameKind.DELETES, LogIdentity(meta.log_id, 1), message.SerializeToString()
        )[0],
        "attachments": encode_frame(
            FrameKind.ACTIONS, LogIdentity(meta.log_id, 1), message.SerializeToString(), b"x"
        )[0],
    }


def test_an_object_that_cant_be_is_left_out_and_named(catalog, store, fake, writer) -> None:
    path, _ = commit(writer, 1)
    commit(writer, 2)
    with writer.transaction() as tx:
        tx.remove(path)
    (key,) = objects(store)
    body = store.get(key)
    lose_the_log(store)
    for problem, damaged in spoilt(body).items():
        store.put(key, damaged)
        found = plan(store, fake)
        assert kinds(found) == {key.removeprefix(BASE): "quarantined"}, problem
        assert path in found.live, problem


def test_an_object_of_a_later_version_stops_a_rebuild(store, fake, writer) -> None:
    path, _ = commit(writer, 1)
    with writer.transaction() as tx:
        tx.remove(path)
    (key,) = objects(store)
    meta, message = decode_actions(store.get(key), key)
    actions = [*message.actions, wire.Action()]
    head = (message.head_revision, message.head_transaction_id)
    store.put(key, encode_actions(meta, actions, 1, head))
    with pytest.raises(UnsupportedFeature, match="kind this lakelog doesn't know"):
        plan(store, fake)
    actions[-1].optional = True
    store.put(key, encode_actions(replace(meta), actions, 1, head))
    assert path not in plan(store, fake).live
