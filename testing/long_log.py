"""A log of a million transactions that is never written: names are made up as a listing reaches
them, and the few objects that a reader needs are real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import Kind, LogObject, data_path, log_folder, parse_log_object
from ..catalog.format.objects import decode_transaction
from ..catalog.log.build import Intent, build_transaction
from ..catalog.log.checkpoint import encode_state
from ..catalog.log.replay import apply
from ..catalog.log.state import State
from ..store.base import PAGE_KEYS, ObjectInfo
from .doubles import START_US, PassingStore
from .logs import add_action, schema_action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.base import Store

LENGTH: Final = 1_000_000
EVERY: Final = 16  # revisions between checkpoints
WRITER, DATABASE = "w", "db"
_STEP_US: Final = 1_000_000


def time_of(revision: int) -> int:
    """When a revision was committed, in µs."""
    return START_US + revision * _STEP_US


class LongLog(PassingStore):
    """Shows a store's objects, and above and below them the names of a log of a million revisions.

    Args:
        store: Takes the real objects, of the stretches that `make_real` is asked for.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._folder = log_folder(WRITER, DATABASE)
        self._real: dict[tuple[int, str], str] = {}  # by revision and kind: names
        self._head = LENGTH - 1

    def make_real(self, first: int, last: int) -> None:
        """Write the transactions of some revisions, a second apart, with a file each; and the
        checkpoints that are due in them. Their history begins with the first one."""
        state = State(
            WRITER, DATABASE, named=(WRITER, DATABASE), log=LogIdentity(b"a million of ids", 1),
            revision=first - 1, uuid=_uuid(first - 1), successor_uuid=_uuid(first),
            digest=bytes(32),
            epoch=1, committed_at_us=time_of(first - 1), first_epoch=1, begun_at_us=time_of(0),
        )  # fmt: skip
        for revision in range(first, last + 1):
            path = data_path("", "t", 1, _uuid(revision), 0)
            actions = [add_action(path)]
            if revision == first:
                actions.insert(0, schema_action())
            intent = Intent(_uuid(revision), 1, actions)
            assert state.log is not None
            body, _ = build_transaction(
                state, [intent], log=state.log, uuid=state.next_uuid, slot_seed=bytes(16), epoch=1,
                guest=False, now_us=time_of(revision),
            )  # fmt: skip
            item = LogObject(1, revision, state.next_uuid[:4].hex(), "transaction")
            self._write(item.name, body)
            apply(state, decode_transaction(body, self._folder + item.name))
            if revision % EVERY == 0:
                encoded = encode_state(state)
                self._write(encoded.name, encoded.body)
                state.rebase(encoded.decoded, encoded.pieces, encoded.files)

    def _write(self, name: str, body: bytes) -> None:
        item = parse_log_object(name)
        assert item is not None
        self._real[item.revision, item.kind] = name
        self.inner.put(self._folder + name, body)

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        super().put(key, body, if_absent=if_absent)
        item = parse_log_object(key.removeprefix(self._folder))
        if item is not None:
            self._real[item.revision, item.kind] = item.name
            self._head = max(self._head, item.revision)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """In order, from where it is asked to begin; nothing before it is made."""
        if prefix != self._folder:
            return self.inner.list(prefix, after=after, first_page=first_page)
        return self._names(after or "")

    def _names(self, after: str) -> Iterator[ObjectInfo]:
        for revision in range(self._first_after(after), -1, -1):
            kinds: tuple[Kind, ...] = ("checkpoint", "transaction")
            for kind in kinds[revision % EVERY > 0 :]:
                made_up = LogObject(1, revision, _uuid(revision)[:4].hex(), kind).name
                key = self._folder + self._real.get((revision, kind), made_up)
                if key > after:
                    yield ObjectInfo(key, 1_000, None)

    def _first_after(self, after: str) -> int:
        numbers = after.removeprefix(self._folder).split("-")
        below = int(numbers[1]) if len(numbers) > 1 else 0
        return min(self._head, 10**12 - 1 - below)


def _uuid(revision: int) -> bytes:
    return revision.to_bytes(4, "big") * 4
