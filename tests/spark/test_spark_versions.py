"""Which Sparks are served. `make spark-versions` runs the tests with each, and asks an old one."""

from __future__ import annotations

import pytest
from lakelog.errors import SparkUnsupported
from lakelog.spark.versions import check_stream_sink, check_stream_source, check_version


@pytest.mark.parametrize("version", ["3.5.9", "3.4.0", "2.4.8", "3.10.1"])
def test_an_old_spark_is_told_what_it_lacks(version):
    with pytest.raises(SparkUnsupported, match="lacks the data sources in Python") as error:
        check_version(version)
    assert version in str(error.value)
    assert "Spark 4.0 or later" in str(error.value)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "4.10.2", "5.0.0.dev1", "4.1.0-preview2"])
def test_others_are_not(version):
    check_version(version)


@pytest.mark.parametrize("version", ["4.0.5", "4.1.4", "4.1.0-preview2"])
def test_a_spark_without_streams_from_tables_says_which_has_them(version):
    with pytest.raises(SparkUnsupported, match="can't stream from a table") as error:
        check_stream_source(version)
    assert version in str(error.value)
    assert "Use Spark 4.2 or later" in str(error.value)


@pytest.mark.parametrize("version", ["4.0.5", "4.0.0"])
def test_a_spark_without_streams_into_tables_says_what_else_there_is(version):
    with pytest.raises(SparkUnsupported, match="can't stream into a table") as error:
        check_stream_sink(version)
    assert version in str(error.value)
    assert "Use Spark 4.1 or later" in str(error.value)
    assert "foreachBatch" in str(error.value)


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.2", "5.0.0.dev1"])
def test_later_ones_have_them(version):
    check_stream_source(version)
    check_stream_sink(version)
    check_stream_sink("4.1.0")
