"""Rows that are wrong without an error: data files, their statistics, and Spark."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/rebuild/test_int96.py::test_it_is_refused_by_add")
def int96_is_added() -> Any:
    """Files with timestamps that each reader takes for others are added."""
    from lakelog.catalog.data.footers import read

    return mock.patch.object(read, "read_new_footer", read.read_footer)


@plant("tests/catalog/test_float_statistics.py")
def footers_have_bounds_of_floats() -> Any:
    """Bounds that ignore NaN go into the footer, and engines skip rows by them."""
    from lakelog.catalog.data import parquet

    return mock.patch.object(parquet, "_without_floats", return_value=True)


@plant("tests/catalog/test_no_nan.py")
def nan_is_not_looked_for() -> Any:
    """The log says of each column of floats that it holds no NaN."""
    from lakelog.catalog.data import parquet

    real = parquet.float_statistics

    def told(*args: Any) -> Any:
        known = real(*args)
        known.no_nan = True
        return known

    return mock.patch.object(parquet, "float_statistics", told)


@plant("tests/catalog/test_no_nan.py::test_what_cannot_be_its_own_is_not_believed")
def all_that_footers_say_of_floats_is_believed() -> Any:
    """What a footer says of NaN counts in a file that another library wrote anew."""
    from lakelog.catalog.data import parquet

    return mock.patch.object(parquet, "proven_floats", lambda meta, *rest: meta.floats)


@plant("tests/catalog/test_no_nan.py::test_a_copied_footer_proves_nothing")
def floats_of_added_files_are_believed() -> Any:
    """What a footer says of NaN counts in a file that is added, whoever wrote it."""
    from lakelog.catalog.data.footers import read
    from lakelog.catalog.format.statistics import tell_floats

    real = read.read_new_footer

    def told(*args: Any) -> Any:
        parsed = real(*args)
        if parsed.meta is not None:
            tell_floats(parsed.facts, parsed.meta.floats)
        return parsed

    return mock.patch.object(read, "read_new_footer", told)


@plant("tests/rebuild/test_check_and_repair.py::test_a_checkpoint_that_denies_nan_is_found")
def denied_nan_is_no_difference() -> Any:
    """A checkpoint that says more of NaN than the log below it is taken for sound."""
    from lakelog.catalog.read import statistics

    return mock.patch.object(statistics, "NO_NAN", 0)


@plant("tests/catalog/test_scan.py::test_a_flipped_bit_that_is_another_value_is_named")
def pages_have_no_checksums() -> Any:
    """A bit that flips in a page is another value."""
    from pyarrow import parquet

    real = parquet.ParquetWriter

    def writer(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "write_page_checksum": False})

    return mock.patch.object(parquet, "ParquetWriter", writer)


@plant("tests/catalog/test_scan.py::test_a_flipped_bit_that_is_another_value_is_named")
def scan_verifies_no_pages() -> Any:
    """Checksums of pages are written, and scan doesn't look at them."""
    from pyarrow import parquet

    real = parquet.ParquetFile

    def opened(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "page_checksum_verification": False})

    return mock.patch.object(parquet, "ParquetFile", opened)


@plant("tests/catalog/test_replaced_files.py")
def replaced_files_are_read() -> Any:
    """A live file that was replaced by another of its size is read without a word."""
    from lakelog.catalog.data import scan

    return mock.patch.object(scan, "known_footer", return_value=None)


# --- Spark ----------------------------------------------------------------------------------------


@plant("tests/spark/test_spark_right_rows.py::test_a_session_that_ignores_files")
def spark_ignores_files() -> Any:
    """A session that is set to ignore missing files drops rows."""
    from lakelog.spark import native

    kept = {"parquet.page.verify-checksum.enabled": "true"}
    return mock.patch.dict(native._RIGHT_OR_ERROR, kept, clear=True)


@plant("tests/spark/test_spark_right_rows.py::test_a_flipped_bit_in_a_page")
def spark_verifies_no_pages() -> Any:
    """Spark reads a flipped bit as another value."""
    from lakelog.spark import native

    kept = {key: value for key, value in native._RIGHT_OR_ERROR.items() if "ignore" in key}
    return mock.patch.dict(native._RIGHT_OR_ERROR, kept, clear=True)


@plant("tests/spark/test_spark_right_rows.py::test_another_file_in_the_place_of_a_live_one")
def spark_reads_any_file() -> Any:
    """Spark's tasks don't hold a file against the log."""
    from lakelog.spark import file_index

    text = file_index.TASK_CODE
    unchecked = text.replace("check((PartitionedFile) split);", "if (split == null) check(null);")
    assert unchecked != text
    return mock.patch.object(file_index, "TASK_CODE", unchecked)


def _pushed(old: str, new: str) -> Any:
    """What goes to Spark's Parquet reader, with one text of Java for another."""
    from lakelog.spark import file_index

    text = file_index.RELATION
    assert old in text
    return mock.patch.object(file_index, "RELATION", text.replace(old, new))


@plant("tests/spark/test_spark_right_rows.py::test_rows_with_nan")
def spark_skips_by_floats() -> Any:
    """Conditions on floats are handed to the Parquet reader, which skips rows with NaN."""
    return _pushed('"boolean", ', '"float", "double", "boolean", ')


@plant("tests/spark/test_spark_pushed.py::test_times_finer_than_those_of_a_file")
def spark_skips_by_times_as_they_are() -> Any:
    """Conditions on times are handed to the Parquet reader, which cuts them to milliseconds."""
    return _pushed('"boolean", ', '"timestamp", "boolean", ')


@plant("tests/spark/test_spark_pushed.py::test_decimals_larger_than_those_of_a_file")
def spark_skips_by_decimals() -> Any:
    """Conditions on decimals are handed to the Parquet reader, where their values overflow."""
    return _pushed("EXACT.contains(typeOf(columns[i]))", "true")


@plant("tests/spark/test_spark_pushed.py::test_days_that_the_jvm_has_not")
def spark_skips_by_old_days() -> Any:
    """Days that java.util's calendar hasn't are handed to the Parquet reader as others."""
    return _pushed("LocalDateTime.of(1900,", "LocalDateTime.of(1500,")


@plant("tests/spark/test_spark_right_rows.py::test_rows_with_nan")
def spark_skips_by_bounds_on_the_second_road() -> Any:
    """Where there is no file index, bounds of floats in footers are used."""
    from lakelog.spark import native

    return mock.patch.dict(native._WITHOUT_BOUNDS, clear=True)


@plant("tests/catalog/test_partition_names.py::test_columns_and_values_come_back")
def values_name_partitions_as_they_are() -> Any:
    """Values stand in names of partitions unescaped, so that a `/` in one begins another."""
    from lakelog.catalog.format import names

    return mock.patch.object(names, "_escaped", lambda text: text)


@plant("tests/catalog/test_partition_by.py")
def null_has_the_partition_of_another_value() -> Any:
    """Rows with null are written into the partition of the first value."""
    from lakelog.catalog.data import partitioned

    real = partitioned._codes

    def codes(values: Any) -> Any:
        found = real(values)
        found[values.is_null().to_numpy()] = 0
        return found

    return mock.patch.object(partitioned, "_codes", codes)


@plant("tests/catalog/test_partition_columns.py")
def null_partitions_hold_no_null() -> Any:
    """A file whose partition says null is skipped as one without nulls."""
    from lakelog.catalog.data import partitioned

    real = partitioned.value_statistics

    def told(*args: Any) -> Any:
        known = real(*args)
        known.null_count = 0
        return known

    return mock.patch.object(partitioned, "value_statistics", told)
