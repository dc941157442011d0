"""No row is lost by skipping: what a filtered read gives is what filtering everything gives.

A wrong skip is the worst bug there is, so this runs over three thousand predicates in CI, others
with each commit, and over a million by `python tests/where/test_skipping.py --cases 1000000`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pyarrow.compute as pc
import pytest

sys.path.append(str(Path(__file__).parents[1] / "running"))

from lakelog.catalog.data import parquet
from lakelog.catalog.read import blooms
from lakelog.catalog.read.row_filter import row_filter
from lakelog.catalog.read.scan_request import kept_files
from lakelog.catalog.where.emit import mask
from lakelog.catalog.where.outcomes import equalities
from lakes import build, predicate
from seeds import base_seed

CASES, PARTS = 3_000, 6
SCANNED_EACH = 40  # of the cases: these read the rows too


def run_cases(seed: int, cases: int) -> tuple[int, int]:
    """Hold so many predicates against one lake. Returns how many files were kept, of how many."""
    random_ = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(parquet, "ROW_GROUP_ROWS", 3),
        mock.patch.object(blooms, "LEAST_BYTES", 0),  # filters of tiny files are asked too
        mock.patch.object(blooms, "_column_bytes", return_value=1 << 40),
    ):
        catalog, database = build(folder, random_, random_.randint(5, 25))
        snapshot = catalog.snapshot(database)
        held, files = _by_file(snapshot), _files(snapshot)
        kept = 0
        for number in range(cases):
            text = predicate(random_)
            kept += _check(snapshot, held, files, text, number)
        return kept, cases * snapshot.files("t").num_rows


def _by_file(snapshot):
    """All rows, and of each the file."""
    whole = snapshot.to_arrow("t").combine_chunks()
    owner = {}
    for writer in sorted(set(snapshot.files("t").column("writer").to_pylist())):
        for part in snapshot.file_parts("t", writer=writer):
            rows = parquet_rows(snapshot, part)
            owner |= dict.fromkeys(rows, part.key)
    return whole, [owner[row] for row in whole.column("row").to_pylist()]


def parquet_rows(snapshot, part):
    import pyarrow.parquet as pq

    with snapshot._store.open_input(part.key, size_bytes=part.size_bytes) as source:
        return pq.ParquetFile(source).read(columns=["row"]).column("row").to_pylist()


def _check(snapshot, held, files, text, number):
    whole, owners = held
    (batch,) = whole.to_batches()
    found = row_filter(text, snapshot._tables.file_schemas("t"), "t")
    wanted = pc.fill_null(mask(found.predicate, batch), False).to_pylist()
    left = set(_kept(files, found))
    lost = {owner for owner, is_wanted in zip(owners, wanted) if is_wanted} - left
    assert not lost, f"{text}: skips {sorted(lost)[:3]}, which hold rows that meet it"
    asks_filters = any(equalities(found.predicate))
    if number % (SCANNED_EACH // 5 if asks_filters else SCANNED_EACH) == 0:
        listed = snapshot.files("t", where=text)
        assert len(left) == listed.num_rows
        explained = snapshot.explain("t", text)
        assert explained.filter(explained["kept"])["path"].to_pylist() == listed["path"].to_pylist()
        given = snapshot.to_arrow("t", ["row"], where=text)["row"].to_pylist()
        expected = [r for r, is_wanted in zip(whole["row"].to_pylist(), wanted) if is_wanted]
        assert given == expected, text
    return len(left)


def _files(snapshot):
    """What the log says of each writer's files, and their keys."""
    every = [(state.writer, snapshot._tables.facts_of(state, "t")) for state in snapshot._states]
    return [
        (facts, [f"{writer}/db/{path}" for path in facts.files.table("t")["path"].to_pylist()])
        for writer, facts in every
    ]


def _kept(files, found):
    """The files that are left, without what it takes to list them for a user."""
    for facts, keys in files:
        yield from (key for key, kept in zip(keys, kept_files(facts, found).tolist()) if kept)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_row_is_lost_by_skipping(part):
    kept, of = run_cases(base_seed() * PARTS + part, CASES // PARTS)
    assert kept < 0.8 * of, "skipping skips"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=base_seed() * PARTS)
    args = parser.parse_args()
    per_lake = CASES // PARTS
    for number in range(args.cases // per_lake):
        run_cases(args.first + number, per_lake)
        print(f"\r{(number + 1) * per_lake:,} predicates", end="", file=sys.stderr)
    print(f"\n{args.cases:,} predicates, no row lost; seeds from {args.first}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
