"""A real S3 server behind a proxy that loses, refuses, hangs, cuts short and alters: s3fs and
botocore are in the test.

A commit ends as success or as `CommitOutcomeUnknown`, never as a false conflict, and never twice;
readers get the right result or an error that says what happened. With each change a sample of the
faults happens, another with each commit; `make soak` has every one.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
import urllib.parse
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.mirror import MirrorWarning
from lakelog.errors import AccessDenied, CommitOutcomeUnknown, CorruptError, ForkError, StorageError
from lakelog.store import open_store
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.fault_proxy import Reply, fault_proxy, s3_error
from sample import sampled
from seeds import base_seed

if TYPE_CHECKING:
    from lakelog.store import Store
    from lakelog.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.s3

W = "w"
READ_TIMEOUT_S = 0.5
ATTEMPTS = 4  # one more than the two faults of some tests need: a busy machine hangs by itself
IMPATIENT = replace(SYSTEM, sleep_s=lambda seconds: None)
STORM = 10_000
WELCOME = Reply(200, b"<html><body>Welcome!</body></html>", {"Content-Type": "text/html"})


def flip(body, position=None):
    if not body:
        return body
    at = len(body) // 2 if position is None else position % len(body)
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def hang_before(request):
    time.sleep(2 * READ_TIMEOUT_S)
    return "drop"


def hang_after(answer):
    time.sleep(2 * READ_TIMEOUT_S)
    return "lose"


def altered(change):
    """The whole answer arrives, with another body and no checksum that would tell."""

    def apply(answer):
        headers = {k: v for k, v in answer.headers.items() if "checksum" not in k.lower()}
        return Reply(answer.status, change(answer.body), headers)

    return lambda request: apply


PUT_FAULTS = {
    "drop": lambda request: "drop",
    "lose": lambda request: "lose",
    "hang before": hang_before,
    "hang after": lambda request: hang_after,
    "503": lambda request: s3_error(503, "SlowDown"),
    "503 after it was done": lambda request: lambda answer: s3_error(503, "SlowDown"),
    "500 after it was done": lambda request: lambda answer: s3_error(500, "InternalError"),
    "body altered on its way": lambda request: s3_error(400, "BadDigest"),
    "body cut on its way": lambda request: s3_error(400, "IncompleteBody"),
    "met another": lambda request: s3_error(409, "ConditionalRequestConflict"),
    "refused": lambda request: s3_error(403, "AccessDenied"),
    "a false 412": lambda request: s3_error(412, "PreconditionFailed"),
    "412 on its own write": lambda request: lambda answer: s3_error(412, "PreconditionFailed"),
}
READ_FAULTS = {
    "drop": lambda request: "drop",
    "lose": lambda request: "lose",
    "hang": hang_before,
    "503": lambda request: s3_error(503, "SlowDown"),
    "reset in the body": lambda request: "cut",
    "flipped": altered(flip),
    "short": altered(lambda body: body[: len(body) // 2]),
    "empty": altered(lambda body: b""),
    "welcome page": lambda request: WELCOME,
}


def kind_of(request):
    """put, get or list of the log and its segments; "" for all else."""
    path, _, query = request.target.partition("?")
    prefix = urllib.parse.parse_qs(query).get("prefix", [""])[0]
    if request.method == "GET" and "transactions/" in prefix:
        return "list"
    if {"transactions", "segments"} & set(urllib.parse.unquote(path).split("/")):
        return request.method.lower()
    return ""


@dataclass
class Lake:
    """A database of its own behind the proxy, and the same one beside it.

    Attributes:
        behind, beside: The two ways to the one store; a client is slow to make, so all tests share
            them.
        hit: How many requests have failed since `fail`.
    """

    proxy: FaultProxy
    behind: Store
    beside: Store
    database: str
    hit: int = 0

    def catalog(self):
        return Catalog(self.behind, ambient=IMPATIENT)

    def writer(self):
        return self.catalog().writer(W, self.database, checkpoint_every=0)

    def fail(self, kinds, fault, times):
        """The next so many requests of some kinds fail."""
        self.hit = 0

        def rule(request):
            if kind_of(request) not in kinds or self.hit >= times:
                return None
            self.hit += 1
            return fault(request)

        self.proxy.rule = rule

    def calm(self):
        self.proxy.rule = lambda request: None

    def stands(self):
        """Revisions of each transaction that stands, by its id, read without the proxy."""
        rows = LogReader(self.beside, W, self.database).load().history.table().to_pylist()
        found: dict[str, list[int]] = {}
        for row in rows:
            for transaction_id in row["transaction_ids"]:
                found.setdefault(transaction_id.hex(), []).append(row["revision"])
        return found


@pytest.fixture(scope="module")
def ways(moto):
    """The proxy, the store behind it, and the store beside it."""
    config = {"s3": {"addressing_style": "path"}, "read_timeout": READ_TIMEOUT_S}
    url = f"s3://{moto.make_bucket()}/lakes"
    with fault_proxy(moto.endpoint_url) as proxy:
        through = {"endpoint_url": proxy.endpoint_url, "config_kwargs": config}
        behind = open_store(url, {**moto.storage_options, **through})
        behind.policy = RetryPolicy(
            attempts=ATTEMPTS, first_wait_s=0.01, longest_wait_s=0.02, budget_s=5
        )
        yield proxy, behind, open_store(url, moto.storage_options)


@pytest.fixture
def lake(ways, monkeypatch):
    """Its checkpoints have their segments as objects, which are read one by one."""
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)
    lake = Lake(*ways, f"db-{secrets.token_hex(4)}")
    yield lake
    lake.calm()


def write(writer, value):
    tx = writer.transaction()
    tx.write("t", pa.table({"n": [value]}))
    return tx


def check_commit(lake, tx, kinds, fault, times):
    """One commit under faults; then again without. True if it was told at once that it stands."""
    transaction_id = tx.transaction_id
    lake.fail(kinds, fault, times)
    told = None
    try:
        tx.commit()
    except (CommitOutcomeUnknown, StorageError, CorruptError) as error:
        told = error
    lake.calm()
    if told is None:
        assert len(lake.stands()[transaction_id]) == 1
    elif isinstance(told, CommitOutcomeUnknown):
        assert told.transaction_id == transaction_id
    else:
        assert transaction_id not in lake.stands(), f"{told!r} for a commit that stands"
    again = tx.commit()
    assert lake.stands()[transaction_id] == [again.revision], "not exactly one copy"
    return told


@pytest.mark.parametrize("fault", sampled("puts", PUT_FAULTS, 7))
def test_a_put_that_fails(lake, fault):
    """Once, and twice: insisting helps. In a storm: unknown, and settled by calling again."""
    writer = lake.writer()
    for value, times in enumerate((1, 2, STORM)):
        if fault == "a false 412" and times == STORM:
            continue  # a store that lies for ever: 10,000 races
        told = check_commit(lake, write(writer, value), {"put"}, PUT_FAULTS[fault], times)
        assert lake.hit
        if fault == "refused":
            assert isinstance(told, AccessDenied)
        elif times < STORM or fault == "412 on its own write":
            assert told is None
        else:
            assert told is None or isinstance(told, CommitOutcomeUnknown)
            assert (told is None) == ("412" in fault)
    assert sorted(
        Catalog(lake.beside).snapshot(lake.database).to_arrow("t")["n"].to_pylist()
    ) == list(range(writer.revision + 1))


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "ExpiredToken"), (404, "NoSuchBucket"), (404, "NoSuchKey"), (501, "NotImplemented")],
)
def test_the_answer_is_lost_and_the_repetition_refused(lake, status, code):
    """The refusal is of the repetition: the first put stands, and must not be told as failed."""
    first = True

    def lose_then_refuse(request):
        nonlocal first
        was, first = first, False
        return "lose" if was else s3_error(status, code)

    told = check_commit(lake, write(lake.writer(), 1), {"put"}, lose_then_refuse, STORM)
    assert isinstance(told, CommitOutcomeUnknown)


@pytest.mark.parametrize("fault", sampled("reads 1", READ_FAULTS, 4))
@pytest.mark.parametrize("times", [1, STORM])
def test_reading_fails_while_a_commit_is_in_doubt(lake, fault, times):
    """The put took effect, its answer was lost, and then nothing can be read, or only nonsense."""
    writer = lake.writer()
    first = True

    def lose_then_spoil(request):
        nonlocal first
        if kind_of(request) == "put":
            was, first = first, False
            return "lose" if was else None
        return READ_FAULTS[fault](request)

    told = check_commit(lake, write(writer, 1), {"put", "get", "list"}, lose_then_spoil, times + 1)
    assert told is None or isinstance(told, CommitOutcomeUnknown)


@pytest.mark.parametrize("fault", sampled("reads 2", READ_FAULTS, 4))
@pytest.mark.parametrize("times", [1, STORM])
def test_reading_fails_after_a_lost_race(lake, fault, times):
    """A guest took the name; what this one then reads fails. It never takes that for its own."""
    writer = lake.writer()
    tx = write(writer, 1)
    with Catalog(lake.beside).writer(W, lake.database, shared=True) as guest:
        write(guest, 2).commit()
    told = check_commit(lake, tx, {"get", "list"}, READ_FAULTS[fault], times)
    assert tx.commit_info.revision == 2  # the birth, the guest, and this one
    if times == 1 and fault in ("drop", "lose", "503", "hang", "reset in the body"):
        assert told is None


def fill(lake):
    """Four revisions, a checkpoint in the middle; what each holds."""
    with Catalog(lake.beside).writer(W, lake.database, checkpoint_every=0) as writer:
        for value in range(4):
            write(writer, value).commit()
            if value == 1:
                writer.checkpoint()
    return [list(range(n + 1)) for n in range(4)]


def read(lake):
    """The newest rows through the proxy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a damaged checkpoint: an older one and more of the log
        found = lake.catalog().snapshot(lake.database)
        return sorted(found.to_arrow("t").column("n").to_pylist())


@pytest.mark.parametrize("fault", sampled("reads 3", READ_FAULTS, 4))
@pytest.mark.parametrize("kind", ["get", "list"])
def test_readers_get_the_right_rows_or_an_error(lake, fault, kind):
    states = fill(lake)
    for times in (1, 2, STORM):
        lake.fail({kind}, READ_FAULTS[fault], times)
        try:
            assert read(lake) == states[-1]
        except (StorageError, CorruptError):
            told = True
        else:
            told = False
        assert lake.hit
        if fault in ("drop", "lose", "503", "hang", "reset in the body"):
            assert told == (times == STORM), "what passes is tried again, what stays is told"
        elif (kind, fault) != ("list", "flipped"):  # the bit may be in a part that nobody reads
            assert told or times < STORM
    lake.calm()
    assert read(lake) == states[-1]


def flipping(target, position):
    spoil = altered(lambda body: flip(body, position))
    return lambda request: spoil(request) if request.target == target else None


def test_a_bit_flipped_anywhere_in_what_is_read(lake):
    """Each object in turn. All carry digests: a transaction is read from its copy; a segment or a
    checkpoint from an older one, or from the log."""
    states = fill(lake)
    chance = random.Random(base_seed())
    asked = []
    lake.fail({"get"}, lambda request: asked.append(request.target), STORM)
    read(lake)
    targets = sorted(set(asked))
    assert len(targets) > 4, "a checkpoint, its segments, and transactions"
    for target in [*targets, *targets]:
        lake.fail({"get"}, flipping(target, chance.randrange(1_000_000)), STORM)
        assert read(lake) == states[-1]


def test_a_bit_flipped_anywhere_in_a_listing(lake):
    """It has no digest: an older state may come back, but a whole one, or an error (that of a fork,
    where the bit makes two names of one); never a mixture."""
    states = fill(lake)
    chance = random.Random(base_seed())
    for _ in range(12):
        position = chance.randrange(1_000_000)
        lake.fail({"list"}, altered(lambda body, at=position: flip(body, at)), 1)
        with contextlib.suppress(StorageError, CorruptError, ForkError):
            assert read(lake) in states
        assert lake.hit


def test_an_object_that_was_altered_before_it_was_stored(lake):
    """A server that doesn't check what it gets. The writer can't know; everybody else finds out,
    and reads the second copy while that is whole."""
    states = fill(lake)

    def spoil(request):
        request.body = flip(request.body)
        request.headers = {k: v for k, v in request.headers.items() if "checksum" not in k}
        return None

    def commit(value, spoiled):
        with lake.writer() as writer:
            tx = write(writer, value)
            lake.fail({"put"}, spoil, spoiled)
            tx.commit()
        lake.calm()

    commit(9, 1)
    with pytest.warns(MirrorWarning, match="-4"):
        found = lake.catalog().snapshot(lake.database).to_arrow("t")
    assert sorted(found.column("n").to_pylist()) == [*states[-1], 9]
    commit(10, 2)
    with pytest.raises(CorruptError) as caught:
        read(lake)
    assert f"998-{10**12 - 6}-5." in caught.value.key
    with pytest.raises(CorruptError):
        lake.writer()
    found = lake.catalog().snapshot(lake.database, as_of={W: 4}).to_arrow("t")
    assert sorted(found.column("n").to_pylist()) == [*states[-1], 9]


def test_every_put_carries_a_checksum_that_the_server_can_hold_it_to(lake):
    seen = []

    def look(request):
        seen.append({name for name in request.headers if "checksum" in name or "trailer" in name})
        return None

    writer = lake.writer()
    lake.fail({"put"}, look, STORM)
    write(writer, 1).commit()
    assert seen
    assert all(seen)
