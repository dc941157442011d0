"""Logs written by hand from docs/format.md, valid ones and damaged ones, for any reader to be held
against.

    python tests/golden/logs_by_hand.py --seed S --count N --damaged M --out DIR

writes N valid and M damaged logs, as

    DIR/valid-0000/transactions/<name>      DIR/damaged-0000/...
    DIR/valid-0000/segments/<name>          (the folder may be missing)
    DIR/valid-0000/data/...                 objects of row deletes, if there are any
    DIR/valid-0000/verdict.json             what the independent reader says of the head
    DIR/damaged-0000/damage.txt             what was done to the log

The same seed gives the same logs with the same version of pyarrow. `verdict.json` is one line of
JSON with sorted keys and without spaces; `independent_verdict` says what stands in it. Other
readers agree if they come to the same JSON.

The modules: `hand_objects` (protobuf, frames, Arrow IPC), `hand_segments` (the tables of segments),
`hand_log` (a log and its writer's state), `hand_random` and `hand_values` (random valid logs),
`hand_damage` and `hand_tables`.
Paths and columns have no name that begins with another, so that "sorted lines" are in one order
whether whole lines or their parts are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from hand_damage import damaged_log
from hand_random import random_log
from independent_verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hand_log import HandLog

Named = tuple[str, "HandLog", str]  # name of the folder, log, what was done to it


def make_logs(seed: int, count: int, damaged: int, first: int = 0) -> Iterator[Named]:
    """Valid logs and damaged ones; each depends on the seed and its number alone.

    Args:
        first: The number of the first damaged log.
    """
    for number in range(count):
        yield f"valid-{number:04}", random_log(seed * 1_000_003 + number), ""
    for number in range(first, first + damaged):
        rng = random.Random(f"{seed} {number}")
        # Some damaged logs have one origin, whose making is costly.
        log, done = damaged_log((seed + 1) * 1_000_003 - 1 - number // 8, rng)
        yield f"damaged-{number:04}", log, done


def verdict_text(log: HandLog) -> str:
    """What the independent reader says, as one line of JSON."""
    found = verdict(log.transactions, log.segments, log.data)
    return json.dumps(found, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def write_log(folder: Path, log: HandLog, done: str) -> None:
    """Write a log's objects, its verdict, and its damage."""
    for kind, objects in (("transactions", log.transactions), ("segments", log.segments)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, data in objects.items():
            (folder / kind / name).write_bytes(data)
    for path, data in log.data.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "verdict.json").write_text(f"{verdict_text(log)}\n", encoding="utf-8")
    if done:
        (folder / "damage.txt").write_text(f"{done}\n", encoding="utf-8")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write logs, and what is to be read of them.")
    for name, default in (("seed", 0), ("count", 10), ("damaged", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    for name, log, done in make_logs(given.seed, given.count, given.damaged):
        write_log(given.out / name, log, done)


if __name__ == "__main__":
    main()
