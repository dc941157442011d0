"""Credentials never show: a canary in each option that could hold one, and all that prints."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback

import pytest
from lakelog.errors import InvalidUrl, LakelogError
from lakelog.store import open_store
from lakelog.store.object_store import SecretOptions
from lakelog.testing.counting import CountingStore
from lakelog.testing.fault_proxy import Reply, fault_proxy

pytestmark = pytest.mark.s3

CANARY = "c4n4ry-of-the-coal-mine"
SECRETS = {
    "key": f"key-{CANARY}",
    "secret": f"secret-{CANARY}",
    "token": f"token-{CANARY}",
}


def everything_shown(error: BaseException) -> str:
    parts = [str(error), repr(error), *traceback.format_exception(error)]
    while error is not None:
        parts += [str(error), repr(error), repr(getattr(error, "__dict__", None))]
        error = error.__cause__
    return "\n".join(parts)


@pytest.fixture
def echo(moto):
    """A server that says in its error whatever it was told: headers with the key, the token."""

    def rule(request):
        told = " ".join(f"{name}={value}" for name, value in request.headers.items())
        body = f"<Error><Code>AccessDenied</Code><Message>you sent {told}</Message></Error>"
        return Reply(403, body.encode(), {"Content-Type": "application/xml"})

    with fault_proxy(moto.endpoint_url) as proxy:
        proxy.rule = rule
        yield proxy


def failing_calls(store):
    return [
        lambda: store.put("w/a", b"1"),
        lambda: store.get("w/a"),
        lambda: store.get_many(["w/a"]),
        lambda: list(store.list("")),
        lambda: store.list_folders(""),
        lambda: store.delete(["w/a"]),
        lambda: store.delete(["w/a"], ordered=False),
    ]


def test_an_error_that_repeats_the_credentials_is_redacted(echo):
    options = SECRETS | {"endpoint_url": echo.endpoint_url}
    store = open_store("s3://bucket/root", options)
    for call in failing_calls(store):
        with pytest.raises(LakelogError) as caught:
            call()
        assert CANARY not in everything_shown(caught.value)
        assert "you sent" in str(caught.value)  # the rest of the message is kept
        assert "***" in str(caught.value)
        assert CANARY not in repr(pickle.dumps(caught.value))


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint_url": "http://127.0.0.1:1"},
        {"endpoint_url": f"http://user:{CANARY}@127.0.0.1:1"},
        {"endpoint_url": f"not a url://user:{CANARY}@x"},
        {"bogus": CANARY, "bogus_password": CANARY},
        {"client_kwargs": {"aws_session_token": CANARY, "bogus_secret": [CANARY]}},
        {"config_kwargs": {"bogus_key": CANARY}},
    ],
    ids=["unreachable", "in the endpoint", "no endpoint", "unknown", "client", "config"],
)
def test_a_failure_to_connect_shows_no_secret(wrong):
    store = open_store("s3://bucket/root", SECRETS | wrong)
    with pytest.raises(LakelogError) as caught:
        list(store.list(""))
    assert CANARY not in everything_shown(caught.value)


def test_a_store_shows_no_secret(moto, moto_bucket, caplog):
    caplog.set_level(logging.DEBUG, logger="lakelog")
    options = moto.storage_options | {"token": SECRETS["token"], "secret": SECRETS["secret"]}
    store = open_store(f"s3://{moto_bucket}/secrets", options)
    for shown in (store, CountingStore(store)):
        shown.put("w/a", b"1")
        assert shown.get("w/a") == b"1"
        texts = [str(shown), repr(shown), shown.url, shown.object_url("w/a"), str(vars(shown))]
        assert CANARY not in "".join(texts)
        for serialise in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError) as caught:
                serialise(shown)
            assert CANARY not in everything_shown(caught.value)
    assert CANARY not in repr(store.open_input("w/a"))
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        f"s3://user:{CANARY}@bucket/x",
        f"s3://{CANARY}@bucket/x",
        f"gs://user:{CANARY}@bucket",
        f"abfss://user:{CANARY}@account.dfs.core.windows.net/x",
        f"az://{CANARY}@container/x",
        f"ftp://user:{CANARY}@host/x",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(InvalidUrl) as caught:
        open_store(url)
    assert CANARY not in everything_shown(caught.value)


def test_options_are_copied_and_hidden():
    given = {"key": CANARY, "client_kwargs": {"region_name": "us-east-1"}}
    options = SecretOptions(given)
    given["key"] = "changed"
    assert options.reveal()["key"] == CANARY
    options.reveal()["key"] = "changed"
    assert options.reveal()["key"] == CANARY
    assert CANARY not in repr(options) + str(options) + f"{options!r:>100}"
    with pytest.raises(TypeError):
        pickle.dumps(options)


def test_redaction_knows_names_that_sound_secret():
    options = SecretOptions(
        {
            "account_key": "AAAA1111",
            "connection_string": "BBBB2222",
            "token": {"private": {"deep": ["CCCC3333"]}},
            "client_kwargs": {"aws_session_token": "DDDD4444", "region_name": "us-east-1"},
            "sas_token": "AAAA1111-and-more",
            "endpoint_url": "https://user:EEEE5555@host/",
            "anon": True,
            "password": "abc",
        }
    )
    text = "AAAA1111-and-more AAAA1111 BBBB2222 CCCC3333 DDDD4444 EEEE5555 us-east-1 host abc"
    assert options.redact(text) == "*** *** *** *** *** *** us-east-1 host abc"
