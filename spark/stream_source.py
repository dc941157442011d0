"""`spark.readStream.format("lakelog")`: a table as a stream of the rows that are appended to it, or
of its changes.

Spark asks in one long-lived Python process how far the next batch goes and which tasks read it, and
keeps the answer in its checkpoint. So a batch is planned from that alone, and again after a restart
as it was before; the tasks read files in Spark's Python workers.

A batch is what was committed between two places. It ends at a cut: so many commits of each writer
were given, whoever committed when. Of the rows that were there when the stream began it may end
between two files: these have an order that doesn't change.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from ..catalog.format.columns import numbers
from ..catalog.format.cut import Cut, parse_token
from ..catalog.read.appended import Commit, takes_out_error
from ..catalog.read.commits_between import ABOUT
from ..errors import InvalidToken, SnapshotPruned, StreamLost
from .source_tasks import cut_words, read_task, told_whose
from .stream_table import COMMITS_AT_ONCE, FollowedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from .source_options import Followed

_IDLE_US: Final = 3_600_000_000
_ANEW: Final = (
    "Give the query a new checkpointLocation: without `since` it begins with the rows that are "
    "there. `lakelog prune --keep-days` keeps what a stream needs that is idle for so long"
)


class _Idle(NamedTuple):
    """Two cuts between which nothing was done to the table.

    Attributes:
        first_us: When the first commit between was, by its writer's clock.
    """

    since: Cut
    until: Cut
    first_us: int

    def end(self, now_us: int) -> Cut:
        """The cut of the stream: after an hour it goes on by a batch without rows, for the commits
        between may be pruned one day."""
        return self.until if now_us - self.first_us > _IDLE_US else self.since


class LakelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table.

    Args:
        asked: What of which table.
        schema: What Spark asks for.
        is_told: Whether the user gave that, instead of taking the table's.
    """

    def __init__(self, asked: Followed, schema: StructType, *, is_told: bool) -> None:
        self._asked = asked
        self._schema = schema
        self._is_told = is_told
        self._table: FollowedTable | None = None
        self._newest: Cut | None = None
        self._target: Cut | None = None
        self._idle: _Idle | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but what was read: Spark sends the reader to every task."""
        read = ("_table", "_newest", "_target", "_idle")
        return self.__dict__ | dict.fromkeys(read)

    # --- How far a batch goes ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new stream begins: as the option says it, for a time is looked up only once."""
        asked = self._asked
        return StreamOffset(asked.table, asked.feed, since=asked.since).json

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that the options give; that of bytes holds beside it."""
        return ReadMaxFiles(self._asked.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is where the stream ends.

        Requests: those of `FollowedTable.look`.
        """
        self._target = self._look()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the batch that begins at `start` ends: before the commit that would make it too
        large, but not before its first one.

        Raises:
            StreamLost, NotAppended, ColumnsChanged: The stream can't go on; nothing is skipped.
            SnapshotPruned: The history that it needs was pruned.
            MissingTransaction, CorruptError: It can't be read.
        Requests: those of `FollowedTable.look`; if there is news, the LISTs and GETs of two states
            of each log that has some, and 1 GET for each commit, of 256 at most.
        """
        here = self._read(start)
        until = self._target or self._look()
        try:
            return self._latest(here, until, limit).json
        except SnapshotPruned as error:
            raise _pruned(error) from error

    def _latest(self, here: StreamOffset, until: Cut, limit: ReadLimit) -> StreamOffset:
        begun: Cut | None = None
        at = here.at
        if at is None and not here.since:
            at = Place(until, 0)
        elif at is None:
            begun = self._followed.point(here.since)
            at = Place(begun)
        everything = isinstance(limit, ReadAllAvailable)
        self._followed.refuse_lost(at.cut)
        if here.at is None:  # noted once it is given: it must be a cut that can be read
            self._followed.refuse_disagreement(at.cut)
        if at.files is not None:
            found = self._among_existing(at.cut, at.files, limit=not everything)
            return here.moved(found, begun)
        end = self._admitted(at.cut, until, all_of_them=everything)
        if end == at.cut and begun is None:
            return here
        return here.moved(Place(end), begun)

    def _among_existing(self, cut: Cut, start: int, *, limit: bool) -> Place:
        files = self._followed.existing(cut).files
        if not limit:
            return Place(cut)
        sizes = numbers(files.column("size_bytes").slice(start, self._asked.max_files))
        end = start + len(sizes)
        if self._asked.max_bytes is not None:
            fitting = int((sizes.cumsum() <= self._asked.max_bytes).sum())
            end = start + min(len(sizes), max(1, fitting))
        return Place(cut, end) if end < files.num_rows else Place(cut)

    def _admitted(self, since: Cut, until: Cut, *, all_of_them: bool) -> Cut:
        idle = self._idle if self._idle is not None and self._idle.since == since else None
        start = since if idle is None else idle.until
        until = _joined(start, until)
        if until == start:
            return since if idle is None else idle.end(self._followed.now_us)
        end, commits = self._followed.commits(start, until, all_of_them=all_of_them)
        chosen = self._chosen(commits, all_of_them=all_of_them)
        if len(chosen) < len(commits):
            end = cut_after(start, chosen)
            while not self._followed.agrees(end) and len(chosen) < len(commits):
                chosen.append(commits[len(chosen)])
                end = cut_after(start, chosen)
        few = end == until and _commits_between(since, end) < COMMITS_AT_ONCE
        if few and all(each.is_idle for each in chosen):
            first_us = chosen[0].committed_at_us if idle is None else idle.first_us
            self._idle = _Idle(since, end, first_us)  # other tables' commits make no batches
            return self._idle.end(self._followed.now_us)
        return end

    def _chosen(self, commits: Sequence[Commit], *, all_of_them: bool) -> list[Commit]:
        """Those of the next batch, in order.

        Raises:
            NotAppended: The first of them takes rows out.
        """
        asked, found = self._asked, list[Commit]()
        if not asked.feed:
            sound = list(takewhile(lambda each: not each.ends(skip=asked.skip), commits))
            if not sound and commits:
                raise takes_out_error(asked.database, commits[0])
            commits = sound
        if all_of_them:
            return list(commits)
        files = size_bytes = 0
        for commit in commits:
            more = files + commit.files
            size_bytes += commit.size_bytes
            over = asked.max_bytes is not None and size_bytes > asked.max_bytes
            if files and commit.files and (over or more > asked.max_files):
                break
            files = more
            found.append(commit)
        return found

    # --- Reading it -------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch: of one that was planned before a restart the same rows.

        Raises, Requests: As for `latestOffset`; those of `Catalog.changes` without reading rows.
        """
        first, last = self._read(start), self._read(end)
        if first == last or last.at is None:
            return []
        if self._newest is None:
            self._look()
        try:
            tasks = self._planned(first, last.at, last.begun)
        except SnapshotPruned as error:
            raise _pruned(error) from error
        return told_whose(tasks, self._whose(first, last))

    def _whose(self, first: StreamOffset, last: StreamOffset) -> str:
        """Which batch it is, and what to do where a file of it is gone."""
        assert last.at is not None
        begun = last.begun if first.at is None else first.at.cut
        if begun is None or (first.at is not None and first.at.files is not None):
            since = "its beginning"
        else:
            since = cut_words(begun)
        asked = self._asked
        return (
            f"The stream of table {asked.table!r} of {asked.database!r} reads from {since} to "
            f"{cut_words(last.at.cut)}. {_ANEW}"
        )

    def _planned(self, first: StreamOffset, end: Place, begun: Cut | None) -> list[InputPartition]:
        at = first.at
        if at is None:
            # Of the first batch its end says where it began, whatever `since` says by now.
            at = Place(end.cut, 0) if begun is None else Place(begun)
        self._followed.refuse_lost(end.cut)
        columns = [name for name in self._schema.names if not self._is_about(name)]
        if at.files is not None:
            return self._followed.there(at.cut, at.files, end.files, columns)
        if at.cut == end.cut:
            return []
        return self._followed.changed(at.cut, end.cut, columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, in a Python worker.

        Raises: As `read_task`.
        Requests: 1 or more GET a file.
        """
        feed = self._asked.feed
        return read_task(self._asked.access, partition, self._schema, about=feed)

    def _is_about(self, name: str) -> bool:
        return self._asked.feed and name in ABOUT.names

    def _read(self, found: Mapping[str, Any]) -> StreamOffset:
        asked = self._asked
        return read_offset(found, asked.database, asked.table, feed=asked.feed)

    @property
    def _followed(self) -> FollowedTable:
        if self._table is None:
            self._table = FollowedTable(self._asked)
        return self._table

    def _look(self) -> Cut:
        newest = self._followed.look()
        if newest != self._newest and not self._is_told:
            self._followed.check_columns(self._schema)
        self._newest = newest
        return newest


def _joined(since: Cut, until: Cut) -> Cut:
    """The later of two cuts in each log."""
    later = {
        writer: at
        for writer, at in until.writers.items()
        if writer not in since.writers or at.revision > since.writers[writer].revision
    }
    return Cut(until.database, dict(sorted((dict(since.writers) | later).items())))


def _commits_between(since: Cut, until: Cut) -> int:
    """How many commits of the log that has most of them."""
    first = since.revisions
    return max((at - first.get(writer, -1) for writer, at in until.revisions.items()), default=0)


def _pruned(error: SnapshotPruned) -> SnapshotPruned:
    return SnapshotPruned(
        f"The stream needs commits that were pruned: {error.message}",
        key=error.key,
        hint=f"Rows of them would be lost. {_ANEW}",
    )


def cut_after(since: Cut, commits: Iterable[Commit]) -> Cut:
    """Where commits behind a cut lead to, if those of one log come in their order."""
    found = dict(since.writers) | {each.writer: each.position for each in commits}
    return Cut(since.database, dict(sorted(found.items())))


# --- Offsets --------------------------------------------------------------------------------------

VERSION: Final = 1
_AGAIN: Final = "Give the query a new checkpointLocation: it begins again, where `since` says"


@dataclass(frozen=True, slots=True)
class Place:
    """How far a stream has come.

    Attributes:
        cut: What was committed up to here was given; a cut of no writer: nothing.
        files: Of the files that were there at `cut` only so many were given; None: all.
    """

    cut: Cut
    files: int | None = None


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """What Spark keeps.

    Attributes:
        table: Which one is followed.
        feed: Whether changes are given, or rows that are appended.
        at: How far the stream is; None: it hasn't begun.
        begun: Of the first batch, where it began: of a time this is looked up once. None: with the
            rows that were there, or it isn't the first.
        since: Of a stream that hasn't begun, as the option says it.
    """

    table: str
    feed: bool
    at: Place | None = None
    begun: Cut | None = None
    since: str = ""

    def moved(self, at: Place, begun: Cut | None = None) -> StreamOffset:
        """The same stream at another place."""
        return replace(self, at=at, begun=begun, since="")

    @property
    def json(self) -> dict[str, Any]:
        """As Spark keeps it; `read_offset` is its inverse."""
        found: dict[str, Any] = {"lakelog": VERSION, "table": self.table, "feed": self.feed}
        if self.at is None:
            return found | {"since": self.since}
        found["cut"] = _text(self.at.cut)
        if self.at.files is not None:
            found["files"] = self.at.files
        if self.begun is not None:
            found["begun"] = _text(self.begun)
        return found


def read_offset(found: Mapping[str, Any], database: str, table: str, *, feed: bool) -> StreamOffset:
    """An offset of a checkpoint.

    Args:
        database, table, feed: Of the stream that reads it.
    Raises:
        StreamLost: It is of another stream, or of another version of lakelog.
    """
    if found.get("lakelog") != VERSION:
        raise StreamLost(
            f"The checkpoint of the stream holds an offset that this lakelog doesn't know: "
            f"{str(dict(found))[:200]}",
            key=table,
            hint=f"Was it written by a later version, or is it of another source? {_AGAIN}",
        )
    if (found["table"], found["feed"]) != (table, feed):
        words = ("rows that are appended to", "changes of")
        raise StreamLost(
            f"The checkpoint is of a stream of {words[found['feed']]} table {found['table']!r}, "
            f"and this one is of {words[feed]} table {table!r}",
            key=table,
            hint=_AGAIN,
        )
    if "since" in found:
        return StreamOffset(table, feed, since=found["since"])
    begun = _cut(found["begun"], database) if "begun" in found else None
    at = Place(_cut(found["cut"], database), found.get("files"))
    return StreamOffset(table, feed, at, begun)


def _text(cut: Cut) -> str:
    return cut.token if cut.writers else ""


def _cut(text: str, database: str) -> Cut:
    if not text:
        return Cut(database, {})
    try:
        cut = parse_token(text)
    except InvalidToken as error:
        raise StreamLost(
            f"The checkpoint of the stream holds an offset that is damaged: {text[:60]!r}",
            key=database,
            hint=_AGAIN,
        ) from error
    if cut.database != database:
        raise StreamLost(
            f"The checkpoint is of a stream of database {cut.database!r}, not of {database!r}",
            key=database,
            hint=_AGAIN,
        )
    return cut
