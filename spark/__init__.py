"""lakelog for Spark: `read` gives a DataFrame, `write` commits one, `changes` gives what changed,
`attach` makes a lake a catalog of Spark's SQL, `session` starts Spark, `format("lakelog")` is the
data source, of streams too, `files_read` tells what a query skips, `SparkEngine` has executors do
maintenance. pyspark is imported only when one of them is called.
"""

from .engine import SparkEngine
from .file_index import files_read
from .read import changes, read
from .session import register, session
from .sql_catalog import attach, create_views, detach
from .stages import Stages
from .write import Written, write

__all__ = [
    "SparkEngine",
    "Stages",
    "Written",
    "attach",
    "changes",
    "create_views",
    "detach",
    "files_read",
    "read",
    "register",
    "session",
    "write",
]
