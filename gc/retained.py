"""Reading a log for maintenance: whole and strictly, where a reader would make do with a part.

A reader needs one checkpoint and what follows it. Who deletes must know all that is retained: every
transaction is read and must be the next link of the chain, and any doubt (a fork, a gap, a damaged
object, a feature of the future) is an error and not a reason to go on with less.

Source: docs/format.md, section 4; docs/maintenance.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.format.columns import column
from ..catalog.format.folding import fold, folded_among, last_segment
from ..catalog.format.names import name_prefix, parse_own_file
from ..catalog.format.objects import DecodedTransaction, decode_transaction
from ..catalog.format.seals import read_seal
from ..catalog.log.features import check_writer_features
from ..catalog.log.listing import Listing, plan_read
from ..catalog.log.outcome import foreign_error
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state
from ..errors import (
    ConflictError,
    CorruptObject,
    MissingTransaction,
    ObjectNotFound,
    UnsupportedFeature,
)
from .ends import beyond, check_beginning, check_other
from .log_names import check_names, check_no_gap, with_listing
from .other_histories import other_history, refuse_other_histories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..catalog.format.names import LogObject
    from .context import MaintenanceContext

_READ_AT_ONCE: Final = 256
_MOST_BEYOND: Final = 1_000  # transactions: more were never missed by a listing, they are written
SET_ASIDE: Final = (
    "Move the checkpoint elsewhere and run `lakelog doctor`: if the log can be read without it, "
    "`lakelog checkpoint` writes a new one; else put it back"
)


def read_base(context: MaintenanceContext, listing: Listing, base: LogObject | None) -> State:
    """The state that a stretch of the log begins with, whole, checked against its own transaction.

    Args:
        base: A checkpoint; None for the empty state before revision 0.
    Raises:
        ObjectNotFound: It vanished since the listing.
        CorruptError: It can't be relied on.
    Requests: 1 GET for the checkpoint, 1 for each of its segments but statistics, 1 for its
        transaction if listed.
    """
    if base is None:
        return _whole(empty_state(context.writer, context.database))
    state = context.log.checkpoint_state(base)
    check_writer_features(state)
    for item in listing.transactions.get(base.revision, ()):
        _match(context, state, context.log.transaction(item), listing.key(base))
    return _whole(state)


def _whole(state: State) -> State:
    """The state, once all its parts are read: nothing may come to light later."""
    refuse_broken(state)
    _ = state.schemas, state.definitions, state.deletes
    _ = state.applications, state.history.table()
    return state


def refuse_broken(state: State) -> None:
    """Raise if the files of a table can't be told: then nothing is known to be unneeded.

    Raises:
        CorruptObject: Names the object that says so.
    """
    files = state.files
    for error in (*files.broken.values(), *(error for _, error in files.broken_ranges)):
        raise error
    for table in files.tables():
        files.check(table)


def refuse_untouchable(state: State) -> None:
    """Raise if nothing of a log may be deleted, sound as it is.

    Raises:
        ForeignLog: It is another writer's or database's, copied to here or renamed.
        ConflictError: A rebuild has sealed it: it may be about to name any file, and reads it.
    """
    if state.is_foreign:
        raise foreign_error(state)
    if state.sealed_for:
        raise ConflictError(
            f"The log of {state.writer}/{state.database} was sealed for a rebuild that is not done",
            key=f"{state.writer}/{state.database}",
            hint="Nothing was deleted. Wait for the rebuild; if it was interrupted, run it again",
        )


def _match(
    context: MaintenanceContext, state: State, transaction: DecodedTransaction, key: str
) -> None:
    message = transaction.message
    if state.digest != transaction.digest:
        raise other_history(context, key)
    facts = {
        "log": (state.log, transaction.log),
        "revision": (state.revision, message.revision),
        "uuid": (state.uuid, message.uuid),
        "epoch": (state.epoch, message.epoch),
        "transaction id": (state.transaction_id, message.commit.members[-1].transaction_id),
        "commit time": (state.committed_at_us, message.commit.committed_at_us),
        "successor": (state.successor_uuid, message.commit.successor_uuid),
    }
    wrong = [name for name, (ours, theirs) in facts.items() if ours != theirs]
    if wrong:
        raise CorruptObject(
            f"Checkpoint {key} is not that of {transaction.key}: {', '.join(wrong)} differ",
            key=key,
            hint=f"Nothing was deleted. {SET_ASIDE}",
        )


def replay(
    context: MaintenanceContext,
    listing: Listing,
    state: State,
    goal: int,
    watch: Callable[[DecodedTransaction], None] | None = None,
) -> State:
    """Apply every transaction after a state up to a revision, in place.

    Args:
        goal: The last revision.
        watch: Is shown each transaction before it is applied.
    Raises:
        ObjectNotFound, MissingTransaction: One isn't there.
        CorruptError: One is damaged, doesn't follow, or needs what this lakelog doesn't know.
    Requests: 1 GET a transaction.
    """
    first = state.revision + 1
    for low in range(first, goal + 1, _READ_AT_ONCE):
        items = _items(listing, range(low, min(goal + 1, low + _READ_AT_ONCE)))
        for item, body in zip(items, _bodies(context, items), strict=True):
            _take(state, listing.key(item), body, watch)
        state.tail.clear()  # all parts are read: they have taken it in
        context.tell(state.revision + 1 - first, goal + 1 - first, "transactions read")
    check_writer_features(state)
    refuse_broken(state)
    return state


def _take(
    state: State, key: str, body: bytes, watch: Callable[[DecodedTransaction], None] | None
) -> None:
    transaction = decode_transaction(body, key)
    _refuse_unknown(transaction)
    if watch is not None:
        watch(transaction)
    apply(state, transaction)


def _read_on(context: MaintenanceContext, state: State, paths: list[pa.Array]) -> None:
    """Take in what follows a state whether or not it was listed, up to what committers write just
    now.

    Requests: 1 GET for each, and 1 for a name that is not there.
    """
    for _ in range(_MOST_BEYOND):
        found = beyond(context, state)
        if found is None:
            break
        _take(state, *found, lambda transaction: _add_paths(transaction, paths))
        state.tail.clear()
    check_writer_features(state)
    refuse_broken(state)


def _items(listing: Listing, revisions: range) -> list[LogObject]:
    missing = next((r for r in revisions if r not in listing.transactions), None)
    if missing is not None:
        raise MissingTransaction(
            f"Transaction {missing} of {listing.writer}/{listing.database} is missing",
            key=listing.folder + name_prefix(listing.incarnation, missing),
            readable=listing.readable(),
            hint="Restore the object from a copy, or rebuild the log",
        )
    return [listing.transactions[revision][0] for revision in revisions]


def _bodies(context: MaintenanceContext, items: Sequence[LogObject]) -> list[bytes]:
    keys = [context.log.folder + item.name for item in items]
    found: list[bytes] = []
    for key, body in zip(keys, context.store.get_many(keys), strict=True):
        if body is None:
            raise ObjectNotFound("no such object", key=key)
        found.append(body)
    return found


def _refuse_unknown(transaction: DecodedTransaction) -> None:
    """A reader may pass over an optional action of the future. It may name files, so we may not."""
    if any(action.WhichOneof("kind") is None for action in transaction.message.actions):
        raise UnsupportedFeature(
            f"{transaction.key} holds an optional action of a kind this lakelog doesn't know",
            key=transaction.key,
            hint="Upgrade lakelog before any maintenance of this log",
        )


def digests_of(state: State) -> dict[int, str]:
    """Hex digests of transactions by revision, as far as the state's history goes back."""
    rows = state.history.table().select(["revision", "digest"]).to_pylist()
    return {row["revision"]: row["digest"].hex() for row in rows}


@dataclass(slots=True)
class Retained:
    """What the retained revisions of a log name, those of lower incarnations included.

    Attributes:
        oldest: The oldest revision of the incarnation in use that can be read.
        state: At the head.
        paths: Every path that is live in some retained revision, and of every object that says
            which rows of one are deleted, with repeats.
    """

    oldest: int
    state: State
    paths: list[pa.Array]

    def references(self, paths: Sequence[str]) -> list[bool]:
        """Which of these paths some retained revision names, as any store might compare them.

        A name that lakelog made is one that a retained path ends in, whatever the folders are
        spelled like: it holds 128 random bits.
        """
        if not paths:
            return []
        wanted = column(paths, pa.string())
        known = pa.chunked_array(self.paths, pa.string())
        found: list[bool] = pc.is_in(wanted, value_set=known).to_pylist()
        own, foreign = {}, {}
        for place, (path, exact) in enumerate(zip(paths, found, strict=True)):
            if not exact and parse_own_file(path) is not None:
                own[place] = fold(last_segment(path))
            elif not exact:
                foreign[place] = fold(path)
        for folded, by_name in ((own, True), (foreign, False)):
            named = folded_among(self.paths, folded.values(), last_segments=by_name)
            for place, text in folded.items():
                found[place] = text in named
        return found


def read_retained(context: MaintenanceContext) -> Retained:
    """Read all that is retained: the state at the oldest readable revision, all later transactions.

    Raises:
        WriterNotFound, ForkError, MissingTransaction, CorruptError: Something is in doubt.
    Requests: 1 LIST, 1 GET for the oldest checkpoint, its segments, each later transaction and each
        checkpoint, and for a name that is not there; once the log was pruned, also those of
        `check_beginning`.
    """
    return with_listing(context, lambda names: _read_retained(context, names.listing))


def _read_retained(context: MaintenanceContext, listing: Listing) -> Retained:
    check_names(listing)
    check_no_gap(listing)
    plan_read(listing)  # raises if the head can't be read
    oldest = listing.oldest_readable()
    from_start = listing.run_start(listing.head) == 0
    if not from_start:
        check_beginning(context, listing, oldest)
    state = read_base(context, listing, None if from_start else listing.checkpoints[oldest][0])
    paths = named_by(state) + other_incarnations(context, listing)
    retained = Retained(oldest, state, paths)
    replay(context, listing, state, listing.head, lambda found: _add_paths(found, retained.paths))
    refuse_other_histories(context, listing, state)
    _read_on(context, state, retained.paths)
    refuse_untouchable(state)
    return retained


def other_incarnations(context: MaintenanceContext, listing: Listing) -> list[pa.Array]:
    """What the objects of other incarnations name: they can still be read by their tokens, or are
    of a rebuild that is not done.

    Raises:
        CorruptError: One can't be read, so that nobody knows what it names.
        MissingTransaction: One of them was not listed.
    Requests: 1 GET for each of their objects, and for each segment of files.
    """
    paths: list[pa.Array] = []
    decoded: list[DecodedTransaction] = []
    try:
        for low in range(0, len(listing.others), _READ_AT_ONCE):
            items = listing.others[low : low + _READ_AT_ONCE]
            transactions = [item for item in items if item.kind == "transaction"]
            for item, body in zip(transactions, _bodies(context, transactions), strict=True):
                key = listing.key(item)
                try:
                    transaction = decode_transaction(body, key)
                except CorruptObject:
                    if read_seal(body, key) is None:
                        raise
                    continue  # it only takes a name: no chain could hold it, and it names no file
                _refuse_unknown(transaction)
                _add_paths(transaction, paths)
                decoded.append(transaction)
            for item in items:
                if item.kind == "checkpoint":
                    paths.extend(named_by(context.log.checkpoint_state(item)))
    except CorruptObject as error:
        error.hint = (
            "It is of another incarnation than the one in use, whose files stay as long as it is "
            "there. Nothing was deleted. `lakelog prune` takes lower incarnations a day after a "
            "rebuild; names of a higher one are left by a rebuild that is not done"
        )
        raise
    check_other(context, listing, decoded)
    return paths


def follow(context: MaintenanceContext, retained: Retained) -> Retained:
    """The same, with what was committed since; read anew if the log is no longer a continuation.

    Requests: 1 LIST, 1 GET a new transaction and 1 for a name that is not there; as `read_retained`
        if it was pruned past the head.
    """
    head = retained.state.revision
    listing = context.log.names_down_to(head)
    same = [item.uuid8 for item in listing.transactions.get(head, ())]
    if (
        retained.state.log is None
        or listing.incarnation != retained.state.log.incarnation
        or same != [retained.state.uuid[:4].hex()]
        or listing.forks(head)
        or listing.run_start(listing.head) > head
    ):
        return read_retained(context)
    news: list[pa.Array] = []
    try:
        state = retained.state.copy()
        replay(context, listing, state, listing.head, lambda found: _add_paths(found, news))
        _read_on(context, state, news)
    except ObjectNotFound:
        return read_retained(context)
    refuse_untouchable(state)
    return Retained(retained.oldest, state, retained.paths + news)


def named_by(state: State) -> list[pa.Array]:
    """Paths of all that a state needs below `data/`: live files, and objects of row deletes."""
    return [*state.files.paths(), *state.deletes.objects()]


def _add_paths(transaction: DecodedTransaction, paths: list[pa.Array]) -> None:
    message = transaction.message
    kinds = [(action.WhichOneof("kind"), action) for action in message.actions]
    found = [action.add.path for kind, action in kinds if kind == "add"]
    found += [action.row_deletes.object for kind, action in kinds if kind == "row_deletes"]
    if found:
        paths.append(column(found, pa.string()))
    for pieces in transaction.batches.values():
        for part, _ in batch_parts(pieces):
            if not isinstance(part, Part):
                raise part
            paths.extend(part.run.core.column("path").chunks)
