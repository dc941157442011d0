"""What the annals of a log note (`annals.py`): what stood, what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..catalog.log.state import State
    from .shown_rows import Asked


class Entry(NamedTuple):
    """A transaction object that stood.

    Attributes:
        incarnation, revision: Its place.
        ids: Of the transactions in it.
        live: Paths after it; None if that isn't known.
        adds: Paths that it adds.
        previous: The digest of the one before.
        is_seal: Whether it seals its incarnation.
        epoch: Its own.
        removes: Paths that it takes out.
        log_id: Of its log.
    """

    incarnation: int
    revision: int
    ids: frozenset[bytes]
    live: frozenset[str] | None
    adds: frozenset[str]
    previous: bytes
    is_seal: bool
    epoch: int = 0
    removes: frozenset[str] = frozenset()
    log_id: bytes = b""


class Meant(NamedTuple):
    """What a committer wants with one transaction: files that come, files that go, and what it
    asked for of the table whose rows are looked at."""

    adds: frozenset[str]
    removes: frozenset[str]
    asked: Asked | None = None


def live_files(state: State) -> frozenset[str]:
    """All live paths of a state."""
    return frozenset(path for paths in state.files.paths() for path in paths.to_pylist())
