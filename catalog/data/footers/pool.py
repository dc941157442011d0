"""Reads Parquet footers in child processes: a malformed footer can abort the process that reads it.

A child starts when it is first needed, in about 0.1 s, and reads one footer after another, each
within a limit of time, and all within one of memory. If it dies of one, the next footer gets a new
child. It ends when its standard input does, and so with the process that started it.

A request is the size of the file (u64), a length (u32), and the last bytes of the file. A reply is
a status (u8), a length (u32), and a body.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import struct
import sys
import threading
from typing import IO, TYPE_CHECKING, Final

from ....errors import LakelogError
from .parse import (
    NotParquet,
    ParsedFooter,
    decode_parsed,
    encode_parsed,
    is_encrypted,
    parse_footer,
)

if TYPE_CHECKING:
    from subprocess import Popen

START_LIMIT_S: Final = 60
PARSE_LIMIT_S: Final = 90
MEMORY_LIMIT_BYTES: Final = 4 << 30
_MESSAGE_CHARS: Final = 500
_TRIES: Final = 2
_REQUEST: Final = struct.Struct("<QI")
_REPLY: Final = struct.Struct("<BI")
_READY, _DONE, _REFUSED = 0, 1, 2
# Modules are looked for where this process looks for them: import hooks come with `site`, and paths
# are given by themselves, as PYTHONPATH holds none with a colon. The root package comes without its
# `__init__`, and numpy, which Arrow can do without, not at all: both take longer than a footer.
_START: Final = f"""
import json, signal, sys
signal.alarm({START_LIMIT_S})
root, folder, module, path = json.loads(sys.argv[1])
sys.path[:] = path
sys.modules["numpy"] = None
sys.modules[root] = package = type(sys)(root)
package.__path__ = [folder]
from importlib import import_module
import_module(module).serve()
"""
# The child parses bytes of unknown origin: it gets no credentials.
_ENVIRONMENT: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"),
)


# --- The child ------------------------------------------------------------------------------------


def serve() -> None:
    """Answer requests from standard input until it ends."""
    import pyarrow as pa

    from .. import parquet
    from .parse import metadata_reader

    assert parquet is not None
    metadata_reader()
    pa.set_cpu_count(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    signal.alarm(0)  # of the start: the first request may come much later
    _send(sink, _REPLY.pack(_READY, 0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):  # an abort prints; nobody reads it
        os.dup2(nowhere, stream)
    _limit_memory()
    while head := source.read(_REQUEST.size):
        size_bytes, length = _REQUEST.unpack(head)
        signal.alarm(PARSE_LIMIT_S)
        status, body = _answer(source.read(length), size_bytes)
        signal.alarm(0)
        _send(sink, _REPLY.pack(status, len(body)) + body)


def _limit_memory() -> None:
    import resource

    limits = (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES), (resource.RLIMIT_CORE, 0)
    for kind, amount in limits:
        with contextlib.suppress(ValueError, OSError):  # a limit that is lower already stays
            resource.setrlimit(kind, (amount, amount))


def _answer(tail: bytes, size_bytes: int) -> tuple[int, bytes]:
    try:
        return _DONE, encode_parsed(parse_footer(tail, size_bytes))
    except MemoryError:
        return _REFUSED, b"reading its footer takes too much memory"
    except Exception as error:  # whatever the library throws at malformed bytes
        text = str(error) or type(error).__name__
        return _REFUSED, text[:_MESSAGE_CHARS].encode("utf-8", "replace")


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


# --- The process that asks ------------------------------------------------------------------------


class _Died(Exception):
    """The child ended before it answered."""


class _Child:
    """A child process and the pipes to it."""

    def __init__(self) -> None:
        from subprocess import PIPE, Popen

        root, _, _ = __name__.partition(".")
        path = [os.path.abspath(os.fsdecode(entry)) for entry in sys.path]
        modules = json.dumps([root, sys.modules[root].__path__[0], __name__, path])
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["OPENBLAS_NUM_THREADS"] = environment["OMP_NUM_THREADS"] = "1"
        self.process: Popen[bytes] = Popen(
            [sys.executable, "-P", "-c", _START, modules],
            stdin=PIPE, stdout=PIPE, stderr=PIPE,
            env=environment, process_group=0,  # the terminal's Ctrl-C is for this process alone
        )  # fmt: skip
        self._is_ready = False

    def ask(self, tail: bytes, size_bytes: int) -> tuple[int, bytes]:
        """Returns the status and body of the reply to one footer.

        Raises:
            _Died: There is none.
            LakelogError: The child doesn't start.
        """
        if not self._is_ready:
            self._await_start()
        sink = self.process.stdin
        assert sink is not None
        try:
            _send(sink, _REQUEST.pack(size_bytes, len(tail)) + tail)
        except OSError:
            raise _Died from None
        return self._reply()

    def _await_start(self) -> None:
        stderr = self.process.stderr
        assert stderr is not None
        try:
            self._reply()
        except _Died:
            said = stderr.read().decode("utf-8", "replace").strip()
            raise LakelogError(
                "The process that reads Parquet footers doesn't start: "
                f"{said.splitlines()[-1] if said else 'it says nothing'}",
                hint=f"Try it by hand: {sys.executable} -c 'import {__name__}'",
            ) from None
        stderr.close()  # from here on the child writes it to nowhere
        self._is_ready = True

    def _reply(self) -> tuple[int, bytes]:
        source = self.process.stdout
        assert source is not None
        head = source.read(_REPLY.size)
        if len(head) < _REPLY.size:
            raise _Died
        status, length = _REPLY.unpack(head)
        body = source.read(length)
        if len(body) < length:
            raise _Died
        return status, body

    def cause_of_death(self) -> signal.Signals | int:
        """Returns the signal that the child died of, or its exit code."""
        code = self.process.wait()
        return signal.Signals(-code) if code < 0 else code

    def end(self) -> None:
        """End the child, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._close()

    def abandon(self) -> None:
        """Let go of the pipes, in a fork of the process whose child it is."""
        self.process.returncode = 0
        self._close()

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class FooterPool:
    """Child processes, as many as there are cores. Any number of threads may ask.

    Args:
        size: How many at most.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or os.cpu_count() or 1
        self._places = threading.BoundedSemaphore(self.size)
        self._idle: list[_Child] = []  # append and pop are atomic

    def parse(self, tail: bytes, size_bytes: int) -> ParsedFooter:
        """Read one footer in a child.

        Args:
            tail: The end of the file, with the whole footer in it.
            size_bytes: Of the whole file.
        Raises:
            NotParquet: It can't be used, or killed its reader; says why.
            LakelogError: No child could be started.
        """
        with self._places:  # `limit` may replace it meanwhile
            for _ in range(_TRIES):
                child = self._child()
                try:
                    status, body = child.ask(tail, size_bytes)
                except _Died:
                    cause = child.cause_of_death()
                    child.end()
                    if cause != signal.SIGKILL:  # that is the system, out of memory, or an operator
                        if is_encrypted(tail, size_bytes):
                            raise NotParquet("its columns are encrypted") from None
                        raise NotParquet(_blame(cause)) from None
                except BaseException:  # an interrupt leaves the pipes in the middle of a message
                    child.end()
                    raise
                else:
                    self._idle.append(child)
                    if status == _DONE:
                        return decode_parsed(body)
                    raise NotParquet(body.decode("utf-8", "replace"))
        raise NotParquet("its reader was killed, twice")

    def start(self) -> None:
        """Start a child for the next footer, if there is none; don't wait for it."""
        if not self._idle:
            self._idle.append(_Child())

    def _child(self) -> _Child:
        """Returns an idle child that is alive, or a new one."""
        while True:
            try:
                child = self._idle.pop()
            except IndexError:
                return _Child()
            if child.process.poll() is None or not child._is_ready:
                return child
            child.end()

    def close(self) -> None:
        """End the idle children."""
        while self._idle:
            self._idle.pop().end()

    def limit(self, size: int) -> None:
        """Limit the number of children; those that are in use end with their footers."""
        if size != self.size:
            self.close()
            self.size, self._places = size, threading.BoundedSemaphore(size)

    def abandon(self) -> None:
        """Let go of all children, in a fork of the process whose they are."""
        while self._idle:
            self._idle.pop().abandon()
        self._places = threading.BoundedSemaphore(self.size)  # threads that hold it are not here


def _blame(cause: signal.Signals | int) -> str:
    if cause == signal.SIGALRM:
        return f"reading its footer takes over {PARSE_LIMIT_S} s"
    name = cause.name if isinstance(cause, signal.Signals) else f"exit code {cause}"
    return f"the Parquet library dies of its footer ({name})"


_pool: Final = FooterPool()


def footer_pool() -> FooterPool:
    """Returns the pool of this process."""
    return _pool


def limit_pool(size: int) -> None:
    """Limit the number of children: for one of many processes of a machine."""
    _pool.limit(size)


def close_pool() -> None:
    """End the idle children of this process; the next footer starts a new one."""
    _pool.close()


atexit.register(close_pool)
os.register_at_fork(after_in_child=_pool.abandon)
