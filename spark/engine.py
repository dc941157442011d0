"""Spark as an engine of maintenance: the same thing is done to many items, by executors.

Jobs are of a few thousand items at most, two of them at a time, so that neither the driver nor a
task ever holds the results of all. In a Python worker a task takes its share of the items, does
them in threads, and sends back what came of each. An error of lakelog's is an answer: the driver
raises it as if it had met it itself, and Spark doesn't try the task again and again. (Stores try
again by themselves.)
"""

from __future__ import annotations

import io
import pickle
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.message import Message

from ..catalog.ambient import SYSTEM
from ..catalog.data.footers.pool import limit_pool
from ..catalog.parallel import SHARE, each_in_parallel
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import LakelogError, MissingDependency, UsageError
from .access import Identity, is_s3, refuse_memory
from .stages import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ..store import WideStore
    from .stages import Stages

    Options = Mapping[str, Any]

_T = TypeVar("_T")
_R = TypeVar("_R")
_AT_ONCE: Final = 2  # jobs: the next one fills the places that the last tasks of one leave
_MOST_ITEMS: Final = 8_192  # of a job
_LEAST_TASKS: Final = 32  # of a job, if there are items enough
_CORES: Final = 8  # where Spark doesn't tell
_LACKS: Final = "No module named 'lakelog"


class SparkEngine:
    """Executors do the work: hand it to `plan_rebuild` or `replicate` as `engine=`. What comes of
    it is the same as without.

    Args:
        spark: Any session, classic or Connect. Its Python workers need this lakelog, and access to
            the stores.
        progress: Called with `Stages` several times a second while jobs run, from another thread.
        what: The work, for Spark's UI.
    """

    def __init__(
        self,
        spark: SparkSession,
        progress: Callable[[Stages], None] | None = None,
        what: str = "maintenance",
    ) -> None:
        self._spark = spark
        self._watch = Watch(spark, progress, what)

    def each(
        self,
        prepare: Callable[..., Callable[[_T], _R]],
        stores: Sequence[WideStore],
        items: Iterable[_T],
        number: int,
        *,
        share: int = SHARE,
    ) -> Generator[_R, None, None]:
        """See `lakelog.catalog.parallel.Engine`.

        Raises:
            UsageError: A store that other processes can't see, or can't open.
            AccessDenied: A profile that is named isn't there, or can't be renewed.
            MissingDependency: The executors lack lakelog.
            LakelogError: What the work raises. Else what Spark raises where a task fails.
        """
        rest, openings = iter(items), Openings(stores)
        sizes = _sizes(number, _cores(self._spark), share)
        if not number:
            return
        self._watch.expect(-(-number // sizes.share))
        tag = f"{self._watch.tag}-{SYSTEM.new_id().hex()}"
        waiting: deque[Future[list[Answer]]] = deque()
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lakelog-spark")
        try:
            with self._watch:
                while True:
                    while len(waiting) < _AT_ONCE and (some := list(islice(rest, sizes.wave))):
                        wave = _wave(prepare, openings.now(), some, sizes)
                        waiting.append(pool.submit(self._threaded(tag), wave))
                    if not waiting:
                        return
                    found = waiting[0].result()  # it stays there: an interrupt is to cancel it
                    waiting.popleft()
                    for answer in found:
                        yield from answer.results
                        if answer.error is not None:
                            raise answer.error
        finally:
            if waiting:  # broken off: the caller wants no more
                self._watch.cancel(tag)
            pool.shutdown(wait=True, cancel_futures=True)

    def _threaded(self, tag: str) -> Callable[[Wave], list[Answer]]:
        """What runs a job in another thread than this one, with this one's settings: a copy of them
        for each job, for its thread changes them."""
        from pyspark import inheritable_thread_target

        def run(wave: Wave) -> list[Answer]:
            with self._watch.tagged(tag):
                return _run(self._spark, wave)

        found: Callable[[Wave], list[Answer]] = inheritable_thread_target(self._spark)(run)
        return found


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many items a task has, and how many a job."""

    share: int
    wave: int


def _sizes(number: int, cores: int, share: int) -> _Sizes:
    """Every core gets two tasks, if there are items enough; no task has more than its share."""
    share = max(1, min(share, -(-number // (2 * cores))))
    return _Sizes(share, max(share, min(_MOST_ITEMS, share * max(_LEAST_TASKS, 2 * cores))))


def _cores(spark: SparkSession) -> int:
    """How many tasks may run at once."""
    if hasattr(spark, "_jsparkSession"):
        return max(1, int(spark.sparkContext.defaultParallelism))
    return max(1, int(spark.conf.get("spark.default.parallelism", None) or _CORES))


def _wave(prepare: Any, openings: bytes, items: list[Any], sizes: _Sizes) -> Wave:
    starts = range(0, len(items), sizes.share)
    shares = tuple(pack(items[low : low + sizes.share]) for low in starts)
    return Wave(prepare, openings, shares)


def _run(spark: SparkSession, wave: Wave) -> list[Answer]:
    tasks = len(wave.shares)
    numbers = spark.range(0, tasks, 1, tasks)
    try:
        rows = numbers.mapInArrow(partial(answers, wave), "share long, answer binary").collect()
    except Exception as error:
        if _LACKS in str(error):
            raise MissingDependency(
                "The Python of Spark's executors has no lakelog",
                hint="Install this version there (spark.pyspark.python), or send it along "
                "(spark.archives)",
            ) from error
        raise
    rows.sort(key=lambda row: row["share"])
    return [unpack(row["answer"]) for row in rows]


# --- Openings -------------------------------------------------------------------------------------


class Openings:
    """What opens some stores in tasks.

    Raises:
        UsageError: A store that other processes can't see.
    """

    def __init__(self, stores: Sequence[WideStore]) -> None:
        for store in stores:
            refuse_memory(store.url)
        found = [store.opening for store in stores]
        self._each = [
            (
                each,
                _options(each.url, each.storage_options),
                {url: _options(url, given) for url, given in each.location_options.items()},
            )
            for each in found
        ]

    def now(self) -> bytes:
        """Returns what opens them, packed: on S3 with the credentials that are valid now. Raises
        `UsageError` if an option can't be sent; else as `Identity.options`."""
        try:
            return pack(
                [
                    replace(
                        opening,
                        storage_options=own(),
                        location_options={url: options() for url, options in elsewhere.items()},
                    )
                    for opening, own, elsewhere in self._each
                ]
            )
        except LakelogError:
            raise
        except Exception:
            raise UsageError(
                "The storage options hold something that can't be sent to Spark's tasks",
                key="storage_options",
                hint="Give plain texts, numbers, lists and dicts",
            ) from None  # the cause might show a value


def _options(url: str, given: Options) -> Callable[[], Options]:
    return Identity(given).options if is_s3(url) else lambda: given


# --- Tasks ----------------------------------------------------------------------------------------

_PLACES = 8  # whose stores a worker keeps open


@dataclass(frozen=True)
class Wave:
    """The input of the tasks of one job. Never shows what opens the stores.

    Attributes:
        prepare: See `Engine.each`.
        openings: What opens the stores, packed.
        shares: The items of each task, packed.
    """

    prepare: Callable[..., Callable[[Any], Any]]
    openings: bytes
    shares: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Wave({len(self.shares)} tasks)"


@dataclass(frozen=True)
class Answer:
    """The results of a task's items, in order, up to the first error."""

    results: list[Any]
    error: LakelogError | None = None


def answers(wave: Wave, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answer to each number of a share, as `DataFrame.mapInArrow` calls it."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            packed = pack(answer(wave, number))
            columns = [pa.array([number], pa.int64()), pa.array([packed], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["share", "answer"])


def answer(wave: Wave, number: int) -> Answer:
    """The answer to one share."""
    limit_pool(1)  # each core has a worker of its own
    results: list[Any] = []
    try:
        function = wave.prepare(*_opened(wave.openings))
        for one in each_in_parallel(function, unpack(wave.shares[number])):
            results.append(one)
    except LakelogError as error:
        return Answer(results, error)
    return Answer(results)


@lru_cache(_PLACES)
def _opened(openings: bytes) -> Sequence[WideStore]:
    return [opening.open() for opening in unpack(openings)]


# --- Serialization --------------------------------------------------------------------------------

unpack = pickle.loads


def pack(value: object) -> bytes:
    """The bytes of a value, for `unpack`."""
    sink = io.BytesIO()
    _Pickler(sink, pickle.HIGHEST_PROTOCOL).dump(value)
    return sink.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Message):
            return NotImplemented
        return _message, (type(value).DESCRIPTOR.name, value.SerializeToString())


def _message(name: str, body: bytes) -> Message:
    found: Message = getattr(wire, name).FromString(body)
    return found
