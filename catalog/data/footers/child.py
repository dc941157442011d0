"""The process that reads footers of unknown origin; `pool` starts it.

It imports what it needs once, which is what a first footer waits for: neither numpy, which Arrow
can do without, nor Arrow's file systems are among it. Then it forks; the fork serves requests,
under limits of memory and time, until a footer kills it. The original only waits: it reports which
request the fork died on, and forks again, which takes milliseconds. Both end when standard input
does.

A request: number (u32), size of the file (u64), length (u32), the file's last bytes.
A reply: number (u32), status (u8), length (u32), body.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
import struct
from typing import Final

from .parse import MAX_FOOTER_BYTES, encode_parsed, parse_footer

REQUEST: Final = struct.Struct("<IQI")
REPLY: Final = struct.Struct("<IBI")
READY, DONE, REFUSED, DIED = 0, 1, 2, 3
CPU_LIMIT_S: Final = 30
MEMORY_LIMIT_BYTES: Final = 4 << 30
_MESSAGE_CHARS: Final = 500
_OUT_OF_STEP: Final = 3


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = 0, os.dup(1)
    current = mmap.mmap(-1, REQUEST.size)  # shared with the fork: the request it works on
    _import_all()
    _reply(sink, 0, READY, b"")
    with open(os.devnull, "r+b", buffering=0) as nowhere:
        for stream in (1, 2):  # an abort prints; nobody reads it
            os.dup2(nowhere.fileno(), stream)
    while True:
        fork = os.fork()
        if fork == 0:
            _limit()
            os._exit(_serve(source, sink, current))
        _, status = os.waitpid(fork, 0)
        number = int.from_bytes(current[:4], "little")
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) in {0, _OUT_OF_STEP}:
            return
        if number:
            _reply(sink, number, DIED, _cause(status).encode())
        current[:4] = bytes(4)


def _import_all() -> None:
    import pyarrow as pa

    from .. import parquet
    from .parse import metadata_reader

    assert parquet is not None
    metadata_reader()
    pa.set_cpu_count(1)


def _limit() -> None:
    for kind, amount in (
        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        with contextlib.suppress(ValueError, OSError):  # a limit that is lower already stays
            resource.setrlimit(kind, (amount, amount))


def _serve(source: int, sink: int, current: mmap.mmap) -> int:
    while True:
        head = _read(source, REQUEST.size)
        if not head:
            return 0
        if len(head) < REQUEST.size:
            return _OUT_OF_STEP
        number, size_bytes, length = REQUEST.unpack(head)
        if length > MAX_FOOTER_BYTES or not number:
            return _OUT_OF_STEP
        tail = _read(source, length)
        if len(tail) < length:
            return _OUT_OF_STEP
        current[:4] = number.to_bytes(4, "little")
        _limit_cpu()
        status, body = _answer(tail, size_bytes)
        current[:4] = bytes(4)
        _reply(sink, number, status, body)


def _answer(tail: bytes, size_bytes: int) -> tuple[int, bytes]:
    try:
        return DONE, encode_parsed(parse_footer(tail, size_bytes))
    except MemoryError:
        return REFUSED, b"reading its footer takes too much memory"
    except Exception as error:  # whatever the library throws at malformed bytes
        text = str(error) or type(error).__name__
        return REFUSED, text[:_MESSAGE_CHARS].encode("utf-8", "replace")


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + CPU_LIMIT_S
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        if name == "SIGXCPU":
            return f"reading its footer takes more than {CPU_LIMIT_S} s"
        return f"the Parquet library dies of its footer ({name})"
    return f"the Parquet library dies of its footer (exit code {os.WEXITSTATUS(status)})"


def _read(source: int, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        piece = os.read(source, min(length - len(parts), 1 << 20))
        if not piece:
            break
        parts += piece
    return bytes(parts)


def _reply(sink: int, number: int, status: int, body: bytes) -> None:
    view = memoryview(REPLY.pack(number, status, len(body)) + body)
    while view:
        view = view[os.write(sink, view) :]


if __name__ == "__main__":
    main()
