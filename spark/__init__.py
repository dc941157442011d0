"""lakelog for Spark: `read` gives a DataFrame, `write` commits one, `session` starts Spark,
`format("lakelog")` is the data source, `files_read` tells what a query skips. pyspark is imported
only when one of them is called.
"""

from .file_index import files_read
from .read import read
from .session import register, session
from .write import Written, write

__all__ = ["Written", "files_read", "read", "register", "session", "write"]
