"""`--engine`: the bulk of a command's work in threads of this process, or on Spark."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..errors import UsageError
from . import options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from ..catalog.parallel import Engine
    from ..spark import Stages
    from ..store import WideStore
    from .command_list import Argument
    from .errors import Progress

_T = TypeVar("_T")
_R = TypeVar("_R")
EMBEDDED: Final = "embedded"
SPARK: Final = "spark"
_MASTER: Final = "spark.master"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit started this process


def arguments(work: str) -> tuple[Argument, ...]:
    """`--engine` and `--spark`.

    Args:
        work: The work that the engine does.
    """
    return (
        options.choice(
            "--engine",
            (EMBEDDED, SPARK),
            f"what does {work}: threads of this process (the default), or Spark's executors. "
            "The result is the same",
            default=EMBEDDED,
        ),
        options.repeated(
            "--spark",
            "KEY=VALUE",
            "with --engine spark: a setting of Spark, such as spark.master; may be repeated. "
            "Without a master Spark runs on this machine, or where spark-submit says",
        ),
    )


@contextmanager
def engine_of(args: argparse.Namespace, what: str) -> Iterator[SparkOnDemand | None]:
    """The engine that the arguments name, while this is open; None: threads of this process.

    Args:
        what: The work, for Spark's UI.
    """
    conf: dict[str, str] = {}
    for text in args.spark:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(
                f"--spark wants spark.NAME=VALUE, not {name!r:.60}",
                key=name[:60],
                hint="For example --spark spark.master=local[4]",
            )
        conf[name] = value
    if args.engine == SPARK:
        engine = SparkOnDemand(what, conf)
        try:
            yield engine
        finally:
            engine.close()
    elif conf:
        raise UsageError("--spark goes with --engine spark", hint="Give both, or neither")
    else:
        yield None


class SparkOnDemand:
    """An engine that starts Spark, with these settings, when there is something to do. Close it."""

    def __init__(self, what: str, conf: dict[str, str]) -> None:
        self._what = what
        self._conf = dict(conf)
        self._engine: Engine | None = None
        self._session: Any = None
        self._starting = threading.Lock()
        self.shown: Progress | None = None

    def each(
        self,
        prepare: Callable[..., Callable[[_T], _R]],
        stores: Sequence[WideStore],
        items: Iterable[_T],
        number: int,
        **options: Any,
    ) -> Generator[_R, None, None]:
        """See `lakelog.catalog.parallel.Engine`."""
        if not number:
            return
        with self._starting:
            engine = self._engine = self._engine or self._started()
        yield from engine.each(prepare, stores, items, number, **options)

    def _started(self) -> Engine:
        from ..spark import SparkEngine, session

        known: Any = sys.modules.get("pyspark.sql")
        ours = known is None or known.SparkSession.getActiveSession() is None
        conf = dict(self._conf)
        master = conf.pop(_MASTER, None if _SUBMITTED in os.environ else "local[*]")
        spark = session(f"lakelog {self._what}", master, **conf)
        if ours:
            self._session = spark
        return SparkEngine(spark, self._note, self._what)

    def _note(self, stages: Stages) -> None:
        if self.shown is not None:
            self.shown.note(str(stages))

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        if self._session is not None:
            self._session.stop()
            self._session = None
