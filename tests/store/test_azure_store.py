"""The Azure store against Azurite: what the conformance suite doesn't reach."""

from __future__ import annotations

import secrets
from itertools import islice

import pytest
from lakelog.errors import AccessDenied, BucketNotFound, ObjectExists, StorageError
from lakelog.store import open_store
from lakelog.store.azure import AzureStore
from lakelog.store.base import ONE_PUT_BYTES
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.fault_proxy import Reply, fault_proxy


@pytest.fixture
def proxy(azure):
    with fault_proxy(azure.endpoint_url) as running:
        yield running


@pytest.fixture
def store(azure, azure_bucket, proxy):
    connection = azure.storage_options["connection_string"]
    connection = connection.replace(azure.endpoint_url, proxy.endpoint_url)
    url = f"az://{azure_bucket}/faults/{secrets.token_hex(6)}"
    store = open_store(url, {"connection_string": connection})
    store.policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.05)
    return store


@pytest.mark.parametrize("if_absent", [False, True])
def test_a_body_of_the_size_of_log_objects_goes_in_one_put(store, proxy, if_absent):
    """Without `comp=block`: the client would cut what is over 64 MiB, and join the blocks."""
    assert store.one_put_bytes == ONE_PUT_BYTES
    limits = store._blob("w/x")._config
    assert limits.max_single_put_size == ONE_PUT_BYTES
    store.put("w/one", bytes(3_000), if_absent=if_absent)
    assert [line.split()[0] for line in proxy.requests] == ["PUT"]
    proxy.requests.clear()
    limits.max_single_put_size, limits.max_block_size = 1_000, 1_000
    store.put("w/blocks", bytes(3_000), if_absent=if_absent)
    assert len(proxy.requests) == 4, "it is this limit that counts"
    assert store.get("w/blocks") == bytes(3_000)


def azure_error(status: int, code: str) -> Reply:
    return Reply(status, b"", {"x-ms-error-code": code})


def test_each_call_makes_the_requests_it_promises(store, proxy):
    calls = {
        "PUT": lambda: store.put("w/a", b"0123456789", if_absent=True),
        "GET": lambda: store.get("w/a"),
        "HEAD": lambda: store.head("w/a"),
        "DELETE": lambda: store.delete(["w/missing"]),
    }
    for method, call in calls.items():
        proxy.requests.clear()
        call()
        assert [line.split()[0] for line in proxy.requests] == [method]
    for call in (lambda: store.get("w/a", start=2, end=5), lambda: list(store.list("w/"))):
        proxy.requests.clear()
        call()
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    "fault",
    ["lose", "drop", azure_error(503, "ServerBusy"), azure_error(500, "InternalError"), Reply(429)],
    ids=str,
)
def test_a_passing_fault_is_retried_by_us_alone(store, proxy, fault):
    store.put("w/a", b"1")
    for call in (
        lambda: store.get("w/a"),
        lambda: list(store.list("w/")),
        lambda: store.head("w/a"),
    ):
        left = [fault, fault]
        proxy.rule = lambda request, left=left: left.pop() if left else None
        proxy.requests.clear()
        call()
        assert len(proxy.requests) == 3
    proxy.rule = lambda request: fault
    proxy.requests.clear()
    with pytest.raises(StorageError):
        store.put("w/b", b"1")
    # aiohttp repeats a request once by itself when a kept connection turns out to be closed.
    assert len(proxy.requests) in ({6} if isinstance(fault, Reply) else range(6, 13))


def test_pages_are_fetched_on_demand_and_the_first_may_be_small(store, proxy):
    keys = [f"w/log/{number:02d}" for number in range(25)]
    for key in [*keys, "w/log/\uff5e", "w/log/\U0001f986", "w/log-old/x"]:
        store.put(key, b"x")
    seen = []
    proxy.rule = lambda request: seen.append(request.target)
    found = store.list("w/log/", first_page=10)
    assert seen == []
    assert [info.key for info in islice(found, 10)] == keys[:10]
    assert ["maxresults=10" in target for target in seen] == [True]
    # From here on the order is not the server's word any more: it compares UTF-16.
    assert [i.key for i in found] == [*keys[10:], "w/log/\uff5e", "w/log/\U0001f986"]
    assert len(seen) == 2


def test_a_lost_answer_to_put_if_absent_shows_as_exists(store, proxy):
    left = ["lose"]
    proxy.rule = lambda request: left.pop() if left else None
    with pytest.raises(ObjectExists):
        store.put("w/slot", b"mine", if_absent=True)
    assert store.get("w/slot") == b"mine"


def test_a_refusal_is_final(store, proxy):
    proxy.rule = lambda request: azure_error(403, "AuthorizationFailure")
    for call in (
        lambda: store.put("w/a", b"1"),
        lambda: store.get("w/a"),
        lambda: list(store.list("")),
    ):
        proxy.requests.clear()
        with pytest.raises(AccessDenied, match="AuthorizationFailure"):
            call()
        assert len(proxy.requests) == 1


def test_a_missing_container_is_named(azure):
    store = open_store("az://no-such-container/x", azure.storage_options)
    for call in (
        lambda: list(store.list("")),
        lambda: store.put("w/a", b"1"),
        lambda: store.get("w/a"),
    ):
        with pytest.raises(BucketNotFound, match="az://no-such-container/x"):
            call()


def test_the_account_of_an_abfss_url_is_used():
    url = "abfss://container@account.dfs.core.windows.net/some/path"
    store = open_store(url, {"account_key": "c2VjcmV0"})
    assert isinstance(store, AzureStore)
    assert store.url == url
    assert store.object_url("w/a") == f"{url}/w/a"
    assert store._filesystem.account_name == "account"
    assert store._container.url == "https://account.blob.core.windows.net/container"
