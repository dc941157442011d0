"""The commit protocol: how one transaction object becomes the next revision, whatever fails on the
way.

The order of requests, and why:

1. Data files first. Until a transaction names them nobody sees them, so a crash leaves only orphans
   for gc.
2. Then the transaction object, under the name that revision r-1 fixed for revision r, with
   put-if-absent. Everyone who commits on the same base asks for the same name, so the store picks
   one: a fork can't be written.
3. Only then success is reported. When the answer is lost, the same bytes go to the same key again;
   "exists" means read back and compare. When neither can be learnt the outcome is unknown, and says
   so.
4. Nothing is cleaned up on an error: what looks like a failure may have happened.

After a lost race the committer replays and decides: an owner gives way for good to an equal or
higher epoch that is no guest's, and goes on otherwise; a guest goes on while the head's epoch is
the one its files carry.

On a store without put-if-absent the name has a random uuid: list, put, list, and success only if
nobody else stands on the revision. That detects a fork and can't prevent it.

Source: docs/format.md, section 10; docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import (
    AccessDenied,
    CapabilityMissing,
    CorruptError,
    FencedError,
    ForkError,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .build import Intent, build_transaction
from .codec import decode_transaction
from .listing import fork_error
from .names import LogObject, revision_of
from .outcome import (
    CommitInfo,
    epoch_changed,
    expired,
    fenced,
    outcome_unknown,
    pruned_in_doubt,
)
from .state import State, apply, check_features, check_next, validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ambient import Ambient
    from .log import Log
    from .margins import Margins

_PUT_ATTEMPTS: Final = 4
_RACES: Final = 10_000
_PAUSE_S: Final = 0.05


class Committer:
    """Commits intents to one log. Not safe for threads: `group.CommitQueue` lets one in at a time.

    Attributes:
        state: The newest state that this committer knows.
        epoch: The owner's epoch; a guest's intents carry their own.
        guest: Whether it commits as a guest.
    """

    def __init__(
        self,
        log: Log,
        state: State,
        *,
        seen_at_s: float,
        exclusive: bool,
        guest: bool,
        ambient: Ambient,
        margins: Margins,
    ) -> None:
        self.log = log
        self.state = state
        self.guest = guest
        self.epoch = max(1, state.epoch) if guest else state.epoch + 1
        self._exclusive = exclusive
        self._ambient = ambient
        self._margins = margins
        self._fenced: FencedError | None = None
        self._seen_at_s = seen_at_s  # when the request was sent that showed the head
        self._own: set[bytes] = set()  # transaction ids that this committer has ever sent
        # Transaction id -> key of a put whose outcome nobody knows.
        self._in_doubt: dict[bytes, str] = {}

    def current_epoch(self) -> int:
        """The epoch that a transaction begun now carries."""
        return max(1, self.state.epoch) if self.guest else self.epoch

    def is_idle(self) -> bool:
        """Whether this committer's view of the log is so old that names may have been pruned."""
        return self._ambient.monotonic_s() - self._seen_at_s > self._margins.idle_limit_s

    def catch_up(self) -> None:
        """List the log again, if this committer was idle for long.

        Requests: none, or 1 LIST and 1 GET for each new transaction.
        """
        if self.is_idle():
            self._absorb()

    def commit(self, intents: Sequence[Intent]) -> list[CommitInfo | LakelogError]:
        """Commit intents as one transaction object; those that don't fit the state are refused,
        each by itself.

        Returns:
            For each intent, in order, where it stands or why it doesn't.
        Requests: 1 PUT on an exclusive store. Each lost race costs 1 GET, 1 LIST and 1 GET a
            transaction more.
        """
        results: dict[bytes, CommitInfo | LakelogError] = {}
        try:
            self._commit(list(intents), results)
        except LakelogError as error:
            for intent in intents:
                results.setdefault(intent.transaction_id, self._as_outcome(intent, error))
        return [results[intent.transaction_id] for intent in intents]

    def _commit(
        self, pending: list[Intent], results: dict[bytes, CommitInfo | LakelogError]
    ) -> None:
        self.catch_up()
        for race in range(_RACES):
            self._settle(pending, results)
            pending = [intent for intent in pending if intent.transaction_id not in results]
            if not pending:
                return
            if self._fenced is not None:
                raise self._fenced
            admitted = self._admit(pending, results)
            if not admitted or self._try(admitted, results):
                continue
            if race > 1:
                self._ambient.sleep_s(self._jitter_s(race))
            self._absorb(expect_news=True)
        raise StorageError(
            f"Lost the race for a revision of {self.log.writer}/{self.log.database} {_RACES} times",
            key=self.log.folder,
            hint="Too many committers share this log: give them writer ids of their own",
        )

    # --- Before the put ---------------------------------------------------------------------------

    def _settle(
        self, pending: Sequence[Intent], results: dict[bytes, CommitInfo | LakelogError]
    ) -> None:
        """Intents that an earlier attempt has committed after all."""
        if not any(intent.transaction_id in self._own for intent in pending):
            return
        found = self.state.history.of_transactions({i.transaction_id for i in pending})
        for intent in pending:
            row = found.get(intent.transaction_id)
            key = self._in_doubt.get(intent.transaction_id)
            if row is None and key is not None and revision_of(key) <= self.state.revision:
                if self.state.history.holds(revision_of(key)):
                    del self._in_doubt[intent.transaction_id]  # another one stands there: it lost
                else:
                    results[intent.transaction_id] = pruned_in_doubt(key, intent.transaction_id)
            if row is not None:
                self._in_doubt.pop(intent.transaction_id, None)
                results[intent.transaction_id] = CommitInfo(
                    row["revision"],
                    row["uuid"].hex(),
                    intent.transaction_id.hex(),
                    row["committed_at"],
                )

    def _admit(
        self, pending: Sequence[Intent], results: dict[bytes, CommitInfo | LakelogError]
    ) -> list[Intent]:
        """The intents that fit the state, one after the other; the others get their error, or wait
        until it is known what becomes of another one of their application."""
        check_features(self.state, writing=True)
        candidates: list[Intent] = []
        claimed: dict[str, int] = {}
        for intent in pending:
            if intent.app_id:
                if self.state.app_versions.get(intent.app_id, -1) >= intent.app_version:
                    results[intent.transaction_id] = self._skipped(intent)
                    continue
                if claimed.get(intent.app_id, -1) >= intent.app_version:
                    continue
                claimed[intent.app_id] = intent.app_version
            candidates.append(intent)
        try:
            self._check_fit(candidates)
            return candidates
        except LakelogError:
            return self._each_that_fits(candidates, results)

    def _each_that_fits(
        self, candidates: Sequence[Intent], results: dict[bytes, CommitInfo | LakelogError]
    ) -> list[Intent]:
        fitting: list[Intent] = []
        for intent in candidates:
            try:
                self._check_fit([*fitting, intent])
                fitting.append(intent)
            except LakelogError as error:
                results[intent.transaction_id] = error
        return fitting

    def _check_fit(self, intents: Sequence[Intent]) -> None:
        for intent in intents:
            if self.guest and intent.epoch != self.current_epoch():
                raise epoch_changed(self.log.writer, self.log.database, self.log.folder)
            age_s = self._ambient.monotonic_s() - intent.begun_s
            if intent.adds and age_s > self._margins.file_age_limit_s:
                raise expired(intent.transaction_id, age_s)
        validate(self.state, [action for intent in intents for action in intent.actions])

    def _skipped(self, intent: Intent) -> CommitInfo:
        state = self.state
        return CommitInfo(
            state.revision,
            state.uuid.hex(),
            intent.transaction_id.hex(),
            state.committed_at_us,
            skipped=True,
        )

    # --- The put ----------------------------------------------------------------------------------

    def _try(self, intents: list[Intent], results: dict[bytes, CommitInfo | LakelogError]) -> bool:
        """Ask for the next revision. True: it is ours, and results are set. False: somebody else
        has it."""
        uuid = self.state.next_uuid if self._exclusive else self._ambient.new_id()
        body, _ = build_transaction(
            self.state,
            intents,
            uuid=uuid,
            successor=self._ambient.new_id(),
            epoch=self.current_epoch(),
            guest=self.guest,
            now_us=self._ambient.now_us(),
        )
        item = LogObject(self.state.revision + 1, uuid[:4].hex(), "transaction")
        key = self.log.folder + item.name
        decoded = decode_transaction(body, key)
        check_next(self.state, decoded)  # what a reader would refuse is never written
        ids = [intent.transaction_id for intent in intents]
        asked_at_s = self._ambient.monotonic_s()
        self._own.update(ids)
        won = (
            self._put_exclusive(key, body, ids)
            if self._exclusive
            else self._put_plain(item, body, ids)
        )
        if not won:
            return False
        if self.is_idle():
            self._verify_slow_put(ids, key)
        else:
            apply(self.state, decoded)
            self._seen_at_s = asked_at_s
        for intent in intents:
            self._in_doubt.pop(intent.transaction_id, None)
            results[intent.transaction_id] = CommitInfo(
                item.revision,
                uuid.hex(),
                intent.transaction_id.hex(),
                decoded.message.commit.committed_at_us,
            )
        return True

    def _put_exclusive(self, key: str, body: bytes, ids: Sequence[bytes]) -> bool:
        for attempt in range(_PUT_ATTEMPTS):
            try:
                self.log.store.put(key, body, if_absent=True)
                return True
            except ObjectExists:
                return self._read_back(key, body, ids)
            except StorageError as error:
                self._doubt(error, ids, key, first=attempt == 0)
            self._ambient.sleep_s(self._jitter_s(attempt))
        raise outcome_unknown(key, ids[0])

    def _doubt(self, error: StorageError, ids: Sequence[bytes], key: str, *, first: bool) -> None:
        """A put without an answer, unless the answer is that nothing was written."""
        if first and isinstance(error, (AccessDenied, CapabilityMissing)):
            raise error
        self._in_doubt.update(dict.fromkeys(ids, key))

    def _read_back(self, key: str, body: bytes, ids: Sequence[bytes]) -> bool:
        """Whether it is this very body that stands under its key; in doubt until that is known."""
        self._in_doubt.update(dict.fromkeys(ids, key))
        for attempt in range(_PUT_ATTEMPTS):
            try:
                found = self.log.store.get(key)
                if found != body and decode_transaction(found, key).marks.isdisjoint(ids):
                    self._in_doubt = {k: v for k, v in self._in_doubt.items() if k not in ids}
                return found == body
            except (ObjectNotFound, CorruptError):
                return False  # pruned since, or damaged: the replay tells what stands there
            except StorageError:
                self._ambient.sleep_s(self._jitter_s(attempt))
        raise outcome_unknown(key, ids[0])

    def _put_plain(self, item: LogObject, body: bytes, ids: Sequence[bytes]) -> bool:
        key = self.log.folder + item.name
        listing = self.log.names(after_revision=item.revision - 2)
        if len(listing.transactions.get(item.revision - 1, ())) > 1:
            raise fork_error(listing, item.revision - 1)  # a rival of the head came late
        if listing.head >= item.revision:
            return False
        for attempt in range(_PUT_ATTEMPTS):
            try:
                self.log.store.put(key, body)
                break
            except StorageError as error:
                self._doubt(error, ids, key, first=attempt == 0)
                self._ambient.sleep_s(self._jitter_s(attempt))
        else:
            raise outcome_unknown(key, ids[0])
        try:
            listing = self.log.names(after_revision=item.revision - 1)
        except StorageError as error:
            self._in_doubt.update(dict.fromkeys(ids, key))
            raise outcome_unknown(key, ids[0]) from error
        names = listing.transactions.get(item.revision, [])
        if len(names) > 1:
            raise fork_error(listing, item.revision)
        if item not in names or listing.head > item.revision:
            self._in_doubt.update(dict.fromkeys(ids, key))
        if item not in names:
            raise outcome_unknown(key, ids[0])
        # If somebody went on from here already, the replay tells whose transaction this is.
        return listing.head == item.revision

    def _verify_slow_put(self, ids: Sequence[bytes], key: str) -> None:
        """A put that took longer than half the prune floor may have created a pruned name anew:
        look."""
        self._in_doubt.update(dict.fromkeys(ids, key))
        before, fresh = self.state.revision, self.log.load()
        if not fresh.history.of_transactions(set(ids)):
            why = "it was stopped so long that the log was pruned under it"
            self._fenced = fenced(self.log.writer, why, key)
            raise self._fenced
        self.state = fresh
        self._seen_at_s = self._ambient.monotonic_s()
        if not self.guest:
            self._check_fencing(before)

    # --- After a lost race ------------------------------------------------------------------------

    def _absorb(self, *, expect_news: bool = False) -> None:
        """Read what others have committed, and see whether one of them fences this committer."""
        asked_at_s = self._ambient.monotonic_s()
        before = self.state.revision
        for attempt in range(_PUT_ATTEMPTS):
            fresh = self.log.advance(self.state)
            if fresh.revision > before or not expect_news:
                break
            self._ambient.sleep_s(self._jitter_s(attempt))
        self.state = fresh
        self._seen_at_s = asked_at_s
        if not self.guest and self._fenced is None:
            self._check_fencing(before)

    def _check_fencing(self, before: int) -> None:
        for row in self.state.history.after(before):
            own = not self._own.isdisjoint(row["transaction_ids"])
            if not own and (
                row["epoch"] > self.epoch or (row["epoch"] == self.epoch and not row["guest"])
            ):
                why = (
                    f"revision {row['revision']} was committed under epoch {row['epoch']}, this "
                    f"one has {self.epoch}"
                )
                self._fenced = fenced(self.log.writer, why, self.log.folder)
                return

    def _as_outcome(self, intent: Intent, error: LakelogError) -> LakelogError:
        """An error of the whole attempt, as it stands for one intent: in doubt stays in doubt."""
        key = self._in_doubt.get(intent.transaction_id)
        if key is None or isinstance(error, (FencedError, ForkError)):
            return error
        unknown = outcome_unknown(key, intent.transaction_id)
        unknown.__cause__ = error
        return unknown

    def _jitter_s(self, attempt: int) -> float:
        share = int.from_bytes(self._ambient.new_id()[:2], "little") / 65_536
        return float(min(2.0, _PAUSE_S * 2 ** min(attempt, 6)) * (0.5 + share))
