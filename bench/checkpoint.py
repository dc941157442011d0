"""What checkpoints cost: bytes and time of one after a hundred commits, beside a whole one and the
peer's; and what commits cost while they are written.

    python bench/checkpoint.py [--files 10000 100000 1000000] [--commits 1000] [--onto 100000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import tables

HUNDRED = 100


def seconds(function):
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


def cell(size_bytes: int, taken_s: float) -> str:
    return f"{size_bytes / 1e6:.2f} MB, {taken_s * 1e3:.0f} ms"


def newest_checkpoint(url: str) -> int:
    return max(Path(url, "_delta_log").glob("*.checkpoint*"), key=lambda p: p.name).stat().st_size


def after_a_hundred(new_url, files: int) -> None:
    url, peer_url = new_url(), new_url()
    writer = tables.lakelog_table(url, files, checkpoint=False)
    whole, whole_s = seconds(writer.checkpoint)
    for number in range(files, files + HUNDRED):
        tables.commit(writer, [tables.add_action(number)])
    info, taken_s = seconds(writer.checkpoint)
    table = tables.delta_table(peer_url, files)
    for number in range(files, files + HUNDRED):
        version = table.version() + 1 + number - files
        tables.delta_commit_by_hand(peer_url, version, iter([tables.delta_action(number)]))
    table.update_incremental()
    _, peer_s = seconds(table.create_checkpoint)
    tables.row(
        f"{files:,}", cell(info.size_bytes, taken_s), cell(whole.size_bytes, whole_s),
        cell(newest_checkpoint(peer_url), peer_s),
        f"{newest_checkpoint(peer_url) / info.size_bytes:.0f}x, {peer_s / taken_s:.0f}x",
    )  # fmt: skip


def written_bytes(url: str) -> int:
    return sum(entry.stat().st_size for entry in Path(url).rglob("*") if entry.is_file())


def many_commits(new_url, files: int, commits: int) -> None:
    for what, every in (("without", 0), ("every 16", 16)):
        url = new_url()
        writer = tables.lakelog_table(url, files, every=every)
        before = written_bytes(url)
        start = time.perf_counter()
        taken = tables.timed(
            lambda n, w=writer: tables.commit(w, [tables.add_action(files + n, "-x")]), commits
        )
        writer.close()
        whole_s = time.perf_counter() - start
        tables.row(
            what, f"{taken[len(taken) // 2] * 1e3:.2f}",
            f"{tables.percentile(taken, 0.99) * 1e3:.2f}", f"{taken[-1] * 1e3:.1f}",
            f"{whole_s:.1f} s", f"{(written_bytes(url) - before) / commits / 1e3:.1f} kB",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--onto", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tables.places(["local"], folder) as places:
        new_url = places["local"][0]
        print("## A checkpoint after a hundred commits of one file, beside a whole one: local")
        tables.head("files before", "lakelog", "lakelog, whole", "deltalake", "peer's over ours")
        for files in args.files:
            after_a_hundred(new_url, files)
        print(f"\n## {args.commits:,} commits of one file onto {args.onto:,}: ms, local")
        tables.head("checkpoints", "p50", "p99", "slowest", "all of it", "written a commit")
        many_commits(new_url, args.onto, args.commits)


if __name__ == "__main__":
    main()
