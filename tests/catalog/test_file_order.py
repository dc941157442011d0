"""The number that a file's name tells, for few names and for many."""

import pyarrow as pa
from lakelog.catalog.read import file_order
from lakelog.catalog.read.file_order import file_numbers

ID = "0a" * 16
NAMES = {
    f"data/_/t/1-{ID}-0.parquet": 0,
    f"data/p/t/9000000000000000000-{ID}-123456789.parquet": 123_456_789,
    f"data/_/t/1-{ID}-1234567890.parquet": None,
    f"data/_/t/0-{ID}-1.parquet": None,
    f"data/_/t/1-{ID}-1.parquet\n": None,
    f"data/_/t/1-{ID}-1.parquet.parquet": None,
    f"1-{ID}-1.parquet": None,
    f"data/_/t/1-{ID.upper()}-1.parquet": None,
    f"data/_/t/1-{ID}-٣.parquet": None,
    "data/in/a.parquet": None,
}


def test_few_names_are_read_as_many_are():
    few = pa.chunked_array([pa.array(list(NAMES))])
    many = pa.chunked_array([pa.array(list(NAMES) * file_order._FEW)])
    assert file_numbers(few).to_pylist() == list(NAMES.values())
    assert file_numbers(many).to_pylist() == list(NAMES.values()) * file_order._FEW
    assert file_numbers(few).type == file_numbers(many).type == pa.int32()
    assert file_numbers(few.slice(0, 0)).to_pylist() == []
