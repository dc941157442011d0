"""S3 servers that ignore what they are asked, or list what nobody asked for."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from itertools import islice

import pytest
from fault_cases import first
from lakelog.errors import (
    AccessDenied,
    StorageError,
)
from lakelog.store import open_store
from lakelog.testing.fault_proxy import Reply, s3_error

pytestmark = pytest.mark.s3


def without(target: str, parameter: str) -> str:
    return re.sub(rf"[?&]{parameter}=[^&]*", "", target)


def test_a_listing_is_right_even_if_the_server_ignores_start_after(s3_store, s3_proxy):
    def rule(request):
        request.target = without(request.target, "start-after")

    keys = [f"w/{number:03d}" for number in range(20)]
    for key in keys:
        s3_store.put(key, b"x")
    seen = []
    s3_proxy.rule = lambda request: seen.append(request.target)
    assert [info.key for info in s3_store.list("w/", after="w/014")] == keys[15:]
    assert "start-after=" in seen[0]
    s3_proxy.rule = rule
    assert [info.key for info in s3_store.list("w/", after="w/014")] == keys[15:]


def test_a_range_is_right_even_if_the_server_ignores_it(s3_store, s3_proxy):
    def rule(request):
        request.headers.pop("range", None)

    s3_store.put("w/a", b"0123456789")
    s3_proxy.rule = rule
    for start, end in ((2, 5), (None, 3), (7, None), (-4, None), (0, 99), (20, 30)):
        assert s3_store.get("w/a", start=start, end=end) == b"0123456789"[start:end]


def test_pages_are_fetched_on_demand_and_the_first_may_be_small(s3_store, s3_proxy):
    keys = [f"w/{number:04d}" for number in range(120)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3_store.put(key, b"x"), keys))
    seen = []

    def small_pages(request):
        """A server whose pages hold 60 objects, not 1,000, where the client doesn't say."""
        seen.append(request.target)
        if "max-keys" not in request.target:
            request.target += "&max-keys=60"

    s3_proxy.rule = small_pages
    found = s3_store.list("w/", first_page=50)
    assert seen == []
    assert [info.key for info in islice(found, 50)] == keys[:50]
    assert len(seen) == 1
    assert "max-keys=50" in seen[0]
    assert next(found).key == keys[50]
    assert len(seen) == 2
    assert "max-keys" not in seen[1]
    assert [info.key for info in found] == keys[51:]
    assert len(seen) == 3
    found = s3_store.list("w/010", after="w/0102", first_page=3)
    assert [info.key for info in found] == keys[103:110]


def test_a_page_that_fails_is_retried_and_then_raised_where_it_is_wanted(s3_store, s3_proxy):
    for number in range(6):
        s3_store.put(f"w/{number}", b"x")
    found = s3_store.list("w/", first_page=2)
    assert [info.key for info in islice(found, 2)] == ["w/0", "w/1"]
    s3_proxy.rule = first(2, s3_error(503, "SlowDown"), "GET")
    assert [info.key for info in found] == ["w/2", "w/3", "w/4", "w/5"]
    found = s3_store.list("w/", first_page=2)
    assert next(found).key == "w/0"
    s3_proxy.rule = lambda request: s3_error(403, "AccessDenied")
    assert next(found).key == "w/1"
    with pytest.raises(AccessDenied):
        next(found)


def listing(*keys: str, token: str = "") -> Reply:
    entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    page = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{entries}"
    body = f"<ListBucketResult>{page}</ListBucketResult>".encode()
    return Reply(200, body, {"Content-Type": "application/xml"})


def test_a_page_is_read_as_botocore_reads_it(s3_store, monkeypatch):
    for key in ("w/a b", "w/ä&<>+%25", "w/🦆", "w/z"):
        s3_store.put(key, key.encode())
    quick = list(s3_store.list("w/", first_page=3))
    monkeypatch.setattr("lakelog.store.s3.take_objects", lambda **_: None)
    other = open_store(s3_store.url, s3_store._options.reveal())
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
def test_a_page_with_an_unreadable_object_is_asked_for_again(
    s3_store, s3_proxy, moto_bucket, fields
):
    s3_store.put("w/a", b"x")
    key = s3_store.url.removeprefix(f"s3://{moto_bucket}/") + "/w/a"
    entry = f"<Contents>{fields.format(key=key)}</Contents>"
    body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entry}</ListBucketResult>"
    reply = Reply(200, body.encode(), {"Content-Type": "application/xml"})
    s3_proxy.rule = first(2, reply, "GET")
    assert [info.key for info in s3_store.list("w/")] == ["w/a"]
    s3_proxy.rule = lambda request: reply
    with pytest.raises(StorageError, match="can't be read"):
        list(s3_store.list("w/"))


def test_pages_out_of_order_are_an_error_that_names_the_object(s3_store, s3_proxy, moto_bucket):
    base = s3_store.url.removeprefix(f"s3://{moto_bucket}/")
    pages = [listing(f"{base}/w/b", f"{base}/w/d", token="2"), listing(f"{base}/w/c")]
    s3_proxy.rule = lambda request: pages["continuation-token" in request.target]
    found = s3_store.list("w/")
    assert [info.key for info in islice(found, 2)] == ["w/b", "w/d"]
    with pytest.raises(StorageError, match="out of order") as caught:
        next(found)
    assert caught.value.key == "w/c"
    pages[1] = listing(f"{base}/w/d", f"{base}/w/e")  # named twice is no harm
    assert [info.key for info in s3_store.list("w/")] == ["w/b", "w/d", "w/e"]
    pages[1] = listing(f"{base}/w/c")
    s3_store.order = "none"  # as of a directory bucket
    assert [info.key for info in s3_store.list("w/")] == ["w/b", "w/c", "w/d"]


def test_a_directory_bucket_is_known_by_its_name(moto):
    assert open_store("s3://b--use1-az4--x-s3/x", moto.storage_options).order == "none"
    assert open_store("s3://b/x", moto.storage_options).order == "bytes"


def test_the_time_is_the_servers(s3_store, s3_proxy):
    assert s3_store.server_time() is None
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    s3_proxy.rule = lambda request: Reply(
        200, b"1", {"Date": date, "Content-Length": "1", "ETag": '"x"'}
    )
    s3_store.get("w/a")
    told = s3_store.server_time()
    assert dt.timedelta(0) <= told - parsedate_to_datetime(date) < dt.timedelta(seconds=60)
    s3_proxy.rule = lambda request: Reply(200, b"1", {"Date": "half past nine"})
    s3_store.get("w/a")
    assert s3_store.server_time() is None


def test_a_listing_that_repeats_its_token_ends(s3_store, s3_proxy):
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated>"
        b"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    )
    s3_proxy.rule = lambda request: Reply(200, page, {"Content-Type": "application/xml"})
    with pytest.raises(StorageError, match="can't go on"):
        list(s3_store.list("w/"))


def test_folder_markers_are_not_objects(s3_store, moto, moto_bucket):
    import boto3

    options = moto.storage_options
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
        region_name="us-east-1",
    )
    base = s3_store.url.removeprefix(f"s3://{moto_bucket}/")
    with contextlib.closing(client):
        for key in ("w/", "w/empty/", "w/a"):
            client.put_object(Bucket=moto_bucket, Key=f"{base}/{key}", Body=b"")
    assert [info.key for info in s3_store.list("")] == ["w/a"]
    assert s3_store.list_folders("w/") == ["empty"]
