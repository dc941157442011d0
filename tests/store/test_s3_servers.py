"""S3 servers of other kinds, wrong ones and none; and forked processes."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import socket
import time

import pytest
from lakelog.errors import (
    AccessDenied,
    BucketNotFound,
    InvalidUrl,
    StorageError,
    UsageError,
)
from lakelog.store import open_store, probe
from lakelog.store.object_store import RetryPolicy
from lakelog.testing.fault_proxy import Reply
from lakelog.testing.servers import moto_server

pytestmark = pytest.mark.s3


# --- other servers, no servers --------------------------------------------------------------------


def test_a_store_that_ignores_the_condition_is_found_out(rclone_s3):
    store = open_store(f"s3://{rclone_s3.make_bucket()}/root", rclone_s3.storage_options)
    found = probe(store, "w/")
    assert found.put_if_absent is False
    assert "ignored" in found.detail
    store.delete([info.key for info in store.list("")])
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


def test_a_page_that_is_no_store_is_not_an_empty_one(s3_store, s3_proxy):
    s3_proxy.rule = lambda request: Reply(404, b"<html>Not Found</html>")
    with pytest.raises(StorageError, match="no s3 store"):
        list(s3_store.list("w/"))
    s3_proxy.rule = lambda request: Reply(
        200, b"<html>Welcome</html>", {"Content-Type": "text/html"}
    )
    calls = [
        lambda: list(s3_store.list("w/")),
        lambda: s3_store.list_folders("w/"),
        lambda: s3_store.put("w/a", b"1"),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="no s3 store"):
            call()


# --- processes ------------------------------------------------------------------------------------


def _read_in_child(store, queue):
    queue.put(store.get("w/a"))


def test_a_store_works_in_a_forked_child(s3_store):
    gc.collect()  # s3fs ends dropped file systems with a second's wait each, in the child too
    s3_store.put("w/a", b"1")  # the parent's event loop runs
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(s3_store, queue))
    child.start()
    child.join(30)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()
    assert queue.get() == b"1"
    assert s3_store.get("w/a") == b"1"
