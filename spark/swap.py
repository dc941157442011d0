"""`format("lakelog")` by Spark's own Parquet reader, on classic sessions.

Spark plans a data source in Python without telling it the columns of a query, or asking for its
size. So a rule of the optimizer (`swap_java`) asks here, by py4j's callbacks, for what
`lakelog.spark.read` would make of the same options, and puts that in its place. Where it can't, the
source reads the table as ever.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ..errors import LakelogError, SparkOutOfMemory
from ..store.places import is_url
from . import file_index
from .access import Access
from .hadoop import supports_url
from .jvm import compiled, first_line, typed_errors
from .native import is_switched_off
from .read import natively
from .source_options import is_followed
from .swap_java import RULES, RULES_CLASS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .source import LakelogDataSource

_TEXTS: Final = (RULES,)
_adding: Final = Lock()


def add_rule(spark: SparkSession) -> Any:
    """Give a classic session the rule, unless it has it.

    Returns:
        The class loader of the JVM that knows the rule's classes.
    Raises:
        SparkUnsupported: This Spark has another inside.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    with _adding, typed_errors(f"lakelog's rule doesn't fit Spark {spark.version}"):
        gateway = spark.sparkContext._gateway
        made = compiled(gateway, RULES_CLASS, _TEXTS)
        if not made.entry.areIn(spark._jsparkSession):
            ensure_callback_server_started(gateway)
            made.entry.add(spark._jsparkSession, _Answers(spark))
        return made.loader


class _Answers:
    """What the rule asks for."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, pickled: bytes, _: None) -> Any:
        """The rows of a source, as Spark keeps it: a Java list of what they are, and of a frame."""
        answer: tuple[Any, ...] = ("by the source",)
        try:
            source = pickle.loads(pickled)
            frame = _rows(self._spark, source)
            if frame is not None:
                answer = ("at one cut" if source.is_fixed else "as of now", frame._jdf)
        except SparkOutOfMemory as error:
            answer = ("refused", f"{type(error).__name__}: {error}")
        except LakelogError:
            pass  # whatever it is, the source says it as well
        except Exception as error:
            warnings.warn(
                f"format('lakelog') reads in Python, several times slower: {first_line(error)}",
                RuntimeWarning,
                stacklevel=2,
            )
        found = self._spark._jvm.java.util.ArrayList()
        for item in answer:
            found.add(item)
        return found

    class Java:
        """What this is for py4j."""

        implements = ("java.util.function.BiFunction",)


def _rows(spark: SparkSession, source: LakelogDataSource) -> DataFrame | None:
    """What `read` makes of a source's options; None where only the source can read that."""
    options = source.options
    if is_followed(options) or is_switched_off() or not file_index.is_there(spark):
        return None
    told = source.access()
    if not is_url(told.url) and not PurePath(told.url).is_absolute():
        return None  # it is below the working folder of the process that Spark has started
    if not supports_url(spark, told.url):
        return None
    asked = source.asked()
    if asked.keys is not None:
        return None  # some files alone
    return natively(spark, Access(told.open(), *told.options()), asked)
