"""Check: what is wrong with the logs and files of a database, without changing anything.

Every object of a log is read in both places, the log and its mirror; the chain is replayed from the
beginning of what is retained, and each checkpoint is compared with the state that the log below it
leads to. Then, by level, the data files: whether they exist, whether their footers are those that
the log knows, whether their pages match their checksums. A finding is a row: the object, what is
wrong, how much is at stake, and the command that repairs it. An object counts as damaged only after
two reads.

Source: docs/recovery.md, "check".
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shlex
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.data.file_part import FilePart, reading
from ..catalog.data.hidden import Bitmap, Bitmaps
from ..catalog.data.pages import damaged_column
from ..catalog.data.parquet import UNKNOWN_DIGEST, footer_digest
from ..catalog.data.stated import wrong_statements
from ..catalog.format.deletes import MAX_ROWS
from ..catalog.format.names import (
    base_folder,
    is_in_place,
    is_own,
    mirror_key,
    parse_own_file,
    segments_folder,
)
from ..catalog.format.objects import DecodedTransaction
from ..catalog.format.pieces import OF_A_PART
from ..catalog.format.run import files_rows
from ..catalog.log.checkpoint_files import decode_describing
from ..catalog.log.compared import read_whole
from ..catalog.log.history import transaction_row
from ..catalog.log.part import added_files
from ..catalog.log.replay import apply
from ..catalog.log.state import empty_state
from ..catalog.parallel import each_in_parallel
from ..catalog.read.hidden import bitmap_of
from ..catalog.read.log_folder import log_places
from ..catalog.read.log_reader import LogReader
from ..catalog.read.mirror import rebuild_command, repair_command
from ..catalog.read.set_back import lost_bases
from ..catalog.read.statistics import all_differences, table_statistics
from ..errors import CorruptError, DatabaseNotFound, LakelogError, ObjectNotFound, UsageError
from .copies import LOG, MIRROR, MISSING, Pair, names_of, read_pairs, sizes_of
from .findings import LEVELS, CheckReport, Finding, Level, Remedy, Severity, Subset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..catalog.ambient import Ambient
    from ..catalog.format.names import LogObject
    from ..catalog.log.state import State
    from ..store import ObjectInfo, Store, WideStore
    from .copies import Names

    File = dict[str, Any]  # a row of `_COLUMNS`
    Keyed = tuple[str, File]  # with its key or URL
    Use = tuple[str, str, Bitmap]  # of rows of which file, by table and path

_STRAYS: Final = 256  # that are reported
_NAMED: Final = 3
_COLUMNS: Final = [
    "table", "path", "size_bytes", "row_count", "revision", "footer_bytes", "footer_digest",
]  # fmt: skip


class Place(Protocol):
    """What a check needs of a catalog."""

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
        level: `log`, `files` (existence and size), `footers`, or `data` (page checksums, and what
            footers of other programs say of the values).
        read_data_subset: Of which files the pages are read: `5%`, `1/7`, `10GiB`; None: of all.
        progress: Called with the number of objects that were looked at since the last call.
    Returns:
        The findings.
    Raises:
        UsageError: There is no such level or share.
        DatabaseNotFound: There is no such log, and nothing is left of one.
        StorageError: The store can't be listed.
    Requests: for each log 2 LIST and 1 GET for each object in either place, and those of reading
        its newest state; with `files` the LIST of `data/` and 1 HEAD for each external file; with
        `footers` 1 GET a file; with `data` as reading the chosen files whole.
    """
    if level not in LEVELS:
        raise UsageError(f"There is no level {level!r:.40}", hint=f"Give {', '.join(LEVELS)}")
    subset = Subset() if read_data_subset is None else Subset.parse(read_data_subset)
    checks = [
        _LogCheck(catalog, LogReader(catalog.store, owner, name, catalog.ambient), level, progress)
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
                one.check_unnamed()
            if level in ("footers", "data"):
                one.check_footers()
            if level == "data":
                subset = one.check_pages(subset)
    order = get_args(Severity)
    found = [finding for one in checks for finding in one.findings]
    return CheckReport(
        level,
        tuple(sorted(found, key=lambda finding: order.index(finding.severity))),
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
    found = [
        (owner, name)
        for owner, name, folders in log_places(catalog.store, writer, database)
        if folders & {"transactions", "mirror", "data"}
    ]
    if not found:
        raise DatabaseNotFound(
            f"{catalog.url} has no log of {writer or 'any writer'} in {database or 'any database'}",
            key=database or writer,
            hint="`lakelog databases` lists the databases with their writers",
        )
    return found


@dataclass(slots=True)
class _LogCheck:
    """The check of one log."""

    catalog: Place
    log: LogReader
    level: Level
    progress: Callable[[int], None]
    findings: list[Finding] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # of its objects, by key, as listed
    objects: int = 0
    files_seen: int = 0
    bytes_read: int = 0
    is_gone: bool = False  # in both places
    head: State | None = None
    times: dict[int, tuple[int, dt.datetime]] = field(default_factory=dict)  # rows added, committed
    named: list[pa.Table] = field(default_factory=list)
    files: pa.Table = None  # of the retained revisions, each once
    deletes: dict[str, set[Use]] = field(default_factory=dict)  # by object of row deletes
    listed: dict[str, ObjectInfo] = field(default_factory=dict)  # below `data/`, by path

    @property
    def base(self) -> str:
        """The folder of the writer's database."""
        return base_folder(self.log.writer, self.log.database)

    def report(
        self,
        severity: Severity,
        key: str,
        problem: str,
        remedy: Remedy = "",
        revision: int | None = None,
        *,
        rows: int | None = None,
        table: str = "",
        command: str = "",
    ) -> None:
        """Adds a finding, with the commit times of what is at stake.

        Args:
            rows: How many are at stake; None: of an error, those of its revision.
        """
        names = self.log.writer, self.log.database
        added, at = self.times.get(-1 if revision is None else revision, (None, None))
        rows = rows if rows is not None else added if severity == "error" else 0
        last = None if self.head is None or at is None else _time(self.head.committed_at_us)
        if remedy and not command:
            of = rebuild_command if remedy == "rebuild" else repair_command
            command = of(*names).strip("`")
        self.findings.append(
            Finding(
                severity, *names, key, problem, remedy, table, revision, rows, at, last, command
            )
        )

    # --- Level log --------------------------------------------------------------------------------

    def check_log(self) -> None:
        """Reads every object of the log in both places, and replays the chain."""
        strange = "is no name of lakelog's: it is ignored"
        names = names_of(self.log, partial(self.report, "note", problem=strange))
        self.is_gone, self.sizes = not names, sizes_of(self.log, names)
        newest = max((item.incarnation for item in names), default=0)
        in_log = {item.incarnation for item, places in names.items() if LOG in places}
        for incarnation in sorted({item.incarnation for item in names}):
            items = _retained(names, incarnation)
            if incarnation == newest:
                self._check_newest(items, names)
            # Points in time of what a rebuild has replaced are kept until prune removes it, from
            # the log first.
            elif incarnation in in_log or not in_log:
                for item, key, pair in self._transactions(items):
                    self._judge(pair, key, item.revision, remedy="")
        self.files = _each_once(self.named)

    def _read_history(self) -> None:
        """Notes rows and time of each revision, as far as anything readable says them."""
        try:
            table = self.log.load().history.table()
        except LakelogError:
            return
        for row in table.select(["revision", "rows_added", "committed_at"]).to_pylist():
            self.times[row["revision"]] = row["rows_added"], row["committed_at"].astimezone(dt.UTC)

    def _transactions(self, items: Iterable[LogObject]) -> Iterator[tuple[LogObject, str, Pair]]:
        """Reads transactions in both places."""
        own = [item for item in items if item.kind == "transaction"]
        keys = [self.log.folder + item.name for item in own]
        return zip(own, keys, self._read(keys), strict=True)

    def _read(self, keys: list[str]) -> list[Pair]:
        """Reads objects in both places."""
        pairs = list(read_pairs(self.log.store, keys, self.sizes))
        self.objects += sum(copy.problem != MISSING for pair in pairs for copy in pair)
        self.progress(len(pairs))
        return pairs

    def _judge(
        self,
        pair: Pair,
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
        own, copy = pair[LOG].problem, pair[MIRROR].problem
        if own and copy:
            severity: Severity = "warning" if remedy == "checkpoint" else "error"
            problem = f"{own}, and its copy {copy}" if is_mirrored else own
            if not remedy:
                severity = "note"
                problem += ": its point in time, before a rebuild, can't be read"
            self.report(severity, key, problem, remedy, revision)
            return False
        if own:
            lost = ": the log has lost its end, and readers see an older state" if is_end else ""
            self.report("error" if is_end else "warning", key, own + lost, "copy", revision)
        elif copy and is_mirrored:
            self.report("warning", mirror_key(key), copy, "copy", revision)
        return True

    def _check_newest(self, items: list[LogObject], names: Names) -> None:
        """Follows the incarnation in use from the beginning of what is retained, and compares its
        checkpoints."""
        self._read_history()
        transactions: dict[int, dict[str, Pair]] = {}
        for item, key, pair in self._transactions(items):
            transactions.setdefault(item.revision, {})[key] = pair
        bases = [item for item in items if item.kind == "checkpoint"]
        lowest = min((item.revision for item in bases), default=0)
        checkpoints: dict[int, State | None] = {}
        for item in bases:
            # What the log begins with must have its copy, and nothing below it computes it again.
            is_first = item.revision == lowest and 0 not in transactions
            remedy: Remedy = "rebuild" if is_first else "checkpoint"
            needed = is_first or MIRROR in names[item]
            state = self._read_checkpoint(item, remedy, needed=needed)
            checkpoints.setdefault(item.revision, state)
        head = max((item.revision for item in items if LOG in names[item]), default=-1)
        revisions = [item.revision for item in items]
        first, last = min(revisions, default=0), max(revisions, default=-1)
        state = None
        if first == 0 and 0 in transactions:
            state = read_whole(empty_state(self.log.writer, self.log.database))
        elif transactions and min(checkpoints, default=last + 1) > first:
            problem = f"The checkpoint that revision {first} follows is missing in both places"
            self.report("error", f"{self.log.folder}*.checkpoint", problem, "rebuild", first)
        for revision in range(first, last + 1):
            pairs = transactions.get(revision, {})
            if pairs or revision > first:  # else the chain begins with this checkpoint
                state = self._step(state, pairs, revision, head)
            base = checkpoints.get(revision)
            if base is not None and state is not None:
                self._compare(state, base)
            elif base is not None:  # the chain begins here, or goes on here
                self._note_state(base)
                state = base.copy()
        self.head = state if state is not None and state.revision == last else None

    def _read_checkpoint(self, item: LogObject, remedy: Remedy, *, needed: bool) -> State | None:
        """Reads a checkpoint with its segments in the log and, where it must, in the mirror. A
        segment whose digest is right can still say what no checkpoint may.

        Returns:
            Its state; None if it can't be used.
        """
        key, revision = self.log.folder + item.name, item.revision
        judge = partial(self._judge, revision=revision, is_mirrored=needed, remedy=remedy)
        (pair,) = self._read([key])
        if not judge(pair, key):
            return None
        state = self.log.checkpoint_of(pair[LOG].decoded or pair[MIRROR].decoded)
        assert state.base is not None
        folder = segments_folder(self.log.writer, self.log.database)
        found: State | None = None
        try:
            pieces = (state.base.references, *state.pieces)
            segments = [folder + name for name in sorted({p.name for p in pieces if p.name})]
            for segment, copies in zip(segments, self._read(segments), strict=True):
                judge(copies, segment)
            found = read_whole(state)
            for piece in state.pieces:
                if piece.kind in OF_A_PART:
                    decode_describing(state.bytes_of([piece])[0], piece)
        except LakelogError as error:
            self._report_once(error, key, revision, remedy if found is None else "checkpoint")
        return found

    def _report_once(
        self, error: LakelogError, key: str, revision: int, remedy: Remedy = "checkpoint"
    ) -> None:
        """Reports what makes a checkpoint useless, if its object was not reported yet."""
        key = error.key or key
        if all(finding.object != key for finding in self.findings):
            severity: Severity = "warning" if remedy == "checkpoint" else "error"
            self.report(severity, key, error.message, remedy, revision)

    def _step(
        self, state: State | None, pairs: dict[str, Pair], revision: int, head: int
    ) -> State | None:
        """Judges the objects of one revision, and applies it; None if the chain ends here."""
        if len(pairs) != 1:
            keys = " and ".join(pairs) or f"{self.log.folder}*-{revision}.*"
            missing = "The transaction is missing in both places"
            problem = "Two commits of one revision" if pairs else missing
            self.report("error", keys, problem, "rebuild", revision)
            return None
        ((key, pair),) = pairs.items()
        if revision >= head - 1 and pair[MIRROR].problem == MISSING and not pair[LOG].problem:
            # An open writer puts these copies beside its next commits.
            self.report("note", mirror_key(key), "has no copy yet", "copy", revision)
        elif not self._judge(pair, key, revision, is_end=revision > head, remedy="rebuild"):
            return None
        return self._apply(state, pair, key, revision)

    def _apply(self, state: State | None, pair: Pair, key: str, revision: int) -> State | None:
        """Applies what continues the chain: the log's object or its copy."""
        problem = "is the seal of a rebuild that is not done"
        found = {place: copy.decoded for place, copy in enumerate(pair)}
        found = {place: one for place, one in found.items() if isinstance(one, DecodedTransaction)}
        for place, decoded in found.items():
            if state is None:
                self._note_transaction(decoded)
                return None
            fresh = state.copy()
            try:
                apply(fresh, decoded)
            except CorruptError as error:
                problem = f"breaks the chain: {error.message}"
                continue
            other = found.get(1 - place, decoded)
            if other.digest != decoded.digest:
                # Each was committed once: the end of the log was lost, and somebody went on.
                where = mirror_key(key) if place == LOG else key
                words = (
                    f"is another commit of revision {revision} than the other copy is: neither may "
                    "be put over the other"
                )
                rows = transaction_row(other)["rows_added"]
                self.report("error", where, words, "rebuild", revision, rows=rows)
            fresh.tail.clear()  # all parts are read: they have taken it in
            self._note_transaction(decoded)
            return fresh
        self.report("error", key, problem, "rebuild", revision)
        return None

    def _compare(self, replayed: State, base: State) -> None:
        """Compares a checkpoint with the state that the log leads to."""
        assert base.base is not None
        key = base.base.key
        try:
            different = all_differences(replayed, base)
        except LakelogError as error:
            self._report_once(error, key, base.revision)
            return
        if different:
            problem = f"doesn't hold what the log says: {', '.join(different)}"
            self.report("error", key, problem, "checkpoint", base.revision)

    def _note_transaction(self, transaction: DecodedTransaction) -> None:
        """Notes the files that a transaction adds, and its objects of row deletes."""
        with contextlib.suppress(CorruptError):  # its table can't be used, and is reported
            for rows in added_files(transaction):
                self.named.append(rows.select(_COLUMNS))
        for action in transaction.message.actions:
            if action.WhichOneof("kind") == "row_deletes":
                item = action.row_deletes
                self._note_rows(item.table, item.path, item)

    def _note_state(self, state: State) -> None:
        """Notes the live files of a checkpoint, and its objects of row deletes."""
        for part in state.files.parts:
            self.named.append(part.rows(None, part.run.full()).select(_COLUMNS))
        for table in state.deletes.tables():
            for path, entries in state.deletes.rows_of(table).items():
                for entry in entries:
                    self._note_rows(table, path, entry)

    def _note_rows(self, table: str, path: str, entry: Any) -> None:
        """Notes a deletion vector, of a transaction's action or of a state."""
        self.deletes.setdefault(entry.object, set()).add((table, path, bitmap_of(entry, self.base)))

    # --- Level files ------------------------------------------------------------------------------

    def list_data(self) -> None:
        """Lists the data files."""
        listed = self.log.store.list(f"{self.base}data/")
        self.listed = {info.key.removeprefix(self.base): info for info in listed}
        self.progress(len(self.listed))

    def check_files(self) -> None:
        """Looks whether each data file that a retained revision names is there, and as long."""
        self.files_seen += self.files.num_rows
        # External files are in no listing, and a listing can miss a name.
        sizes = {path: info.size_bytes for path, info in self.listed.items()}
        shown = [sizes.get(path, -1) for path in self.files.column("path").to_pylist()]
        wrong = pc.not_equal(self.files.column("size_bytes"), pa.array(shown, pa.int64()))
        self._report_files(self._size_problem, self._keyed(self.files.filter(wrong).to_pylist()))
        for path in sorted(self.deletes.keys() - self.listed.keys()):
            if self._size(self.base + path) is None:
                self._report_deletes(path, "The deletion vectors are gone")

    def check_unnamed(self) -> None:
        """Reports files that no revision names: strays, and those that were begun on a revision
        which the log doesn't have. They say that it lost its end in both places, or all of it."""
        known = {*self.files.column("path").to_pylist(), *self.deletes}
        left = {path: parse_own_file(path) for path in sorted(self.listed.keys() - known)}
        for path in [path for path, name in left.items() if name is None][:_STRAYS]:
            problem = "is no file of lakelog's, and no table has it"
            self.report("note", self.base + path, problem)
        if self.head is None and not self.is_gone:
            return
        state = self.head or empty_state(self.log.writer, self.log.database)
        own = {path: name for path, name in left.items() if name is not None}
        rows = state.history.of_transactions({name.transaction_id for name in own.values()})
        infos = [
            self.listed[path]
            for path, name in own.items()
            if name.epoch >= state.first_epoch
            and rows.get(name.transaction_id, {}).get("epoch") != name.epoch
        ]
        one = next((f for f in lost_bases(self.log.store, state, infos) if not f.is_foreign), None)
        if one is not None:
            lost = "the log is lost" if self.is_gone else "the end of the log is lost"
            problem = f"was begun {one.begun}: {lost} in both places"
            self.report("error", one.key, problem, "rebuild")

    def _keyed(self, files: Iterable[File]) -> Iterator[Keyed]:
        """Yields each file that was not reported yet, with its key or URL."""
        reported = {finding.object for finding in self.findings}
        for file in files:
            key = self.base + file["path"]
            if is_in_place(file["path"]):
                if self.head is None:
                    continue
                try:
                    key = self.head.places.url(file["path"])
                except LakelogError as error:
                    key = file["path"]
                    if key not in reported:
                        self._report_file(key, file, f"can't be looked at: {error.message}")
                    continue
            if key not in reported:
                yield key, file

    def _report_files(self, problem_of: Callable[[str, File], str], files: Iterable[Keyed]) -> None:
        """Reports the files that have a problem at two looks."""

        def look(item: Keyed) -> tuple[str, File, str]:
            return *item, problem_of(*item) and problem_of(*item)

        for key, file, problem in each_in_parallel(look, files):
            self.progress(1)
            if problem:
                self._report_file(key, file, problem)

    def _report_file(self, key: str, file: File, problem: str) -> None:
        """Reports a data file that has a problem: an error if its table has it now."""
        table, rows = file["table"], file["row_count"]
        if self.head is None or self.head.files.is_live(table, file["path"]):
            at, command = file["revision"], ""
            if self.level in ("footers", "data"):  # a repair alone looks no further than files
                writer, database = self.log.writer, self.log.database
                command = (
                    f"`lakelog check URL {database} --writer {writer} --level data --report FILE`, "
                    f"then `lakelog repair URL {database} --from FILE --execute`"
                )
            self.report(
                "error", key, problem, "remove-file", at, rows=rows, table=table, command=command
            )
        else:
            problem = f"{problem}; only points in time before it was removed need it"
            self.report("note", key, problem, table=table, rows=rows)

    def _size(self, key: str) -> int | None:
        try:
            return self.catalog.wide.head(key).size_bytes
        except ObjectNotFound:
            return None

    def _size_problem(self, key: str, file: File) -> str:
        try:
            there = self._size(key)
        except LakelogError as error:
            if not is_in_place(file["path"]):
                raise
            return f"can't be looked at: {error.message}"
        if there is None:
            return "is gone"
        size = file["size_bytes"]
        return "" if there == size else f"has {there:,} bytes, the log says {size:,}"

    # --- Levels footers and data ------------------------------------------------------------------

    def check_footers(self) -> None:
        """Compares the footer of each data file with the log, and reads the deletion vectors."""
        self._report_files(self._footer_problem, self._keyed(self.files.to_pylist()))
        reported = {finding.object for finding in self.findings}
        for path in sorted(path for path in self.deletes if self.base + path not in reported):
            problem = self._deletes_problem(path) and self._deletes_problem(path)  # at two looks
            if problem:
                self._report_deletes(path, problem)

    def _footer_problem(self, key: str, file: File) -> str:
        size, length, digest = file["size_bytes"], file["footer_bytes"], file["footer_digest"]
        if not length or digest == UNKNOWN_DIGEST:
            return ""
        try:
            body = self.catalog.wide.get(key, start=size - length, end=size)
        except LakelogError as error:
            return f"can't be read: {error.message}"
        return "" if footer_digest(body) == digest else "has another footer than the log knows"

    def _deletes_problem(self, path: str) -> str:
        """Returns what is wrong with an object of deletion vectors; empty: nothing."""
        bitmaps = Bitmaps(self.log.store)
        try:
            for _, _, bitmap in self.deletes[path]:
                bitmaps.rows([bitmap], MAX_ROWS)
        except LakelogError as error:
            return error.message
        return ""

    def _report_deletes(self, path: str, problem: str) -> None:
        """Reports an object of deletion vectors, with the files whose rows can't be read."""
        files = sorted({(file, table) for table, file, _ in self.deletes[path]})
        paths, table = [file for file, _ in files], files[0][1]
        problem = f"{problem}: rows of {_first(paths)} can't be read"
        command = (
            "Restore the object from a backup; or give up all rows of these files: lakelog remove "
            f"URL {self.log.database} {shlex.join([table, *paths])} --writer {self.log.writer} "
            "--execute"
        )
        newest = [] if self.head is None else self.head.deletes.objects()
        if self.head is None or any(path in there.to_pylist() for there in newest):
            self.report("error", self.base + path, problem, table=table, command=command)
        else:
            problem += "; only older points in time need them"
            self.report("note", self.base + path, problem, table=table)

    def check_pages(self, subset: Subset) -> Subset:
        """Verifies the page checksums of a share of the files, and what footers of other programs
        say of the values; returns what is left of the share."""
        left = subset.max_bytes
        chosen: list[Keyed] = []
        for key, file in self._keyed(self.files.to_pylist()):
            if not subset.holds(file["path"]) or (left is not None and left <= 0):
                continue
            left = None if left is None else left - file["size_bytes"]
            self.bytes_read += file["size_bytes"]
            chosen.append((key, file))
        self._report_files(self._page_problem, chosen)
        reported = {finding.object for finding in self.findings}
        for key, file in chosen:
            if key not in reported and not is_own(key):
                self._check_statements(key, file)
        return Subset(subset.part, subset.parts, left)

    @contextlib.contextmanager
    def _opened(self, key: str, file: File) -> Iterator[Any]:
        """Opens a Parquet file."""
        part = FilePart(key, file["size_bytes"], file["row_count"], pa.schema([]))
        wide = self.catalog.wide
        with reading(part), wide.open_input(key, size_bytes=part.size_bytes) as source:
            yield source

    def _page_problem(self, key: str, file: File) -> str:
        import pyarrow.parquet as pq

        try:
            with self._opened(key, file) as source:
                found = damaged_column(source, pq.read_metadata(source))
        except LakelogError as error:
            return error.message
        if found is None:
            return ""
        return f"a page of column {found[0]!r} in row group {found[1]} doesn't match its checksum"

    def _check_statements(self, key: str, file: File) -> None:
        """Holds what the footer of another program says of a live file against its values. It is an
        error where the log has the bounds, for reads skip by these."""
        import pyarrow.parquet as pq

        path, table, database = file["path"], file["table"], self.log.database
        with contextlib.suppress(LakelogError):  # what is damaged is another finding
            if self.head is None or not self.head.files.is_live(table, path):
                return
            with self._opened(key, file) as source:
                wrong = list(wrong_statements(pq.ParquetFile(source)))
            if not wrong:
                return
            known = table_statistics(self.head, table)
            has_bounds = pc.or_(pc.is_valid(known["min"]), pc.is_valid(known["max"]))
            known = known.filter(pc.and_(has_bounds, pc.equal(known["path"], path)))
            believed = set(known["column"].to_pylist())
            skips = [one for one in wrong if one.of != "null_count" and one.column in believed]
            texts = [one.text for one in sorted(wrong, key=lambda one: one not in skips)]
            if not skips:
                problem = f"{_first(texts)}. No read believes it"
                self.report("note", key, problem, table=table, rows=0)
                return
            named, name, writer = shlex.quote(table), shlex.quote(key), self.log.writer
            command = (
                f"`lakelog remove URL {database} {named} {name} --writer {writer} --execute`, then "
                f"`lakelog add URL {database} {named} {name} --writer {writer} --no-statistics`"
            )
            problem, at = f"{_first(texts)}. Reads skip the file by it", file["revision"]
            rows = file["row_count"]
            self.report("error", key, problem, revision=at, rows=rows, table=table, command=command)


def _first(texts: Sequence[str]) -> str:
    """Returns the first of some texts, and how many there are more."""
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more


def _retained(names: Names, incarnation: int) -> list[LogObject]:
    """Returns what is retained of an incarnation, sorted: what lies below the checkpoint that prune
    has mirrored is on its way out."""
    own = [item for item in names if item.incarnation == incarnation]
    copied = [item for item in own if MIRROR in names[item] and item.kind == "checkpoint"]
    start = max((item.revision for item in copied), default=0)
    return sorted(
        item
        for item in own
        if item.revision > start
        or (item.revision == start and (item.kind == "checkpoint" or not start))
    )


def _each_once(named: list[pa.Table]) -> pa.Table:
    """Returns files by path, each once: as it was first added."""
    table = pa.concat_tables([files_rows([], []).select(_COLUMNS), *named])
    table = table.sort_by([(name, "ascending") for name in ("path", "table", "revision")])
    rest = [name for name in _COLUMNS if name not in {"table", "path"}]
    found = table.group_by(["table", "path"], use_threads=False)
    return found.aggregate([(name, "first") for name in rest]).rename_columns(_COLUMNS)


def _time(us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(us / 1e6, dt.UTC)
