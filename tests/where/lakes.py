"""Random lakes and predicates to hold skipping against: types that drift from file to file, nulls,
NaN, infinities, texts of any kind, several row groups, bloom filters, adopted files, removals,
checkpoints."""

from __future__ import annotations

import io
import math
import random
import struct
import warnings
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
from own_files import add_own

DAY = date(2024, 2, 27)
TIME = datetime(2024, 2, 27, 22, 59, 59, 999_999)
TEXTS = [
    "", "a", "ab", "abcdefg", "abcdefgh", "abcdefghi", "Zürich", "zß", "\x00", "a\x00",
    "\U0001f40d", "￿", "'", "%", "_", "\\",
]  # fmt: skip
LONG = "customer-" * 9  # longer than a bound may be


class Values:
    """Values of each column; files draw from a part of the range, so that some can be skipped."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def pick(self, column: str, place: int):
        return getattr(self, column)(place)

    def i(self, place):
        edges = [-(1 << 7), (1 << 7) - 1, 0]
        return self.random.choice([place, place + 1, place - 1, *edges])

    def n(self, place):
        return self.i(place)

    def u(self, place):
        return self.random.choice([place, place + 1, (1 << 63) + place, 0])

    def f(self, place):
        special = [0.0, -0.0, math.nan, math.inf, -math.inf]
        chosen = [float(place), place + 0.5, place - 0.25]
        return self.random.choice(chosen * 4 + special)

    def s(self, place):
        end = self.random.choice(["", "-", "ü", "z"])
        return self.random.choice(
            [f"key{place:03}{end}", f"{LONG}{place:03}", *TEXTS[place % 16 :][:2]]
        )

    def b(self, place):
        return self.random.choice(
            [bytes([place % 256]), b"", b"\xff" * 9, struct.pack(">q", place), b"\x00"]
        )

    def d(self, place):
        return DAY + timedelta(days=place + self.random.randint(0, 2))

    def t(self, place):
        return TIME + timedelta(days=place, microseconds=self.random.choice([0, 1, 1000]))

    def z(self, place):
        return self.t(place).replace(tzinfo=UTC)

    def m(self, place):
        return Decimal(place * 100 + self.random.randint(-1, 1)).scaleb(-2)

    def large(self, place):
        return Decimal(place * 10**30 + self.random.randint(0, 1))

    def o(self, place):
        return bool(place % 2) if self.random.random() < 0.8 else not place % 2


KINDS = {
    "i": [pa.int8(), pa.int16(), pa.int32(), pa.int64()],
    "n": [pa.int16(), pa.int32(), pa.float64()],
    "u": [pa.uint64()],
    "f": [pa.float32(), pa.float64()],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "b": [pa.binary()],
    "d": [pa.date32()],
    "t": [pa.timestamp("us"), pa.timestamp("ns")],
    "z": [pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Oslo")],
    "m": [pa.decimal128(10, 2), pa.decimal128(20, 4)],
    "large": [pa.decimal128(38, 0)],
    "o": [pa.bool_()],
}
_MILLIS = {"t": pa.timestamp("ms"), "z": pa.timestamp("ms", "UTC")}


def shape(random_: random.Random, *, least: float = 0.9) -> dict[str, pa.DataType]:
    """The columns that some files have, each with a chance, and their types there."""
    found = {}
    for name, kinds in KINDS.items():
        if random_.random() < least:
            millis = name in _MILLIS and random_.random() < 0.3
            found[name] = _MILLIS[name] if millis else random_.choice(kinds)
    return found


def batch(random_: random.Random, columns: dict[str, pa.DataType], place: int) -> pa.Table:
    """The rows of one file."""
    values = Values(random_)
    rows = random_.choice([1, 3, 8])
    found = {}
    for name, kind in columns.items():
        nulls = random_.choice([0, 0, 0, 0.3, 1])
        drawn = [
            None if random_.random() < nulls else values.pick(name, place) for _ in range(rows)
        ]
        if kind in _MILLIS.values():
            drawn = [v and v.replace(microsecond=v.microsecond // 1000 * 1000) for v in drawn]
        if kind == pa.float64() and name == "n":
            drawn = [v if v is None else v + random_.choice([0, 0.5]) for v in drawn]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        column = pa.array(drawn, plain)
        found[name] = column if plain == kind else column.dictionary_encode()
    found["row"] = pa.array([random_.getrandbits(60) for _ in range(rows)], pa.int64())
    return pa.table(found)


def build(url: str, random_: random.Random, files: int) -> tuple[lakelog.Catalog, str]:
    """A lake of some writers with one table `t`.

    A file that stays has every column: predicates name them all.
    """
    catalog = lakelog.open_catalog(url)
    shapes = [shape(random_) for _ in range(4)]
    for number in range(random_.randint(1, 3)):
        with catalog.writer(f"w{number}", "db", checkpoint_every=0) as writer:
            written: list[str] = []
            if not number:
                _transaction(catalog, writer, random_, [], [shape(random_, least=1)])
            for _ in range(files):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    written += _transaction(catalog, writer, random_, written, shapes)
                if random_.random() < 0.2:
                    writer.checkpoint()
    return catalog, "db"


def _transaction(catalog, writer, random_, written, shapes):
    rows = batch(random_, random_.choice(shapes), random_.randint(0, 40))
    with writer.transaction() as tx:
        if written and random_.random() < 0.2:
            tx.remove(written.pop(random_.randrange(len(written))))
        blooms = [name for name in rows.column_names if name != "o" and random_.random() < 0.4]
        if random_.random() < 0.6:
            return tx.write("t", rows, bloom=blooms)
        # As others write it: several row groups, or all in one, statistics or none of some.
        body = io.BytesIO()
        stats = random_.choice(
            [True, True, [n for n in rows.column_names if random_.random() < 0.5]]
        )
        pq.write_table(
            rows,
            body,
            row_group_size=random_.choice([2, 100]),
            write_statistics=stats,
            bloom_filter_options={name: {"ndv": 8} for name in blooms} or None,
            store_decimal_as_integer=random_.random() < 0.5,
        )
        path = f"data/in/{random_.getrandbits(60):x}.parquet"
        catalog.store.put(f"{writer.writer_id}/db/{path}", body.getvalue())
        add_own(tx, "t", path)
        return [path]


# --- Predicates -----------------------------------------------------------------------------------

OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def literal(value) -> str:
    """A value as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"'{value}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def predicate(random_: random.Random, depth: int = 2) -> str:
    """A random predicate in SQL."""
    shape = random_.random()
    if depth and shape < 0.4:
        word = random_.choice([" AND ", " OR "])
        items = [predicate(random_, depth - 1) for _ in range(random_.randint(2, 3))]
        return "(" + word.join(items) + ")"
    if depth and shape < 0.5:
        return f"NOT {predicate(random_, depth - 1)}"
    name = random_.choice(list(KINDS))
    if random_.random() < 0.1:
        return f"{name} IS {random_.choice(['', 'NOT '])}NULL"
    if name == "o" and random_.random() < 0.5:
        return name
    if name == "s" and random_.random() < 0.3:
        prefix = random_.choice(["key", f"key{random_.randint(0, 40):03}", "custom", LONG, "Z", ""])
        return f"s {random_.choice(['', 'NOT '])}LIKE '{prefix}%'"
    values = _values(random_, name)
    if random_.random() < 0.2:
        return f"{name} {random_.choice(['', 'NOT '])}IN ({', '.join(values)})"
    if random_.random() < 0.2:
        return f"{name} {random_.choice(['', 'NOT '])}BETWEEN {values[0]} AND {values[1]}"
    return f"{name} {random_.choice(OPERATORS)} {values[0]}"


def _values(random_: random.Random, name: str) -> list[str]:
    """Two or more literals for a column."""
    values = Values(random_)
    found = []
    while len(found) < random_.choice([2, 3, 5]) or len(found) < 2:
        value = values.pick(name, random_.randint(0, 40))
        if isinstance(value, float) and math.isnan(value):
            continue
        if name in "in" and random_.random() < 0.2:
            value = random_.choice([value + 0.5, 1 << 70, -(1 << 63) - 1])
        if isinstance(value, Decimal) and random_.random() < 0.2:
            value += Decimal("0.001")
        if name == "s" and "\x00" in value:
            continue  # SQL has no such text
        found.append(literal(value))
    return found
