"""What an older Spark can't do: there its tests hold that lakelog names the version that can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyspark
import pytest
from lakelog.spark.versions import NO_COLUMNS, STREAM_SINK, STREAM_SOURCE, is_older

if TYPE_CHECKING:
    from collections.abc import Generator

STREAMS: Final = "streams from tables"
SINKS: Final = "streams into tables"
TIMES_OF_DAY: Final = "times of day"
SOME_COLUMNS: Final = "inserts of some columns"
ROWS_ALONE: Final = "rows without columns from a source in Python"
FIRST: Final = {
    STREAMS: STREAM_SOURCE,
    SINKS: STREAM_SINK,
    TIMES_OF_DAY: (4, 1),
    SOME_COLUMNS: (4, 1),
    ROWS_ALONE: NO_COLUMNS,
}
# Spark refuses by itself what it can't; the rest is lakelog's to refuse.
SPARKS_OWN: Final = {SOME_COLUMNS: "Cannot find data for the output column"}
# A test is marked with what it needs of newer Sparks, a key of FIRST; with None where it needs
# nothing that the other tests of its file do.
needs = pytest.mark.needs_spark


def has(what: str) -> bool:
    """Whether the Spark that runs here can do it."""
    return not is_older(pyspark.__version__, FIRST[what])


def refusal(what: str) -> str:
    """What the error on an older one says."""
    return SPARKS_OWN.get(what) or "Use Spark {}.{} or later".format(*FIRST[what])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """On an older Spark a marked test must fail by that error: it counts as expected to fail."""
    mark = item.get_closest_marker("needs_spark")
    what = mark.args[0] if mark else None
    if what is None or has(what):
        return (yield)
    try:
        yield
    except Exception as error:
        if refusal(what) not in str(error):
            raise
    else:
        pytest.fail(f"Spark {pyspark.__version__} has {what}: FIRST is wrong")
    pytest.xfail(f"Spark {pyspark.__version__} has no {what}, as the error said")
