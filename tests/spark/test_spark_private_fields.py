"""What lakelog puts into private fields of Spark: a Spark that keeps it otherwise is refused when
it is put there; and a fault of the fast way is in Spark's log, once for each cause."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import count
from unittest import mock

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.errors import SparkUnsupported
from lakelog.spark import sql_catalog, swap
from lakelog.spark.session import register

PACKAGES = count()


@pytest.fixture
def lake(tmp_path):
    url = str(tmp_path / "lake")
    with lakelog.open_catalog(url).writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1, 2, 3]}))
    return url


@contextmanager
def otherwise(module, before, after):
    """As on a Spark that keeps a field otherwise: one of our texts looks for another.

    The classes get other names, for py4j knows methods by the names of their classes.
    """
    package = f"io.lakelog.package{next(PACKAGES)}"
    assert any(before in text for text in module._TEXTS)
    with ExitStack() as stack:
        for each, main in ((swap, "RULES_CLASS"), (sql_catalog, "INSTALLER_CLASS")):
            texts = [text.replace(before, after) for text in each._TEXTS]
            texts = [text.replace("io.lakelog.spark", package) for text in texts]
            name = getattr(each, main).replace("io.lakelog.spark", package)
            stack.enter_context(mock.patch.object(each, "_TEXTS", texts))
            stack.enter_context(mock.patch.object(each, main, name))
        yield


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"ds"', '"elsewhere"'),
        ('"ds", PythonDataSourceV2.class', '"ds", String.class'),
        ('"extendedCheckRules"', '"elsewhere"'),
        ('"extendedCheckRules", Seq.class', '"extendedCheckRules", String.class'),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_when_it_is_added(spark, before, after):
    with otherwise(swap, before, after):
        with pytest.raises(SparkUnsupported, match="has no field") as caught:
            swap.add_rule(spark.newSession())
        assert f"Spark {spark.version}" in str(caught.value)
        with pytest.warns(RuntimeWarning, match=r"several times slower.*has no field"):
            register(spark.newSession())


@pytest.mark.parametrize(
    ("module", "before", "after", "match"),
    [
        (sql_catalog, '"catalogs"', '"elsewhere"', "has no field elsewhere"),
        (sql_catalog, '"catalogs", HashMap.class', '"catalogs", String.class', "has no field"),
        (sql_catalog, ".put(name, catalog)", '.put(name + "x", catalog)', "nowhere"),
        (swap, "field.set(analyzer,", "field.equals(", "doesn't look at extendedCheckRules"),
    ],
)
def test_a_lake_that_cannot_be_put_where_spark_looks_is_refused(
    spark, lake, module, before, after, match
):
    with otherwise(module, before, after), pytest.raises(SparkUnsupported, match=match) as caught:
        lakelog.spark.attach(spark.newSession(), "nowhere", lake)
    assert f"Spark {spark.version}" in str(caught.value)


@pytest.fixture
def logged(spark):
    """What Spark logs meanwhile."""
    jvm = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    text = jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(
        layout, None, text, "lakelog test", False, True
    )
    appender.start()
    logger = log4j.LogManager.getRootLogger()
    logger.addAppender(appender)
    yield lambda: text.toString()
    logger.removeAppender(appender)


def test_a_fault_of_the_fast_way_is_logged_once_for_each_cause(spark, lake, logged):
    """And the source reads."""

    def rows() -> list[int]:
        frame = spark.read.format("lakelog").option("database", "db").option("table", "t")
        return sorted(row.a for row in frame.load(lake).collect())

    register(spark)
    assert rows() == [1, 2, 3]
    assert "several times slower" not in logged()
    for fault, times in (("one", 1), ("one", 1), ("another", 2)):
        with mock.patch.object(swap._Answers, "apply", side_effect=RuntimeError(fault)):
            assert rows() == [1, 2, 3]
        assert logged().count("format('lakelog') reads in Python, several times slower") == times
