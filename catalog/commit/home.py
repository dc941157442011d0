"""Where a transaction writes what is its own: what it takes to put a file and to say in it whose it
is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...store import Capabilities, Store
    from ..format.frame import LogIdentity


class Home(Protocol):
    """An open log, as far as files are concerned: a `Session`, whose docstrings hold.

    Attributes:
        writer_id, database: Whose log.
        store: Where it lies.
        capabilities: What the probe found.
    """

    writer_id: str
    database: str
    store: Store
    capabilities: Capabilities

    @property
    def log(self) -> LogIdentity: ...

    @property
    def slot_seed(self) -> bytes: ...

    @property
    def in_background(self) -> bool: ...

    def refuse_fenced(self) -> None: ...

    def base(self, app_id: str) -> tuple[int, bytes, int]: ...

    def clock(self) -> tuple[int, int]: ...
