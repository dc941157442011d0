"""lakelog for Spark: `read` gives a DataFrame, `session` starts Spark, `format("lakelog")` is the
data source. pyspark is imported only when one of them is called.
"""

from .read import read
from .session import register, session

__all__ = ["read", "register", "session"]
