"""A real store without put-if-absent (`rclone serve s3`): forks are detected, by writers, readers
and `lakelog doctor`; nothing more is promised."""

from __future__ import annotations

import json
import random
import secrets
import time

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.read.log_reader import LogReader
from lakelog.cli.main import main
from lakelog.cli.options import ENVIRONMENT
from lakelog.errors import CapabilityMissing, CommitOutcomeUnknown, ForkError
from lakelog.store import open_store, probe
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, FaultyStore, PlainStore

W, D = "w", "db"
FOLDER = f"{W}/{D}/transactions/"


@pytest.fixture
def url(rclone_s3):
    return f"s3://{rclone_s3.make_bucket()}/{secrets.token_hex(4)}"


@pytest.fixture
def open_it(rclone_s3, url):
    return lambda: open_store(url, rclone_s3.storage_options)


def commit(writer, version):
    with writer.transaction(app_id="job", app_version=version) as tx:
        pass
    return tx.commit_info


def names(store):
    """Keys of all transactions, by revision."""
    found: dict[int, list[str]] = {}
    for info in store.list(FOLDER):
        item = parse_log_object(info.key[len(FOLDER) :])
        if item is not None and item.kind == "transaction":
            found.setdefault(item.revision, []).append(info.key)
    return found


def check_fork_is_told(store, keys):
    """Both names, whoever asks."""
    catalog = Catalog(store)
    asked = (
        lambda: catalog.snapshot(D),
        lambda: catalog.writer(W, D),
        lambda: LogReader(store, W, D).load(),
    )
    for ask in asked:
        with pytest.raises(ForkError) as caught:
            ask()
        assert sorted(caught.value.keys) == sorted(keys)
        assert all(key in str(caught.value) for key in keys)


def test_the_probe_is_not_fooled_and_guests_are_refused(open_it):
    found = probe(open_it(), "w/")
    assert not found.put_if_absent
    assert "ignored" in found.detail
    with pytest.raises(CapabilityMissing, match="Guests need put-if-absent"):
        Catalog(open_it()).writer(W, D, shared=True)
    assert all(info.key.startswith("w/_probe/") for info in open_it().list("")), "the guest wrote"


def test_one_owner_after_the_other(open_it):
    for first in (0, 3):
        with Catalog(open_it()).writer(W, D, checkpoint_every=2) as writer:
            wanted = [first, first + 1, first + 2]
            assert [commit(writer, n).revision for n in wanted] == wanted
    state = LogReader(open_it(), W, D).load()
    assert (state.revision, state.epoch) == (5, 2)


def test_two_owners_that_put_at_once_are_told_of_the_fork(
    open_it, nursery, rclone_s3, url, tmp_path, capsys, monkeypatch
):
    """Both have listed, and seen nobody, when they put."""
    with Catalog(open_it()).writer(W, D) as writer:
        commit(writer, 0)
    options = rclone_s3.storage_options
    pair = [
        nursery.fork(url, tmp_path / f"report-{n}", options=options, stop_at=1, every=100)
        for n in range(2)
    ]
    for one in pair:
        one.await_line("stopping")
        one.await_stopped()
    for one in pair:
        one.go_on()
    for one in pair:
        assert one.wait() == 0
    keys = names(open_it())[1]
    assert len(keys) == 2
    errors = [line for one in pair for line in one.told("error")]
    assert {line["type"] for line in errors} == {"ForkError"}
    assert all(sorted(line["keys"]) == sorted(keys) for line in errors)
    assert len(errors) == 2, "both must stop"
    check_fork_is_told(open_it(), keys)
    assert Catalog(open_it()).snapshot(D, as_of={W: 0}).cut is not None
    check_doctor(rclone_s3, url, keys, capsys, monkeypatch)


def check_doctor(server, url, keys, capsys, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, json.dumps(server.storage_options))
    code = main(["doctor", url])
    said = capsys.readouterr()
    assert code == 1, said.err
    assert all(key.rsplit("/", 1)[1] in said.out for key in keys)
    assert "does not work" in said.out
    assert main(["doctor", url, "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["put_if_absent"] is False
    assert any("Two commits stand on revision" in one["text"] for one in found["problems"])


def test_two_owners_in_a_loop_fork_or_are_fenced_and_nothing_acknowledged_is_silently_lost(
    open_it, nursery, rclone_s3, url, tmp_path
):
    """At full speed, stopped and woken by chance, until one of them is told."""
    chance = random.Random(3)
    pair = [
        nursery.fork(
            url, tmp_path / f"race-{n}", options=rclone_s3.storage_options, every=100, commits=400
        )
        for n in range(2)
    ]
    deadline_s = time.monotonic() + 15
    while not any(one.told("error") for one in pair) and time.monotonic() < deadline_s:
        one = chance.choice(pair)
        one.stop()
        time.sleep(chance.uniform(0, 0.02))
        one.go_on()
    for one in pair:
        if not one.told("error"):
            one.kill()
    errors = [line for one in pair for line in one.told("error")]
    assert errors
    assert {line["type"] for line in errors} <= {"ForkError", "FencedError"}
    forked = {n: keys for n, keys in names(open_it()).items() if len(keys) > 1}
    done = [(line["id"], line["revision"]) for one in pair for line in one.told("done")]
    if forked:
        check_fork_is_told(open_it(), forked[min(forked)])
    else:
        rows = LogReader(open_it(), W, D).load().history.table().to_pylist()
        stands = {
            transaction_id.hex(): row["revision"]
            for row in rows
            for transaction_id in row["transaction_ids"]
        }
        assert stands.items() >= set(done)


def test_a_fork_is_told_as_such_even_after_a_lost_answer():
    """What is known for certain must not hide behind "unknown"."""
    inner = MemoryStore()
    fake = FakeAmbient()
    first = Catalog(PlainStore(inner), ambient=fake.ambient).writer(W, D)
    faulty = FaultyStore(PlainStore(inner), ["lost response"])
    second = Catalog(faulty, ambient=FakeAmbient(1).ambient).writer(W, D)
    faulty.before_put = lambda key: None if names(inner) else commit(first, 1)
    with pytest.raises(ForkError) as caught:
        commit(second, 2)
    assert sorted(caught.value.keys) == sorted(names(inner)[0])


def test_a_plain_commit_in_doubt_stands_once_when_called_again():
    """Each request of it fails, from each on, one to nine times."""
    for number in range(1, 10):
        for fault in ("lost request", "lost response"):
            inner = MemoryStore()
            faulty = FaultyStore(PlainStore(inner), [fault] * number)
            ambient = FakeAmbient(number).ambient
            writer = Catalog(faulty, ambient=ambient).writer(W, D)
            tx = writer.transaction(app_id="job", app_version=1)
            for _ in range(number):
                try:
                    tx.commit()
                    break
                except CommitOutcomeUnknown:
                    continue
            assert tx.commit_info.revision == 0
            rows = LogReader(inner, W, D).load().history.table().to_pylist()
            assert [row["transaction_ids"] for row in rows] == [[bytes.fromhex(tx.transaction_id)]]
