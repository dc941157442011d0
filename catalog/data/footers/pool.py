"""A few child processes that read footers, so that a malformed one can't harm this process.

Children start when first needed, about 0.1 s each, and stay for the next footers. Any number of
threads may ask; each child serves one at a time. A fork of this process starts children of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from typing import Final

from ....errors import LakelogError
from ...ambient import SYSTEM
from .child import DIED, DONE, READY, REFUSED, REPLY, REQUEST
from .parse import NotParquet, ParsedFooter, decode_parsed

START_LIMIT_S: Final = 60.0
PARSE_LIMIT_S: Final = 90.0
_MAX_REPLY_BYTES: Final = 1 << 30
_TRIES: Final = 2
# The root package without its `__init__`, from where this process has it, and no numpy, which Arrow
# can do without: both take longer than reading a footer. Without `site`: PYTHONPATH says all.
_START: Final = """
import sys
from importlib import import_module
name, path, module = sys.argv[1:]
sys.modules["numpy"] = None
sys.modules[name] = root = type(sys)(name)
root.__path__ = [path]
import_module(module).main()
"""
# The child parses bytes of unknown origin: it gets no credentials.
_ENVIRONMENT: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME"),
)


class _Lost(Exception):
    """The child can't be used any more; the request may be tried with another one."""


class _Slow(Exception):
    """The child took too long."""


class _Child:
    """One child process and the two pipes to it."""

    def __init__(self) -> None:
        root = __name__.partition(".")[0]
        self._module = __name__.rpartition(".")[0] + ".child"
        path = sys.modules[root].__path__[0]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-S", "-c", _START, root, path, self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            process_group=0,  # the terminal's Ctrl-C is for this process alone
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._source = self._process.stdout.fileno()
        self._sink = self._process.stdin.fileno()
        os.set_blocking(self._sink, False)
        self._number = 0
        self._started_s = SYSTEM.monotonic_s()
        self._ready = False

    def _await_start(self) -> None:
        """Until it has imported what it needs.

        Raises:
            LakelogError: It can't.
        """
        assert self._process.stderr is not None
        try:
            status, _ = self._receive(0, self._started_s + START_LIMIT_S)
            if status != READY:
                raise _Lost
        except (_Lost, _Slow):
            self._end()
            said = self._process.stderr.read().decode("utf-8", "replace").strip()
            raise LakelogError(
                "The process that reads Parquet footers doesn't start: "
                f"{said.splitlines()[-1] if said else 'it says nothing'}",
                hint=f"Try it by hand: {sys.executable} -m {self._module}",
            ) from None
        finally:
            self._process.stderr.close()  # from here on the child writes it to nowhere
        self._ready = True

    def ask(self, tail: bytes, size_bytes: int) -> tuple[int, bytes]:
        """The status and body of the reply to one footer.

        Raises:
            _Lost, _Slow: Kill it.
            LakelogError: It doesn't start.
        """
        if not self._ready:
            self._await_start()
        self._number = self._number % 0xFFFFFFFF + 1
        deadline_s = SYSTEM.monotonic_s() + PARSE_LIMIT_S
        self._send(REQUEST.pack(self._number, size_bytes, len(tail)) + tail, deadline_s)
        return self._receive(self._number, deadline_s)

    def kill(self) -> None:
        """End it, and the fork that serves."""
        self._end()
        self._close()

    def _end(self) -> None:
        if self._process.returncode is not None:
            return  # its number may be another process's by now
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()

    def abandon(self) -> None:
        """In a fork of this process: let go of the pipes; the child is the parent's."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _send(self, data: bytes, deadline_s: float) -> None:
        view = memoryview(data)
        while view:
            _wait(self._sink, select.POLLOUT, deadline_s)
            try:
                view = view[os.write(self._sink, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _Lost from error

    def _receive(self, number: int, deadline_s: float) -> tuple[int, bytes]:
        found, status, length = REPLY.unpack(self._read(REPLY.size, deadline_s))
        if found != number or length > _MAX_REPLY_BYTES:
            raise _Lost
        return status, self._read(length, deadline_s)

    def _read(self, length: int, deadline_s: float) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            _wait(self._source, select.POLLIN, deadline_s)
            piece = os.read(self._source, min(length - len(parts), 1 << 20))
            if not piece:
                raise _Lost
            parts += piece
        return bytes(parts)


def _wait(pipe: int, what: int, deadline_s: float) -> None:
    waiter = select.poll()
    waiter.register(pipe, what)
    left_s = deadline_s - SYSTEM.monotonic_s()
    if left_s <= 0 or not waiter.poll(left_s * 1000):
        raise _Slow


def _environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    # The same modules as here, however they were found.
    found["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    found["OPENBLAS_NUM_THREADS"] = found["OMP_NUM_THREADS"] = "1"
    return found


class FooterPool:
    """Child processes, as many as there are cores.

    Args:
        size: How many at most.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or os.cpu_count() or 1
        self._places = threading.BoundedSemaphore(self.size)
        self._guard = threading.Lock()
        self._idle: list[_Child] = []
        self._closed = False

    def parse(self, tail: bytes, size_bytes: int) -> ParsedFooter:
        """Read one footer in a child.

        Args:
            tail: The end of the file, with the whole footer in it.
            size_bytes: Of the whole file.
        Raises:
            NotParquet: It can't be used, or killed its reader; says why.
            LakelogError: No child could be started.
        """
        with self._places:
            for _ in range(_TRIES):
                try:
                    status, body = self._ask(tail, size_bytes)
                except _Slow:
                    raise NotParquet(f"reading its footer takes over {PARSE_LIMIT_S} s") from None
                except _Lost:
                    continue  # ended from outside, as it seems: the footer is not to blame
                if status == DONE:
                    return decode_parsed(body)
                text = body.decode("utf-8", "replace")
                if status == DIED and "SIGKILL" in text:
                    continue  # as above: out of memory, or an operator
                if status in {REFUSED, DIED}:
                    raise NotParquet(text)
        raise NotParquet("its reader was killed, twice")

    def start(self) -> None:
        """Start a child for the next footer, if there is none; don't wait for it."""
        with self._guard:
            if not self._idle and not self._closed:
                self._idle.append(_Child())

    def _ask(self, tail: bytes, size_bytes: int) -> tuple[int, bytes]:
        with self._guard:
            child = self._idle.pop() if self._idle else None
        child = child or _Child()
        try:
            answer = child.ask(tail, size_bytes)
        except BaseException:  # an interrupt, too, leaves the pipes in the middle of a message
            child.kill()
            raise
        with self._guard:
            if not self._closed:
                self._idle.append(child)
                return answer
        child.kill()
        return answer

    def close(self) -> None:
        """End the children."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()

    def abandon(self) -> None:
        """In a fork of this process: let go of the parent's children."""
        for child in self._idle:
            child.abandon()
        self._idle = []


class _Shared:
    pool: FooterPool | None = None
    size: int | None = None
    guard = threading.Lock()


def footer_pool() -> FooterPool:
    """The pool of this process, made when first asked for."""
    with _Shared.guard:
        if _Shared.pool is None:
            _Shared.pool = FooterPool(_Shared.size)
        return _Shared.pool


def limit_pool(size: int) -> None:
    """At most so many children, if there are none yet: for one of many processes of a machine."""
    with _Shared.guard:
        _Shared.size = size


def close_pool() -> None:
    """End the children of this process; the next footer starts new ones."""
    with _Shared.guard:
        pool, _Shared.pool = _Shared.pool, None
    if pool is not None:
        pool.close()


def _after_fork() -> None:
    # Another thread may have held the lock, or a child, at the moment of the fork.
    pool, _Shared.pool, _Shared.guard = _Shared.pool, None, threading.Lock()
    if pool is not None:
        pool.abandon()


atexit.register(close_pool)
os.register_at_fork(after_in_child=_after_fork)
