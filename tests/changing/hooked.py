"""A store that lets a test do something right before a request, or right after a put."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakelog.testing.doubles import PassingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakelog.store import ObjectInfo, Store


class HookedStore(PassingStore):
    """Passes all on; calls `before(request, key)` before each put.

    Attributes:
        after: Called once, right after the next put.
    """

    def __init__(self, store: Store, before: Callable[[str, str], None]) -> None:
        super().__init__(store)
        self.before = before
        self.after: Callable[[], Any] | None = None

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self.before("put", key)
        super().put(key, body, if_absent=if_absent)
        after, self.after = self.after, None
        if after is not None:
            after()


class SlowListing(PassingStore):
    """The next listing of one folder takes so long that something happens meanwhile: what comes and
    what goes then isn't shown."""

    def __init__(self, store: Store, prefix: str, meanwhile: Callable[[], Any]) -> None:
        super().__init__(store)
        self.prefix = prefix
        self.meanwhile: Callable[[], Any] | None = meanwhile

    def list(self, prefix: str, **options: Any) -> Iterator[ObjectInfo]:
        if prefix != self.prefix or self.meanwhile is None:
            yield from self.inner.list(prefix, **options)
            return
        happens, self.meanwhile = self.meanwhile, None
        before = list(self.inner.list(prefix, **options))
        happens()
        after = {info.key for info in self.inner.list(prefix, **options)}
        yield from (info for info in before if info.key in after)
