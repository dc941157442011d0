"""Commit of one file onto tables of growing size, beside deltalake.

    python bench/commit.py [--files 0 10000 100000 1000000] [--commits 200] [--where local moto]

Metadata only, both: one commit that adds one entry with statistics. No automatic checkpoints, both.
The floor is a bare durable create (temp file, fsync, link, fsync of the folder) of 400 bytes.
"""

from __future__ import annotations

import argparse
import tempfile

import tables
from lakelog.testing.counting import CountingStore


def lakelog_commits(url, options, files: int, commits: int) -> tuple[list[float], float]:
    writer = tables.lakelog_table(url, files, options=options)
    log = writer._session._log  # the one that the committer puts to
    counting = CountingStore(log.store)
    object.__setattr__(log, "store", counting)
    actions = [tables.add_action(files + n, "-x") for n in range(commits)]
    taken = tables.timed(lambda n: tables.commit(writer, [actions[n]]), commits)
    return taken, sum(counting.counts.values()) / commits


def delta_commits(url, options, own_options, files: int, commits: int) -> list[float]:
    table = tables.delta_table(url, files, options=options, own_options=own_options)
    actions = [tables.delta_action(files + n, "-x") for n in range(commits)]
    return tables.timed(lambda n: tables.delta_commit(table, [actions[n]]), commits)


def bare_creates(url: str, commits: int) -> list[float]:
    from lakelog.store import open_store

    store = open_store(url)
    store.put("w/first", b"")
    return tables.timed(lambda n: store.put(f"w/{n}", b"x" * 400, if_absent=True), commits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[0, 10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--peer-commits", type=int, default=30)
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    args = parser.parse_args()
    print("## Commit of one file: ms")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, peer_options) in places.items():
            tables.head(
                place, "files before", "lakelog p50", "p99", "requests", "deltalake p50", "max"
            )
            if place == "local":
                bare = bare_creates(new_url(), args.commits)
                tables.row(place, "bare create", f"{bare[len(bare) // 2] * 1e3:.2f}",
                           f"{tables.percentile(bare, 0.99) * 1e3:.2f}", 1, "", "")  # fmt: skip
            for files in args.files:
                ours, requests = lakelog_commits(new_url(), options, files, args.commits)
                few = args.peer_commits if files < 100_000 else 5  # seconds each from there on
                peer = delta_commits(new_url(), peer_options, options, files, few)
                tables.row(
                    place, f"{files:,}",
                    f"{ours[len(ours) // 2] * 1e3:.2f}",
                    f"{tables.percentile(ours, 0.99) * 1e3:.2f}",
                    f"{requests:.2f}",
                    f"{peer[len(peer) // 2] * 1e3:.1f}", f"{peer[-1] * 1e3:.1f}",
                )  # fmt: skip


if __name__ == "__main__":
    main()
