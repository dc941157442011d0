"""How far the jobs are that a piece of work has Spark do: watched from another thread, by a tag.

A tag and no job group: a group would take the place of the caller's own.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..catalog.ambient import SYSTEM
from ..progress import Progress, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_EVERY_S: Final = 0.25
_DESCRIPTION: Final = "spark.job.description"
_COUNTS: Final = ("numTasks", "numCompletedTasks", "numActiveTasks", "numFailedTasks")


@dataclass(frozen=True, slots=True)
class Stages:
    """How far Spark is with some work.

    Attributes:
        stages, stages_done: That Spark has planned so far, and that are done.
        tasks, tasks_done, tasks_running: Of these stages, and those that are known to come.
        tasks_failed: Attempts; Spark makes others.
        seconds: Since the work began.
    """

    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_running: int = 0
    tasks_failed: int = 0
    seconds: float = 0.0

    @property
    def tasks_a_second(self) -> float:
        """The rate."""
        return self.tasks_done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """As the rate tells; None while nothing does."""
        left = self.tasks - self.tasks_done
        return left / self.tasks_a_second if self.tasks_done and left > 0 else None

    def __str__(self) -> str:
        if not self.stages:
            return "waiting for Spark"
        parts = [
            f"stage {min(self.stages, self.stages_done + 1):,} of {self.stages:,}",
            f"{self.tasks_done:,} of {self.tasks:,} tasks",
            f"{self.tasks_running:,} running",
        ]
        if self.tasks_failed:
            parts.append(f"{self.tasks_failed:,} failed and tried again")
        if self.tasks_done:
            parts.append(f"{self.tasks_a_second:.1f} tasks/s")
        if self.seconds_left is not None:
            parts.append(f"{span(self.seconds_left)} left")
        return ", ".join(parts)


class Watch:
    """Tells how far the jobs of some work are, while it is open; it may be opened several times at
    once.

    Args:
        spark: Any session, classic or Connect.
        tell: Told several times a second, from a thread of its own (on Connect from those that run
            the jobs). What it raises ends the telling, and nothing else.
        what: The work, for Spark's UI.
    """

    def __init__(
        self, spark: SparkSession, tell: Callable[[Stages], None] | None, what: str
    ) -> None:
        self._spark = spark
        self._tell = tell
        self._what = what
        self._context: Any = spark.sparkContext if hasattr(spark, "_jsparkSession") else None
        self.tag = f"lakelog-{SYSTEM.new_id().hex()}"
        self._guard = threading.Lock()
        self._open = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun_s = 0.0
        self._to_come = 0
        self._counts: _Counts | None = None

    def expect(self, tasks: int) -> None:
        """So many tasks more will come."""
        with self._guard:
            self._to_come += tasks

    @contextlib.contextmanager
    def tagged(self, *more: str) -> Iterator[None]:
        """The jobs that this thread starts meanwhile are of this work; `more` are further tags."""
        owner: Any = self._context or self._spark
        names = ("addJobTag", "removeJobTag") if self._context else ("addTag", "removeTag")
        add, remove = (getattr(owner, name) for name in names)
        before = self._describe(f"lakelog: {self._what}")
        for tag in (self.tag, *more):
            add(tag)
        try:
            yield
        finally:
            for tag in (self.tag, *more):
                remove(tag)
            self._describe(before)

    def _describe(self, text: str | None) -> str | None:
        """Give the jobs of this thread a description; the one before. One of the caller's stays."""
        if self._context is None:
            return None
        before: str | None = self._context.getLocalProperty(_DESCRIPTION)
        if before is None or before.startswith("lakelog: "):
            self._context.setLocalProperty(_DESCRIPTION, text)
        return before

    def cancel(self, tag: str) -> None:
        """End all jobs of a tag. That there are none any more, or no Spark, is no error."""
        with contextlib.suppress(Exception):
            if self._context is not None:
                self._context.cancelJobsWithTag(tag)
            else:
                self._spark.interruptTag(tag)

    def __enter__(self) -> Watch:
        with self._guard:
            self._open += 1
            if self._tell is None or self._open > 1:
                return self
            self._begun_s = self._begun_s or SYSTEM.monotonic_s()
            if self._context is None:
                self._counts = self._counts or _Counts(self._report)
                self._spark.registerProgressHandler(self._counts)
            else:
                self._ended = threading.Event()
                self._thread = threading.Thread(target=self._watch, args=(self._ended,))
                self._thread.daemon = True
                self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._open -= 1
            thread = self._thread
            if self._tell is None or self._open:
                return
            self._ended.set()
            self._thread = None
            if self._counts is not None:
                self._spark.removeProgressHandler(self._counts)
        if thread is not None:
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        # Whatever is wrong with telling, the work goes on; and Spark may be stopped meanwhile.
        with contextlib.suppress(Exception):
            jobs = _Jobs(self._context, self.tag)
            while True:
                last = ended.wait(_EVERY_S)
                self._report(jobs.look())
                if last:
                    return

    def _report(self, found: list[tuple[int, ...]]) -> None:
        """Tell of stages: of each, those of `_COUNTS`."""
        assert self._tell is not None
        tasks, done, running, failed = map(sum, zip(*found, (0, 0, 0, 0), strict=True))
        over = sum(counts[0] <= counts[1] for counts in found)
        seconds = SYSTEM.monotonic_s() - self._begun_s
        tasks = max(tasks, self._to_come)
        self._tell(Stages(len(found), over, tasks, done, running, failed, seconds))


class _Jobs:
    """The jobs of a tag, asked for again and again; of what is over the counts are kept."""

    def __init__(self, context: Any, tag: str) -> None:
        self._context = context
        self._tag = tag
        self._over: dict[int, list[tuple[int, ...]]] = {}

    def look(self) -> list[tuple[int, ...]]:
        """The counts of each stage."""
        tracker = self._context._jsc.sc().statusTracker()
        now: dict[int, list[tuple[int, ...]]] = {}
        for job in tracker.getJobIdsForTag(self._tag):
            if job in self._over:
                continue
            info = tracker.getJobInfo(job)
            if not info.isDefined():
                continue
            stages = (tracker.getStageInfo(stage) for stage in info.get().stageIds())
            counts = [
                tuple(getattr(stage.get(), name)() for name in _COUNTS)
                for stage in stages
                if stage.isDefined()
            ]
            where = self._over if str(info.get().status()) != "RUNNING" else now
            where[job] = counts
        return [one for jobs in (self._over, now) for counts in jobs.values() for one in counts]


class _Counts:
    """What a server of Spark Connect tells of the queries of a session."""

    def __init__(self, report: Callable[[list[tuple[int, ...]]], None]) -> None:
        self._report = report
        self._by_query: dict[str, list[tuple[int, ...]]] = {}
        self._guard = threading.Lock()

    def __call__(
        self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        # The last word of the server may come before the last task is done.
        counts: list[tuple[int, ...]] = [
            (stage.num_tasks, stage.num_tasks if done else stage.num_completed_tasks, 0, 0)
            for stage in stages or ()
        ]
        if counts and not done:
            counts[-1] = (*counts[-1][:2], inflight_tasks, 0)
        with self._guard, contextlib.suppress(Exception):
            self._by_query[operation_id or ""] = counts
            self._report([one for each in self._by_query.values() for one in each])


@contextlib.contextmanager
def watched(
    spark: SparkSession, progress: bool | Callable[[Stages], None], what: str
) -> Iterator[Watch]:
    """Watch some work.

    Args:
        progress: A function to be called; True: a line on stderr; False: nothing.
        what: The work.
    """
    if not isinstance(progress, bool):
        with Watch(spark, progress, what) as watch:
            yield watch
        return
    if not progress:
        yield Watch(spark, None, what)
        return
    with (
        Progress(what, asked=True) as shown,
        Watch(spark, lambda stages: shown.note(str(stages)), what) as watch,
    ):
        yield watch
