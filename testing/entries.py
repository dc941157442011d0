"""What the annals of a log note (`annals.py`): what stood, what was meant, what it was begun on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..catalog.commit.transaction import Transaction
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
    """

    incarnation: int
    revision: int
    ids: frozenset[bytes]
    live: frozenset[str] | None
    adds: frozenset[str]
    previous: bytes
    is_seal: bool


class Meant(NamedTuple):
    """What a committer wants with one transaction: files that come, files that go, and what it
    asked for of the table whose rows are looked at."""

    adds: frozenset[str]
    removes: frozenset[str]
    asked: Asked | None = None


Base = tuple[int, int, bytes]  # incarnation, revision, and the id of the last transaction


def base_of(tx: Transaction) -> Base:
    """The head that a transaction was begun on."""
    log = tx._session.log
    revision, transaction_id = tx._base[:2]
    return log.incarnation, revision, transaction_id


def live_files(state: State) -> frozenset[str]:
    """All live paths of a state."""
    return frozenset(path for paths in state.files.paths() for path in paths.to_pylist())
