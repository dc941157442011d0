"""Names of data files as the log spells them, on a store that shows them in another spelling.

A file system that folds case or normal forms shows each folder as it was first spelled; the log and
the footers know the spelling that was asked for. A rebuild goes by the latter.

Source: docs/format.md, sections 2 and 8.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.format.folding import fold
from ..catalog.format.locations import is_in_place
from ..catalog.parallel import parallel
from ..errors import ObjectNotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..store import Store

_MOST: Final = 1_000


@dataclass(slots=True)
class Spelling:
    """Who knows which file by which name.

    Attributes:
        store: Where they lie.
        folder: What the paths are relative to.
        listed: All paths, as the store shows them.
        logged: The spelling of the log, by that of the store, where it is another one.
    """

    store: Store
    folder: str
    listed: Collection[str]
    logged: dict[str, str] = field(default_factory=dict)

    def learn(self, named: Iterable[str]) -> None:
        """Find the files of a log among those that are listed.

        Args:
            named: Paths that the log knows.
        Raises:
            StorageError: One is there, and the listing doesn't show it.
        Requests: 1 HEAD for each that is listed in another spelling, or not at all (of these up to
            1,000).
        """
        missing = set(named) - set(self.listed)
        if not missing:
            return
        shown = {fold(path): path for path in self.listed}
        for path in missing:
            if fold(path) in shown:
                self.of(shown[fold(path)], path)
        unseen = sorted(path for path in missing if fold(path) not in shown)
        self._refuse_there([path for path in unseen if not is_in_place(path)][:_MOST])

    def _refuse_there(self, paths: Sequence[str]) -> None:
        keys = [self.folder + path for path in paths]
        there = parallel(partial(is_there, self.store), keys)
        for key in itertools.compress(keys, there):
            raise StorageError(
                f"The store's listing doesn't show {key}, which is there",
                key=key,
                hint="Plan the rebuild again. If listings go on to lack it, the log would lose it: "
                "copy the catalog to another store, and rebuild there",
            )

    def of(self, path: str, name: str) -> str:
        """The name of a listed file: `name`, if that is another spelling of its path to the store.

        Requests: 1 HEAD if it may be.
        """
        if path == name or path in self.logged or name in self.listed:
            return self.logged.get(path, path)
        if fold(path) == fold(name) and is_there(self.store, self.folder + name):
            self.logged[path] = name
        return self.logged.get(path, path)


def is_there(store: Store, key: str) -> bool:
    """Whether a store finds an object under a key, however it shows it.

    Requests: 1 HEAD.
    """
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True
