"""The S3 store against real servers: what goes over the wire, and what it makes of bad answers."""

from __future__ import annotations

import re
import secrets
import time

import pytest
from fault_cases import first
from lakelog.catalog.format.frame import MAX_ATTACHMENT_BYTES, MAX_MESSAGE_BYTES
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from lakelog.store import probe
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.fault_proxy import Reply, s3_error

pytestmark = pytest.mark.s3


def methods(proxy) -> list[str]:
    made = [line.split()[0] for line in proxy.requests]
    proxy.requests.clear()
    return made


# --- requests -------------------------------------------------------------------------------------


def test_each_call_makes_the_requests_it_promises(s3_store, s3_proxy):
    s3_store.put("w/a", b"0123456789", if_absent=True)
    assert methods(s3_proxy) == ["PUT"]
    s3_store.put("w/b", b"")
    assert methods(s3_proxy) == ["PUT"]
    s3_store.get("w/a")
    assert methods(s3_proxy) == ["GET"]
    s3_store.get("w/a", start=2, end=4)
    s3_store.get("w/a", start=-3)
    assert methods(s3_proxy) == ["GET", "GET"]
    s3_store.get_many(["w/a", "w/b", "w/missing"])
    assert methods(s3_proxy) == ["GET"] * 3
    s3_store.head("w/a")
    assert methods(s3_proxy) == ["HEAD"]
    list(s3_store.list("w/", after="w/a"))
    s3_store.list_folders("")
    assert methods(s3_proxy) == ["GET", "GET"]
    s3_store.open_input("w/a", size_bytes=10).read()
    assert methods(s3_proxy) == ["GET"]
    for call in (lambda: s3_store.get("w/missing"), lambda: s3_store.head("w/missing")):
        with pytest.raises(ObjectNotFound):
            call()
        assert len(methods(s3_proxy)) == 1
    s3_store.delete(["w/a", "w/b", "w/missing"])
    assert methods(s3_proxy) == ["DELETE"] * 3
    s3_store.delete([f"w/{number}" for number in range(1_500)], ordered=False)
    assert methods(s3_proxy) == ["POST", "POST"]
    probe(s3_store, "w/")
    assert methods(s3_proxy) == ["GET"] + ["PUT"] * 4 * 8 + ["GET"] * 4 + ["PUT"]
    probe(s3_store, "w/")
    assert methods(s3_proxy) == []


def test_a_body_of_the_size_of_log_objects_goes_in_one_put(s3_store, s3_proxy, monkeypatch):
    """On a store without put-if-absent too, where nothing else keeps late parts from joining."""
    assert s3_store.one_put_bytes > MAX_ATTACHMENT_BYTES + 2 * MAX_MESSAGE_BYTES
    monkeypatch.setattr(s3_store, "part_size_bytes", 5 << 20)
    s3_store.put("w/large", bytes(12 << 20))
    assert methods(s3_proxy) == ["PUT"]


def test_a_large_body_goes_in_parts(s3_store, s3_proxy, monkeypatch):
    monkeypatch.setattr(s3_store, "one_put_bytes", 10 << 20)
    monkeypatch.setattr(s3_store, "part_size_bytes", 5 << 20)
    body = secrets.token_bytes(12 << 20)
    s3_store.put("w/large", body)
    assert methods(s3_proxy) == ["POST", "PUT", "PUT", "PUT", "POST"]
    assert s3_store.get("w/large") == body
    assert [info.key for info in s3_store.list("w/")] == ["w/large"]


def test_put_if_absent_is_one_put_whatever_the_size(s3_store, s3_proxy, monkeypatch):
    """A server may overlook the condition when it joins parts: that would replace a revision."""
    monkeypatch.setattr(s3_store, "one_put_bytes", 10 << 20)
    monkeypatch.setattr(s3_store, "part_size_bytes", 5 << 20)
    body = secrets.token_bytes(20 << 20)
    s3_store.put("w/slot", body, if_absent=True)
    assert methods(s3_proxy) == ["PUT"]
    with pytest.raises(ObjectExists):
        s3_store.put("w/slot", body[::-1], if_absent=True)
    assert methods(s3_proxy) == ["PUT"]
    assert s3_store.get("w/slot") == body


def test_parts_that_fail_are_taken_back(s3_store, s3_proxy, monkeypatch):
    monkeypatch.setattr(s3_store, "one_put_bytes", 10 << 20)
    monkeypatch.setattr(s3_store, "part_size_bytes", 5 << 20)
    s3_proxy.rule = lambda request: (
        s3_error(400, "EntityTooSmall") if request.method == "PUT" else None
    )
    with pytest.raises(StorageError, match="EntityTooSmall") as caught:
        s3_store.put("w/large", bytes(12 << 20))
    assert caught.value.key == "w/large"
    assert methods(s3_proxy)[-1] == "DELETE"
    assert list(s3_store.list("w/")) == []


# --- lost, cut and refused answers ----------------------------------------------------------------


def test_a_lost_answer_to_put_if_absent_shows_as_exists_on_ones_own_body(s3_store, s3_proxy):
    s3_proxy.rule = first(1, "lose", "PUT")
    with pytest.raises(ObjectExists):
        s3_store.put("w/slot", b"mine", if_absent=True)
    assert s3_store.get("w/slot") == b"mine"


def test_a_lost_answer_to_a_plain_put_is_repaired(s3_store, s3_proxy):
    s3_proxy.rule = first(2, "lose", "PUT")
    s3_store.put("w/a", b"mine")
    assert methods(s3_proxy) == ["PUT"] * 3
    assert s3_store.get("w/a") == b"mine"


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
def test_a_passing_fault_is_retried(s3_store, s3_proxy, fault):
    s3_store.put("w/a", b"1")
    calls = {
        "PUT": lambda: s3_store.put("w/b", b"2", if_absent=True),
        "GET": lambda: s3_store.get("w/a"),
        "HEAD": lambda: s3_store.head("w/a"),
        "DELETE": lambda: s3_store.delete(["w/c"]),
        "POST": lambda: s3_store.delete(["w/c"], ordered=False),
    }
    for method, call in calls.items():
        s3_proxy.rule = first(2, fault, method)
        s3_proxy.requests.clear()
        call()
        assert methods(s3_proxy) == [method] * 3
    s3_proxy.rule = first(2, fault, "GET")
    assert [info.key for info in s3_store.list("w/")] == ["w/a", "w/b"]
    s3_proxy.rule = first(3, fault, "GET")
    assert s3_store.get_many(["w/a", "w/b", "w/c"]) == [b"1", b"2", None]


@pytest.mark.parametrize(
    "fault", [s3_error(409, "ConditionalRequestConflict"), s3_error(400, "RequestTimeout")]
)
def test_a_request_to_try_again_is_followed(s3_store, s3_proxy, fault):
    s3_proxy.rule = first(2, fault, "PUT")
    s3_store.put("w/a", b"1", if_absent=True)
    assert methods(s3_proxy) == ["PUT"] * 3


@pytest.mark.parametrize("fault", ["cut", "lose"])
def test_half_an_answer_is_never_taken_for_the_whole(s3_store, s3_proxy, fault):
    body = secrets.token_bytes(100_000)
    s3_store.put("w/a", body)
    s3_proxy.rule = first(2, fault, "GET")
    assert s3_store.get("w/a") == body
    s3_proxy.rule = first(2, fault, "GET")
    assert s3_store.get("w/a", start=10, end=90_000) == body[10:90_000]
    s3_proxy.rule = first(2, fault, "GET")
    assert [info.key for info in s3_store.list("w/")] == ["w/a"]


def test_a_lasting_fault_ends_soon_with_a_typed_error(s3_store, s3_proxy):
    s3_proxy.rule = lambda request: s3_error(503, "SlowDown")
    s3_store.policy = RetryPolicy()
    start_s = time.monotonic()
    with pytest.raises(StorageError, match="SlowDown") as caught:
        s3_store.put("w/a", b"1")
    assert time.monotonic() - start_s < 12
    assert caught.value.key == "w/a"
    assert methods(s3_proxy) == ["PUT"] * 6


def test_a_refusal_is_final(s3_store, s3_proxy):
    s3_proxy.rule = lambda request: s3_error(403, "AccessDenied")
    calls = [
        lambda: s3_store.put("w/a", b"1"),
        lambda: s3_store.get("w/a"),
        lambda: s3_store.get_many(["w/a"]),
        lambda: s3_store.head("w/a"),
        lambda: list(s3_store.list("w/")),
        lambda: s3_store.list_folders("w/"),
        lambda: s3_store.delete(["w/a"]),
        lambda: s3_store.delete(["w/a"], ordered=False),
    ]
    for call in calls:
        with pytest.raises(AccessDenied, match=r"credentials|403"):
            call()
        assert len(methods(s3_proxy)) == 1


def test_a_store_that_knows_no_condition_says_so(s3_store, s3_proxy):
    s3_proxy.rule = lambda request: (
        s3_error(501, "NotImplemented") if "if-none-match" in request.headers else None
    )
    with pytest.raises(CapabilityMissing):
        s3_store.put("w/a", b"1", if_absent=True)
    found = probe(s3_store, "w/")
    assert found.put_if_absent is False
    assert "refused" in found.detail
    s3_store.put("w/a", b"1")
    assert s3_store.get("w/a") == b"1"


def test_the_wrong_region_gets_a_hint(s3_store, s3_proxy):
    headers = {"Content-Type": "application/xml", "x-amz-bucket-region": "us-east-1"}
    body = b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
    s3_proxy.rule = lambda request: Reply(301, body, headers)
    with pytest.raises(StorageError, match="region_name"):
        s3_store.get("w/a")


def test_one_failure_among_many_is_named(s3_store, s3_proxy):
    keys = [f"w/{number}" for number in range(100)]
    s3_proxy.rule = lambda request: (
        s3_error(403, "AccessDenied")
        if request.path.endswith("w/42")
        else s3_error(404, "NoSuchKey")
    )
    with pytest.raises(AccessDenied) as caught:
        s3_store.get_many(keys)
    assert caught.value.key == "w/42"


def test_a_batch_of_deletions_reports_what_it_could_not_do(s3_store, s3_proxy):
    def rule(request):
        prefix = re.search(rb"<Key>(.*?)w/a</Key>", request.body)[1].decode()
        return Reply(
            200,
            f"<DeleteResult><Error><Key>{prefix}w/b</Key><Code>AccessDenied</Code>"
            "<Message>no</Message></Error></DeleteResult>".encode(),
            {"Content-Type": "application/xml"},
        )

    s3_proxy.rule = rule
    with pytest.raises(AccessDenied, match="not deleted") as caught:
        s3_store.delete(["w/a", "w/b"], ordered=False)
    assert caught.value.key == "w/b"


def test_a_store_without_batches_deletes_one_by_one(s3_store, s3_proxy):
    s3_store.put("w/a", b"1")
    s3_store.put("w/b", b"1")
    s3_proxy.rule = lambda request: (
        s3_error(501, "NotImplemented") if request.method == "POST" else None
    )
    s3_store.delete(["w/a", "w/b", "w/c"], ordered=False)
    assert list(s3_store.list("")) == []
