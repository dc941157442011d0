"""A reader of lakelog catalogs, written from docs/format.md and proto/*.proto alone.

It imports nothing of lakelog and has its own protobuf decoder: what it can't do, the text doesn't
say. It reads a catalog in a folder of the local file system:

    python independent_reader.py ROOT WRITER DATABASE [REVISION]
"""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from independent_state import OBJECT, State, apply, open_checkpoint
from independent_wire import BIG, Message, Refused, need

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,63}")

# --- Section 4.3 ----------------------------------------------------------------------------------


def list_log(folder: Path) -> dict[str, dict[int, list[str]]]:
    found: dict[str, dict[int, list[str]]] = {"transaction": {}, "checkpoint": {}}
    for name in sorted(item.name for item in folder.iterdir()):
        match = OBJECT.fullmatch(name)
        if match and match[3] and int(match[1]) < BIG:
            found[match[3]].setdefault(int(match[1]), []).append(name)
    return found


def read_log(
    root: Path, writer: str, database: str, target: int | None = None, *, checkpoints: bool = True
) -> State:
    """The state of a log at a revision.

    Args:
        target: The revision; None for the head.
        checkpoints: False: replay from the beginning, whatever checkpoints there are.
    Raises:
        Refused, TooNew: It can't be read.
    """
    folder = root / writer / database / "transactions"
    listing = list_log(folder)
    done, saved = listing["transaction"], listing["checkpoint"]
    head = max([*done, *saved], default=-1)
    goal = head if target is None else target
    need(0 <= goal <= head, f"no revision {goal}")
    for revision in {*done, *saved}:
        names = [*done.get(revision, []), *saved.get(revision, [])]
        forked = len({name.split(".")[1] for name in names}) > 1
        need(revision > goal or not forked, f"fork at {revision}")
    start = goal + 1
    while start - 1 in done:
        start -= 1
    bases = sorted((c for c in saved if start - 1 <= c <= goal and checkpoints), reverse=True)
    problem = Refused(f"revision {goal} was pruned, or {start - 1} is missing")
    for base in [*bases, *([-1] if start == 0 else [])]:
        try:
            state = State(writer, database)
            if base >= 0:
                state = open_checkpoint(folder, saved[base][0], writer, database)
        except Refused as error:
            problem = error
            continue
        for revision in range(base + 1, goal + 1):
            apply(state, (folder / done[revision][0]).read_bytes(), done[revision][0])
        return state
    raise problem


def writers(root: Path, database: str) -> list[str]:
    """The writers that have a log of a database."""
    found = []
    for item in sorted(root.iterdir()):
        folder = item / database / "transactions"
        if ID.fullmatch(item.name) and folder.is_dir() and any(list_log(folder).values()):
            found.append(item.name)
    return found


def revision_at(state: State, at_us: int) -> int | None:
    """The newest revision committed at or before a time."""
    return max((r["revision"] for r in state.history if r["committed_at"] <= at_us), default=None)


# --- Section 7 ------------------------------------------------------------------------------------


def parse_token(token: str) -> tuple[str, dict[str, tuple[int, bytes]]]:
    """Database, and revision and digest by writer."""
    need(token.startswith("ll1-") and len(token) <= 1 << 20, "no token")
    text = token[4:]
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise Refused("base64") from None
    need(base64.urlsafe_b64encode(data).decode().rstrip("=") == text, "base64 is not canonical")
    need(len(data) >= 4 and zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little"), "CRC")
    cut = Message(data[:-4])
    items = cut.subs(2)
    found = {item.text(1): (item.uint(2), item.raw(3)) for item in items}
    need(len(found) == len(items) and all(map(ID.fullmatch, [cut.text(1), *found])), "ids")
    return cut.text(1), found


def read_token(root: Path, token: str) -> list[State]:
    """The states of a cut."""
    database, cut = parse_token(token)
    states = []
    for writer, (revision, digest) in cut.items():
        state = read_log(root, writer, database, revision)
        need(state.digest[: len(digest)] == digest, "the log was replaced since")
        states.append(state)
    return states


def main(root: str, writer: str, database: str, revision: str | None = None) -> None:
    """Print what a log says at a revision."""
    state = read_log(Path(root), writer, database, None if revision is None else int(revision))

    def plain(value: Any) -> Any:
        return value.hex() if isinstance(value, bytes) else str(value)

    files: Iterator[dict[str, Any]] = (
        {"path": path, "table": file.table, **file.facts, "statistics": file.statistics}
        for path, file in sorted(state.files.items())
    )
    told = {"revision": state.revision, "files": list(files), "history": state.history}
    print(json.dumps(told, indent=1, default=plain))


if __name__ == "__main__":
    main(*sys.argv[1:])
