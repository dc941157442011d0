"""The S3 store against real servers: what goes over the wire, and what it makes of bad answers."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import multiprocessing
import re
import secrets
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from itertools import islice

import pytest
from lakelog.errors import (
    AccessDenied,
    BucketNotFound,
    CapabilityMissing,
    InvalidUrl,
    ObjectExists,
    ObjectNotFound,
    StorageError,
    UsageError,
)
from lakelog.store import open_store, probe
from lakelog.store.retry import RetryPolicy
from lakelog.testing.fault_proxy import Reply, fault_proxy, s3_error
from lakelog.testing.servers import moto_server

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


# --- requests ---


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


# --- lost, cut and refused answers ---


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


# --- servers that ignore what they are asked ---


def without(target: str, parameter: str) -> str:
    return re.sub(rf"[?&]{parameter}=[^&]*", "", target)


def test_a_listing_is_right_even_if_the_server_ignores_start_after(store, proxy):
    def rule(request):
        request.target = without(request.target, "start-after")

    keys = [f"w/{number:03d}" for number in range(20)]
    for key in keys:
        store.put(key, b"x")
    seen = []
    proxy.rule = lambda request: seen.append(request.target)
    assert [info.key for info in store.list("w/", after="w/014")] == keys[15:]
    assert "start-after=" in seen[0]
    proxy.rule = rule
    assert [info.key for info in store.list("w/", after="w/014")] == keys[15:]


def test_a_range_is_right_even_if_the_server_ignores_it(store, proxy):
    def rule(request):
        request.headers.pop("range", None)

    store.put("w/a", b"0123456789")
    proxy.rule = rule
    for start, end in ((2, 5), (None, 3), (7, None), (-4, None), (0, 99), (20, 30)):
        assert store.get("w/a", start=start, end=end) == b"0123456789"[start:end]


def test_pages_are_fetched_on_demand_and_the_first_may_be_small(store, proxy):
    keys = [f"w/{number:04d}" for number in range(1_060)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"x"), keys))
    seen = []
    proxy.rule = lambda request: seen.append(request.target)
    found = store.list("w/", first_page=50)
    assert seen == []
    assert [info.key for info in islice(found, 50)] == keys[:50]
    assert len(seen) == 1
    assert "max-keys=50" in seen[0]
    assert next(found).key == keys[50]
    assert len(seen) == 2
    assert "max-keys" not in seen[1]
    assert [info.key for info in found] == keys[51:]
    assert len(seen) == 3
    found = store.list("w/010", after="w/0102", first_page=3)
    assert [info.key for info in found] == keys[103:110]


def test_a_page_that_fails_is_retried_and_then_raised_where_it_is_wanted(store, proxy):
    for number in range(6):
        store.put(f"w/{number}", b"x")
    found = store.list("w/", first_page=2)
    assert [info.key for info in islice(found, 2)] == ["w/0", "w/1"]
    proxy.rule = first(2, s3_error(503, "SlowDown"), "GET")
    assert [info.key for info in found] == ["w/2", "w/3", "w/4", "w/5"]
    found = store.list("w/", first_page=2)
    assert next(found).key == "w/0"
    proxy.rule = lambda request: s3_error(403, "AccessDenied")
    assert next(found).key == "w/1"
    with pytest.raises(AccessDenied):
        next(found)


def listing(*keys: str, token: str = "") -> Reply:
    entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    page = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{entries}"
    body = f"<ListBucketResult>{page}</ListBucketResult>".encode()
    return Reply(200, body, {"Content-Type": "application/xml"})


def test_a_page_is_read_as_botocore_reads_it(store, monkeypatch):
    for key in ("w/a b", "w/ä&<>+%25", "w/🦆", "w/z"):
        store.put(key, key.encode())
    quick = list(store.list("w/", first_page=3))
    monkeypatch.setattr("lakelog.store.s3_listing.take_objects", lambda **_: None)
    other = open_store(store.url, store._options.reveal())
    assert quick == list(other.list("w/", first_page=3))
    assert [info.size_bytes for info in quick] == [len(info.key.encode()) for info in quick]


@pytest.mark.parametrize(
    "fields",
    [
        "<Key>{key}</Key><Size>many</Size>",
        "<Key>{key}</Key><Size>1</Size><LastModified>2026,11-22T02:14:22.000Z</LastModified>",
        "<Key>{key}</Key>",
        "<Size>1</Size>",
    ],
    ids=["size", "time", "no size", "no name"],
)
def test_a_page_with_an_unreadable_object_is_asked_for_again(store, proxy, moto_bucket, fields):
    store.put("w/a", b"x")
    key = store.url.removeprefix(f"s3://{moto_bucket}/") + "/w/a"
    entry = f"<Contents>{fields.format(key=key)}</Contents>"
    body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entry}</ListBucketResult>"
    reply = Reply(200, body.encode(), {"Content-Type": "application/xml"})
    proxy.rule = first(2, reply, "GET")
    assert [info.key for info in store.list("w/")] == ["w/a"]
    proxy.rule = lambda request: reply
    with pytest.raises(StorageError, match="can't be read"):
        list(store.list("w/"))


def test_pages_out_of_order_are_an_error_that_names_the_object(store, proxy, moto_bucket):
    base = store.url.removeprefix(f"s3://{moto_bucket}/")
    pages = [listing(f"{base}/w/b", f"{base}/w/d", token="2"), listing(f"{base}/w/c")]
    proxy.rule = lambda request: pages["continuation-token" in request.target]
    found = store.list("w/")
    assert [info.key for info in islice(found, 2)] == ["w/b", "w/d"]
    with pytest.raises(StorageError, match="out of order") as caught:
        next(found)
    assert caught.value.key == "w/c"
    pages[1] = listing(f"{base}/w/d", f"{base}/w/e")  # named twice is no harm
    assert [info.key for info in store.list("w/")] == ["w/b", "w/d", "w/e"]
    pages[1] = listing(f"{base}/w/c")
    store.order = "none"  # as of a directory bucket
    assert [info.key for info in store.list("w/")] == ["w/b", "w/c", "w/d"]


def test_a_directory_bucket_is_known_by_its_name(moto):
    assert open_store("s3://b--use1-az4--x-s3/x", moto.storage_options).order == "none"
    assert open_store("s3://b/x", moto.storage_options).order == "bytes"


def test_the_time_is_the_servers(store, proxy):
    assert store.server_time() is None
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    proxy.rule = lambda request: Reply(
        200, b"1", {"Date": date, "Content-Length": "1", "ETag": '"x"'}
    )
    store.get("w/a")
    told = store.server_time()
    assert dt.timedelta(0) <= told - parsedate_to_datetime(date) < dt.timedelta(seconds=60)
    proxy.rule = lambda request: Reply(200, b"1", {"Date": "half past nine"})
    store.get("w/a")
    assert store.server_time() is None


def test_a_listing_that_repeats_its_token_ends(store, proxy):
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated>"
        b"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    )
    proxy.rule = lambda request: Reply(200, page, {"Content-Type": "application/xml"})
    with pytest.raises(StorageError, match="can't go on"):
        list(store.list("w/"))


def test_folder_markers_are_not_objects(store, moto, moto_bucket):
    import boto3

    options = moto.storage_options
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
        region_name="us-east-1",
    )
    base = store.url.removeprefix(f"s3://{moto_bucket}/")
    with contextlib.closing(client):
        for key in ("w/", "w/empty/", "w/a"):
            client.put_object(Bucket=moto_bucket, Key=f"{base}/{key}", Body=b"")
    assert [info.key for info in store.list("")] == ["w/a"]
    assert store.list_folders("w/") == ["empty"]


# --- other servers, no servers ---


def test_a_store_that_ignores_the_condition_is_found_out(rclone_s3):
    store = open_store(f"s3://{rclone_s3.make_bucket()}/root", rclone_s3.storage_options)
    found = probe(store, "w/")
    assert found.put_if_absent is False
    assert "ignored" in found.detail
    assert list(store.list("")) == []
    for key in ("w/a", "w/ä +%#?&", "w-old/x"):  # but for that it is a store like any other
        store.put(key, key.encode())
        assert store.get(key) == key.encode()
    assert [info.key for info in store.list("w/", after="w/a")] == ["w/ä +%#?&"]
    assert store.get_many(["w/a", "w/b"]) == [b"w/a", None]
    for start, end in ((1, None), (1, 2), (None, 2), (-1, None), (-9, None), (5, 9)):
        assert store.get("w/a", start=start, end=end) == b"w/a"[start:end]
    store.delete(["w/a", "w/b"])
    store.delete(["w/ä +%#?&", "w/b"], ordered=False)
    assert [info.key for info in store.list("")] == ["w-old/x"]


def test_a_missing_bucket_is_named(moto):
    store = open_store("s3://no-such-bucket/root", moto.storage_options)
    calls = [
        lambda: list(store.list("")),
        lambda: store.list_folders(""),
        lambda: store.put("w/a", b"1", if_absent=True),
        lambda: store.get("w/a"),
        lambda: store.get_many(["w/a"]),
        lambda: probe(store, "w/"),
    ]
    for call in calls:
        with pytest.raises(BucketNotFound, match="s3://no-such-bucket/root"):
            call()


def test_a_bucket_name_that_can_not_be_is_refused(moto):
    with pytest.raises(InvalidUrl, match="bucket"):
        list(open_store("s3://no bucket at all/x", moto.storage_options).list(""))


def test_wrong_credentials_are_access_denied():
    with moto_server({"INITIAL_NO_AUTH_ACTION_COUNT": "0"}) as strict:
        store = open_store("s3://bucket/root", strict.storage_options)
        for call in (
            lambda: store.put("w/a", b"1"),
            lambda: store.get("w/a"),
            lambda: store.head("w/a"),
            lambda: list(store.list("")),
            lambda: store.delete(["w/a"]),
        ):
            with pytest.raises(AccessDenied, match="check the credentials"):
                call()


def test_no_credentials_are_access_denied(moto, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store("s3://bucket/root", {"endpoint_url": moto.endpoint_url})
    with pytest.raises(AccessDenied, match="storage option"):
        list(store.list(""))


def test_options_that_do_not_fit_are_a_usage_error(moto):
    for wrong in ({"bogus": 1}, {"endpoint_url": "not a url"}, {"config_kwargs": {"bogus": 1}}):
        store = open_store("s3://bucket/root", moto.storage_options | wrong)
        with pytest.raises(UsageError, match="storage option"):
            list(store.list(""))


def test_a_port_where_nobody_listens_ends_soon(moto):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, but not listening
        endpoint_url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        store = open_store("s3://b/root", moto.storage_options | {"endpoint_url": endpoint_url})
        start_s = time.monotonic()
        with pytest.raises(StorageError, match="doesn't answer") as caught:
            store.get("w/a")
    assert time.monotonic() - start_s < 12
    assert "check the endpoint" in str(caught.value)


def test_a_host_that_never_answers_ends_soon(moto):
    """A full backlog drops the handshake, as a firewall does."""
    with socket.socket() as silent, contextlib.ExitStack() as stack:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        endpoint_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"endpoint_url": endpoint_url, "config_kwargs": {"connect_timeout": 0.3}}
        store = open_store("s3://b/root", moto.storage_options | options)
        store.policy = RetryPolicy(attempts=4, first_wait_s=0.01)
        start_s = time.monotonic()
        with pytest.raises(StorageError, match="doesn't answer"):
            list(store.list(""))
        # With the usual 4 s to connect the budget ends it after 12 s: see test_retry.py.
        assert 1.0 < time.monotonic() - start_s < 12


def test_a_page_that_is_no_store_is_not_an_empty_one(store, proxy):
    proxy.rule = lambda request: Reply(404, b"<html>Not Found</html>")
    with pytest.raises(StorageError, match="no s3 store"):
        list(store.list("w/"))
    proxy.rule = lambda request: Reply(200, b"<html>Welcome</html>", {"Content-Type": "text/html"})
    calls = [
        lambda: list(store.list("w/")),
        lambda: store.list_folders("w/"),
        lambda: store.put("w/a", b"1"),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="no s3 store"):
            call()


# --- processes ---


def _read_in_child(store, queue):
    queue.put(store.get("w/a"))


def test_a_store_works_in_a_forked_child(store):
    gc.collect()  # s3fs ends dropped file systems with a second's wait each, in the child too
    store.put("w/a", b"1")  # the parent's event loop runs
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(store, queue))
    child.start()
    child.join(30)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()
    assert queue.get() == b"1"
    assert store.get("w/a") == b"1"
