"""A checkpoint that is sound and says otherwise than its own transactions is not believed."""

from __future__ import annotations

import pytest
from lakelog.catalog.commit.checkpointer import put_segments
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import LogReader
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import LOG, commit, item_of


def lie(store, fake, path):
    """A checkpoint at the head that does not hold one of the files."""
    log = LogReader(store, "EWR", "weather", fake.ambient)
    state = log.load()
    state.files.take_out([("hourly", path)])
    encoded = encode_state(state, retained_from=0, salt=b"s" * 16)
    put_segments(log, encoded, exclusive=True)
    store.put(LOG + encoded.name, encoded.body)
    return LOG + encoded.name


def live(catalog):
    return sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist())


@pytest.mark.parametrize("how", ["alone", "pruned", "head damaged", "built upon", "back to"])
def test_a_checkpoint_that_lies_is_not_believed(catalog, store, fake, how):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        paths = [commit(writer, n)[0] for n in range(2)]
        if how == "pruned":
            writer.checkpoint()
        paths += [commit(writer, n)[0] for n in range(2, 4)]
        key = lie(store, fake, paths[0])
        commit(writer, 4)
        if how == "built upon":
            catalog.writer("EWR", "weather").checkpoint()
            key = key.replace("996-3.", "995-4.")
        if how == "head damaged":
            commit(writer, 5)
    truth = list(range(6 if how == "head damaged" else 5))
    assert live(catalog) == truth[1:]
    for info in list(store.list(LOG)):
        item = item_of(info.key)
        if how == "pruned" and item.revision < 2 and item.kind == "transaction":
            store.delete([info.key])
        if how == "head damaged" and item.revision == 5:
            store.put(info.key, store.get(info.key)[:-1])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    if how == "back to":
        execute_rebuild(store, plan, ambient=fake.ambient)
        plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, back_to=1)
    (note,) = [note for note in plan.notes if "It is not believed" in note]
    assert key.rsplit(".", 2)[0] in note
    assert f"{paths[0]} is not in it" in note
    assert "files of table 'hourly'" in note
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(catalog) == truth


def test_a_checkpoint_that_is_right_is_not_doubted(catalog, store, fake):
    with catalog.writer("EWR", "weather", checkpoint_every=2) as writer:
        first, _ = commit(writer, 0)
        for n in range(1, 7):
            commit(writer, n, app_id="job", app_version=n)
        with writer.transaction() as tx:
            tx.remove(first)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not any("not believed" in note for note in plan.notes)
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(catalog) == [*range(1, 7)]


def test_where_the_log_below_is_damaged_its_checkpoint_counts(catalog, store, fake):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        paths = [commit(writer, n)[0] for n in range(3)]
        with writer.transaction() as tx:
            tx.remove(paths[0])
        writer.checkpoint()
        commit(writer, 3)
    for info in list(store.list(LOG)):
        if item_of(info.key).revision == 1:
            store.put(info.key, store.get(info.key)[:-1])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert plan.is_whole
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(catalog) == [1, 2, 3]
