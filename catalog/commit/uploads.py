"""Data files of one transaction on their way to the store, several at a time, while the next one is
being encoded.

The first file is put before the call returns: a transaction of one file starts no thread and learns
of a failure at once. From the second one on files go to a few threads, and `wait`, which the commit
asks, comes back only when all are durable. A file that could not be put spoils the transaction: its
failure is raised by every call from there on.

Source: docs/format.md, section 10: data files are durable before the transaction that names them.
"""

from __future__ import annotations

import os
import threading
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from ...errors import ObjectExists, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

AT_ONCE: Final = 16
MOST_FILES: Final = 64  # that wait or are under way
MOST_BYTES: Final = 128 << 20  # of these; a larger file goes alone


class Uploads:
    """Not safe for threads: one transaction's, which one thread uses.

    Args:
        put: Brings one file into the store: key and bytes. Returns whether it was not there before.
        in_background: Whether threads may; else each file is put before the call returns.
    """

    def __init__(self, put: Callable[[str, bytes], bool], *, in_background: bool) -> None:
        self._put = put
        self._in_background = in_background
        self._process = os.getpid()
        self._pool: ThreadPoolExecutor | None = None
        self._any = False
        self._under_way: list[Future[None]] = []  # in the order of the files
        self._room = threading.Condition()
        self._files = self._bytes = 0  # not yet put
        self._failure: BaseException | None = None
        self.keys: set[str] = set()  # of all that it has put, or begun to put, and that is its own

    def add(self, key: str, body: bytes) -> None:
        """Put a file, now or soon. Waits while too many are under way.

        Raises:
            LakelogError: This file, or one before it, could not be put.
        """
        self._check()
        self.keys.add(key)
        if not (self._in_background and self._any):
            self._bring(key, body)
            self._any = True
            return
        size = len(body)
        with self._room:
            while self._files and (self._files >= MOST_FILES or self._bytes + size > MOST_BYTES):
                self._room.wait()
            self._check()
            self._files, self._bytes = self._files + 1, self._bytes + size
        if len(self._under_way) > 2 * MOST_FILES:
            self._under_way = [upload for upload in self._under_way if not upload.done()]
        try:
            self._under_way.append(self._threads().submit(self._one, key, body))
        except BaseException:
            self._leave(size)
            raise

    def wait(self) -> None:
        """Until every file is in the store. Can be called again after an interrupt.

        Raises:
            LakelogError: One could not be put.
        """
        self._check()
        for upload in self._under_way:
            upload.result()
        self._end()
        self._check()

    def abandon(self) -> None:
        """Put nothing more; what is under way is waited for."""
        if self._process == os.getpid():
            for upload in self._under_way:
                upload.cancel()
            self._end()

    def _end(self) -> None:
        self._under_way = []
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _bring(self, key: str, body: bytes) -> None:
        try:
            if self._put(key, body):
                return
        except ObjectExists:
            self.keys.discard(key)
            raise
        self.keys.discard(key)  # perhaps another process has put it, and will commit it

    def _one(self, key: str, body: bytes) -> None:
        try:
            if self._failure is None:  # else the transaction is lost anyway
                self._bring(key, body)
        except BaseException as error:
            with self._room:
                self._failure = self._failure or error
        finally:
            self._leave(len(body))

    def _leave(self, size: int) -> None:
        with self._room:
            self._files, self._bytes = self._files - 1, self._bytes - size
            self._room.notify()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                "This transaction was begun by another process, which this one was forked from",
                hint="Open the writer, and begin the transaction, in the process that uses it",
            )
        if self._failure is not None:
            raise copy(self._failure)  # a new one each time: tracebacks would pile up in it

    def _threads(self) -> Any:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="lakelog-upload")
        return self._pool
