"""The S3 store against real servers: what goes over the wire, and what it makes of bad answers."""

from __future__ import annotations

import re
import secrets
import time

import pytest
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from lakelog.store import open_store, probe
from lakelog.store.retry import RetryPolicy
from lakelog.testing.fault_proxy import Reply, fault_proxy, s3_error

pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(moto):
    with fault_proxy(moto.endpoint_url) as running:
        yield running


@pytest.fixture
def store(moto, moto_bucket, proxy):
    options = moto.storage_options | {"endpoint_url": proxy.endpoint_url}
    store = open_store(f"s3://{moto_bucket}/faults/{secrets.token_hex(6)}", options)
    store.policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.05)
    return store


def methods(proxy) -> list[str]:
    made = [line.split()[0] for line in proxy.requests]
    proxy.requests.clear()
    return made


def first(times, fault, method=None):
    """A rule: the first requests (of a method) meet the fault, the others pass."""
    left = [times]

    def rule(request):
        if left[0] and (method is None or request.method == method):
            left[0] -= 1
            return fault
        return None

    return rule


# --- requests -------------------------------------------------------------------------------------


def test_each_call_makes_the_requests_it_promises(store, proxy):
    store.put("w/a", b"0123456789", if_absent=True)
    assert methods(proxy) == ["PUT"]
    store.put("w/b", b"")
    assert methods(proxy) == ["PUT"]
    store.get("w/a")
    assert methods(proxy) == ["GET"]
    store.get("w/a", start=2, end=4)
    store.get("w/a", start=-3)
    assert methods(proxy) == ["GET", "GET"]
    store.get_many(["w/a", "w/b", "w/missing"])
    assert methods(proxy) == ["GET"] * 3
    store.head("w/a")
    assert methods(proxy) == ["HEAD"]
    list(store.list("w/", after="w/a"))
    store.list_folders("")
    assert methods(proxy) == ["GET", "GET"]
    store.open_input("w/a", size_bytes=10).read()
    assert methods(proxy) == ["GET"]
    for call in (lambda: store.get("w/missing"), lambda: store.head("w/missing")):
        with pytest.raises(ObjectNotFound):
            call()
        assert len(methods(proxy)) == 1
    store.delete(["w/a", "w/b", "w/missing"])
    assert methods(proxy) == ["DELETE"] * 3
    store.delete([f"w/{number}" for number in range(1_500)], ordered=False)
    assert methods(proxy) == ["POST", "POST"]
    probe(store, "w/")
    assert methods(proxy) == ["PUT", "PUT", "GET", "DELETE"]


def test_a_large_body_goes_in_parts(store, proxy, monkeypatch):
    monkeypatch.setattr(store, "part_size_bytes", 5 << 20)
    body = secrets.token_bytes(12 << 20)
    store.put("w/large", body)
    assert methods(proxy) == ["POST", "PUT", "PUT", "PUT", "POST"]
    assert store.get("w/large") == body
    assert [info.key for info in store.list("w/")] == ["w/large"]


def test_put_if_absent_is_one_put_whatever_the_size(store, proxy, monkeypatch):
    """A server may overlook the condition when it joins parts: that would replace a revision."""
    monkeypatch.setattr(store, "part_size_bytes", 5 << 20)
    body = secrets.token_bytes(20 << 20)
    store.put("w/slot", body, if_absent=True)
    assert methods(proxy) == ["PUT"]
    with pytest.raises(ObjectExists):
        store.put("w/slot", body[::-1], if_absent=True)
    assert methods(proxy) == ["PUT"]
    assert store.get("w/slot") == body


def test_parts_that_fail_are_taken_back(store, proxy, monkeypatch):
    monkeypatch.setattr(store, "part_size_bytes", 5 << 20)
    proxy.rule = lambda request: (
        s3_error(400, "EntityTooSmall") if request.method == "PUT" else None
    )
    with pytest.raises(StorageError, match="EntityTooSmall") as caught:
        store.put("w/large", bytes(12 << 20))
    assert caught.value.key == "w/large"
    assert methods(proxy)[-1] == "DELETE"
    assert list(store.list("w/")) == []


# --- lost, cut and refused answers ----------------------------------------------------------------


def test_a_lost_answer_to_put_if_absent_shows_as_exists_on_ones_own_body(store, proxy):
    proxy.rule = first(1, "lose", "PUT")
    with pytest.raises(ObjectExists):
        store.put("w/slot", b"mine", if_absent=True)
    assert store.get("w/slot") == b"mine"


def test_a_lost_answer_to_a_plain_put_is_repaired(store, proxy):
    proxy.rule = first(2, "lose", "PUT")
    store.put("w/a", b"mine")
    assert methods(proxy) == ["PUT"] * 3
    assert store.get("w/a") == b"mine"


@pytest.mark.parametrize(
    "fault",
    [
        "drop",
        s3_error(503, "SlowDown"),
        s3_error(500, "InternalError"),
        s3_error(429, "TooManyRequests"),
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(503),
    ],
    ids=lambda fault: fault if isinstance(fault, str) else f"{fault.status}-{fault.body[13:30]!r}",
)
def test_a_passing_fault_is_retried(store, proxy, fault):
    store.put("w/a", b"1")
    calls = {
        "PUT": lambda: store.put("w/b", b"2", if_absent=True),
        "GET": lambda: store.get("w/a"),
        "HEAD": lambda: store.head("w/a"),
        "DELETE": lambda: store.delete(["w/c"]),
        "POST": lambda: store.delete(["w/c"], ordered=False),
    }
    for method, call in calls.items():
        proxy.rule = first(2, fault, method)
        proxy.requests.clear()
        call()
        assert methods(proxy) == [method] * 3
    proxy.rule = first(2, fault, "GET")
    assert [info.key for info in store.list("w/")] == ["w/a", "w/b"]
    proxy.rule = first(3, fault, "GET")
    assert store.get_many(["w/a", "w/b", "w/c"]) == [b"1", b"2", None]


@pytest.mark.parametrize(
    "fault", [s3_error(409, "ConditionalRequestConflict"), s3_error(400, "RequestTimeout")]
)
def test_a_request_to_try_again_is_followed(store, proxy, fault):
    proxy.rule = first(2, fault, "PUT")
    store.put("w/a", b"1", if_absent=True)
    assert methods(proxy) == ["PUT"] * 3


@pytest.mark.parametrize("fault", ["cut", "lose"])
def test_half_an_answer_is_never_taken_for_the_whole(store, proxy, fault):
    body = secrets.token_bytes(100_000)
    store.put("w/a", body)
    proxy.rule = first(2, fault, "GET")
    assert store.get("w/a") == body
    proxy.rule = first(2, fault, "GET")
    assert store.get("w/a", start=10, end=90_000) == body[10:90_000]
    proxy.rule = first(2, fault, "GET")
    assert [info.key for info in store.list("w/")] == ["w/a"]


def test_a_lasting_fault_ends_soon_with_a_typed_error(store, proxy):
    proxy.rule = lambda request: s3_error(503, "SlowDown")
    store.policy = RetryPolicy()
    start_s = time.monotonic()
    with pytest.raises(StorageError, match="SlowDown") as caught:
        store.put("w/a", b"1")
    assert time.monotonic() - start_s < 12
    assert caught.value.key == "w/a"
    assert methods(proxy) == ["PUT"] * 6


def test_a_refusal_is_final(store, proxy):
    proxy.rule = lambda request: s3_error(403, "AccessDenied")
    calls = [
        lambda: store.put("w/a", b"1"),
        lambda: store.get("w/a"),
        lambda: store.get_many(["w/a"]),
        lambda: store.head("w/a"),
        lambda: list(store.list("w/")),
        lambda: store.list_folders("w/"),
        lambda: store.delete(["w/a"]),
        lambda: store.delete(["w/a"], ordered=False),
    ]
    for call in calls:
        with pytest.raises(AccessDenied, match=r"credentials|403"):
            call()
        assert len(methods(proxy)) == 1


def test_a_store_that_knows_no_condition_says_so(store, proxy):
    proxy.rule = lambda request: (
        s3_error(501, "NotImplemented") if "if-none-match" in request.headers else None
    )
    with pytest.raises(CapabilityMissing):
        store.put("w/a", b"1", if_absent=True)
    found = probe(store, "w/")
    assert found.put_if_absent is False
    assert "refused" in found.detail
    store.put("w/a", b"1")
    assert store.get("w/a") == b"1"


def test_the_wrong_region_gets_a_hint(store, proxy):
    headers = {"Content-Type": "application/xml", "x-amz-bucket-region": "us-east-1"}
    body = b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
    proxy.rule = lambda request: Reply(301, body, headers)
    with pytest.raises(StorageError, match="region_name"):
        store.get("w/a")


def test_one_failure_among_many_is_named(store, proxy):
    keys = [f"w/{number}" for number in range(100)]
    proxy.rule = lambda request: (
        s3_error(403, "AccessDenied")
        if request.path.endswith("w/42")
        else s3_error(404, "NoSuchKey")
    )
    with pytest.raises(AccessDenied) as caught:
        store.get_many(keys)
    assert caught.value.key == "w/42"


def test_a_batch_of_deletions_reports_what_it_could_not_do(store, proxy):
    def rule(request):
        prefix = re.search(rb"<Key>(.*?)w/a</Key>", request.body)[1].decode()
        return Reply(
            200,
            f"<DeleteResult><Error><Key>{prefix}w/b</Key><Code>AccessDenied</Code>"
            "<Message>no</Message></Error></DeleteResult>".encode(),
            {"Content-Type": "application/xml"},
        )

    proxy.rule = rule
    with pytest.raises(AccessDenied, match="not deleted") as caught:
        store.delete(["w/a", "w/b"], ordered=False)
    assert caught.value.key == "w/b"


def test_a_store_without_batches_deletes_one_by_one(store, proxy):
    store.put("w/a", b"1")
    store.put("w/b", b"1")
    proxy.rule = lambda request: (
        s3_error(501, "NotImplemented") if request.method == "POST" else None
    )
    store.delete(["w/a", "w/b", "w/c"], ordered=False)
    assert list(store.list("")) == []
