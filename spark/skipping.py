"""What a query's filters leave of the files of a relation, by the log's statistics.

Spark's planner asks the file index, in the JVM, and the index asks here, by a callback of py4j: so
that a filter of Spark's is judged by the very rules of `where=`, and statistics are fetched column
by column, when a query looks at them. Whatever fails costs skipping, never rows.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..catalog.read.statistics import StatisticsWarning
from .filters import read_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructField

    from ..catalog.read.row_filter import RowFilter

    Judge: TypeAlias = Callable[[RowFilter], np.ndarray]  # as `JudgedFiles.may_hold`

# The planner asks from threads of several queries; what a log knows is loaded when it is asked for.
_ONE_AT_A_TIME = threading.Lock()


class FileSkipper:
    """The files of one relation.

    Args:
        judge: Which files of the table may hold rows that are asked for.
        numbers: Per file of the relation its place among those.
        read: The columns of the relation, as Spark's reader is asked for them.
        target: The columns as the cut has them.
    """

    def __init__(
        self, judge: Judge, numbers: np.ndarray, read: Sequence[StructField], target: pa.Schema
    ) -> None:
        self._judge = judge
        self._numbers = numbers
        self._columns = {
            field.name: (field.dataType.simpleString(), target.field(field.name)) for field in read
        }

    def apply(self, filters: str) -> bytes:
        """Called by the JVM.

        Args:
            filters: As `FilterText` writes them.
        Returns:
            A bit for each file of the relation, the lowest first; nothing: all are to be read.
        """
        try:
            wanted = read_filters(filters, self._columns)
            if wanted is None:
                return b""
            with _ONE_AT_A_TIME:
                kept = self._judge(wanted)
            return np.packbits(kept[self._numbers], bitorder="little").tobytes()
        except Exception as error:
            what = f"{type(error).__name__}: {error}: nothing is skipped by the filters of a query"
            warnings.warn(what, StatisticsWarning, stacklevel=2)
            return b""

    class Java:
        """What this is for py4j."""

        implements = ("java.util.function.Function",)
