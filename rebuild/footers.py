"""The footers of many files: fetched in parallel by this process, read in child processes."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.data.footers.read import read_footer
from ..catalog.parallel import AT_ONCE
from ..errors import InvalidParquet, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..catalog.data.footers.parse import ParsedFooter
    from ..store import ObjectInfo, Store

_AHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class FooterOf:
    """What reading one file's footer gave.

    Attributes:
        info: The object, as listed.
        parsed: Its footer; None if it can't be used.
        problem: Why not, in words.
    """

    info: ObjectInfo
    parsed: ParsedFooter | None
    problem: str = ""


def read_footers(
    store: Store, infos: Sequence[ObjectInfo], *, at_once: int = AT_ONCE
) -> Iterator[FooterOf]:
    """The footers of files, in order, a few ahead of the reader if several are read at once.

    A file that can't be read is a result; a store that fails is an error, since a log rebuilt from
    half of the files would be taken for the whole.

    Raises:
        StorageError: The store failed.
    Requests: 1 or 2 GET a file.
    """
    if at_once < 2:
        yield from (_read(store, info) for info in infos)
        return
    waiting: deque[Future[FooterOf]] = deque()
    rest = iter(infos)
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="lakelog-footers")
    try:
        while True:
            while len(waiting) < _AHEAD and (info := next(rest, None)) is not None:
                waiting.append(pool.submit(_read, store, info))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _read(store: Store, info: ObjectInfo) -> FooterOf:
    try:
        return FooterOf(info, read_footer(store, info.key, info.size_bytes))
    except InvalidParquet as error:
        # Its cause says the same without the key, which the report shows anyway.
        return FooterOf(info, None, str(error.__cause__ or error.message))
    except ObjectNotFound:
        return FooterOf(info, None, "it was there when the files were listed and is gone now")
