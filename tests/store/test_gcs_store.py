"""The Google store beyond the conformance suite (test_built_servers.py): what it asks for, and the
faults of a server, which a proxy before fake-gcs-server answers with as Google's manual says."""

from __future__ import annotations

import json
import secrets

import pytest
from lakelog.errors import (
    AccessDenied,
    BucketNotFound,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from lakelog.store import open_store
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.fault_proxy import Reply, fault_proxy


@pytest.fixture(scope="module")
def bucket(fake_gcs):
    return fake_gcs.make_bucket()


@pytest.fixture
def proxy(fake_gcs):
    with fault_proxy(fake_gcs.endpoint_url) as running:
        yield running


@pytest.fixture
def store(fake_gcs, bucket, proxy):
    options = fake_gcs.storage_options | {"endpoint_url": proxy.endpoint_url}
    store = open_store(f"gcs://{bucket}/roots/{secrets.token_hex(6)}", options)
    store.policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.05)
    return store


def gcs_error(status: int, message: str) -> Reply:
    body = json.dumps({"error": {"code": status, "message": message}}).encode()
    return Reply(status, body, {"Content-Type": "application/json"})


def test_objects_are_written_read_listed_and_deleted(store):
    keys = ["w/a", "w/b c", "w/100%", "w/q?x=1#y", "w/+", "w/ä/1", "w-old/x"]
    for key in keys:
        store.put(key, key.encode() * 3)
    assert store.url.startswith("gs://")
    assert [info.key for info in store.list("")] == sorted(keys)
    assert [i.key for i in store.list("w/", after="w/a")] == ["w/b c", "w/q?x=1#y", "w/ä/1"]
    assert store.list_folders("") == ["w", "w-old"]
    assert store.get_many([*keys, "w/missing"]) == [*(key.encode() * 3 for key in keys), None]
    for key in keys:
        assert store.head(key).size_bytes == len(key.encode()) * 3
        assert store.head(key).modified_at.utcoffset().total_seconds() == 0
    body = b"w/aw/aw/a"
    for start, end in ((1, None), (1, 4), (None, 2), (-2, None), (-99, None), (4, 99), (99, None)):
        assert store.get("w/a", start=start, end=end) == body[start:end]
    store.delete(["w/a", "w/missing"])
    store.delete(keys[1:], ordered=False)
    assert list(store.list("")) == []


def test_a_listing_may_start_inside_a_name_and_with_a_small_page(store):
    keys = [f"w/log/{number:02d}" for number in range(25)]
    for key in [*keys, "w/log-old/x"]:
        store.put(key, b"x")
    for first_page in (1, 3, 25, 1000):
        assert [i.key for i in store.list("w/log/", first_page=first_page)] == keys
        found = store.list("w/log/1", after="w/log/14", first_page=first_page)
        assert [info.key for info in found] == keys[15:20]
    assert store.server_time() is not None


def test_a_body_that_holds_a_mime_boundary_arrives_whole(store):
    body = b"--==0==\nContent-Type: x\n\n" + b"\n--==0==--" + bytes(range(256)) * 1000
    store.put("w/a", body)
    assert store.get("w/a") == body


def test_a_listing_goes_on_over_pages(store, proxy, bucket):
    base = store.url.removeprefix(f"gs://{bucket}/")
    pages = {
        None: {"items": [{"name": f"{base}/w/1", "size": "1"}], "nextPageToken": "two"},
        "two": {"items": [{"name": f"{base}/w/2", "size": "2"}], "prefixes": [f"{base}/w/f/"]},
    }

    targets = []

    def rule(request):
        targets.append(request.target)
        token = "two" if "pageToken=two" in request.target else None
        return Reply(200, json.dumps(pages[token]).encode(), {"Content-Type": "application/json"})

    proxy.rule = rule
    assert [info.key for info in store.list("w/")] == ["w/1", "w/2"]
    assert store.list_folders("w/") == ["f"]
    assert len(proxy.requests) == 4
    assert not any("maxResults" in target for target in targets)
    targets.clear()
    found = store.list("w/", first_page=100)
    assert next(found).key == "w/1"
    found.close()
    assert ["maxResults=100" in target for target in targets] == [True]


def test_put_if_absent_asks_for_generation_zero(store, proxy):
    targets = []

    def rule(request):
        targets.append(request.target)
        if "ifGenerationMatch=0" in request.target and len(targets) > 1:
            return gcs_error(412, "At least one of the pre-conditions did not hold.")
        return None

    proxy.rule = rule
    store.put("w/a", b"1", if_absent=True)
    with pytest.raises(ObjectExists) as caught:
        store.put("w/a", b"2", if_absent=True)
    assert caught.value.key == "w/a"
    store.put("w/a", b"3")
    assert ["ifGenerationMatch=0" in target for target in targets] == [True, True, False]


def test_what_is_missing_is_told_apart(store, fake_gcs):
    with pytest.raises(ObjectNotFound):
        store.get("w/missing")
    with pytest.raises(ObjectNotFound):
        store.head("w/missing")
    other = open_store("gs://no-such-bucket/x", fake_gcs.storage_options)
    with pytest.raises(BucketNotFound):
        other.put("w/a", b"1")


def test_faults_are_retried_and_refusals_are_not(store, proxy):
    store.put("w/a", b"1")
    for fault in ("lose", gcs_error(503, "busy"), gcs_error(429, "slow down"), Reply(502)):
        left = [fault, fault]
        proxy.rule = lambda request, left=left: left.pop() if left else None
        proxy.requests.clear()
        assert store.get("w/a") == b"1"
        assert len(proxy.requests) == 3
    for status, kind in ((403, AccessDenied), (401, AccessDenied), (400, StorageError)):
        proxy.rule = lambda request, status=status: gcs_error(status, "no")
        proxy.requests.clear()
        with pytest.raises(kind):
            store.get("w/a")
        assert len(proxy.requests) == 1
