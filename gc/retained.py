"""Reads a log for maintenance: whole and strictly, where a reader needs only a part.

Anything that deletes must know all that is retained: every transaction from the oldest readable
revision on is read and must be the next link of the chain; any doubt (a fork, a gap, a damaged
object, an unknown feature, a lost end) is an error. Everything else that is stored of the log
counts as well, in either copy: what an interrupted prune has left, what only the mirror still has,
other incarnations. A data file stays as long as any such object names it.

Source: docs/format.md, section 4; docs/maintenance.md.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.format.columns import column
from ..catalog.format.names import (
    LogObject,
    mirror_log_folder,
    mirror_segments_folder,
    name_prefix,
    segments_folder,
)
from ..catalog.format.objects import (
    DecodedTransaction,
    decode_checkpoint,
    decode_transaction,
    read_seal,
)
from ..catalog.format.path_column import fold, folded_among, last_segment
from ..catalog.log.admission import check_writer_features
from ..catalog.log.compared import live_files, read_whole
from ..catalog.log.listing import Listing, fork_error, plan_read, read_listing
from ..catalog.log.outcomes import foreign_error
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state
from ..catalog.read.log_folder import ATTEMPTS, PAUSE_S
from ..catalog.read.mirror import goes_further, lost_end_error, repair_command
from ..errors import (
    ConflictError,
    CorruptObject,
    LogLost,
    LostTail,
    MissingTransaction,
    ObjectNotFound,
    UnsupportedFeature,
    WriterNotFound,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..store import ObjectInfo
    from .context import MaintenanceContext

_T = TypeVar("_T")
_READ_AT_ONCE: Final = 256
SET_ASIDE: Final = (
    "Move the checkpoint elsewhere and run `lakelog check`: if the log can be read without it, "
    "`lakelog checkpoint --execute` writes a new one; else put it back"
)
_REPAIR: Final = (
    "Nothing was deleted. `lakelog check` names the command: a repair if the other copy has it, "
    "else a rebuild"
)


# --- Names ----------------------------------------------------------------------------------------


class Copy(NamedTuple):
    """The objects of one copy of a log (itself or its mirror), by name without the folder.
    `segments` is empty if the names of segments were not asked for."""

    log_folder: str
    segments_folder: str
    objects: Mapping[str, ObjectInfo]
    segments: Mapping[str, ObjectInfo]


@dataclass(frozen=True, slots=True)
class LogNames:
    """The names of one log in both copies; `listing` holds the parsed names of the log."""

    listing: Listing
    log: Copy
    mirror: Copy

    @property
    def copies(self) -> tuple[Copy, Copy]:
        """Both copies: the log, then its mirror."""
        return self.log, self.mirror

    def same_names(self, other: LogNames | None) -> bool:
        """Checks whether another listing showed the very same names."""
        return (
            other is not None
            and self.log.objects.keys() == other.log.objects.keys()
            and self.mirror.objects.keys() == other.mirror.objects.keys()
        )


def list_log(context: MaintenanceContext, *, segments: bool) -> LogNames:
    """Lists all names of a log, in both copies.

    The order counts. Segments come first: a checkpoint that is listed has its segments in the
    listing. The mirror comes before the log: a transaction is put there second, so the mirror shows
    nothing that the log doesn't, unless the log has lost it.

    Args:
        segments: Whether to list the segments as well.
    Requests: 2 LIST, or 4 with segments; 1 more per 1,000 names on S3.
    """
    names = context.writer, context.database
    folders = segments_folder(*names), mirror_segments_folder(*names)
    parts = [_infos(context, folder) if segments else {} for folder in folders]
    copied = _infos(context, mirror_log_folder(*names))
    own = _infos(context, context.log.folder)
    return LogNames(
        read_listing(*names, own),
        Copy(context.log.folder, folders[0], own, parts[0]),
        Copy(mirror_log_folder(*names), folders[1], copied, parts[1]),
    )


def _infos(context: MaintenanceContext, folder: str) -> dict[str, ObjectInfo]:
    return {info.key[len(folder) :]: info for info in context.store.list(folder)}


def with_listing(
    context: MaintenanceContext, work: Callable[[LogNames], _T], *, segments: bool = False
) -> _T:
    """Does `work` on a listing of the log, and again on a new one if the log moved under it.

    A listing races with writers and with prune: what it shows may be gone, and what it doesn't show
    may be there. Only what a second look confirms is an error.

    Args:
        segments: Whether `work` needs the names of segments.
    Raises:
        MissingTransaction: Listed objects are not there, several times.
        LakelogError: What `work` raises.
    """
    before: LogNames | None = None
    for attempt in range(ATTEMPTS):
        names = list_log(context, segments=segments)
        try:
            return work(names)
        except (MissingTransaction, ObjectNotFound, CorruptObject, LostTail, LogLost) as error:
            confirmed = not isinstance(error, (MissingTransaction, ObjectNotFound))
            if (confirmed and names.same_names(before)) or attempt == ATTEMPTS - 1:
                if isinstance(error, ObjectNotFound):
                    raise _never_there(context, names.listing, error) from error
                raise
        before = names
        context.ambient.sleep_s(PAUSE_S * (attempt + 1))
    raise AssertionError("unreachable")


def _never_there(
    context: MaintenanceContext, listing: Listing, error: ObjectNotFound
) -> MissingTransaction:
    return MissingTransaction(
        f"{error.key} of {context.where} was listed but could not be read, several times",
        key=error.key,
        readable=listing.readable(),
        hint="Is something deleting objects there? Try again, or run `lakelog check`",
    )


def check_names(names: LogNames) -> None:
    """Refuses a log that isn't there, has lost its end, or is not one line of history.

    Raises:
        WriterNotFound: There is no log.
        LostTail, LogLost: The mirror goes on above the head of the log.
        ForkError: Objects of two histories are stored under one revision.
    """
    listing = names.listing
    where = f"{listing.writer}/{listing.database}"
    copies = read_listing(listing.writer, listing.database, sorted(names.mirror.objects))
    if goes_further(copies, listing):
        raise lost_end_error(listing, copies)
    if listing.head < 0 and listing.others:
        raise CorruptObject(
            f"{where} has an incarnation without its checkpoint, and no other",
            key=listing.key(listing.others[0]),
            hint="Rebuild the log before any maintenance",
        )
    if listing.head < 0:
        raise WriterNotFound(
            f"{where} has no log",
            key=listing.folder,
            hint="Check the writer and the database. If the log was lost, rebuild it before any "
            "maintenance: without it no data file can be told from an orphan",
        )
    for revision in listing.forks():
        raise fork_error(listing, revision)


def check_no_gap(listing: Listing) -> None:
    """Refuses a log with a hole, or with anything readable below its beginning.

    Prune takes objects from the beginning in ascending order, so not even an interrupted one leaves
    a hole: one is damage, and what lies below it may still be wanted by a repair.

    Raises:
        MissingTransaction: Names the first one that is missing below the head.
    """
    first = listing.run_start(listing.head)
    stray = [r for r in listing.transactions if r < first]
    stray += [c for c in listing.checkpoints if c < first - 1]
    if stray:
        raise MissingTransaction(
            f"Transaction {first - 1} of {listing.writer}/{listing.database} is missing, and "
            f"objects of revision {max(stray)} and before are there",
            key=listing.folder + name_prefix(listing.incarnation, first - 1),
            readable=listing.readable(),
            hint=_REPAIR,
        )


# --- Bases and replay -----------------------------------------------------------------------------


def read_base(context: MaintenanceContext, listing: Listing, base: LogObject | None) -> State:
    """Reads the whole state of a checkpoint, and checks it against its transaction.

    Args:
        base: The checkpoint; None for the empty state before revision 0.
    Raises:
        ObjectNotFound: It vanished since the listing.
        CorruptError: It can't be relied on.
    Requests: 1 GET for the checkpoint, 1 for each of its segments but statistics, 1 for its
        transaction if listed.
    """
    if base is None:
        return read_whole(empty_state(context.writer, context.database))
    state = read_checkpoint(context, listing.key(base))
    check_writer_features(state)
    for item in listing.transactions.get(base.revision, ()):
        _match(state, context.log.transaction(item), listing.key(base))
    return read_whole(state)


def read_checkpoint(context: MaintenanceContext, key: str) -> State:
    """Reads one checkpoint, of the log or of its mirror, without any fallback. Raises
    `ObjectNotFound` or `CorruptError`.

    Requests: 1 GET; its segments are read when they are needed, from the log or else the mirror.
    """
    return context.log.checkpoint_of(decode_checkpoint(context.store.get(key), key))


def refuse_untouchable(state: State) -> None:
    """Refuses a log of which nothing may be deleted, sound as it is.

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


def _match(state: State, transaction: DecodedTransaction, key: str) -> None:
    message = transaction.message
    facts = {
        "digest": (state.digest, transaction.digest),
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
    paths: list[pa.Array] | None = None,
) -> State:
    """Applies every transaction after a state up to a revision, in place.

    Args:
        goal: The last revision.
        paths: Takes the paths of all that these transactions name below `data/`.
    Raises:
        ObjectNotFound, MissingTransaction: One isn't there.
        CorruptError: One is damaged, doesn't follow, or needs what this lakelog doesn't know.
    Requests: 1 GET a transaction.
    """
    first = state.revision + 1
    for low in range(first, goal + 1, _READ_AT_ONCE):
        items = _items(listing, range(low, min(goal + 1, low + _READ_AT_ONCE)))
        for key, body in _bodies(context, [listing.key(item) for item in items]):
            transaction = decode_transaction(body, key)
            _refuse_unknown(transaction)
            if paths is not None:
                _add_paths(transaction, paths)
            apply(state, transaction)
        state.tail.clear()  # all parts are read: they have taken it in
        context.tell(state.revision + 1 - first, goal + 1 - first, "transactions read")
    check_writer_features(state)
    live_files(state)
    return state


def _items(listing: Listing, revisions: range) -> list[LogObject]:
    missing = next((r for r in revisions if r not in listing.transactions), None)
    if missing is not None:
        raise MissingTransaction(
            f"Transaction {missing} of {listing.writer}/{listing.database} is missing",
            key=listing.folder + name_prefix(listing.incarnation, missing),
            readable=listing.readable(),
            hint=_REPAIR,
        )
    return [listing.transactions[revision][0] for revision in revisions]


def _bodies(context: MaintenanceContext, keys: Sequence[str]) -> Iterable[tuple[str, bytes]]:
    for key, body in zip(keys, context.store.get_many(keys), strict=True):
        if body is None:
            raise ObjectNotFound("no such object", key=key)
        yield key, body


def _refuse_unknown(transaction: DecodedTransaction) -> None:
    """A reader may pass over an optional action of the future. It may name files, so gc may not."""
    if any(action.WhichOneof("kind") is None for action in transaction.message.actions):
        raise UnsupportedFeature(
            f"{transaction.key} holds an optional action of a kind this lakelog doesn't know",
            key=transaction.key,
            hint="Upgrade lakelog before any maintenance of this log",
        )


def digests_of(state: State) -> dict[int, str]:
    """Returns hex digests of transactions by revision, as far as the state's history goes back."""
    rows = state.history.table().select(["revision", "digest"]).to_pylist()
    return {row["revision"]: row["digest"].hex() for row in rows}


# --- What is retained -----------------------------------------------------------------------------


@dataclass(slots=True)
class Retained:
    """What the stored objects of a log name.

    Attributes:
        state: At the head.
        paths: Every path that is live in some retained revision, and of every object of row
            deletes, with repeats.
        begun_at: When the oldest object of the incarnation in use was put, by the store's clock.
    """

    state: State
    paths: list[pa.Array]
    begun_at: dt.datetime | None

    def references(self, paths: Sequence[str]) -> list[bool]:
        """Checks which of these paths are named, as any store might compare them.

        A file counts as named if a named path ends in its name, whatever the folders are spelled
        like: a name that lakelog made holds 128 random bits.
        """
        if not paths:
            return []
        known = pa.chunked_array(self.paths, pa.string())
        named: list[bool] = pc.is_in(column(paths, pa.string()), value_set=known).to_pylist()
        rest = {place: fold(last_segment(paths[place])) for place, at in enumerate(named) if not at}
        same = folded_among(self.paths, rest.values(), last_segments=True)
        for place, name in rest.items():
            named[place] = name in same
        return named


def read_retained(context: MaintenanceContext) -> Retained:
    """Reads all that is retained. Raises `WriterNotFound`, `ForkError`, `MissingTransaction` or
    `CorruptError` if anything is in doubt.

    Requests: 2 LIST; 1 GET for the oldest checkpoint, its segments, each later transaction, and
        each object of another incarnation or below the oldest revision; those of `follow`.
    """
    for _ in range(ATTEMPTS):
        retained = with_listing(context, lambda names: _read_retained(context, names))
        fresh = _continued(context, retained)  # a listing is not of one moment
        if fresh is not None:
            return fresh
    raise MissingTransaction(
        f"The log of {context.where} was pruned or replaced while it was read, several times",
        key=context.log.folder,
        hint="Nothing was deleted. Try again",
    )


def _read_retained(context: MaintenanceContext, names: LogNames) -> Retained:
    listing = names.listing
    check_names(names)
    check_no_gap(listing)
    plan_read(listing)  # raises if the head can't be read
    oldest = listing.oldest_readable()
    from_start = listing.run_start(listing.head) == 0
    if not from_start:
        _refuse_unmirrored(names, listing.checkpoints[oldest][0])
    state = read_base(context, listing, None if from_start else listing.checkpoints[oldest][0])
    own = [*listing.transactions.values(), *listing.checkpoints.values()]
    times = [names.log.objects[item.name].modified_at for items in own for item in items]
    known = [at for at in times if at is not None]
    begun_at = min(known) if len(known) == len(times) else None
    paths = named_by(state) + _named_besides(context, names, oldest)
    retained = Retained(state, paths, begun_at)
    replay(context, listing, state, listing.head, retained.paths)
    refuse_untouchable(state)
    return retained


def _refuse_unmirrored(names: LogNames, base: LogObject) -> None:
    """Refuses a log that seems to begin with a checkpoint, and has no copy of any: prune and a
    rebuild put one, so the listings miss what is below it.

    Raises:
        MissingTransaction: Names the checkpoint.
    """
    listing = names.listing
    checkpoints = {item.name for items in listing.checkpoints.values() for item in items}
    if checkpoints.isdisjoint(names.mirror.objects):
        raise MissingTransaction(
            f"Listings of {listing.writer}/{listing.database} miss what is below the checkpoint of "
            f"revision {base.revision}: a log that begins with one has a copy of it in the mirror",
            key=listing.key(base),
            hint="Nothing was deleted. Try again; if it stays so, run "
            + repair_command(listing.writer, listing.database),
        )


def _named_besides(context: MaintenanceContext, names: LogNames, oldest: int) -> list[pa.Array]:
    """Returns the paths that all other objects name: of other incarnations (a token may still be
    read there, or a rebuild is under way), below the oldest revision, and of the mirror alone.

    Raises:
        CorruptError: One can't be read, so that nobody knows what it names.
    """
    listing = names.listing
    below = [item for items in listing.transactions.values() for item in items]
    below += [item for items in listing.checkpoints.values() for item in items]
    others = [item for item in below if item.revision < oldest] + listing.others
    keys = [listing.key(item) for item in others]
    copies = read_listing(listing.writer, listing.database, sorted(names.mirror.objects))
    mirrored = [*copies.transactions.values(), *copies.checkpoints.values(), copies.others]
    keys += [
        names.mirror.log_folder + item.name
        for items in mirrored
        for item in items
        if item.name not in names.log.objects
    ]
    paths: list[pa.Array] = []
    try:
        for key in keys:
            if key.endswith(".checkpoint"):
                paths += named_by(read_checkpoint(context, key))
        transactions = [key for key in keys if key.endswith(".transaction")]
        for low in range(0, len(transactions), _READ_AT_ONCE):
            for key, body in _bodies(context, transactions[low : low + _READ_AT_ONCE]):
                _add_paths_of(body, key, paths)
    except CorruptObject as error:
        error.hint = (
            "Nothing was deleted: files stay as long as an object is stored that may name them. "
            "Restore it from the other copy of the log; `lakelog prune` takes lower incarnations a "
            "day after a rebuild"
        )
        raise
    return paths


def _add_paths_of(body: bytes, key: str, paths: list[pa.Array]) -> None:
    try:
        transaction = decode_transaction(body, key)
    except CorruptObject:
        if read_seal(body, key) is None:
            raise
        return  # it only takes a name: no chain could hold it, and it names no file
    _refuse_unknown(transaction)
    _add_paths(transaction, paths)


def follow(context: MaintenanceContext, retained: Retained) -> Retained:
    """Returns the same with what was committed since; reads all again if the log was replaced.

    Requests: 1 LIST, 1 GET a new transaction, and 1 of the name after the head; as `read_retained`
        if the log is no continuation.
    """
    return _continued(context, retained) or read_retained(context)


def _continued(context: MaintenanceContext, retained: Retained) -> Retained | None:
    state = retained.state
    assert state.log is not None
    listing = context.log.names_down_to(state.revision)
    if (
        listing.incarnation != state.log.incarnation
        or {item.uuid8 for item in listing.names_at(state.revision)} != {state.uuid[:4].hex()}
        or listing.run_start(listing.head) > state.revision + 1
    ):
        return None
    news: list[pa.Array] = []
    try:
        state = replay(context, listing, state.copy(), listing.head, news)
    except ObjectNotFound:
        return None
    with suppress(ObjectNotFound):
        for _ in range(_READ_AT_ONCE):
            _apply_next(context, state, news)
    refuse_untouchable(state)
    return replace(retained, state=state, paths=retained.paths + news)


def _apply_next(context: MaintenanceContext, state: State, paths: list[pa.Array]) -> None:
    """Applies the transaction under the name that the head has promised, which a listing may miss.

    Raises:
        ObjectNotFound: There is none.
    """
    assert state.log is not None
    uuid8 = state.next_uuid[:4].hex()
    item = LogObject(state.log.incarnation, state.revision + 1, uuid8, "transaction")
    key = context.log.folder + item.name
    transaction = decode_transaction(context.store.get(key), key)
    _refuse_unknown(transaction)
    _add_paths(transaction, paths)
    apply(state, transaction)
    state.tail.clear()


def named_by(state: State) -> list[pa.Array]:
    """Returns the paths that a state needs below `data/`: live files and objects of row deletes."""
    return [*state.files.paths(), *state.deletes.objects()]


def _add_paths(transaction: DecodedTransaction, paths: list[pa.Array]) -> None:
    message = transaction.message
    kinds = [(action.WhichOneof("kind"), action) for action in message.actions]
    added = [action.add.path for kind, action in kinds if kind == "add"]
    added += [action.row_deletes.object for kind, action in kinds if kind == "row_deletes"]
    if added:
        paths.append(column(added, pa.string()))
    for pieces in transaction.batches.values():
        for part, _ in batch_parts(pieces):
            if not isinstance(part, Part):
                raise part
            paths.extend(part.run.core.column("path").chunks)
