"""Writes the golden objects of the current format version: `python make_fixtures.py FOLDER`.

Clock and identities are counted, so one version of Arrow and zstd gives the same bytes every time.
A released version's fixtures are never written anew; those of a next version stand beside them.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.data.parquet import encode_files
from lakelog.catalog.format.cut import Cut, Position
from lakelog.catalog.format.definitions import FEATURE as DEFINITIONS
from lakelog.catalog.format.definitions import encode_definition
from lakelog.catalog.format.footer import FooterMetadata, decode_footer, encode_footer
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.names import LOCATIONS, LogObject, path_at, rebuilt_slot_uuid
from lakelog.catalog.format.objects import decode_transaction, encode_transaction
from lakelog.catalog.format.schema import column_id, column_of, encode_schema
from lakelog.catalog.format.statistics import bound_type, encode_bound
from lakelog.catalog.log import build, checkpoint_files, merge
from lakelog.catalog.log.build import Intent, build_transaction, identity_action
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import State, empty_state
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import numbered

sys.path.insert(0, str(Path(__file__).parent))
from fixture_catalog import START_US, Counted, dump, make_catalog
from fixture_deletes import make_deletes
from readable import descriptor_lines, readable_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION_FOLDER = Path(__file__).parents[2] / "fixtures" / "v1"
TYPED = numbered(
    pa.schema(
        [
            pa.field("flag", pa.bool_()),
            pa.field("small", pa.int16()),
            pa.field("count", pa.uint64()),
            pa.field("temp", pa.float32()),
            pa.field("name", pa.string()),
            pa.field("raw", pa.binary()),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("local", pa.timestamp("ms")),
            pa.field("at", pa.timestamp("us", "Europe/Berlin")),
            pa.field("day", pa.date32()),
            pa.field("time", pa.time64("ns")),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
)
LOW: list[Any] = [False, -5, 0, -0.0, b"a", b"\x00", -100, 0, 1, -1, 0]
HIGH: list[Any] = [True, 7, (1 << 64) - 1, 1.5, "é".encode(), b"\xff", 99_999, 10**12, 2, 20_000, 9]
AGAIN = pa.schema([column_of("temp", pa.string(), 15)])
WITH_FLOATS = pa.schema(
    [*AGAIN, column_of("wind", pa.float64(), 16), column_of("gust", pa.float32(), 17)]
)


@contextmanager
def tuned(module: Any, name: str, value: int) -> Iterator[None]:
    """A threshold of lakelog set so that a small example shows what large ones do."""
    with patch.object(module, name, value):
        yield


def write_json(path: Path, value: Any) -> None:
    """Readable JSON, the same every time."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# --- Single objects -------------------------------------------------------------------------------


class Objects:
    """A log of EWR/weather whose objects are written as golden ones, each case in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counted = Counted()
        self.log = LogIdentity(self.counted.new_id(), 1)
        self.slot_seed = self.counted.new_id()
        self.rebuild_id = b""
        self.state: State = empty_state("EWR", "weather")

    def put(self, case: str, name: str, body: bytes) -> None:
        """An object and its readable form."""
        folder = self.folder / case
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
        write_json(folder / (name + ".json"), readable_object(body, name))

    def commit(
        self, case: str, *intents: Intent, epoch: int = 1, guest: bool = False, unknown: bytes = b""
    ) -> None:
        """The next transaction. `unknown`: the encoding of an action to put behind them."""
        revision, uuid, successor = self.state.revision + 1, self.state.next_uuid, b""
        if self.rebuild_id:
            uuid = rebuilt_slot_uuid(self.rebuild_id, revision)
            successor = rebuilt_slot_uuid(self.rebuild_id, revision + 1)
        body, _ = build_transaction(
            self.state,
            intents,
            log=self.log,
            uuid=uuid,
            slot_seed=self.rebuild_id or self.slot_seed,
            epoch=epoch,
            guest=guest,
            now_us=self.counted.now_us(),
            successor=successor,
        )
        name = LogObject(self.log.incarnation, revision, uuid[:4].hex(), "transaction").name
        if unknown:
            message = decode_transaction(body, name).message
            message.actions.add().MergeFromString(unknown)
            message.commit.members[0].action_count += 1
            body, _ = encode_transaction(self.log, message)
        self.put(case, name, body)
        if not case.startswith("refused"):
            apply(self.state, decode_transaction(body, name))

    def rebuild(self) -> None:
        """Seal the log, and begin its second incarnation."""
        self.rebuild_id = self.counted.new_id()
        seal = wire.Seal(next_incarnation=2, rebuild_id=self.rebuild_id)
        rebuild_id, self.rebuild_id = self.rebuild_id, b""
        self.commit("seal", self.intent(wire.Action(seal=seal), operation="maintenance"), epoch=2)
        self.rebuild_id, self.state = rebuild_id, empty_state("EWR", "weather")
        self.log = LogIdentity(self.log.log_id, 2)

    def intent(self, *actions: wire.Action, **more: Any) -> Intent:
        """What one member asks for."""
        return Intent(self.counted.new_id(), 1, list(actions), **more)

    def checkpoint(self, case: str) -> None:
        """The checkpoint of the present state, and its segments."""
        encoded = encode_state(self.state)
        self.put(case, encoded.name, encoded.body)
        for name, body in encoded.segments:
            self.put(case, name, body)
        self.state.rebase(encoded.decoded, encoded.pieces, encoded.files)


def schema_action(
    schema: pa.Schema, *, key: Sequence[str] = (), sort_order: Sequence[str] = ()
) -> wire.Action:
    """A schema of the table `hourly`."""
    encoded = encode_schema(schema)
    return wire.Action(
        schema=wire.Schema(
            table="hourly",
            fingerprint=encoded.fingerprint,
            arrow_schema=encoded.message,
            key=key,
            sort_order=sort_order,
        )
    )


def add_action(number: int, schema: pa.Schema, groups: Sequence[wire.RowGroup] = ()) -> wire.Action:
    """A file of the table `hourly`, which need not exist."""
    return wire.Action(
        add=wire.Add(
            path=f"data/2013-01/hourly/part-{number:03d}.parquet",
            table="hourly",
            partition="2013-01",
            size_bytes=1_000 + number,
            row_count=sum(group.row_count for group in groups) or 10,
            schema_fingerprint=encode_schema(schema).fingerprint,
            first_clock=START_US + number,
            last_clock=START_US + number + 1,
            footer_bytes=200 + number,
            footer_digest=hashlib.sha256(b"%d" % number).digest()[:8] if number % 2 else b"",
            row_groups=groups,
        )
    )


def remove_action(number: int) -> wire.Action:
    """The end of that file."""
    path = f"data/2013-01/hourly/part-{number:03d}.parquet"
    return wire.Action(remove=wire.Remove(path=path, table="hourly"))


def row_group(rows: int, nulls: int, *, bloom: int = 0) -> wire.RowGroup:
    """A row group of `TYPED` with a bound of every type."""
    group = wire.RowGroup(row_count=rows)
    for position, (low, high) in enumerate(zip(LOW, HIGH, strict=True)):
        kind = bound_type(TYPED.field(position).type)
        assert kind is not None
        item = group.columns.add(column=position, null_count=nulls)
        item.min, item.max = encode_bound(low, kind), encode_bound(high, kind)
        item.min_exact, item.max_exact = position != 4, position % 2 == 0
        item.no_nan = position == 3
    if bloom:
        group.columns[4].bloom_offset, group.columns[4].bloom_bytes = bloom, 64
    return group


def make_objects(folder: Path) -> None:
    """Every kind of object, and of action, once."""
    log = Objects(folder)
    log.commit(
        "append",
        log.intent(
            schema_action(TYPED),
            add_action(1, TYPED, [row_group(10, 1, bloom=4)]),
            add_action(2, TYPED, [row_group(10, 0), row_group(5, 5)]),
            add_action(3, TYPED),
        ),
    )
    log.commit("remove", log.intent(remove_action(3)))
    log.commit(
        "schemas", log.intent(schema_action(AGAIN, key=["temp"]), schema_action(TYPED, key=["at"]))
    )
    again = add_action(3, TYPED)
    again.add.original_revision = 0
    log.commit(
        "members",
        log.intent(again, app_id="loader", app_version=7, summary={"source": "noaa"}),
        log.intent(remove_action(1), add_action(4, AGAIN), operation="rewrite"),
        guest=True,
    )
    log.checkpoint("checkpoint-inline")
    with tuned(build, "BATCH_FROM_FILES", 0):
        log.commit(
            "add-batch",
            log.intent(
                add_action(6, TYPED, [row_group(3, 1, bloom=4), row_group(2, 0, bloom=80)]),
                add_action(5, TYPED, [row_group(1, 0)]),
                remove_action(4),
            ),
        )
    upgrade = wire.Upgrade(required_writer_features=["example-for-writers"])
    log.commit("upgrade", log.intent(wire.Action(upgrade=upgrade)))
    forget = wire.Forget(applications_before_us=START_US, tables=["never was"])
    forget.schemas.add(table="hourly", fingerprint=encode_schema(AGAIN).fingerprint)
    log.commit("forget", log.intent(wire.Action(forget=forget)))
    # The run of the checkpoint before stays, with dead rows; what is new becomes objects.
    with (
        tuned(checkpoint_files, "SPILL_FROM_BYTES", 0),
        tuned(merge, "GROWTH", 0),
        tuned(merge, "DEAD_PART", 0),
    ):
        log.checkpoint("checkpoint-spilled")
    # A copy of the log takes the name of its folder; the original goes on below.
    state = log.state.copy()
    identity = wire.Identity(writer="EWR-2", database="weather")
    log.commit("identity", log.intent(wire.Action(identity=identity)))
    log.state = state
    # An action of kind 13, which this version doesn't know, with the text "new"; `optional` is 15.
    log.commit("refused-action", log.intent(), unknown=b"\x6a\x03new")
    upgrade = wire.Upgrade(required_reader_features=["example-for-readers"])
    log.commit("refused-feature", log.intent(wire.Action(upgrade=upgrade)))
    log.commit("optional-action", log.intent(remove_action(2)), unknown=b"\x6a\x03new\x78\x01")
    make_token(folder / "token", log.state)
    log.rebuild()
    begun = identity_action("EWR", "weather", START_US + 3_600_000_000)
    log.commit(
        "second-incarnation",
        log.intent(begun, schema_action(TYPED), add_action(3, TYPED)),
        epoch=3,
    )
    log.checkpoint("second-incarnation")
    make_data_file(folder / "data-file", log.counted)
    add = add_action(7, TYPED)
    add.add.path = path_at("s3://other", "raw/hourly/year=2013/part-007.parquet")
    upgrade = wire.Upgrade(
        required_reader_features=[LOCATIONS], required_writer_features=[LOCATIONS]
    )
    places = [wire.Action(location=wire.Location(url=url)) for url in ("s3://other", "file://")]
    log.commit("location", log.intent(wire.Action(upgrade=upgrade), *places, add), epoch=3)
    log.checkpoint("checkpoint-location")
    upgrade = wire.Upgrade(
        required_reader_features=[DEFINITIONS], required_writer_features=[DEFINITIONS]
    )
    actions = [wire.Action(upgrade=upgrade), wire.Action(definition=definition())]
    log.commit("definition", log.intent(*actions, operation="maintenance"), epoch=3)
    log.checkpoint("checkpoint-definition")
    make_deletes(log, TYPED, add_action(3, TYPED).add.path)


def definition() -> wire.Definition:
    """Of `hourly`: `temp` is called `degrees` and is a double; `name` was dropped and added again;
    `note` came later, with a default; `name` is the key."""
    schema = pa.schema(
        [
            column_of("degrees", pa.float64(), column_id(TYPED.field("temp"))),
            column_of("name", pa.string(), 18),
            column_of("note", pa.string(), 19),
        ]
    )
    return encode_definition("hourly", schema, {"note": pa.scalar("none")}, 19, key=["name"])


def make_token(folder: Path, state: State) -> None:
    """A token and what it says."""
    folder.mkdir(parents=True)
    writers = {
        "EWR": Position(state.revision, state.digest[:8], state.log),
        "JFK": Position(3, bytes(range(8)), LogIdentity(bytes(range(16)), 2)),
        "w_1": Position(0),
    }
    (folder / "token.txt").write_text(Cut("weather", writers).token + "\n")
    told = {
        name: {
            "revision": at.revision,
            "digest": at.digest.hex(),
            "log_id": at.log.log_id.hex() if at.log else "",
            "incarnation": at.log.incarnation if at.log else 0,
        }
        for name, at in writers.items()
    }
    write_json(folder / "token.json", {"database": "weather", "writers": told})


def make_data_file(folder: Path, counted: Counted) -> None:
    """A Parquet file with a footer of lakelog, and its key-value metadata."""
    folder.mkdir(parents=True)
    meta = FooterMetadata(
        writer="EWR",
        database="weather",
        table="hourly",
        partition="2013/01",
        transaction_id=counted.new_id(),
        number=0,
        base_revision=6,
        base_transaction_id=counted.new_id(),
        epoch=1,
        first_clock=-5,
        last_clock=START_US,
        schema=WITH_FLOATS,
        log_id=counted.new_id(),
        incarnation=1,
        slot_seed=counted.new_id(),
        replaces=(("hourly", "data/2013%2F01/hourly/é.parquet"),),
        app_id="loader",
        app_version=8,
        operation="overwrite",
    )
    columns = {"temp": ["warm", None], "wind": [1.5, None], "gust": [math.nan, 2.5]}
    data = pa.table(columns).cast(WITH_FLOATS)
    (encoded,) = encode_files(iter(data.to_batches()), WITH_FLOATS, meta)
    (folder / "data.parquet").write_bytes(encoded.body.read())
    footer = decode_footer(pq.read_metadata(folder / "data.parquet").metadata)
    assert footer is not None
    write_json(folder / "data.parquet.json", encode_footer(footer))


# --- All ------------------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Everything, into an empty folder."""
    make_objects(folder / "objects")
    store = MemoryStore("golden")
    told = make_catalog(store)
    dump(store, folder / "catalog")
    write_json(folder / "catalog.json", told)
    sums = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    write_json(folder / "sha256.json", {"made_with": {"pyarrow": pa.__version__}, "files": sums})
    (folder / "descriptor.txt").write_text("\n".join(descriptor_lines()) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else VERSION_FOLDER
    if target.exists() and any(target.iterdir()):
        raise SystemExit(f"{target} is not empty: golden objects are never written over")
    make(target)
