"""The footer length in the log is that of the file: so many bytes a reader fetches from its end."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.read.log_reader import LogReader


def test_footer_length_in_the_log_is_the_files_own(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("W", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}))
    log = LogReader(catalog.store, "W", "db")
    (item,) = log.names().transactions[0]
    (add,) = [a.add for a in log.transaction(item).message.actions if a.WhichOneof("kind") == "add"]
    body = (tmp_path / "W" / "db" / path).read_bytes()
    assert add.footer_bytes == int.from_bytes(body[-8:-4], "little") + 8
    footer = pq.read_metadata(pa.BufferReader(body))
    assert add.footer_bytes == footer.serialized_size + 8
