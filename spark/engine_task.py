"""What runs in Spark's Python workers for `SparkEngine`: a task takes its share of the items, does
them in threads, and sends back what came of each.

An error of lakelog's is an answer: the driver raises it as if it had met it itself, and Spark
doesn't try the task again and again. (Stores try again by themselves.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..catalog.data.footers.pool import limit_pool
from ..catalog.parallel import each_in_parallel
from ..errors import LakelogError
from .parcels import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from ..store import WideStore

_PLACES = 8  # whose stores a worker keeps open


@dataclass(frozen=True)
class Wave:
    """What the tasks of one job are told. Never shows what opens the stores.

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
    """What came of a task's items, in order, as far as the first error."""

    results: list[Any]
    error: LakelogError | None = None


def answers(wave: Wave, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answer to each number of a share, as `DataFrame.mapInArrow` calls it."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            told = pack(answer(wave, number))
            columns = [pa.array([number], pa.int64()), pa.array([told], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["share", "told"])


def answer(wave: Wave, number: int) -> Answer:
    """The answer to one share."""
    limit_pool(1)  # each core has a worker of its own
    results: list[Any] = []
    try:
        function = wave.prepare(*_stores(wave.openings))
        for one in each_in_parallel(function, unpack(wave.shares[number])):
            results.append(one)
    except LakelogError as error:
        return Answer(results, error)
    return Answer(results)


@lru_cache(_PLACES)
def _stores(openings: bytes) -> Sequence[WideStore]:
    return [opening.open() for opening in unpack(openings)]
