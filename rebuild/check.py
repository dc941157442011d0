"""Check: what is wrong with the logs and files of a database, without changing anything.

Every object of a log is read in both places, the log and its mirror; the chain is replayed from the
beginning of what is retained, and each checkpoint is compared with the state that the log below it
leads to. Then, by level, the data files: whether they exist, whether their footers are those that
the log knows, whether their pages match their checksums. A finding is a row: the object, what is
wrong, how much is at stake, and the command that repairs it. An object counts as damaged only after
two reads.

Source: docs/maintenance.md, "Check".
"""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.data.file_part import FilePart, reading
from ..catalog.data.pages import damaged_column
from ..catalog.data.parquet import UNKNOWN_DIGEST, footer_digest
from ..catalog.format.deletes import bitmaps_of, damaged, decode_bitmap
from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import (
    base_folder,
    is_in_place,
    mirror_key,
    parse_own_file,
    segments_folder,
)
from ..catalog.format.objects import decode_checkpoint, decode_transaction, read_seal
from ..catalog.format.pieces import OF_A_PART
from ..catalog.format.run import files_rows
from ..catalog.log.checkpoint_files import decode_describing
from ..catalog.log.history import transaction_row
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state
from ..catalog.parallel import each_in_parallel, parallel
from ..catalog.read.log_reader import LogReader
from ..catalog.read.mirror import repair_command
from ..catalog.read.set_back import lost_bases
from ..catalog.read.statistics import all_differences
from ..errors import CorruptError, DatabaseNotFound, LakelogError, ObjectNotFound, UsageError
from .findings import LEVELS, CheckReport, Finding, Level, Remedy, Severity, Subset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..catalog.ambient import Ambient
    from ..catalog.format.names import LogObject
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.listing import Listing
    from ..store import ObjectInfo, Store, WideStore

_AT_ONCE: Final = 256
_NAMED: Final = 3
_FOLDERS: Final = frozenset({"transactions", "mirror", "data"})


class Place(Protocol):
    """What a check needs of a catalog: where it is, and the clock."""

    url: str
    store: Store
    wide: WideStore
    ambient: Ambient


def check(
    catalog: Place,
    database: str | None = None,
    *,
    writer: str | None = None,
    level: Level = "files",
    read_data_subset: str | None = None,
    progress: Callable[[int], None] = lambda number: None,
) -> CheckReport:
    """Checks the logs and data files of a database, or of all. Changes nothing.

    Args:
        database, writer: Only of this one; None: all.
        level: `log`, `files` (existence and size), `footers`, or `data` (page checksums).
        read_data_subset: Of which files the pages are read: `5%`, `1/7`, `10GiB`; None: of all.
        progress: Called with the number of objects that were looked at since the last call.
    Returns:
        The findings.
    Raises:
        UsageError: There is no such level or share.
        DatabaseNotFound: There is no such log, and nothing is left of one.
        StorageError: The store can't be listed.
    Requests: for each log 4 LIST and 1 GET for each object in either place; with `files` the LIST
        of `data/` and 1 HEAD for each external file; with `footers` 1 GET a file; with `data` as
        reading the chosen files whole.
    """
    if level not in LEVELS:
        raise UsageError(f"There is no level {level!r:.40}", hint=f"Give {', '.join(LEVELS)}")
    subset = Subset() if read_data_subset is None else Subset.parse(read_data_subset)
    checks = [
        _LogCheck(catalog, LogReader(catalog.store, owner, name, catalog.ambient), progress)
        for owner, name in logs_to_check(catalog, database, writer)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it would warn of is a finding
        for one in checks:
            if level != "log":
                one.list_data()  # before the log is read: what is named by then was put before
            one.check_log()
            if level != "log":
                one.check_files()
                one.check_bases()
            if level in ("footers", "data"):
                one.check_footers()
            if level == "data":
                subset = one.check_pages(subset)
    order: list[Severity] = ["error", "warning", "note"]
    found = sorted(
        (f for one in checks for f in one.findings), key=lambda f: order.index(f.severity)
    )
    return CheckReport(
        level,
        tuple(found),
        sum(one.objects for one in checks),
        sum(one.files_seen for one in checks),
        sum(one.bytes_read for one in checks),
    )


def logs_to_check(
    catalog: Place, database: str | None, writer: str | None
) -> list[tuple[str, str]]:
    """Returns the writer and database of each log that is there in either place, or whose data
    files are left; sorted.

    Raises:
        DatabaseNotFound: There is none.
    """
    from ..catalog.format.names import is_id

    store, found = catalog.store, []
    for owner in store.list_folders(""):
        if not is_id(owner) or (writer is not None and owner != writer):
            continue
        for name in store.list_folders(f"{owner}/"):
            if not is_id(name) or (database is not None and name != database):
                continue
            if _FOLDERS & set(store.list_folders(base_folder(owner, name))):
                found.append((owner, name))
    if not found:
        what = " ".join(
            f"{kind} {name!r}"
            for kind, name in (("writer", writer), ("database", database))
            if name is not None
        )
        raise DatabaseNotFound(
            f"{catalog.url} has no log of {what or 'any writer'}",
            key=database or writer,
            hint="`lakelog databases` lists the databases with their writers",
        )
    return found


@dataclass(slots=True)
class _Pair:
    """One object in both places.

    Attributes:
        bodies: The bytes in the log and in the mirror; None: not there.
        decoded: What they decode to; None: not there, or damaged.
        errors: What is wrong with each; empty: nothing.
    """

    bodies: list[bytes | None]
    decoded: list[Any]
    errors: list[str]

    @property
    def best(self) -> Any:
        """What can be read, the log's own first."""
        return self.decoded[0] if self.decoded[0] is not None else self.decoded[1]


@dataclass(frozen=True, slots=True)
class _Bitmap:
    """Where the deletion vector of a data file lies in its object, as the log says."""

    table: str
    path: str
    offset: int
    length: int
    cardinality: int
    digest: bytes


@dataclass(slots=True)
class _LogCheck:
    """The check of one log."""

    catalog: Place
    log: LogReader
    progress: Callable[[int], None]
    findings: list[Finding] = field(default_factory=list)
    objects: int = 0
    files_seen: int = 0
    bytes_read: int = 0
    start: int = 0  # the revision from which the log is retained
    head: State | None = None
    times: dict[int, tuple[int, int]] = field(default_factory=dict)  # rows added, committed at
    files: list[pa.Table] = field(default_factory=list)
    deletes: dict[str, set[_Bitmap]] = field(default_factory=dict)  # by object of row deletes
    listed: dict[str, ObjectInfo] = field(default_factory=dict)  # below `data/`, by path

    @property
    def store(self) -> Store:
        """The store that holds the log."""
        return self.log.store

    def report(
        self,
        severity: Severity,
        key: str,
        problem: str,
        *,
        remedy: Remedy = "",
        revision: int | None = None,
        rows: int | None = None,
        table: str = "",
        command: str = "",
    ) -> None:
        """Adds a finding, with the commit times of what is at stake."""
        at = self.times.get(-1 if revision is None else revision)
        self.findings.append(
            Finding(
                severity,
                self.log.writer,
                self.log.database,
                key,
                problem,
                remedy,
                table,
                revision,
                rows if rows is not None or at is None else at[0],
                None if at is None else _time(at[1]),
                None if self.head is None or at is None else _time(self.head.committed_at_us),
                command or self._command(remedy),
            )
        )

    def _command(self, remedy: Remedy) -> str:
        if remedy == "rebuild":
            return f"lakelog rebuild URL {self.log.database} --writer {self.log.writer}"
        return repair_command(self.log.writer, self.log.database).strip("`") if remedy else ""

    # --- Level log --------------------------------------------------------------------------------

    def check_log(self) -> None:
        """Reads every object of the log in both places, and replays the chain."""
        copies, listing = self.log.copies(), self.log.names()
        others = {item.incarnation for names in (copies, listing) for item in names.others}
        newest = max(copies.incarnation, listing.incarnation)
        for incarnation in sorted(
            (others | {copies.incarnation, listing.incarnation}) - {0, newest}
        ):
            self._check_earlier(incarnation, any_name=listing.head >= 0)
        if copies.incarnation < newest:  # one place may have lost the newest incarnation
            copies = self.log.copies(newest)
        elif listing.incarnation < newest:
            listing = self.log.names(newest)
        self.start = max(copies.checkpoints, default=0)
        self._read_history(listing)
        for name in listing.unknown:
            self.report("note", self.log.folder + name, "is no name of lakelog's: it is ignored")
        names = _names(listing, copies, self.start)
        transactions = {item for item in names if item.kind == "transaction"}
        pairs = self._read_all(sorted(transactions), decode_transaction)
        checkpoints = self._read_checkpoints(listing, copies)
        self._replay(listing, copies, pairs, checkpoints)

    def _check_earlier(self, incarnation: int, *, any_name: bool) -> None:
        """Compares both copies of what a rebuild has replaced: its points in time are kept until
        prune removes it, from the log first."""
        copies, listing = self.log.copies(incarnation), self.log.names(incarnation)
        if any_name and listing.head < 0:
            return
        start = max(copies.checkpoints, default=0)
        items = [item for item in _names(listing, copies, start) if item.kind == "transaction"]
        for item, pair in self._read_all(sorted(items), _seal_or_transaction).items():
            self._judge(pair, self.log.folder + item.name, item.revision, remedy="")

    def _read_history(self, listing: Listing) -> None:
        """Notes rows and time of each revision, as far as anything readable says them."""
        try:
            table = self.log.load().history.table()
        except LakelogError:
            return
        rows, at = table.column("rows_added").to_pylist(), table.column("committed_at")
        us = at.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        for revision, added, time in zip(table.column("revision").to_pylist(), rows, us):
            self.times[revision] = (added, time)

    def _read_all(
        self, items: Sequence[LogObject], decode: Callable[[bytes, str], Any]
    ) -> dict[LogObject, _Pair]:
        found: dict[LogObject, _Pair] = {}
        for low in range(0, len(items), _AT_ONCE):
            some = items[low : low + _AT_ONCE]
            pairs = read_pairs(self.store, [self.log.folder + item.name for item in some], decode)
            found.update(zip(some, pairs, strict=True))
            self.objects += 2 * len(some)
            self.progress(len(some))
        return found

    def _read_checkpoints(self, listing: Listing, copies: Listing) -> dict[int, State | None]:
        """Reads the checkpoints of the log with all their segments; reports what is wrong.

        Returns:
            By revision the state; None for one that can't be used.
        """
        states: dict[int, State | None] = {}
        mirrored = {item.name for items in copies.checkpoints.values() for item in items}
        everything = {
            item
            for names in (listing, copies)
            for items in names.checkpoints.values()
            for item in items
        }
        # What the log begins with must have its copy, unless it begins with its first transaction.
        whole = 0 in listing.transactions or 0 in copies.transactions
        first = min((item.revision for item in everything), default=-1)
        for item in sorted(everything):
            if item.revision < self.start:
                continue
            key = self.log.folder + item.name
            pair = read_pairs(self.store, [key], decode_checkpoint)[0]
            self.objects += 1
            needed = item.name in mirrored or (not whole and item.revision == first)
            self._judge(pair, key, item.revision, is_mirrored=needed, remedy="checkpoint")
            state = None if pair.best is None else self._checkpoint_state(item, pair, needed=needed)
            states.setdefault(item.revision, state)
        return states

    def _checkpoint_state(self, item: LogObject, pair: _Pair, *, needed: bool) -> State | None:
        """Reads the segments of a checkpoint in the log and, where it must, in the mirror."""
        key = self.log.folder + item.name
        try:
            state = _whole(self.log.checkpoint_of(pair.best))
        except LakelogError as error:
            self.report(
                "warning", error.key or key, error.message, remedy="checkpoint",
                revision=item.revision, rows=0,
            )  # fmt: skip
            return None
        self._judge_parts(state, key, item.revision)
        assert state.base is not None
        names = {p.name for p in (state.base.references, *state.pieces) if p.name}
        folder = segments_folder(self.log.writer, self.log.database)
        decode = partial(decode_frame, kind=FrameKind.SEGMENT)

        def frame(body: bytes, key: str) -> Any:
            return decode(body, key=key)

        for low in range(0, len(names), _AT_ONCE):
            keys = [folder + name for name in sorted(names)[low : low + _AT_ONCE]]
            for segment, found in zip(keys, read_pairs(self.store, keys, frame), strict=True):
                self._judge(found, segment, item.revision, is_mirrored=needed, remedy="checkpoint")
            self.objects += len(keys)
            self.progress(len(keys))
        return state

    def _judge_parts(self, state: State, key: str, revision: int) -> None:
        """Reads the files and statistics of a checkpoint; reports the segments that can't be used.

        A segment whose digest is right can say what no checkpoint may.
        """
        reads: list[Callable[[], object]] = [
            partial(state.files.check, table)
            for table in sorted(state.schemas.tables() | set(state.files.tables()))
        ]
        reads += [
            lambda piece=piece: decode_describing(state.bytes_of([piece])[0], piece)  # type: ignore[misc]
            for piece in state.pieces
            if piece.kind in OF_A_PART
        ]
        for read in reads:
            try:
                read()
            except LakelogError as error:
                self._report_once(error, key, revision)

    def _report_once(self, error: LakelogError, key: str, revision: int) -> None:
        """Reports what makes a checkpoint useless, if its object was not reported yet."""
        key = error.key or key
        if all(finding.object != key for finding in self.findings):
            self.report(
                "warning", key, error.message, remedy="checkpoint", revision=revision, rows=0
            )

    def _judge(
        self,
        pair: _Pair,
        key: str,
        revision: int,
        *,
        is_mirrored: bool = True,
        is_end: bool = False,
        remedy: Remedy,
    ) -> bool:
        """Reports what is wrong with an object; returns whether it can be read.

        Args:
            is_mirrored: Whether it must have a copy.
            is_end: Whether it is above all that the log has: readers of the head miss it.
            remedy: What is done if neither place has it.
        """
        own, copy = pair.errors
        if own and copy:
            severity: Severity = "warning" if remedy == "checkpoint" else "error"
            problem = f"{own}, and its copy {copy}" if is_mirrored else own
            rows = 0 if remedy == "checkpoint" else None
            self.report(severity, key, problem, remedy=remedy, revision=revision, rows=rows)
            return False
        if own and is_end:
            own += ": the log has lost its end, and readers see an older state"
            self.report("error", key, own, remedy="copy", revision=revision)
        elif own:
            self.report("warning", key, own, remedy="copy", revision=revision, rows=0)
        elif copy and is_mirrored:
            self.report("warning", mirror_key(key), copy, remedy="copy", revision=revision, rows=0)
        return True

    def _replay(
        self,
        listing: Listing,
        copies: Listing,
        pairs: dict[LogObject, _Pair],
        checkpoints: dict[int, State | None],
    ) -> None:
        """Follows the chain from the beginning of what is retained, and compares checkpoints."""
        by_revision: dict[int, list[LogObject]] = {}
        for item in sorted(pairs):
            by_revision.setdefault(item.revision, []).append(item)
        revisions = [*by_revision, *checkpoints]
        first, last = min(revisions, default=0), max(revisions, default=-1)
        self.start = max(self.start, first)
        empty = empty_state(self.log.writer, self.log.database)
        state: State | None = _whole(empty) if first == 0 and 0 in by_revision else None
        lowest = min(by_revision, default=-1)
        if lowest >= 0 and state is None and min(checkpoints, default=last + 1) > lowest:
            self.report(
                "error",
                f"{self.log.folder}*.checkpoint",
                f"The checkpoint that revision {lowest} follows is missing in both places",
                remedy="rebuild",
                revision=lowest,
            )
        for revision in range(first, last + 1):
            items = by_revision.get(revision, [])
            state = self._step(state, items, pairs, revision, listing.head)
            base = checkpoints.get(revision)
            if base is not None and state is not None:
                self._compare(state, base, listing)
            elif base is not None:  # the chain begins here, or goes on here
                self.files += _files_of(base)
                self._note_deletes(base)
                state = base.copy()
        self.head = state if state is not None and state.revision == last else None
        if self.head is not None:
            self._note_deletes(self.head)

    def _step(
        self,
        state: State | None,
        items: list[LogObject],
        pairs: dict[LogObject, _Pair],
        revision: int,
        head: int,
    ) -> State | None:
        """Judges the objects of one revision, and applies it; None if the chain ends here."""
        if len(items) > 1:
            keys = " and ".join(self.log.folder + item.name for item in items)
            self.report(
                "error", keys, "Two commits of one revision", remedy="rebuild", revision=revision
            )
            return None
        if not items:
            if revision > self.start:
                self.report(
                    "error",
                    f"{self.log.folder}*-{revision}.*",
                    "The transaction is missing in both places",
                    remedy="rebuild",
                    revision=revision,
                )
            return None
        item = items[0]
        pair, key = pairs[item], self.log.folder + item.name
        if revision >= head - 1 and pair.errors[1] == MISSING and not pair.errors[0]:
            # An open writer puts these copies beside its next commits.
            self.report(
                "note", mirror_key(key), "has no copy yet", remedy="copy", revision=revision, rows=0
            )
        elif not self._judge(pair, key, revision, is_end=revision > head, remedy="rebuild"):
            return None
        if state is None:
            self._note_files(pair.best)
            return None
        return self._apply(state, pair, key, revision)

    def _apply(self, state: State, pair: _Pair, key: str, revision: int) -> State | None:
        """Applies what continues the chain: the log's object or its copy."""
        problem = ""
        for place, decoded in enumerate(pair.decoded):
            if decoded is None:
                continue
            fresh = state.copy()
            try:
                apply(fresh, decoded)
            except CorruptError as error:
                problem = problem or error.message
                continue
            other = pair.decoded[1 - place]
            if other is not None and other.digest != decoded.digest:
                # Each was committed once: the end of the log was lost, and somebody went on.
                self.report(
                    "error",
                    mirror_key(key) if place == 0 else key,
                    f"is another commit of revision {revision} than the other copy is: neither may "
                    "be put over the other",
                    remedy="rebuild",
                    revision=revision,
                    rows=transaction_row(other)["rows_added"],
                )
            fresh.tail.clear()  # all parts are read: they have taken it in
            self._note_files(decoded)
            return fresh
        self.report(
            "error", key, f"breaks the chain: {problem}", remedy="rebuild", revision=revision
        )
        return None

    def _compare(self, replayed: State, base: State, listing: Listing) -> None:
        """Compares a checkpoint with the state that the log leads to."""
        items = listing.checkpoints.get(base.revision)
        key = self.log.folder + items[0].name if items else self.log.folder
        try:
            different = all_differences(replayed, base)
        except LakelogError as error:
            self._report_once(error, key, base.revision)
            return
        if different:
            problem = f"doesn't hold what the log says: {', '.join(different)}"
            self.report("error", key, problem, remedy="checkpoint", revision=base.revision)

    # --- Level files ------------------------------------------------------------------------------

    def _note_files(self, transaction: DecodedTransaction) -> None:
        """Notes the files that a transaction adds, and its objects of row deletes."""
        adds = []
        for place, action in enumerate(transaction.message.actions):
            kind = action.WhichOneof("kind")
            if kind == "add":
                adds.append(action.add)
            elif kind == "row_deletes":
                rows = action.row_deletes
                self._note_bitmap(rows.table, rows.path, rows)
            elif kind == "add_batch":
                for part, _ in batch_parts(transaction.batches[place]):
                    if isinstance(part, Part):
                        self.files.append(part.run.full().select(_COLUMNS))
        if adds:
            revision = transaction.message.revision
            self.files.append(files_rows(adds, [revision] * len(adds)).select(_COLUMNS))

    def _note_deletes(self, state: State) -> None:
        for table in state.deletes.tables():
            for path, entries in state.deletes.rows_of(table).items():
                for entry in entries:
                    self._note_bitmap(table, path, entry)

    def _note_bitmap(self, table: str, path: str, entry: Any) -> None:
        """Notes a deletion vector, of a transaction's action or of a state."""
        bitmap = _Bitmap(
            table, path, entry.offset, entry.length, entry.cardinality, bytes(entry.digest)
        )
        self.deletes.setdefault(entry.object, set()).add(bitmap)

    def _all_files(self) -> pa.Table:
        """The files of all retained revisions, each once, by path."""
        if not self.files:
            return files_rows([], []).select(_COLUMNS)
        table = pa.concat_tables(self.files, promote_options="permissive").combine_chunks()
        order = [("path", "ascending"), ("table", "ascending"), ("revision", "ascending")]
        table = table.sort_by(order)
        paths, tables = (table.column(name).combine_chunks() for name in ("path", "table"))
        same = pc.and_(pc.equal(paths[1:], paths[:-1]), pc.equal(tables[1:], tables[:-1]))
        return table.filter(pa.concat_arrays([pa.array([True]), pc.invert(same)]))

    def list_data(self) -> None:
        """Lists the data files."""
        folder = base_folder(self.log.writer, self.log.database)
        self.listed = {info.key[len(folder) :]: info for info in self.store.list(f"{folder}data/")}
        self.progress(len(self.listed))

    def check_files(self) -> None:
        """Looks whether each data file that a retained revision names is there, and as long."""
        files, folder = self._all_files(), base_folder(self.log.writer, self.log.database)
        listed = {path: info.size_bytes for path, info in self.listed.items()}
        self.files_seen += files.num_rows
        known = {*files.column("path").to_pylist(), *self.deletes}
        for file in _wrong_size(files, listed):
            there = self._size(folder + file["path"])  # a listing can miss a name
            self._report_file(folder + file["path"], file, _size_problem(file, there))
        self._check_external(files)
        for path in sorted(self.deletes):
            if path not in listed and self._size(folder + path) is None:
                self._report_deletes(path, "The deletion vectors are gone")
        strays = sorted(path for path in listed.keys() - known if parse_own_file(path) is None)
        for path in strays[:_AT_ONCE]:
            self.report(
                "note", folder + path, "is no file of lakelog's, and no table has it", rows=0
            )

    def check_bases(self) -> None:
        """Reports a log that lost its end in both places, or all of it: data files that no revision
        names were begun on one that the log doesn't have."""
        is_gone = self.objects == 0
        if self.head is None and not is_gone:
            return
        state = self.head or empty_state(self.log.writer, self.log.database)
        known = {*self._all_files().column("path").to_pylist(), *self.deletes}
        left = {path: parse_own_file(path) for path in self.listed.keys() - known}
        ids = {name.transaction_id for name in left.values() if name is not None}
        rows = state.history.of_transactions(ids)
        infos = [
            self.listed[path]
            for path, name in left.items()
            if name is not None
            and name.epoch >= state.first_epoch
            and (
                name.transaction_id not in rows or rows[name.transaction_id]["epoch"] != name.epoch
            )
        ]
        for one in lost_bases(self.store, state, infos):
            if not one.is_foreign:
                lost = "the log is lost" if is_gone else "the end of the log is lost"
                problem = f"was begun {one.begun}: {lost} in both places"
                self.report("error", one.key, problem, remedy="rebuild")
                return

    def _report_file(self, key: str, file: dict[str, Any], problem: str) -> None:
        """Reports a data file that has a problem: an error if its table has it now."""
        table, live = file["table"], True
        if self.head is not None:
            live = self.head.files.is_live(table, file["path"])
        if problem and live:
            self.report(
                "error", key, problem, remedy="remove-file", table=table,
                rows=file["row_count"], revision=file["revision"],
            )  # fmt: skip
        elif problem:
            problem = f"{problem}; only points in time before it was removed need it"
            self.report("note", key, problem, table=table, rows=file["row_count"])

    def _check_external(self, files: pa.Table) -> None:
        if self.head is None or not files.num_rows:
            return
        places = self.head.places
        chosen = files.filter(pc.starts_with(files.column("path"), "at/")).to_pylist()

        def look(file: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
            try:
                url = places.url(file["path"])
                return url, file, _size_problem(file, self._size(url))
            except LakelogError as error:
                return file["path"], file, f"can't be looked at: {error.message}"

        for url, file, problem in parallel(look, chosen):
            self._report_file(url, file, problem)

    def _size(self, key: str) -> int | None:
        try:
            return self.catalog.wide.head(key).size_bytes
        except ObjectNotFound:
            return None

    # --- Levels footers and data ------------------------------------------------------------------

    def _own_and_external(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each file of the retained revisions that was not reported yet, with its key or URL."""
        reported = {finding.object for finding in self.findings}
        folder = base_folder(self.log.writer, self.log.database)
        for file in self._all_files().to_pylist():
            key = folder + file["path"]
            if is_in_place(file["path"]):
                if self.head is None:
                    continue
                try:
                    key = self.head.places.url(file["path"])
                except LakelogError:
                    continue  # reported
            if key not in reported:
                yield key, file

    def check_footers(self) -> None:
        """Compares the footer of each data file with the log, and reads the deletion vectors."""
        self._report_files(self._footer_problem, self._own_and_external())
        folder = base_folder(self.log.writer, self.log.database)
        reported = {finding.object for finding in self.findings}
        for path in sorted(self.deletes):
            problem = "" if folder + path in reported else self._deletes_problem(path)
            if problem and self._deletes_problem(path):  # at two looks
                self._report_deletes(path, problem)

    def _deletes_problem(self, path: str) -> str:
        """What is wrong with an object of deletion vectors; empty: nothing."""
        key = base_folder(self.log.writer, self.log.database) + path
        try:
            body = bitmaps_of(self.store.get(key), key)
            for bitmap in self.deletes[path]:
                end = bitmap.offset + bitmap.length
                if end > len(body):
                    raise damaged(key, f"has {len(body)} bytes, a bitmap lies up to byte {end}")
                decode_bitmap(body[bitmap.offset : end], bitmap.digest, bitmap.cardinality, key)
        except LakelogError as error:
            return error.message
        return ""

    def _report_deletes(self, path: str, problem: str) -> None:
        """Reports an object of deletion vectors, with the files whose rows can't be read."""
        uses = sorted(self.deletes[path], key=lambda use: (use.path, use.offset))
        files = list(dict.fromkeys(use.path for use in uses))
        more = f" and {len(files) - _NAMED} more files" if len(files) > _NAMED else ""
        self.report(
            "error",
            base_folder(self.log.writer, self.log.database) + path,
            f"{problem}: rows of {', '.join(files[:_NAMED])}{more} can't be read",
            table=uses[0].table,
            command="Restore the object from a backup; or give up the rows of these files: lakelog "
            f"remove URL {self.log.database} {uses[0].table} {' '.join(files)} --writer "
            f"{self.log.writer}",
        )

    def _report_files(
        self,
        problem_of: Callable[[str, dict[str, Any]], str],
        files: Iterable[tuple[str, dict[str, Any]]],
    ) -> None:
        """Reports the files that have a problem at two looks."""

        def look(item: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any], str]:
            return *item, problem_of(*item) and problem_of(*item)

        for key, file, problem in each_in_parallel(look, files):
            self.progress(1)
            self._report_file(key, file, problem)

    def _footer_problem(self, key: str, file: dict[str, Any]) -> str:
        size, length, digest = file["size_bytes"], file["footer_bytes"], file["footer_digest"]
        if not length or digest == UNKNOWN_DIGEST:
            return ""
        try:
            body = self.catalog.wide.get(key, start=size - length, end=size)
        except LakelogError as error:
            return f"can't be read: {error.message}"
        return "" if footer_digest(body) == digest else "has another footer than the log knows"

    def check_pages(self, subset: Subset) -> Subset:
        """Verifies the page checksums of a share of the files; what is left of the share."""
        left = subset.max_bytes

        def chosen() -> Iterator[tuple[str, dict[str, Any]]]:
            nonlocal left
            for key, file in self._own_and_external():
                if not subset.holds(file["path"]) or (left is not None and left <= 0):
                    continue
                left = None if left is None else left - file["size_bytes"]
                self.bytes_read += file["size_bytes"]
                yield key, file

        self._report_files(self._damaged_page, chosen())
        return Subset(subset.part, subset.parts, left)

    def _damaged_page(self, key: str, file: dict[str, Any]) -> str:
        import pyarrow.parquet as pq

        part = FilePart(key, file["size_bytes"], file["row_count"], pa.schema([]))
        wide = self.catalog.wide
        try:
            with reading(part), wide.open_input(key, size_bytes=part.size_bytes) as source:
                found = damaged_column(source, pq.read_metadata(source))
        except LakelogError as error:
            return error.message
        if found is None:
            return ""
        return f"a page of column {found[0]!r} in row group {found[1]} doesn't match its checksum"


_COLUMNS: Final = [
    "table", "path", "size_bytes", "row_count", "revision", "footer_bytes", "footer_digest",
]  # fmt: skip
MISSING: Final = "is missing"


def _seal_or_transaction(body: bytes, key: str) -> Any:
    return read_seal(body, key) or decode_transaction(body, key)


def read_pairs(
    store: Store, keys: Sequence[str], decode: Callable[[bytes, str], Any]
) -> list[_Pair]:
    """Reads objects of a log in both places. What can't be decoded is read a second time.

    Requests: 2 GET an object; 1 more for each that can't be decoded.
    """
    places = [store.get_many(keys), store.get_many([mirror_key(key) for key in keys])]
    pairs = []
    for number, key in enumerate(keys):
        pair = _Pair([None, None], [None, None], [MISSING, MISSING])
        for place, own in enumerate((key, mirror_key(key))):
            body = places[place][number]
            for attempt in range(2):
                if body is None:
                    break
                try:
                    pair.decoded[place], pair.errors[place] = decode(body, key), ""
                    pair.bodies[place] = body
                    break
                except CorruptError as error:
                    pair.errors[place] = f"is damaged: {error.message}"
                    if attempt == 0:
                        body = store.get_many([own])[0]
        pairs.append(pair)
    return pairs


def _wrong_size(files: pa.Table, listed: dict[str, int]) -> list[dict[str, Any]]:
    """Returns the own files that a listing doesn't show with the size that the log says."""
    own = files.filter(pc.starts_with(files.column("path"), "data/"))
    sizes = pa.array([listed.get(path, -1) for path in own.column("path").to_pylist()], pa.int64())
    found: list[dict[str, Any]] = own.filter(
        pc.not_equal(own.column("size_bytes"), sizes)
    ).to_pylist()
    return found


def _size_problem(file: dict[str, Any], there: int | None) -> str:
    if there is None:
        return "is gone"
    size = file["size_bytes"]
    return "" if there == size else f"has {there:,} bytes, the log says {size:,}"


def _names(listing: Listing, copies: Listing, start: int) -> set[LogObject]:
    """The retained objects that a log has in either place, of the incarnation in use."""
    found: set[LogObject] = set()
    for names in (listing, copies):
        if names.incarnation == max(listing.incarnation, copies.incarnation):
            for kind in (names.transactions, names.checkpoints):
                found |= {item for items in kind.values() for item in items}
    return {
        item
        for item in found
        if item.revision > start
        or (item.revision == start and (item.kind == "checkpoint" or not start))
    }


def _files_of(state: State) -> list[pa.Table]:
    """The live files of a state, by table."""
    found = []
    for table in state.files.tables():
        try:
            rows = state.files.table(table, whole=True)
        except CorruptError:
            continue
        names = pa.array([table] * rows.num_rows, pa.string())
        found.append(rows.append_column("table", names).select(_COLUMNS))
    return found


def _whole(state: State) -> State:
    """Reads all parts of a state."""
    _ = state.files, state.schemas, state.definitions, state.deletes
    _ = state.applications, state.history.table()
    return state


def _time(us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(us / 1e6, dt.UTC)
