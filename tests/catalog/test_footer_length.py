"""The footer length in the log is that of the file: so many bytes a reader fetches from its end."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.data.footers.parse import is_encrypted
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


@pytest.mark.parametrize(
    "footer",
    [
        b"\x15" + b"\xff" * (1 << 19),  # a number that doesn't end
        b"\x19\xf1" + b"\xff" * 9 + b"\x01",  # a list of 2^63 flags
        b"\x19\xf9" * (1 << 18),  # lists in lists
        b"\x1c" * (1 << 19),  # structs in structs
        b"\x18" + b"\xff" * 9 + b"\x01",  # a text beyond the end
        b"\x19\x1c" + b"\x00" * (2 << 20),  # larger than what is looked at
    ],
)
@pytest.mark.timeout(10)
def test_a_hostile_footer_is_looked_through_at_once(footer):
    tail = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert not is_encrypted(tail, len(tail) + 4)
