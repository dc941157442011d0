"""A reader of lakelog catalogs, written from docs/format.md and proto/*.proto alone.

It imports nothing of lakelog and has its own protobuf decoder: what it can't do, the text doesn't
say. It reads logs as objects by name (`independent_log.Log`), or a catalog in a folder of the local
file system:

    python independent_reader.py ROOT WRITER DATABASE [REVISION]

The modules: `independent_wire` (protobuf, names), `independent_frame`, `independent_messages`,
`independent_transaction` (what an object must keep), `independent_ipc`, `independent_segments`,
`independent_statistics`, `independent_content` and `independent_view` (a base and its tail),
`independent_state` (the chain, and what a state gives), `independent_log` (from a listing to a
state), `independent_cut` (tokens, footers), `independent_table` (rows), `independent_verdict` (the
form that readers are compared by).
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from independent_cut import parse_token, read_entry
from independent_log import Log, read_name
from independent_verdict import describe
from independent_wire import ID, Damaged, NotThere, Refusal

if TYPE_CHECKING:
    from independent_state import State

Objects = dict[str, bytes]


def read_folder(root: Path, writer: str, database: str) -> tuple[Objects, Objects]:
    """The objects of a log, those in `transactions/` and those in `segments/`, as both copies give
    them: section 4.8."""
    folder = root / writer / database
    copies = objects_in(folder / "mirror" / "transactions")
    names = {name: found for name in copies if (found := read_name(name))}
    begun = max((found[:2] for found in names.values() if found[3] == "checkpoint"), default=(0, 0))
    kept = {name: copies[name] for name, found in names.items() if not pruned(found, begun)}
    segments = objects_in(folder / "mirror" / "segments")
    return (
        either(objects_in(folder / "transactions"), copies, kept),
        either(objects_in(folder / "segments"), segments, segments),
    )


def pruned(found: tuple[int, int, str, str], begun: tuple[int, int]) -> bool:
    """Whether a name lies below the checkpoint from which the retained log begins."""
    return found[0] == begun[0] and found[1] < begun[1]


def objects_in(folder: Path) -> Objects:
    items = sorted(folder.iterdir()) if folder.is_dir() else []
    return {item.name: item.read_bytes() for item in items if item.is_file()}


def either(own: Objects, copies: Objects, added: Objects) -> Objects:
    """Objects of the log; the copies of those that are damaged, and those that are there as copies
    alone."""
    found = dict(added)
    for name, data in own.items():
        whole = name not in copies or hashlib.sha256(data[:48] + data[80:]).digest() == data[48:80]
        found[name] = data if whole else copies[name]
    return found


def read_deletes(root: Path, writer: str, database: str) -> Objects:
    """The objects of row deletes of a log, by path."""
    folder = root / writer / database
    found = sorted((folder / "data").rglob("*.deletes"))
    return {item.relative_to(folder).as_posix(): item.read_bytes() for item in found}


def read_log(root: Path, writer: str, database: str, target: int | None = None) -> State:
    """The state of a log at a revision; None for the head."""
    return Log(*read_folder(root, writer, database)).read(target)


def writers(root: Path, database: str) -> list[str]:
    """The writers that have a log of a database."""
    found = []
    for item in sorted(root.iterdir()):
        folder = item / database / "transactions"
        names = folder.iterdir() if ID.fullmatch(item.name) and folder.is_dir() else ()
        if any(read_name(path.name) for path in names):
            found.append(item.name)
    return found


def cut_of_heads(root: Path, database: str) -> dict[str, State]:
    """The heads of all logs of a database, by writer."""
    states = {name: read_log(root, name, database) for name in writers(root, database)}
    refuse_twice(states)
    return states


def cut_at(root: Path, database: str, at_us: int) -> dict[str, State]:
    """All logs of a database at a point in time (section 4.4)."""
    states = {}
    for name in writers(root, database):
        log = Log(*read_folder(root, name, database))
        try:
            revision = log.revision_at(at_us)
        except NotThere:
            continue
        states[name] = log.read(revision)
    if not states:
        raise NotThere("no log has a part")
    refuse_twice(states)
    return states


def refuse_twice(states: dict[str, State]) -> None:
    """Section 4.6: the same log twice."""
    seen: dict[bytes | None, str] = {}
    for name, state in states.items():
        other = seen.setdefault(state.head.log_id, name)
        if other != name:
            raise Damaged(f"{other} and {name} are the same log")


def read_token(root: Path, token: str) -> dict[str, State]:
    """The states of a cut, by writer."""
    database, cut = parse_token(token)
    return {
        writer: read_entry(*read_folder(root, writer, database), entry)
        for writer, entry in cut.items()
    }


def main(root: str, writer: str, database: str, revision: str | None = None) -> None:
    """Print what a log says at a revision."""
    goal = None if revision is None else int(revision)
    try:
        state = read_log(Path(root), writer, database, goal)
        told = describe(state, read_deletes(Path(root), writer, database))
    except Refusal as error:
        told = {"verdict": error.kind, "why": str(error)}
    print(json.dumps(told, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
