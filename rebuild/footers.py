"""The footers of many files: fetched in parallel, read in child processes; here or by an engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.data.footers.read import read_footer
from ..errors import InvalidParquet, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ..catalog.data.footers.parse import ParsedFooter
    from ..catalog.parallel import Engine
    from ..store import ObjectInfo, Store, WideStore


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
    engine: Engine, store: WideStore, infos: Sequence[ObjectInfo]
) -> Generator[FooterOf, None, None]:
    """The footers of files, in order.

    A file that can't be read is a result; a store that fails is an error, since a log rebuilt from
    half of the files would be taken for the whole.

    Args:
        engine: Who reads them.
    Raises:
        StorageError: The store failed.
    Requests: 1 or 2 GET a file.
    """
    return engine.each(_reader, (store,), infos, len(infos))


def _reader(store: Store) -> Callable[[ObjectInfo], FooterOf]:
    return partial(_read, store)


def _read(store: Store, info: ObjectInfo) -> FooterOf:
    try:
        return FooterOf(info, read_footer(store, info.key, info.size_bytes))
    except InvalidParquet as error:
        # Its cause says the same without the key, which the report shows anyway.
        return FooterOf(info, None, str(error.__cause__ or error.message))
    except ObjectNotFound:
        return FooterOf(info, None, "it was there when the files were listed and is gone now")
