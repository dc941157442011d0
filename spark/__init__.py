"""lakelog for Spark: `read` gives a DataFrame, `write` commits one, `changes` gives what changed,
`attach` makes a lake a catalog of Spark's SQL, `session` starts Spark, `format("lakelog")` is the
data source, of streams too, `files_read` tells what a query skips. pyspark is imported only when
one of them is called.
"""

from .changes import changes
from .file_index import files_read
from .read import read
from .session import register, session
from .sql_catalog import attach, create_views, detach
from .write import Written, write

__all__ = [
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
