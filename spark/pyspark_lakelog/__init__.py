"""Spark looks for data sources in top-level packages named `pyspark_*`: this one leads to ours.

It is found without any registration where the package is installed as a plain folder on the
PYTHONPATH of Spark's JVM.
"""

from lakelog.spark.source import LakelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
