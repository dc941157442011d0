"""Column names that Spark takes for one another: by default it doesn't tell `id` from `ID`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from ..errors import InvalidSchema
from .arrow_types import any_part, is_list, storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_CASE = "spark.sql.caseSensitive"
_TIME = "spark.sql.timeType.enabled"
_ROW_NUMBERS = "_tmp_metadata_row_index"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether the session tells names apart by case."""
    return str(spark.conf.get(_CASE)).lower() == "true"


def check_names(target: pa.Schema, *, exact_case: bool) -> None:
    """Refuse a schema that the session, as it is set up, would mix up.

    Raises:
        InvalidSchema: Names that differ in case only (or not at all).
    """
    _check_distinct(target.names, "", exact_case=exact_case)
    for field in target:
        _check_nested(field.type, field.name, exact_case=exact_case)


def check_times(spark: SparkSession, target: pa.Schema) -> None:
    """Refuse times of day where Spark has them off: its own reader rejects them then.

    Raises:
        InvalidSchema: Names the column.
    """
    from pyspark.sql import types

    cure = f"Set {_TIME}=true" if hasattr(types, "TimeType") else "Use Spark 4.1 or later"
    for field in target:
        if any_part(field.type, kinds.is_time) and not _has_times(spark):
            raise InvalidSchema(
                f"Column {field.name!r} is {field.type}, and this session has no times of day",
                hint=f"{cure}, or leave the column out",
            )


def check_row_numbers(names: Sequence[str]) -> None:
    """Refuse a name under which Spark's own Parquet reader gives the numbers of rows.

    Raises:
        InvalidSchema: Names the column.
    """
    for name in names:
        if name.lower() == _ROW_NUMBERS:
            raise InvalidSchema(
                f"Spark's own reader takes column {name!r} for the numbers of rows",
                hint="Leave the column out, or read it with snapshot.scan()",
            )


def is_there(schema: pa.Schema, name: str, *, exact_case: bool) -> bool:
    """Whether files of this schema have the column, under exactly this name.

    Raises:
        InvalidSchema: They have it, and another that Spark takes for the same.
    """
    if name not in schema.names:
        return False
    if not exact_case:
        alike = [each for each in schema.names if each.lower() == name.lower()]
        _check_distinct(alike, "", exact_case=False)
        _check_nested(schema.field(name).type, name, exact_case=False)
    return True


def _check_nested(kind: pa.DataType, where: str, *, exact_case: bool) -> None:
    kind = storage(kind)
    if is_list(kind):
        _check_nested(kind.value_type, where, exact_case=exact_case)
    elif kinds.is_map(kind):
        _check_nested(kind.item_type, where, exact_case=exact_case)
    elif kinds.is_struct(kind):
        _check_distinct([each.name for each in kind], f"{where}.", exact_case=exact_case)
        for each in kind:
            _check_nested(each.type, f"{where}.{each.name}", exact_case=exact_case)


def _check_distinct(names: Sequence[str], prefix: str, *, exact_case: bool) -> None:
    seen: dict[str, str] = {}
    for name in names:
        key = name if exact_case else name.lower()
        if key in seen:
            raise InvalidSchema(
                f"Spark takes columns {prefix + seen[key]!r} and {prefix + name!r} for one",
                hint=f"Set {_CASE}=true, or leave one of them out",
            )
        seen[key] = name


def _has_times(spark: SparkSession) -> bool:
    from pyspark.sql import types

    if not hasattr(types, "TimeType"):
        return False
    try:
        return str(spark.conf.get(_TIME)).lower() == "true"
    except Exception:  # a Spark that knows no such setting: the type is simply there
        return True
