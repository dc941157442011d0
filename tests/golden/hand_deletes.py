"""Deletes in random logs by hand: tombstones, and rows by number. See `hand_random`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hand_bitmap import encode_bitmap, some_rows

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from hand_log import HandLog
    from hand_segments import HandFile, Row

PREDICATES = [
    "temp > 3",
    "true",
    "name = 'é|,;'\n",
    "day is null or ok",
    "no predicate at all (",
    "x",
]


def require(log: HandLog, feature: str) -> Row:
    """The feature that what follows needs."""
    log.features.add(feature)
    names = [feature]
    return {"upgrade": {"required_reader_features": names, "required_writer_features": names}}


def bury(
    rng: random.Random,
    log: HandLog,
    table: str,
    actions: list[Row],
    defined: Callable[[str], Row],
    message: Row | None = None,
) -> None:
    """A tombstone, and the feature that it needs.

    Args:
        actions: Of the transaction, so far.
        message: The tombstone; None for any.
    """
    if message is None:
        message = {"table": table, "predicate": rng.choice(PREDICATES)}
        if rng.random() < 0.7:
            message["columns"] = defined(table)
        if rng.random() < 0.3:
            known = [path for own, path in sorted(log.files) if own == table]
            paths = {"data/_/never", *rng.sample(known, min(2, len(known)))}
            message["paths"] = sorted(paths, key=str.encode)
    actions.append(require(log, "tombstones"))
    row = {"table": table, "revision": log.revision + 1, "number": len(actions)}
    log.tombstones.append({**row, "message": message})
    actions.append({"tombstone": message})


def strike(rng: random.Random, log: HandLog, actions: list[Row]) -> None:
    """Row deletes of some live files, in one object, and the feature that they need."""
    live = [key for key, file in sorted(log.files.items()) if file.facts["row_count"]]
    chosen = rng.sample(live, min(len(live), rng.choice([1, 1, 2, 3])))
    if not chosen:
        return
    revision, files, bitmaps = log.revision + 1, [], []
    for table, path in chosen:
        rows = some_rows(rng, log.files[table, path].facts["row_count"])
        below = rng.choice([0, 0, revision, revision, max(revision - 1, 0), revision + 9])
        files.append(
            {"table": table, "path": path, "cardinality": len(rows), "covers_below": below}
        )
        bitmaps.append(encode_bitmap(rows, rng))
    folder = rng.choice(["data/", "data/_/t/", "data/ü/x/"])
    name = f"{max(log.epoch, 1)}-{rng.randbytes(16).hex()}-{rng.randrange(9)}.deletes"
    actions.append(require(log, "row_deletes"))
    for item in log.put_deletes(folder + name, files, bitmaps):
        say(log, item, revision, actions)


def say(log: HandLog, item: Row, revision: int, actions: list[Row]) -> None:
    """Row deletes as the next action."""
    below = min(item["covers_below"], revision)
    own = (item["table"], item["path"])
    log.row_deletes = [
        row
        for row in log.row_deletes
        if (row["table"], row["path"]) != own or row["revision"] >= below
    ]
    log.row_deletes.append({**item, "revision": revision, "number": len(actions)})
    actions.append({"row_deletes": item})


def end_deletes(log: HandLog, table: str, path: str) -> None:
    """Of a file that is removed."""
    log.row_deletes = [
        row for row in log.row_deletes if (row["table"], row["path"]) != (table, path)
    ]


def carry(log: HandLog, struck: Sequence[Row], actions: list[Row]) -> None:
    """What a rebuild says again of the rows of files, in revision 0."""
    if struck:
        actions.append(require(log, "row_deletes"))
    for row in struck:
        say(log, {**row, "covers_below": 0}, 0, actions)


def held_paths(row: Row, files: Mapping[tuple[str, str], HandFile]) -> list[str]:
    """The files of which a tombstone holds."""
    only = row["message"].get("paths")
    return sorted(
        (
            path
            for (table, path), file in files.items()
            if table == row["table"]
            and file.facts["revision"] < row["revision"]
            and (not only or path in only)
        ),
        key=str.encode,
    )
