"""The commit protocol: how one transaction object becomes the next revision, whatever fails on the
way.

The order of requests, and why:

1. Data files first. Until a transaction names them nobody sees them, so a crash leaves only orphans
   for gc.
2. Then the transaction object, under the name that revision r-1 fixed for revision r, with
   put-if-absent. Everyone who commits on the same base asks for the same name, so the store picks
   one: a fork can't be written.
3. Only then success is reported, and the copy of the object goes into the mirror beside the next
   commit (`mirror`). When the answer is lost, the same bytes go to the same key again;
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

from ...errors import (
    AccessDenied,
    CapabilityMissing,
    CommitOutcomeUnknown,
    CorruptError,
    LakelogError,
    NotFoundError,
    ObjectExists,
    ObjectNotFound,
    ProcessDoubled,
    StorageError,
    UsageError,
)
from ..format.frame import LogIdentity
from ..format.names import LogObject, base_folder, is_in_place
from ..format.objects import decode_transaction
from ..log.admission import AdmissionLimits, Results, admit, withdraw_stale
from ..log.again import tables_again
from ..log.build import Intent, build_transaction, identity_action
from ..log.history import transaction_row
from ..log.listing import fork_error
from ..log.lookup import files_with
from ..log.operations import gist_of
from ..log.outcomes import (
    Attempt,
    Attempts,
    CommitInfo,
    Fate,
    doubled_error,
    fenced_error,
    fencing_reason,
    files_gone_error,
    foreign_error,
    is_next_name_foreseeable,
    late_error,
    outcome_of,
    outcome_unknown_error,
    pruned_in_doubt_error,
    replaced_reason,
)
from ..log.replay import apply, check_written
from ..parallel import parallel
from .mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ambient import Ambient
    from ..log.build import Moment
    from ..log.checkpoint import EncodedCheckpoint
    from ..log.history import Row
    from ..log.listing import Listing
    from ..log.state import State
    from ..read.log_reader import LogReader
    from .clocks import Clocks


# --- Putting one object under the name of its revision --------------------------------------------

ATTEMPTS: Final = 4
# Answers that say that nothing was written.
_REFUSED: Final = (AccessDenied, CapabilityMissing, NotFoundError, UsageError)
_PAUSE_S: Final = 0.05


def _is_over(listing: Listing, item: LogObject) -> bool:
    """Whether the log goes on in another incarnation than that of a name."""
    return listing.incarnation not in (0, item.incarnation)


class Publisher:
    """Puts transaction objects into one log, and keeps their fates in `attempts`."""

    def __init__(
        self, log: LogReader, attempts: Attempts, ambient: Ambient, *, exclusive: bool
    ) -> None:
        self.exclusive = exclusive
        self._attempts = attempts
        self._log = log
        self._ambient = ambient

    def put(self, attempt: Attempt) -> bool:
        """Whether this object now stands, and stands alone, on its revision; False if somebody
        else's does, or if only a replay can tell.

        Raises:
            CommitOutcomeUnknown: The store gave no answer, and what it holds doesn't tell either.
            ForkError: A plain store, and two names on one revision.
            AccessDenied, CapabilityMissing, NotFoundError, UsageError: Nothing was written.
        Requests: 1 PUT on an exclusive store, and 1 GET if the name is taken or the put refused;
            LIST, PUT, LIST on a plain one.
        """
        return self._exclusive(attempt) if self.exclusive else self._plain(attempt)

    def pause(self, turn: int) -> None:
        """Wait a little, longer with each turn and never for as long as anybody else."""
        share = int.from_bytes(self._ambient.new_id()[:2], "little") / 65_536
        self._ambient.sleep_s(min(2.0, _PAUSE_S * 2 ** min(turn, 6)) * (0.5 + share))

    # --- With put-if-absent -----------------------------------------------------------------------

    def _exclusive(self, attempt: Attempt) -> bool:
        unsent, cause = self._attempts.sends(attempt), None
        for turn in range(ATTEMPTS):
            try:
                self._log.store.put(attempt.key, attempt.body, if_absent=True)
                return True
            except ObjectExists:
                return self._read_back(attempt)
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, attempt.key, first=turn == 0)
            self.pause(turn)
        raise _unknown(attempt) from cause

    def _no_answer(
        self, error: LakelogError, unsent: Sequence[bytes], key: str, *, first: bool
    ) -> None:
        """A put without an answer, unless the answer is that nothing was written.

        A client may have sent the request twice, and show the answer to the second: so even a
        refusal is believed only if nothing is there.
        """
        if first and isinstance(error, _REFUSED) and self._is_absent(key):
            self._attempts.refused(unsent)
            raise error

    def _is_absent(self, key: str) -> bool:
        try:
            self._log.store.get(key)
        except ObjectNotFound:
            return True
        except LakelogError:
            return False
        return False

    def _read_back(self, attempt: Attempt) -> bool:
        """Whether it is this very body that stands under its key; in doubt until that is known."""
        key, ids = attempt.key, attempt.ids
        for turn in range(ATTEMPTS):
            try:
                found = self._log.store.get(key)
                is_own = found == attempt.body
                if not is_own and decode_transaction(found, key).transaction_ids.isdisjoint(ids):
                    self._attempts.lost(ids)
                return is_own
            except (ObjectNotFound, CorruptError):
                return False  # pruned since, or damaged: the replay tells what stands there
            except StorageError:
                self.pause(turn)
        raise _unknown(attempt)

    # --- Without ----------------------------------------------------------------------------------

    def _plain(self, attempt: Attempt) -> bool:
        item = attempt.item
        listing = self._log.names_down_to(item.revision - 1)
        if len(listing.transactions.get(item.revision - 1, ())) > 1:
            raise fork_error(listing, item.revision - 1)  # a rival of the head came late
        if listing.head >= item.revision or _is_over(listing, item):
            return False
        self._put_plain(attempt)
        try:
            listing = self._log.names_down_to(item.revision)
        except StorageError as error:
            raise _unknown(attempt) from error
        names = listing.transactions.get(item.revision, [])
        if len(names) > 1:
            raise fork_error(listing, item.revision)
        if item not in names and not _is_over(listing, item):
            raise _unknown(attempt)
        # If somebody went on from here already, the replay tells whose transaction this is.
        return listing.head == item.revision and not _is_over(listing, item)

    def _put_plain(self, attempt: Attempt) -> None:
        unsent, cause = self._attempts.sends(attempt), None
        for turn in range(ATTEMPTS):
            try:
                self._log.store.put(attempt.key, attempt.body)
                return
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, attempt.key, first=turn == 0)
                self.pause(turn)
        raise _unknown(attempt) from cause


def _unknown(attempt: Attempt) -> CommitOutcomeUnknown:
    return outcome_unknown_error(attempt.key, attempt.ids[0])


# --- Verifying the transaction in the log that has an own id --------------------------------------


class Verification:
    """Verifies what the log has under the ids of a committer's transactions.

    A process may be doubled: a machine that is cloned, or set back to a snapshot of its memory, has
    its twin's transaction ids. And it may have stood still between writing its files and committing
    them, for so long that gc took them.

    Args:
        attempts: What was sent.
        in_background: Whether threads may ask for files.
    """

    def __init__(
        self, log: LogReader, attempts: Attempts, clocks: Clocks, *, in_background: bool
    ) -> None:
        self._log = log
        self._attempts = attempts
        self._clocks = clocks
        self._in_background = in_background

    def of_row(self, state: State, intent: Intent, row: Row) -> CommitInfo | LakelogError:
        """Returns the outcome of an intent whose id a revision has, by its row in the history of
        `state`.

        Requests: those of `of_own`.
        """
        own = intent.transaction_id
        revision = row["revision"]
        if row["digest"] not in self._attempts.digests(own) and state.log is not None:
            self._attempts.stands(own)
            uuid8 = row["uuid"][:4].hex()
            item = LogObject(state.log.incarnation, revision, uuid8, "transaction")
            return doubled_error(own, revision, self._log.folder + item.name)
        result = self.of_own(state, intent, row)
        self._attempts.stands(own)
        return result

    def of_own(self, state: State, intent: Intent, row: Row) -> CommitInfo | LakelogError:
        """What becomes of an intent that stands: no success if its files are gone, or it came so
        late that they may yet go.

        Requests: none; 1 HEAD a file if they are so old that gc may have taken them before, and 1
            of the transaction if gc may have decided to.
        """
        own, revision = intent.transaction_id, row["revision"]
        gone = self._gone(state, intent)
        if gone:
            return files_gone_error(own, revision, gone)
        if self._was_late(state, intent, row):
            return late_error(own, revision)
        return CommitInfo(revision, row["uuid"].hex(), own.hex(), row["committed_at"])

    def _gone(self, state: State, intent: Intent) -> list[str]:
        """The files of an intent that the log names as live and that aren't there."""
        if not intent.adds or intent.begun is None or not self._clocks.is_too_old(intent.begun):
            return []
        added = {(a.add.table, a.add.path) for a in intent.actions if a.WhichOneof("kind") == "add"}
        files = files_with(state, [path for _, path in added])
        own = ((table, path) for table, path in added if not is_in_place(path))  # gc takes no other
        live = sorted(path for table, path in own if files.is_live(table, path))
        live += sorted(_objects(intent) & set(_held(state, intent)))
        there = parallel(self._is_there, live, at_once=16 if self._in_background else 1)
        return [path for path, found in zip(live, there, strict=True) if not found]

    def _was_late(self, state: State, intent: Intent, row: Row) -> bool:
        """Whether an intent with files took effect so late that a gc which didn't see it may still
        delete them."""
        begun = intent.begun
        if not intent.adds or begun is None or not self._clocks.may_be_late(begun):
            return False
        if state.log is None:
            return True
        uuid8, revision = row["uuid"][:4].hex(), row["revision"]
        item = LogObject(state.log.incarnation, revision, uuid8, "transaction")
        try:
            found = self._log.store.head(self._log.folder + item.name)
        except ObjectNotFound:  # pruned: nobody can tell any more
            return True
        return self._clocks.was_late(begun, found.modified_at)

    def _is_there(self, path: str) -> bool:
        try:
            self._log.store.head(base_folder(self._log.writer, self._log.database) + path)
        except ObjectNotFound:
            return False
        return True


def _objects(intent: Intent) -> set[str]:
    """The objects of row deletes that an intent names."""
    actions = (*intent.actions, *intent.last)
    found = (a.row_deletes for a in actions if a.WhichOneof("kind") == "row_deletes")
    return {item.object for item in found}


def _held(state: State, intent: Intent) -> list[str]:
    """Objects of row deletes that still count; looked up only if the intent named some."""
    if not _objects(intent):
        return []
    return [path for paths in state.deletes.objects() for path in paths.to_pylist()]


# --- The committer --------------------------------------------------------------------------------

_RACES: Final = 10_000


class Committer:
    """Commits intents to one log. Not safe for threads: `queue.CommitQueue` lets one in at a time.

    Attributes:
        state: The newest state that this committer knows.
        epoch: The owner's epoch; a guest's intents carry their own.
        guest: Whether it commits as a guest.
    """

    def __init__(
        self,
        log: LogReader,
        state: State,
        *,
        seen_at: Moment,
        exclusive: bool,
        guest: bool,
        ambient: Ambient,
        clocks: Clocks,
    ) -> None:
        self.log = log
        self.state = state
        self.guest = guest
        self.identity = state.log or LogIdentity(ambient.new_id(), 1)
        self.slot_seed = ambient.new_id()
        self.epoch = max(1, state.epoch) if guest else state.epoch + 1
        self.attempts = Attempts()
        self.mirror = Mirror(log, exclusive=exclusive, in_background=ambient.in_background)
        self._publisher = Publisher(log, self.attempts, ambient, exclusive=exclusive)
        self._verification = Verification(
            log, self.attempts, clocks, in_background=ambient.in_background
        )
        self._ambient = ambient
        self._clocks = clocks
        self._listings = 0  # how often the log was looked at
        self._fenced = replaced_reason(
            self.state, self.identity
        )  # why: a log that is sealed takes nothing more
        self._seen_at = seen_at  # when the request was sent that showed the head
        self._current_s = seen_at.steady_s  # nothing was newer than `state` then
        self._based_at = seen_at  # the same of a time when nobody had a newer base than ours
        self._foreseen_head: int | None = None  # one whose successor's name a footer foretells
        # That before an interrupted put or rebase: `state` can't be relied on then.
        self._interrupted_revision: int | None = None

    def current_epoch(self) -> int:
        """The epoch that a transaction begun now carries."""
        return max(1, self.state.epoch) if self.guest else self.epoch

    def is_idle(self, since: Moment | None = None) -> bool:
        """Whether a view of the log is so old that names may have been pruned: that of `since`, or
        this committer's own."""
        return self._clocks.is_idle(self._seen_at if since is None else since)

    def refuse_fenced(self) -> None:
        """Raises `FencedError` if another process is known to have taken this writer over: a new
        error each time, so that none gathers tracebacks."""
        if self._fenced is not None:
            raise fenced_error(self.log.writer, self._fenced, self.log.folder)

    def refuse_foreign(self) -> None:
        """Raises `ForeignLog` if the log is stored under another name than its own."""
        if self.state.is_foreign:
            raise foreign_error(self.state)

    def begin_log(self) -> None:
        """Write revision 0, which says whose log it is and nothing else: what a guest does first,
        since guests can't each bring an identity of their own. Whoever wins the race for it, the
        log is there then.

        Requests: 1 PUT; 1 LIST and 1 GET.
        """
        intent = Intent(
            self._ambient.new_id(),
            1,
            [identity_action(self.log.writer, self.log.database)],
            "maintenance",
        )
        attempt, unknown = self._compose([intent]), None
        try:
            self._publisher.put(attempt)
        except CommitOutcomeUnknown as error:
            unknown = error  # the log tells
        self._look_again(self.state.revision)
        if self.state.revision >= 0:
            self.mirror.before_send(self.state)  # so that closing waits for its copy
        else:
            raise StorageError(
                f"The log of {self.log.writer}/{self.log.database} could not be begun",
                key=self.log.folder,
                hint="Open the writer again",
            ) from unknown

    def rebase(self, encoded: EncodedCheckpoint, seen_at: Moment) -> None:
        """Goes on from a stored checkpoint, whose revision was seen to be the head at `seen_at`."""
        state, head = self.state, encoded.decoded.message
        if self._interrupted_revision is not None or state.log != encoded.decoded.log:
            return
        if state.revision < head.revision:
            return
        if state.base is not None and state.base.message.revision >= head.revision:
            return
        self._interrupted_revision = state.revision
        state.rebase(encoded.decoded, encoded.pieces, encoded.files)
        self._interrupted_revision = None
        self._based_at = seen_at

    def checkpointable(self) -> tuple[State, Moment]:
        """The newest state that is known, to write a checkpoint of, and since when its base may be
        an old one. Read anew if that was long ago: once there is a newer checkpoint, prune may take
        the base, and with it the segments that a new one would refer to.

        Raises:
            ForeignLog: The log is another writer's or database's.
        Requests: those of `catch_up`; 1 LIST and those of reading the head, twice a floor.
        """
        self.catch_up()
        if self.state.base is not None and self.is_idle(self._based_at):
            self._look_again(self.state.revision)
        self.refuse_foreign()
        since = self._seen_at
        if self.state.base is not None:
            since = since.or_before(self._based_at)
        return self.state.copy(), since

    def catch_up(self) -> None:
        """List the log again, if this committer was idle for long or interrupted in a commit.

        Requests: none, or 1 LIST and 1 GET for each new transaction.
        """
        if self._interrupted_revision is not None:
            self._look_again(self._interrupted_revision)
            self._interrupted_revision = None
        # Twice, where a machine stood still: when the first listing was begun is known too badly.
        for _ in range(2):
            if self.is_idle():
                self.absorb()

    def close(self) -> None:
        """Waits for the copies of what this committer has committed.

        Requests: none if they are there; else as `Mirror.close`.
        """
        if self.attempts.has_stood or self.mirror.is_pending:
            self.mirror.close(self.state)

    def commit(self, intents: Sequence[Intent]) -> list[CommitInfo | LakelogError]:
        """Commit intents as one transaction object; those that don't fit the state are refused,
        each by itself.

        Returns:
            For each intent, in order, where it stands or why it doesn't.
        Requests: 1 PUT on an exclusive store; 1 LIST more after a head that added no file, as far
            as is known, or before one is refused for what it removes or adds. Each lost race costs
            1 GET, 1 LIST and 1 GET a transaction more.
        """
        results: Results = {}
        try:
            self._commit(list(intents), results)
        except LakelogError as error:
            for intent in intents:
                sent = self.attempts.in_doubt(intent.transaction_id)
                own = outcome_of(error, intent.transaction_id, sent.key if sent else None)
                results.setdefault(intent.transaction_id, own)
        return [results[intent.transaction_id] for intent in intents]

    def _commit(self, pending: list[Intent], results: Results) -> None:
        listings = self._listings
        self.catch_up()
        for race in range(_RACES):
            self._settle(pending, results)
            pending = [intent for intent in pending if intent.transaction_id not in results]
            if not pending:
                return
            self.refuse_fenced()
            self.mirror.before_send(self.state)  # may take long: before ages are looked at
            admitted = admit(self.state, pending, results, self._limits())
            if self._listings == listings and withdraw_stale(pending, results):
                self.absorb()  # what doesn't fit may have been true long ago
                continue
            if not admitted:
                continue
            attempt = None
            if not self._publisher.exclusive:  # the first put of it may land yet, under its name
                ids = [intent.transaction_id for intent in admitted]
                attempt = self.attempts.unanswered(ids, self.state.digest)
            attempt = attempt or self._compose(admitted)
            if self._send(attempt, admitted, results):
                continue
            if race > 1:
                self._publisher.pause(race)
            self.absorb(expect_news=True)
        raise StorageError(
            f"Lost the race for a revision of {self.log.writer}/{self.log.database} {_RACES} times",
            key=self.log.folder,
            hint="Too many committers share this log: give them writer ids of their own",
        )

    # --- Before the put ---------------------------------------------------------------------------

    def _settle(self, pending: Sequence[Intent], results: Results) -> None:
        """Intents that an earlier attempt has committed after all."""
        if not any(intent.transaction_id in self.attempts.own for intent in pending):
            return
        history = self.state.history
        found = history.of_transactions({intent.transaction_id for intent in pending})
        for intent in pending:
            transaction_id = intent.transaction_id
            row, sent = found.get(transaction_id), self.attempts.in_doubt(transaction_id)
            if row is not None:
                self._found(intent, row, results)
            elif sent is None:
                continue
            elif history.holds(sent.item.revision):
                self.attempts.lost([transaction_id])  # another one stands there
            elif (
                sent.item.revision <= self.state.revision
                or self.attempts.fate(transaction_id) is Fate.PRUNED
            ):
                self.attempts.pruned(transaction_id)
                results[transaction_id] = pruned_in_doubt_error(sent.key, transaction_id)

    def _found(self, intent: Intent, row: Row, results: Results) -> None:
        """The log has a transaction of this id, its own or that of a copy of this process."""
        result = self._verification.of_row(self.state, intent, row)
        if isinstance(result, ProcessDoubled):
            self._fenced = self._fenced or result.message
        results[intent.transaction_id] = result

    def _limits(self) -> AdmissionLimits:
        return AdmissionLimits(
            self.log.folder,
            self.current_epoch() if self.guest else None,
            self._clocks.now(),
            self._clocks.margins.file_age_limit_s,
        )

    # --- The put ----------------------------------------------------------------------------------

    def _compose(self, intents: list[Intent]) -> Attempt:
        """Returns the object of the next revision. Raises `ClockError` if this machine's clock is
        far ahead of the store's, and `UsageError` if it is too large for one transaction."""
        self._clocks.refuse_ahead(self.log.writer)
        uuid = self.state.next_uuid if self._publisher.exclusive else self._ambient.new_id()
        body, _ = build_transaction(
            self.state,
            intents,
            log=self.identity,
            uuid=uuid,
            slot_seed=self.slot_seed,
            epoch=self.current_epoch(),
            guest=self.guest,
            now_us=self._ambient.now_us(),
            said=gist_of(
                self.state,
                [action for intent in intents for action in intent.actions],
                tables_again(rows for intent in intents for rows in intent.again),
            ),
        )
        revision = self.state.revision + 1
        item = LogObject(self.identity.incarnation, revision, uuid[:4].hex(), "transaction")
        decoded = decode_transaction(body, self.log.folder + item.name)
        check_written(self.state, decoded)  # what a reader would refuse is never written
        return Attempt(item, body, decoded, tuple(intent.transaction_id for intent in intents))

    def _send(self, attempt: Attempt, intents: Sequence[Intent], results: Results) -> bool:
        """Ask for the next revision. True: the state is new, and tells whose it is. False: somebody
        else has it."""
        before, asked_at = self.state.revision, self._clocks.now()
        self._interrupted_revision = before
        try:
            if not self._publisher.put(attempt):
                self._interrupted_revision = None
                return False
            if self.is_idle() or not self._is_confirmed():
                # The put may have created a pruned name anew, or one that died with a lost log: in
                # doubt until the log tells.
                self._look_again(before)
            else:
                apply(self.state, attempt.decoded)
                self.mirror.committed(
                    attempt.item.revision, attempt.key, attempt.decoded.digest, attempt.body
                )
                self._seen_at = asked_at
                self._current_s = asked_at.steady_s
                if is_next_name_foreseeable(self.state):
                    self._foreseen_head = self.state.revision
                row = transaction_row(attempt.decoded)
                for own in attempt.ids:
                    self.attempts.stands(own)
                for intent in intents:
                    if intent.transaction_id in attempt.ids:
                        results[intent.transaction_id] = self._verification.of_own(
                            self.state, intent, row
                        )
        except LakelogError:
            self._interrupted_revision = None
            raise
        self._interrupted_revision = None
        return True

    def _is_confirmed(self) -> bool:
        """Whether a put that succeeded is a commit, and doesn't follow a head that was lost since:
        then either a rebuild has sealed its name, or the head is not listed any more.

        Requests: none, or 1 LIST.
        """
        state = self.state
        if state.revision == self._foreseen_head or is_next_name_foreseeable(state):
            return True
        if not self._publisher.exclusive:
            return True  # it has listed the log after the put
        listing = self.log.names_down_to(state.revision)
        return (
            state.log is not None
            and listing.incarnation == state.log.incarnation
            and {item.uuid8 for item in listing.names_at(state.revision)} == {state.uuid[:4].hex()}
            and not listing.forks(state.revision)
        )

    def _look_again(self, before: int) -> None:
        """Read the log anew, and judge what came after a revision."""
        asked_at = self._clocks.now()
        self._take_in(self.log.load(sealed=True), before, asked_at)
        self._based_at = asked_at

    def _take_in(self, fresh: State, before: int, asked_at: Moment) -> None:
        """A newer state, as the log showed it to a request that was begun then."""
        if self.state.log is None and fresh.log is not None:
            self.identity = fresh.log  # whoever began the log, it has the id that stands there
        self._check_fencing(fresh, before)  # first: what was taken in is not judged again
        self.state = fresh
        self.mirror.seen(fresh.revision)
        self._seen_at = asked_at
        self._current_s = asked_at.steady_s
        self._listings += 1

    # --- Reading what others have committed -------------------------------------------------------

    def look(self, asked_s: float) -> None:
        """Reads what was committed before a time: a transaction begins on no older state.

        The name of the next transaction is known where the store is exclusive: nothing is new while
        it is free. A pruned name is free too; the commit itself finds out about that.

        Args:
            asked_s: The time, on the clock of `Moment.steady_s`.
        Requests: none if the log was read, or committed to, since then; else 1 HEAD, and if there
            is news, or on a store without put-if-absent, those of `absorb`.
        """
        if self._current_s > asked_s or self._fenced is not None:
            return
        now_s = self._clocks.now().steady_s
        if self._publisher.exclusive:
            uuid8, revision = self.state.next_uuid[:4].hex(), self.state.revision + 1
            following = LogObject(self.identity.incarnation, revision, uuid8, "transaction")
            try:
                self.log.store.head(self.log.folder + following.name)
            except ObjectNotFound:
                self._current_s = now_s
                return
        self.absorb()

    def absorb(self, *, expect_news: bool = False) -> None:
        """Read what others have committed, and see whether one of them fences this committer."""
        asked_at = self._clocks.now()
        before = self.state.revision
        for attempt in range(ATTEMPTS):
            fresh = self.log.advance(self.state)
            if fresh.revision > before or not expect_news:
                break
            self._publisher.pause(attempt)
        self._take_in(fresh, before, asked_at)

    def _check_fencing(self, fresh: State, before: int) -> None:
        if self._fenced is not None:
            return
        self._fenced = replaced_reason(fresh, self.identity)
        if self._fenced is None and not self.guest:
            self._fenced = fencing_reason(
                fresh,
                before,
                epoch=self.epoch,
                own=self.attempts.own,
                committed=self.attempts.has_stood,
            )
