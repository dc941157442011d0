"""Plans the rebuild of a log: reads what is left of it, scans `data/`, applies the rules. The plan
says what comes back and what does not. It holds nothing that is written: executing it reads the log
and the footers again, and does what they say, if that is the very same plan. So a plan of unknown
origin can choose nothing but which transactions to exclude and include.

Source: docs/recovery.md, "rebuild: a log from the data files"; docs/format.md, section 4.5.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import MAX_INCARNATION, base_folder, check_id
from ..catalog.log.part import Part, added_files, batch_parts
from ..catalog.parallel import AT_ONCE, Embedded, parallel
from ..errors import NotFoundError, StorageError, UsageError
from ..plans import Effect, Field, Group, Source, as_text, open_source
from ..plans.saved import decode_plan, encode_plan
from .old_log import live_files_of, plan_seals, read_old_log
from .rules import EXCLUDED, INCLUDED, REMOVED, Base, Decision, Readable, Salvaged, decide
from .scan import FileName, LeftOut, LeftOutKind, Scan, is_there, keep_own, scan_data

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.format.objects import DecodedTransaction, StandingSeal
    from ..catalog.log.state import State
    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import Store
    from .old_log import OldLog

Proof = Literal["proven", "unproven"]
_ID: Final = re.compile(r"[0-9a-f]{32}")
IN_ONE: Final = 50_000  # actions in one transaction
_ASKED: Final = 1_000
_KINDS: Final[dict[str, LeftOutKind]] = {EXCLUDED: "excluded", REMOVED: "removed"}
_TRANSACTION: Final = (
    Field("transaction_id"),
    Field("proof"),
    Field("revision", style="count"),
    Field("operation"),
    Field("files", "FILES+", style="count"),
    Field("removes", "FILES-", style="count"),
    Field("rows", "ROWS", style="count"),
    Field("size_bytes", "SIZE", style="size"),
    Field("why", shown=False),
)
_LEFT_OUT: Final = (
    Field("kind"),
    Field("path"),
    Field("row_count", "ROWS", style="count"),
    Field("size_bytes", "SIZE", style="size"),
    Field("transaction_id", shown=False),
    Field("reason"),
)


@dataclass(frozen=True, slots=True)
class SalvagedTransaction:
    """A lost transaction, by the footers of its files.

    Attributes:
        transaction_id: Hex.
        proof: `proven`: a footer says that it was committed. `unproven`: none does, and it may have
            been.
        revision: Its place in the log; None if it has none there.
        operation: As its footers say.
        files: Tables and paths of what it adds.
        rows, size_bytes: Of these files.
        removes: Live files that it takes out: none if it is unproven, but for a rewrite.
        why: Why it counts, in words.
    """

    transaction_id: str
    proof: Proof
    revision: int | None
    operation: str
    files: tuple[FileName, ...]
    rows: int
    size_bytes: int
    removes: tuple[FileName, ...]
    why: str


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt: the next incarnation. Immutable; `execute_rebuild` writes it.

    Attributes:
        kind: `rebuild`.
        url: The catalog's root.
        writer, database: Whose log.
        made_at: When, UTC, by the planner's clock.
        rebuild_id: Hex; the names that it writes follow from it.
        sealed, incarnation: The present incarnation, which is ended, and the next.
        revision: Of its opening checkpoint, above all that was seen.
        epoch: Of that: above all that was seen, so that old owners are fenced.
        base: Incarnation and revision of the newest state that can be read; 0 and -1 if none can.
        exclude, include: Ids (hex) of transactions that the user left out, or took in.
        transactions: Lost transactions that count, in order.
        left_out: Objects that the log won't name, and live files that are gone, each with the
            reason.
        lost: How many revisions are lost that no footer names.
        digest: Of all that it was made from: the log, and the names and sizes below `data/`.
        notes: What can't be known, in words.
    """

    kind: Literal["rebuild"]
    url: str
    writer: str
    database: str
    made_at: dt.datetime
    rebuild_id: str
    sealed: int
    incarnation: int
    revision: int
    epoch: int
    base: tuple[int, int]
    exclude: tuple[str, ...]
    include: tuple[str, ...]
    transactions: tuple[SalvagedTransaction, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    lost: int
    digest: bytes = field(repr=False)
    # An execution that was broken off has put seals: they are no change.
    notes: tuple[str, ...] = field(repr=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether the old log is read to its end, and no file is of anything more."""
        return not (self.transactions or self.lost or self.base[1] < 0)

    @property
    def unproven(self) -> tuple[SalvagedTransaction, ...]:
        """Transactions that may have been written and never committed."""
        return tuple(item for item in self.transactions if item.proof == "unproven")

    @property
    def effect(self) -> Effect:
        """What it writes; the size is that of the files that it brings back."""
        return Effect("write", "checkpoint", 1, sum(one.size_bytes for one in self.transactions))

    def groups(self) -> tuple[Group, ...]:
        """What comes back, and what is left out."""
        return (
            Group("transactions", "", _TRANSACTION, _rows(_TRANSACTION, self.transactions)),
            Group("left_out", "left out", _LEFT_OUT, _rows(_LEFT_OUT, self.left_out)),
        )

    def describe(self) -> str:
        """Returns the plan as text."""
        return as_text(self)

    def to_json(self) -> str:
        """Returns the plan as JSON text, for `from_json`."""
        return encode_plan(self, "transactions")

    @classmethod
    def from_json(cls, text: str | bytes) -> RebuildPlan:
        """Returns a plan from `to_json`.

        Raises:
            UsageError: Not a plan, or one of another format.
            InvalidName: It names what can't be.
        """
        plan = decode_plan(cls, text)
        check_id(plan.writer, "writer")
        check_id(plan.database, "database")
        if not _ID.fullmatch(plan.rebuild_id) or not 1 < plan.incarnation <= MAX_INCARNATION:
            raise UsageError(
                "This can't be a rebuild plan: a number or an id is out of range",
                key=plan.rebuild_id[:60],
                hint="The plan was not made by lakelog, or was changed. Make a new one",
            )
        return plan


@dataclass(frozen=True, slots=True)
class Survey:
    """What is left of a log, what the rules make of it, and how its incarnation is ended."""

    old: OldLog
    scan: Scan
    decision: Decision
    seals: list[StandingSeal]
    plan: RebuildPlan


def _rows(columns: Iterable[Field], items: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Returns a row for each item: its attributes; of several things their number."""
    return tuple(
        {
            column.name: len(value) if isinstance(value, tuple) else None if value == "" else value
            for column in columns
            for value in [getattr(item, column.name)]
        }
        for item in items
    )


# --- Planning -------------------------------------------------------------------------------------


def plan_rebuild(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    exclude: Collection[str] = (),
    include: Collection[str] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
    ambient: Ambient | None = None,
) -> RebuildPlan:
    """Plans the next incarnation of a log from whatever can be read of its two copies, and from the
    footers of the data files that it doesn't have live. Nothing is written.

    Args:
        source: The catalog, or its store.
        exclude: Ids (hex) of transactions to leave out: of those that the plan calls unproven.
        include: Ids (hex) of transactions whose files are added though the rules leave them out.
        engine: Who reads the footers; None: threads of this process. The plan is the same.
        progress: Called with (done, total, what), from this thread.
        ambient: Clock and identities; those of the catalog if not given.
    Raises:
        ForeignLog: The log is that of another writer or database.
        NotFoundError: There is neither a log nor a data file.
        UsageError: An excluded id that is no unproven transaction's, an included one of which the
            plan leaves no file out, or the last incarnation is in use.
        UnsupportedFeature: A later version wrote the log.
        StorageError: The store failed.
    Requests: 3 LIST, as reading the newest state of this one log, and 2 GET for each transaction;
        1 or 2 GET for each data file that it has not live.
    """
    place = open_source(source, ambient)
    asked = tuple(exclude), tuple(include)
    return survey(place, writer, database, *asked, engine=engine, progress=progress).plan


def survey(
    place: Source,
    writer: str,
    database: str,
    exclude: tuple[str, ...],
    include: tuple[str, ...],
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    again: RebuildPlan | None = None,
) -> Survey:
    """Reads all that is left of a log, and decides what becomes of it.

    Args:
        again: A plan that was made before: its time and its names are taken, and what it may have
            written of its incarnation is not looked at.
    Raises, Requests: As `plan_rebuild`.
    """
    store, ambient = place.store, place.ambient
    check_id(writer, "writer")
    check_id(database, "database")
    below = MAX_INCARNATION + 1 if again is None else again.incarnation
    old = read_old_log(store, writer, database, ambient, below=below)
    live = live_files_of(old.state)
    engine = engine or Embedded(AT_ONCE if ambient.in_background else 1)
    vectors = (path for paths in old.state.deletes.objects() for path in paths.to_pylist())
    paths = {path for _, path in live}.union(vectors)
    scan = scan_data(
        place.wide, writer, database, old.top, engine=engine, live=paths, progress=progress
    )
    log_id = keep_own(scan, writer, database, old.log_id)
    if not log_id:
        raise NotFoundError(
            f"There is nothing to rebuild: {store.url} has neither a log nor data files of "
            f"{writer}/{database}",
            key=f"{base_folder(writer, database)}data/",
            hint="Check URL, writer and database",
        )
    ids = {file.transaction_id for file in scan.own}
    excluded = {one for one in ids if one.hex() in exclude}
    included = frozenset(one for one in ids - excluded if one.hex() in include)
    readable = {revision: _readable(found) for revision, found in old.readable.items()}
    rivals = {one: of.message.revision for of in old.rivals for one in of.transaction_ids}
    base = _base(old.state, live, scan)
    decision = decide(base, readable, scan.own, scan.sizes, excluded, rivals, included)
    _check_asked(exclude, include, decision)
    _refuse_unlisted(store, base_folder(writer, database), decision)
    present = max([old.incarnation, *(one.incarnation for one in scan.own)])
    following = present + 1 if old.seal is None else old.seal.next_incarnation
    if following > MAX_INCARNATION:
        raise UsageError(
            f"{writer}/{database} is in its last incarnation, {present}",
            hint="Copy its data files to another writer, and add them there",
        )
    if again is not None:
        rebuild_id, made_at = bytes.fromhex(again.rebuild_id), again.made_at
    else:
        rebuild_id = ambient.new_id() if old.seal is None else old.seal.rebuild_id
        now = dt.timedelta(microseconds=ambient.now_us())
        made_at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + now
    seals = plan_seals(old, scan, LogIdentity(log_id, present), rebuild_id, following)
    plan = _plan(store.url, made_at, old, scan, decision, live, seals, (exclude, include))
    return Survey(old, scan, decision, seals, plan)


# --- What the rules are asked ---------------------------------------------------------------------


def _base(state: State, live: Mapping[FileName, int], scan: Scan) -> Base:
    if state.revision < 0 or state.log is None:
        return Base()
    apps = {one.app_id for one in scan.own if one.app_id}
    rows = state.history.table()
    columns = ("revision", "epoch", "transaction_ids")
    history = zip(*(rows.column(one).to_pylist() for one in columns), strict=True)
    return Base(
        state.revision,
        state.epoch,
        state.log.incarnation,
        {revision: (epoch, frozenset(ids)) for revision, epoch, ids in history},
        frozenset(live),
        {app: state.applications.version(app) for app in apps},
    )


def _readable(found: DecodedTransaction) -> Readable:
    adds: set[FileName] = set()
    removes: set[FileName] = set()
    hides: set[FileName] = set()
    for place, action in enumerate(found.message.actions):
        kind = action.WhichOneof("kind")
        if kind == "remove":
            removes.add((action.remove.table, action.remove.path))
            adds.discard((action.remove.table, action.remove.path))
        if kind == "row_deletes":
            hides.add((action.row_deletes.table, action.row_deletes.path))
        new = [(action.add.table, action.add.path)] if kind == "add" else []
        for part, _ in batch_parts(found.batches[place]) if kind == "add_batch" else ():
            assert isinstance(part, Part), "damaged ones were left out"
            tables, paths = (part.run.full().column(one).to_pylist() for one in ("table", "path"))
            new += zip(tables, paths, strict=True)
        adds.update(new)
        removes.difference_update(new)
    members = found.message.commit.members
    versions = frozenset((one.app_id, one.app_version) for one in members if one.app_id)
    named = frozenset(adds), frozenset(removes), frozenset(hides)
    return Readable(found.transaction_ids, found.message.epoch, *named, versions)


def _check_asked(exclude: Collection[str], include: Collection[str], decision: Decision) -> None:
    """Refuses ids that choose nothing, and such of transactions that are known to be committed."""
    known = {one.attempt.transaction_id.hex(): one for one in decision.salvaged}
    refused = {one.hex() for one in decision.refused}
    for text in exclude:
        if text in known or text not in refused:
            raise UsageError(
                f"Transaction {text} was committed: {known[text].why}"
                if text in known
                else f"No data file is of a lost transaction {text!r}",
                key=text,
                hint="Exclude ids that the plan calls unproven",
            )
    for text in include:
        if text not in known or known[text].why != INCLUDED:
            raise UsageError(
                f"The plan leaves no file of a transaction {text!r} out",
                key=text,
                hint="Include ids of files that the plan lists as left out",
            )


def _refuse_unlisted(store: Store, folder: str, decision: Decision) -> None:
    """Refuses a listing that lacks live files which are there: the log would lose them.

    Requests: 1 HEAD for each live file that is not listed, up to 1,000.
    """
    keys = sorted(folder + path for _, path in decision.gone)[:_ASKED]
    for key in itertools.compress(keys, parallel(partial(is_there, store), keys)):
        raise StorageError(
            f"The store's listing doesn't show {key}, which is there",
            key=key,
            hint="Plan the rebuild again. If listings go on to lack it, copy the catalog to another"
            " store, and rebuild there",
        )


def parts_of(decision: Decision, scan: Scan) -> int:
    """Returns how many revisions it takes at the end to hold all that may come there."""
    actions = len(decision.gone) + 3 * len(scan.schemas) + 2
    for one in decision.salvaged:
        vectors = sum(len(file.vectors) for file in one.attempt.vectors)
        actions += len(one.files) + len(one.removes) + vectors
    return 1 + actions // IN_ONE


# --- The plan -------------------------------------------------------------------------------------


def _plan(  # noqa: PLR0917 - all that was found
    url: str,
    made_at: dt.datetime,
    old: OldLog,
    scan: Scan,
    decision: Decision,
    live: Mapping[FileName, int],
    seals: Sequence[StandingSeal],
    asked: tuple[tuple[str, ...], tuple[str, ...]],
) -> RebuildPlan:
    state, seal = old.state, seals[0]
    rows_of = dict(live)
    for rows in (rows for one in old.readable.values() for rows in added_files(one)):
        columns = [rows.column(name).to_pylist() for name in ("table", "path", "row_count")]
        rows_of |= {(table, path): n for table, path, n in zip(*columns, strict=True)}
    counted = {one.attempt.transaction_id for one in decision.salvaged}
    bases = [one.base_revision + 1 for one in scan.own if one.transaction_id in counted]
    above = max([old.top, *(one.revision for one in seals), *bases])
    left_out = [*scan.left_out, *_refused(scan, decision)]
    gone = "its table has it, and it is not in the store any more"
    left_out += [LeftOut(n[1], 0, rows_of.get(n, 0), "gone", gone) for n in decision.gone]
    return RebuildPlan(
        kind="rebuild",
        url=url,
        writer=state.writer,
        database=state.database,
        made_at=made_at,
        rebuild_id=seal.rebuild_id.hex(),
        sealed=seal.log.incarnation,
        incarnation=seal.next_incarnation,
        revision=above + parts_of(decision, scan),
        epoch=seal.epoch + 1,
        base=(0, -1) if state.log is None else (state.log.incarnation, state.revision),
        exclude=asked[0],
        include=asked[1],
        transactions=tuple(map(_transaction, decision.salvaged)),
        left_out=tuple(sorted(left_out, key=lambda item: item.path.encode())),
        lost=decision.lost,
        digest=hashlib.sha256(b"".join([seal.log.log_id, *old.digests, scan.digest])).digest(),
        notes=_notes(old, decision, live),
    )


def _transaction(one: Salvaged) -> SalvagedTransaction:
    return SalvagedTransaction(
        transaction_id=one.attempt.transaction_id.hex(),
        proof="proven" if one.is_proven else "unproven",
        revision=one.revision,
        operation=one.attempt.first.operation,
        files=tuple((file.table, file.path) for file in one.files),
        rows=sum(file.row_count for file in one.files),
        size_bytes=sum(file.size_bytes for file in one.files),
        removes=tuple(sorted(one.removes)),
        why=one.why,
    )


def _refused(scan: Scan, decision: Decision) -> list[LeftOut]:
    """Returns the files of transactions that don't count, and those of other attempts at a task."""
    counted = {path for _, path in decision.live}
    counted |= {file.path for one in decision.salvaged for file in one.attempt.vectors}
    known = {one.attempt.transaction_id: one.attempt for one in decision.salvaged}
    found: list[LeftOut] = []
    for file in scan.own:
        own = file.transaction_id
        if file.path in counted or (own not in known and own not in decision.refused):
            continue
        is_counted = own in known and file in known[own].files
        rest = REMOVED if is_counted else "another attempt at its task has more rows, or as many"
        why = decision.refused.get(own, rest)
        found.append(file.left_out(_KINDS.get(why, "uncommitted"), why))
    return found


def _notes(old: OldLog, decision: Decision, live: Collection[FileName]) -> tuple[str, ...]:
    """Says what can't be known."""
    found = list(old.doubts[:1])
    if old.state.revision < 0 and not old.readable:
        found.append("Nothing of the log's state can be read: all is by the footers of data files")
    if decision.lost:
        found.append(
            f"{count(decision.lost, 'revision')} below the head left nothing to read: rows that it "
            "deleted and files that it removed are live again, and files that it brought back or "
            "that lie elsewhere are not"
        )
    placeless = [one for one in decision.salvaged if one.revision is None]
    unknown = "nothing says whether it was committed: its rows come back"
    branch = (
        "the revision is another one's, for the log lost its end, or forked: all rows come back"
    )
    for is_proven, what in ((False, unknown), (True, branch)):
        some = [one for one in placeless if one.is_proven is is_proven]
        if some:
            rows = count(sum(file.row_count for one in some for file in one.files), "row")
            of = f"Of {count(len(some), 'transaction')} with {rows} {what}"
            found.append(f"{of}. --exclude leaves one out")
    kept = sum(len(one.attempt.replaces.intersection(live) - one.removes) for one in placeless)
    if kept:
        found.append(
            f"Transactions that are added again replaced {count(kept, 'live file')} that the log "
            "keeps: rows may be there twice"
        )
    if any(one.attempt.first.app_id for one in decision.salvaged):
        found.append("A version of an application whose transaction is unproven can be run again")
    return tuple(found)


def count(number: int, noun: str) -> str:
    """Returns `3 rows`, `1 row`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
