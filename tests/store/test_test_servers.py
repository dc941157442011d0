"""The test servers end with their parent, however it ends: nothing may stay behind on a machine."""

from __future__ import annotations

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
