"""Which versions of Spark lakelog serves."""

from __future__ import annotations

import re
from typing import Final

from ..errors import SparkUnsupported

OLDEST: Final = (4, 0)


def check_version(version: str) -> None:
    """Refuse a Spark that is too old.

    Args:
        version: Of PySpark, which is that of the session.
    Raises:
        SparkUnsupported: It lacks what reading and writing need.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        raise SparkUnsupported(
            f"Spark {version} can neither read nor write lakes: it lacks the data sources in "
            "Python by which lakelog reads files with deleted rows and writes, and the classes "
            "that its index of files and its SQL catalog stand on",
            key=version,
            hint="Use Spark 4.0 or newer; with an older one "
            "spark.createDataFrame(catalog.snapshot(database).to_pandas(table)) gives the rows",
        )


def check_spark() -> None:
    """The same of the PySpark that is installed.

    Raises:
        SparkUnsupported: As `check_version`.
    """
    import pyspark

    check_version(pyspark.__version__)
