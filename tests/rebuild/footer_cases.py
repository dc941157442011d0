"""Footers that are good, malformed, or kill whoever reads them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.data.footers.parse import NotParquet
from lakelog.catalog.data.footers.pool import FooterPool


def footer_of(table: pa.Table, **options) -> tuple[bytes, int]:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    body = sink.getvalue()
    return body[-int.from_bytes(body[-8:-4], "little") - 8 :], len(body)


GOOD, SIZE = footer_of(pa.table({"a": [1, 2, 3], "s": ["x", "y", None], "f": [1.0, 2.0, 3.0]}))


def mutants(tail: bytes, count: int, seed: int) -> Iterator[bytes]:
    """A footer with some bytes changed; the length and the magic stay."""
    dice = random.Random(seed)
    for _ in range(count):
        changed = bytearray(tail)
        for _ in range(dice.choice([1, 1, 1, 2, 4, 8])):
            changed[dice.randrange(len(changed) - 8)] = dice.randrange(256)
        yield bytes(changed)


def a_killer() -> bytes:
    """A footer that kills its reader."""
    pool = FooterPool(1)
    try:
        for mutant in mutants(GOOD, 10_000, 1):
            try:
                pool.parse(mutant, SIZE)
            except NotParquet as error:
                if "SIGABRT" in str(error):
                    return mutant
    finally:
        pool.close()
    pytest.fail("no mutant aborted")
