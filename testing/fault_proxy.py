"""An HTTP proxy before a real S3 server that loses answers, refuses, cuts short and forgets.

What a simulated client library would hide happens for real: s3fs and botocore are in the test.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socket
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass
class Request:
    """One request as it came; a rule may change it before it is passed on.

    Attributes:
        method: `GET`, `PUT` and so on.
        target: Path and query.
        headers: Lower-case names.
        body: As it came over the wire.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The decoded path."""
        return urllib.parse.unquote(self.target.split("?", 1)[0])


@dataclass(frozen=True)
class Reply:
    """An answer of the proxy's own.

    Attributes:
        status: HTTP status.
        body: Its body; for S3 an XML error.
        headers: More headers.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


# None: pass on. "lose": pass on, then close without an answer. "drop": close without passing on.
# "cut": pass on, then close in the middle of the answer's body. A function: pass on, and answer
# what it makes of the answer (or close, if it makes "lose" of it).
Change: TypeAlias = "Callable[[Reply], Reply | Literal['lose']]"
Fault: TypeAlias = "Reply | Literal['lose', 'drop', 'cut'] | Change | None"


@dataclass
class FaultProxy:
    """A running proxy.

    Attributes:
        endpoint_url: Where it listens.
        rule: Called for each request, from several threads; decides its fate.
        requests: All that came, in order, as `METHOD path`.
    """

    endpoint_url: str
    rule: Callable[[Request], Fault] = lambda request: None
    requests: list[str] = field(default_factory=list)


def s3_error(status: int, code: str, **fields: str) -> Reply:
    """An S3 error answer."""
    more = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    body = f"<Error><Code>{code}</Code><Message>made by a test</Message>{more}</Error>"
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


@contextlib.contextmanager
def fault_proxy(upstream_url: str) -> Iterator[FaultProxy]:
    """Run a proxy on a free port of 127.0.0.1.

    Args:
        upstream_url: `http://host:port` of the server behind; it must not check signatures if a
            rule changes requests.
    """
    upstream = urllib.parse.urlsplit(upstream_url).netloc

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # the client hung up: part of the game

    class Handler(_Handler):
        target_host = upstream

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}")
        Handler.proxy = proxy
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target_host: str
    proxy: FaultProxy

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        self.proxy.requests.append(f"{request.method} {request.path}")
        fault = self.proxy.rule(request)
        if fault == "drop":
            self._hang_up()
        elif isinstance(fault, Reply):
            self._answer(fault)
        else:
            answer = self._pass_on(request)
            reply = fault(answer) if callable(fault) else answer
            if fault == "lose" or reply == "lose":
                self._hang_up()
            else:
                assert isinstance(reply, Reply)
                self._answer(reply, cut=fault == "cut")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _pass_on(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection(self.target_host, timeout=30)
        with contextlib.closing(connection):
            headers = {k: v for k, v in request.headers.items() if k not in {"expect"}}
            connection.request(request.method, request.target, request.body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), dict(answer.getheaders()))

    def _answer(self, reply: Reply, *, cut: bool = False) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        length = str(len(reply.body))
        if self.command == "HEAD":
            length = reply.headers.get("Content-Length", length)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: len(reply.body) // 2] if cut else reply.body)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass
