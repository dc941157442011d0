"""The test servers end with their parent, however it ends: nothing may stay behind on a machine."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import pytest
from lakelog.errors import StorageError
from lakelog.testing.servers import serve

START = """
import sys, time
from lakelog.testing.servers import rclone_s3_server
with rclone_s3_server() as server:
    print(server.endpoint_url, flush=True)
    if sys.argv[1] == "wait":
        time.sleep(600)
"""


def listens(url: str) -> bool:
    address = urllib.parse.urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((address.hostname, address.port)) == 0


@pytest.mark.parametrize("how", ["killed", "done"])
def test_a_server_ends_with_its_parent(how):
    command = [sys.executable, "-c", START, "wait" if how == "killed" else "end"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        url = parent.stdout.readline().strip()
        if how == "killed":
            assert listens(url)
            parent.send_signal(signal.SIGKILL)
        parent.wait(60)
    deadline_s = time.monotonic() + 20
    while listens(url) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not listens(url)


def test_a_server_that_does_not_start_says_why():
    def command(port: int) -> list[str]:
        return ["/bin/sh", "-c", "echo the reason; exit 3"]

    with pytest.raises(StorageError, match="the reason"), serve(command, {}):
        pass


CREDENTIALS = "Credential=testing/20200101/us-east-1/s3/aws4_request"
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 {CREDENTIALS}, SignedHeaders=host, Signature=0"}
SUM = {"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": "AAAAAA=="}
QUESTIONS = [
    ("GET", "/bucket", f"{version}{query}", {})
    for version in ("list-type=2&", "")
    for query in (
        "prefix=a%2F&encoding-type=url",
        "prefix=a%2F",
        "prefix=nothing",
        "max-keys=3",
        "fetch-owner=true&max-keys=3",
        "delimiter=%2F",
        "start-after=a/5",
    )
] + [
    ("GET", "/bucket/nothing", "", {}),
    ("GET", "/no-bucket/nothing", "", {}),
    ("PUT", "/bucket/a/0", "", {"If-None-Match": "*"}),
]
CHANCE = re.compile(rb"<(RequestId|NextContinuationToken)>.*?</")


def test_moto_that_is_made_quicker_gives_the_same_answers(monkeypatch):
    from lakelog.testing import moto_quick
    from moto import backends
    from moto.core import errors, serialize
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.test import Client

    changed = [
        (backends, "list_of_moto_modules"),
        (errors, "ErrorLookupFactory"),
        (serialize.S3Serializer, "_serialize_type_list"),
        (serialize.TimestampSerializer, "_convert_timestamp_to_str"),
    ]
    for owner, name in changed:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
    client = Client(DomainDispatcherApplication(create_backend_app))

    def ask(method, path, query="", headers=None, body=b""):
        told = SIGNED | (headers or {})
        answer = client.open(path, method=method, query_string=query, headers=told, data=body)
        return answer.status_code, CHANCE.sub(b"", answer.data)

    assert ask("PUT", "/bucket") == (200, b"")
    for number in range(10):
        ask("PUT", f"/bucket/a/{number} é<&", "", SUM if number % 2 else {}, b"x" * number)
    ask("PUT", "/bucket/a/0")
    before = [ask(*question) for question in QUESTIONS]
    moto_quick.quicken()
    assert [vars(owner)[name].__module__ for owner, name in changed[2:]] == [
        moto_quick.__name__
    ] * 2
    assert [ask(*question) for question in QUESTIONS] == before
    assert len({body for _, body in before}) > 12, "they are different answers"
