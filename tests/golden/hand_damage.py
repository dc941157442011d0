"""Damage to logs by hand: one thing is changed on its way to the bytes, and all digests and links
behind it are right again; or objects are changed as they lie. See `logs_by_hand`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hand_bitmap import change_bitmap
from hand_log import HandLog, Hooks
from hand_objects import Entry, Header, Tree, encode, frame
from hand_random import random_log
from hand_tables import change_table
from independent_frame import open_frame
from independent_log import read_name

if TYPE_CHECKING:
    import pyarrow as pa
    from hand_objects import Form

EDGES = [
    0, 1, 2, 5, 8, 12, 15, 255, 999, 1000, 1 << 30, (1 << 30) + 1, (1 << 31) - 1, 1 << 31,
    1 << 32, (1 << 32) + 1,
    (1 << 55) - 1, 1 << 55, 1 << 56, 999_999_999, 1_000_000_000, 10**12 - 1, 10**12, (1 << 62) - 1,
    1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
]  # fmt: skip


@dataclass
class Counting(Hooks):
    """Counts what passes."""

    seen: int = 0

    def message(self, what: str, message: Tree) -> Tree:
        self.seen += 1
        return message

    def header(self, what: str, header: Header) -> Header:
        self.seen += 1
        return header

    def table(self, kind: int, table: pa.Table, form: Form) -> tuple[pa.Table, bool]:
        self.seen += 1
        return table, True

    def bitmap(self, data: bytes) -> bytes:
        self.seen += 1
        return data


@dataclass
class Damaging(Counting):
    """Changes what passes as number `at`, and says in `done` what it did."""

    at: int = 0
    rng: random.Random = field(default_factory=random.Random)
    done: str = "nothing"

    def message(self, what: str, message: Tree) -> Tree:
        self.seen += 1
        if self.seen == self.at:
            for _ in range(self.rng.choice([1, 1, 1, 2])):
                self.done = f"{what} message: {change_message(self.rng, message)}"
        return message

    def header(self, what: str, header: Header) -> Header:
        self.seen += 1
        if self.seen == self.at:
            self.done = f"{what} header: {change_header(self.rng, header)}"
        return header

    def table(self, kind: int, table: pa.Table, form: Form) -> tuple[pa.Table, bool]:
        self.seen += 1
        if self.seen != self.at:
            return table, True
        changed, what = change_table(self.rng, kind, table, form)
        self.done = f"segment of kind {kind}: {what}"
        return changed, self.rng.random() < 0.7

    def bitmap(self, data: bytes) -> bytes:
        self.seen += 1
        if self.seen == self.at:
            data, self.done = change_bitmap(self.rng, data)
        return data


# --- Messages -------------------------------------------------------------------------------------


def open_up(message: Tree, depth: int = 0) -> list[tuple[Tree, int]]:
    """Every field at any depth, as its message and its place in it."""
    found: list[tuple[Tree, int]] = []
    for place, (_, wire, value) in enumerate(message):
        if isinstance(value, Entry):
            continue
        found.append((message, place))
        if wire == 2 and isinstance(value, list):
            found += open_up(value, depth + 1)
    return found


def change_message(rng: random.Random, message: Tree) -> str:
    """Change a message at any depth."""
    places = open_up(message)
    if not places:
        message.append([rng.randint(1, 20), 0, 1])
        return "a field where none was"
    # A random message first, so that the many row groups don't hide the head.
    head = [(message, place) for place in range(len(message))]
    owner, place = rng.choice(places if rng.random() < 0.6 else head)
    number, wire, value = owner[place]
    what = rng.randrange(11)
    if what == 0:
        del owner[place]
        return f"field {number} removed"
    if what == 1:
        owner.insert(rng.randint(0, len(owner)), [number, wire, value])
        return f"field {number} twice"
    if what == 2:
        rng.shuffle(owner)
        return "fields in another order"
    if what == 3:
        unknown = rng.choice([10, 14, 16, 19, 99, (1 << 29) - 1])
        owner.insert(rng.randint(0, len(owner)), [unknown, *random_value(rng)])
        return f"unknown field {unknown}"
    if what == 4:
        owner[place] = [number, *random_value(rng)]
        return f"field {number} of another wire type"
    if what == 5:
        owner[place] = [rng.choice([0, 1 << 29, rng.randint(1, 15)]), wire, value]
        return f"field {number} with another number"
    if what == 6:
        owner[place] = [number, rng.choice([3, 4, 6, 7]), b""]
        return f"field {number} as a group"
    if wire == 0:
        step = value + rng.choice([-1, 1, -2, 2])
        owner[place] = [number, 0, rng.choice([*EDGES, step, step, step, step])]
        return f"field {number} another number"
    owner[place] = [number, wire, change_bytes(rng, value)]
    return f"field {number} other bytes"


def random_value(rng: random.Random) -> tuple[int, Any]:
    wire = rng.choice([0, 1, 2, 5])
    size = {1: 8, 5: 4}.get(wire, rng.choice([0, 1, 16]))
    return wire, rng.choice(EDGES) if wire == 0 else rng.randbytes(size)


def change_bytes(rng: random.Random, value: Any) -> Any:
    """Bytes, or a message within a message, that are a little different."""
    if isinstance(value, list) and rng.random() < 0.5:
        return []
    data = bytearray(encode(value) if isinstance(value, list) else value)
    what = rng.randrange(6)
    if what == 0 or not data:
        return bytes(data) + rng.choice([b"\0", b"\xff", b"x", b"\xed\xa0\x80", b"\0" * 300])
    if what == 1:
        return bytes(data[:-1])
    if what == 2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    if what == 3:
        return b""
    if what == 4:
        return rng.choice([b"data/../x", b"data/a\\b", b"a" * 256, b"%" * 86, b"_x", b"\xc0\x80"])
    return bytes(data[::-1])


# --- Headers --------------------------------------------------------------------------------------


def change_header(rng: random.Random, header: Header) -> str:
    changes: dict[str, list[Any]] = {
        "magic": [b"LKLF"],
        "version": [0, 2, 255],
        "kind": [0, 1, 2, 3, 4, 5],
        "codec": [2, 255],
        "zero": [1],
        "zeros": [1],
        "incarnation": [0, header.incarnation + 1, max(header.incarnation - 1, 0), 1000],
        "log_id": [rng.randbytes(16), bytes(16)],
        "stored": [0, (1 << 23) + 1],
        "decoded": [0, 1, (1 << 23) + 1, (1 << 32) - 1],
        "attached": [0, 1, (1 << 64) - 1],
    }
    what = rng.choice(sorted(changes))
    for name in {what, rng.choice(sorted(changes))} if rng.random() < 0.2 else {what}:
        setattr(header, name, rng.choice(changes[name]))
    return what


# --- Objects as they lie --------------------------------------------------------------------------


def change_objects(rng: random.Random, log: HandLog) -> str:
    """Damage that no writer made: bytes turn, objects go or come."""
    where = log.segments if log.segments and rng.random() < 0.3 else log.transactions
    if log.data and rng.random() < 0.2:
        where = log.data
    name = rng.choice(sorted(where))
    data, what = where[name], rng.randrange(8)
    if what == 0:
        del where[name]
        return f"{name} gone"
    if what == 1:
        flipped = bytearray(data)
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        where[name] = bytes(flipped)
        return f"{name}: a bit"
    if what == 2:
        where[name] = data[: rng.randrange(len(data))]
        return f"{name} cut short"
    if what == 3:
        where[name] = where[rng.choice(sorted(where))]
        return f"{name} with the bytes of another"
    if what == 4 and where is log.transactions:
        stem, _, kind = name.split(".")
        where[f"{stem}.0000000f.{kind}"] = data
        return f"{name} has a sibling"
    if what == 5 and where is log.transactions:
        junk = [
            "x",
            "998-999999999999-00.00000000.transaction",
            "999-999999999999-0.00000000.checkpoint",
            "000-000000000000-999999999999.00000000.transaction",
        ]
        where[rng.choice(junk)] = data
        return "a strange name"
    if what == 6 and (done := change_history(rng, log)):
        return done
    where[name] = data + rng.choice([b"\0", data])
    return f"{name} with bytes behind"


def change_history(rng: random.Random, log: HandLog) -> str:
    """A revision that has a checkpoint was lost, and committed anew under the same name; nothing if
    there is none."""
    both = [
        name
        for name in log.transactions
        if name.endswith(".checkpoint") and own_transaction(name) in log.transactions
    ]
    if not both:
        return ""
    name = own_transaction(rng.choice(both))
    changes = rng.choice([{}, {}, {"version": 2}, {"log_id": rng.randbytes(16)}, {"kind": 2}])
    log.transactions[name] = anew(log.transactions[name], **changes)
    if rng.random() < 0.5:  # nothing is above it
        mine = read_name(name)
        for other in list(log.transactions):
            found = read_name(other)
            if mine and found and found[0] == mine[0] and found[1] > mine[1]:
                del log.transactions[other]
    return f"{name} of another history {changes or ''}"


def own_transaction(checkpoint: str) -> str:
    """The name of a checkpoint's transaction."""
    return checkpoint.removesuffix("checkpoint") + "transaction"


def anew(data: bytes, **changes: Any) -> bytes:
    """Another transaction that says the same: with a field that nobody knows.

    Args:
        changes: Of the header.
    """
    found = open_frame(data, 1)
    header = Header(1, found.log_id, found.incarnation)
    for name, value in changes.items():
        setattr(header, name, value)
    return frame(header, found.message + b"\xf8\x3f\x01", found.attached)


def prune(log: HandLog) -> None:
    """Leave the last checkpoint of the newest incarnation and what is above it, so that no lower
    base makes up for what is wrong."""
    found = {name: parts for name in log.transactions if (parts := read_name(name))}
    saved = [parts[:2] for parts in found.values() if parts[3] == "checkpoint"]
    if saved:
        last = max(saved)
        for name, parts in found.items():
            if parts[:2] < last or (parts[:2] == last and parts[3] == "transaction"):
                del log.transactions[name]


@lru_cache(maxsize=64)
def places(seed: int) -> int:
    """How many things pass the hooks of a log."""
    counting = Counting()
    random_log(seed, counting)
    return counting.seen


def damaged_log(seed: int, rng: random.Random) -> tuple[HandLog, str]:
    """The log of a seed with one thing wrong (or strange), and what."""
    if rng.random() < 0.15:
        log = random_log(seed)
        done = change_objects(rng, log)
    else:
        seen = places(seed)
        # What comes last counts most, for it is read first.
        late = max(1, seen - int(rng.expovariate(1 / 8)))
        hooks = Damaging(at=late if rng.random() < 0.7 else rng.randint(1, seen), rng=rng)
        log = random_log(seed, hooks)
        done = hooks.done
    if rng.random() < 0.6:
        prune(log)
    return log, done
