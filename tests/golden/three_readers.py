"""Three readers held against each other: lakelog's, the independent one in Python, and the one in
Go, on logs that were written by hand, valid ones and damaged ones with right digests.

    python tests/golden/three_readers.py --valid 500 --damaged 3000 --seed S

prints every disagreement and ends with 1 if there was one. Without Go on the PATH it refuses.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "running")]

import independent_verdict  # noqa: E402 - a script finds its neighbours first
import package_verdict  # noqa: E402
from decoded_once import decoded_once  # noqa: E402
from logs_by_hand import make_logs  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Verdict = dict[str, Any]
Objects = dict[str, bytes]
SOURCE = HERE.parent / "second_reader"
NOTHING = independent_verdict.hash_lines([])
WORDS = ("damaged", "too-new")


class GoReader:
    """The reader in Go, built into a folder and asked over its standard input."""

    def __init__(self, folder: Path) -> None:
        self.folder, program = folder, folder / "second_reader"
        go = shutil.which("go")
        if go is None:
            raise FileNotFoundError("there is no go on the PATH")
        subprocess.run([go, "build", "-o", str(program), "."], cwd=SOURCE, check=True)
        self.process = subprocess.Popen(
            [str(program), "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def verdict(
        self,
        transactions: Mapping[str, bytes],
        segments: Mapping[str, bytes],
        data: Mapping[str, bytes],
    ) -> Verdict:
        log = self.folder / "log"
        for path, body in data.items():
            (log / path).parent.mkdir(parents=True, exist_ok=True)
            (log / path).write_bytes(body)
        for kind, objects in (("transactions", transactions), ("segments", segments)):
            (log / kind).mkdir(parents=True)
            for name, body in objects.items():
                (log / kind / name).write_bytes(body)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{log}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        shutil.rmtree(log)
        return canonical(json.loads(line))

    def close(self) -> None:
        self.process.communicate()


@contextlib.contextmanager
def go_reader() -> Iterator[GoReader]:
    """The reader in Go, as long as it is needed.

    Raises:
        FileNotFoundError: There is no Go.
    """
    with tempfile.TemporaryDirectory() as folder:
        reader = GoReader(Path(folder))
        try:
            yield reader
        finally:
            reader.close()


def canonical(found: Verdict) -> Verdict:
    """What the reader in Go says, in the form of `independent_verdict`: without reasons, and
    without tables of which no schema can be told."""
    found.pop("why", None)
    if found["verdict"] != "ok":
        return found
    found["complete"] = not found.pop("unlistable", None)
    tables = {}
    for name, table in found["tables"].items():
        if table["schemas"] in (*WORDS, NOTHING):
            continue
        if table["files"] in WORDS:
            table.update(dict.fromkeys(independent_verdict.OF_FILES, table["files"]))
        tables[name] = table
    found["tables"] = tables
    return found


def verdicts(
    transactions: Mapping[str, bytes],
    segments: Mapping[str, bytes],
    go: GoReader | None,
    data: Mapping[str, bytes] = independent_verdict.NONE,
) -> dict[str, Verdict]:
    """What each reader says of the head of a log; the one in Go only if it is given.

    Args:
        data: Objects of row deletes by their path.
    """
    independent = independent_verdict.verdict(transactions, segments, data)
    found = {"independent": independent}
    try:
        found["lakelog"] = package_verdict.verdict(transactions, segments, data)
    except Exception as error:  # an error that is no refusal is a disagreement, too
        found["lakelog"] = {"verdict": f"{type(error).__name__}: {error}"}
    if go is not None:
        found["go"] = go.verdict(transactions, segments, data)
    return found


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two verdicts differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{where}/{key}")
    elif one != other:
        yield f"{where}: {str(one)[:80]} and {str(other)[:80]}"


@dataclass
class Tally:
    """How often readers agreed."""

    logs: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)  # by reader, with the independent one
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, done: str, found: Mapping[str, Verdict]) -> None:
        """Take in what the readers said of one log."""
        base = found["independent"]
        self.logs += 1
        self.classes[base["verdict"]] += 1
        for reader, other in found.items():
            # As JSON, as that is what is compared between languages.
            if text(other) == text(base):
                self.agreed[reader] += 1
            else:
                what = "; ".join(differences(base, other))[:600]
                self.problems.append(f"{name} ({done or 'valid'}): independent, {reader}: {what}")


def text(found: Verdict) -> str:
    return json.dumps(found, sort_keys=True, ensure_ascii=False)


def compare(
    seed: int,
    valid: int,
    damaged: int,
    go: GoReader | None,
    *,
    first: int = 0,
    progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Hold the readers against each other on random logs.

    Args:
        first: The number of the first damaged log.
        progress: Called after each log.
    """
    tally = Tally()
    with decoded_once():  # each of a log's parts is asked for from the beginning
        for name, log, done in make_logs(seed, valid, damaged, first):
            tally.add(name, done, verdicts(log.transactions, log.segments, go, log.data))
            if progress is not None:
                progress(tally)
    return tally


def tell(tally: Tally) -> None:
    """A line to stderr for each hundred logs."""
    if tally.logs % 100 == 0:
        print(f"{tally.logs} logs, {len(tally.problems)} disagreements", file=sys.stderr)


def report(tally: Tally, seconds: float) -> Iterable[str]:
    yield from tally.problems
    counts = ", ".join(f"{name} {n}" for name, n in sorted(tally.classes.items()))
    agreed = ", ".join(f"{name} {n}" for name, n in tally.agreed.items() if name != "independent")
    yield f"{tally.logs} logs in {seconds:.0f} s ({counts})"
    yield f"agreed with the independent reader: {agreed}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Hold three readers against each other.")
    for name, default in (("seed", 0), ("valid", 500), ("damaged", 3000), ("first", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    begun = time.monotonic()
    with go_reader() as go:
        tally = compare(
            given.seed, given.valid, given.damaged, go, first=given.first, progress=tell
        )
    print(f"seed {given.seed}")
    print("\n".join(report(tally, time.monotonic() - begun)))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
