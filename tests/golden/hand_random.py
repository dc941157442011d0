"""Random valid logs by seed. See `logs_by_hand`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from hand_deletes import bury, carry, end_deletes, held_paths, strike
from hand_log import HandLog, Hooks, rebuilt_uuid, split
from hand_objects import Attachments
from hand_segments import HandFile, Row
from hand_values import NUMBERS, OPERATIONS, TYPES, random_known, with_ids
from independent_ipc import decode_file_schema
from independent_transaction import fingerprint, location_id
from independent_wire import Damaged

if TYPE_CHECKING:
    from independent_statistics import Known

TABLES = ["hourly", "t/ä%", "日本", "a", "_"]
PARTITIONS = ["", "", "_", "2013/01", "..", "é"]
LOCATIONS = ["s3://other", "file://", "gs://b/ä", "abfss://c@x.y"]
COLUMN_NAMES = ["temp", "wind", "ts", "name", "raw", "ok", "price", "día"]


@dataclass
class RandomLog:
    """One log, made by a few dozen steps."""

    seed: int
    hooks: Hooks = field(default_factory=Hooks)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        named = (self.rng.choice(["EWR", "JFK-2"]), "weather")
        self.log = HandLog(self.rng, self.hooks, self.rng.randbytes(16), named)
        self.number = 0

    def make(self) -> HandLog:
        rng, log = self.rng, self.log
        self.live_for(rng.randint(1, 12))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            self.rebuild()
            self.live_for(rng.randint(0, 5))
        if rng.random() < 0.05 and log.incarnation < 999:
            self.seal()
        return log

    def live_for(self, commits: int) -> None:
        if self.log.revision < 0:
            self.birth()
        for _ in range(commits):
            self.commit()
            if self.rng.random() < 0.25:
                self.log.checkpoint(inline=self.rng.choice([0.0, 0.5, 1.0]))
                if self.rng.random() < 0.15:
                    self.prune()

    # --- Commits ---

    def members(self, actions: int) -> list[Row]:
        rng = self.rng
        found = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            member: Row = {
                "transaction_id": rng.randbytes(16),
                "operation": rng.choice(OPERATIONS),
                "action_count": actions,
            }
            if rng.random() < 0.3:
                member |= {"app_id": rng.choice("xyzé"), "app_version": rng.choice(NUMBERS)}
            if rng.random() < 0.3:
                member["summary"] = {rng.choice("kl"): rng.choice(["1", "zwölf", ""])}
            found.append(member)
        return found

    def birth(self) -> None:
        actions: list[Row] = [self.identity()]
        self.log.commit(actions, self.members(1), later=self.rng.choice([1, 1 << 40]))

    def identity(self) -> Row:
        writer, database = self.log.named
        begun_at = min(2 * self.log.at, (1 << 55) - 1)  # only what revision 0 says of it counts
        return {"identity": {"writer": writer, "database": database, "begun_at_us": begun_at}}

    def commit(self) -> None:
        """A transaction of some actions that fit."""
        rng, log, into = self.rng, self.log, Attachments()
        actions: list[Row] = []
        added: list[HandFile] = []
        removed = 0
        for _ in range(rng.choice([0, 1, 1, 2, 3, 5])):
            what = rng.random()
            if what < 0.2 and log.files:
                actions.append(self.remove())
                removed += 1
            elif what < 0.3:
                actions += self.rare()
            elif what < 0.38:
                bury(rng, log, rng.choice(TABLES), actions, self.defined)
            elif what < 0.5 and log.files:
                strike(rng, log, actions)
            else:
                table = rng.choice(TABLES)
                actions += self.learn(table)
                files = self.new_files(table, rng.choice([1, 1, 2, 4]))
                added += files
                if rng.random() < 0.4:
                    actions += self.learn("other")
                    files += (more := self.new_files("other", rng.randint(0, 2)))
                    added += more
                    files.sort(key=lambda f: (f.facts["table"].encode(), f.facts["path"].encode()))
                    actions += [log.batch(part, into) for part in split(rng, files, 2)]
                else:
                    actions += [{"add": file.add()} for file in files]
        counts = (
            len(added),
            removed,
            sum(file.facts["row_count"] for file in added),
            sum(file.facts["size_bytes"] for file in added),
        )
        fence, guest = rng.random() < 0.2, rng.random() < 0.2
        later = rng.choice([1, 60_000_000])
        log.commit(
            actions,
            self.members(len(actions)),
            attached=into.data,
            counts=counts,
            later=later,
            fence=fence and not guest,
            guest=guest,
        )

    def remove(self) -> Row:
        key = self.rng.choice(sorted(self.log.files))
        self.log.removed.append(self.log.files.pop(key))
        end_deletes(self.log, *key)
        return {"remove": {"table": key[0], "path": key[1]}}

    def rare(self) -> list[Row]:
        rng, log = self.rng, self.log
        what = rng.randrange(8)
        if what == 0:
            log.features.add(name := rng.choice(["time-machine", "x", "é" * 64]))
            return [{"upgrade": {"required_writer_features": [name]}}]
        if what == 1:
            log.named = (rng.choice(["EWR", "LGA_1"]), rng.choice(["weather", "w2"]))
            return [self.identity()]
        if what == 2:
            return [{"optional": True}]
        if what > 5:
            return self.define(rng.choice(TABLES))
        if what == 3:
            return self.places(rng.sample(LOCATIONS, 2))
        return [{"forget": self.forget()}]

    def places(self, urls: list[str]) -> list[Row]:
        """Locations, and the feature that they need."""
        self.log.locations.update(urls)
        self.log.features.add("locations")
        names = ["locations"]
        upgrade = {"required_reader_features": names, "required_writer_features": names}
        return [{"upgrade": upgrade}, *({"location": {"url": url}} for url in urls)]

    def defined(self, table: str) -> Row:
        """Some definition of a table."""
        rng = self.rng
        names = rng.sample(COLUMN_NAMES, rng.randint(1, 4))
        ids = rng.sample([*range(1, 9), (1 << 31) - 1], len(names))
        columns: list[Row] = []
        for name, number in zip(names, ids):
            column: Row = {"id": number, "name": name}
            if rng.random() < 0.3:
                column["default"] = (rng.choice([b"", b"x", bytes(8)]),)
            columns.append(column)
        arrow = pa.schema([(name, pa.int64()) for name in names]).serialize().to_pybytes()
        return {
            "table": table,
            "arrow_schema": rng.choice([arrow, arrow, b"opaque", b""]),
            "columns": columns,
            "last_id": rng.choice([max(ids), (1 << 31) - 1]),
            "key": rng.choice([[], [], names[:1], names[::-1][:2]]),
        }

    def define(self, table: str) -> list[Row]:
        """What the columns of a table are, and the feature that it needs."""
        log, message = self.log, self.defined(table)
        row = {"table": table, "message": message, "revision": log.revision + 1}
        log.definitions[table] = row
        log.features.add("definitions")
        known = ["definitions"]
        upgrade = {"required_reader_features": known, "required_writer_features": known}
        return [{"upgrade": upgrade}, {"definition": message}]

    def forget(self) -> Row:
        """Tables without files, schemas without files, and some that nobody knows."""
        rng, log = self.rng, self.log
        busy = {table for table, _ in log.files}
        used = {(t, f.facts["schema_fingerprint"]) for (t, _), f in log.files.items()}
        tables = [t for t in [*TABLES, "never"] if t not in busy and rng.random() < 0.5]
        names = [key for key in sorted(log.schemas) if key not in used and rng.random() < 0.5]
        for key in list(log.schemas):
            if key[0] in tables or key in names:
                del log.schemas[key]
        for table in tables:
            log.definitions.pop(table, None)
        log.tombstones = [row for row in log.tombstones if row["table"] not in tables]
        before = log.at + rng.choice([-100_000_000, 0, 1]) if rng.random() < 0.5 else 0
        for name in [n for n, row in log.applications.items() if row["committed_at_us"] < before]:
            del log.applications[name]
        schemas = [
            {"table": table, "fingerprint": schema_fingerprint}
            for table, schema_fingerprint in names
        ]
        return {"applications_before_us": before, "tables": tables, "schemas": schemas}

    # --- Tables ---

    def learn(self, table: str) -> list[Row]:
        """A Schema action, or none if the table has schemas that do."""
        rng, log = self.rng, self.log
        known = [key for key in sorted(log.schemas) if key[0] == table]
        if known and rng.random() < 0.7:
            return []
        if known and rng.random() < 0.3:
            row = log.schemas[rng.choice(known)]
            action = {name: row[name] for name in ("table", "fingerprint", "arrow_schema")}
            first = row["revision"]
        else:
            names = rng.sample(COLUMN_NAMES, rng.randint(1, 4))
            fields = pa.schema([(name, rng.choice(TYPES)) for name in names])
            if rng.random() < 0.15:  # a column that the partition's name tells of
                told = fields.field(0).with_metadata({"lakelog.partition": "name"})
                fields = fields.set(0, told)
            ids = rng.sample([*range(1, 9), (1 << 31) - 1], len(names))
            data = with_ids(fields, ids).serialize().to_pybytes()
            if rng.random() < 0.09:  # opaque to replay; its statistics are unknown
                double = with_ids(pa.schema([("a", pa.int8()), ("a", pa.int8())]), (1, 2))
                twice = with_ids(fields, [rng.choice([0, 7, 1 << 31])] * len(names))
                odd = [each.serialize().to_pybytes() for each in (double, fields, twice)]
                data = rng.choice([b"", b"opaque", data[4:], data + bytes(8), *odd])
            schema_fingerprint = fingerprint(data)
            action = {"table": table, "fingerprint": schema_fingerprint, "arrow_schema": data}
            first = log.schemas.get((table, schema_fingerprint), {}).get(
                "revision", log.revision + 1
            )
        key, order = ([rng.choice(COLUMN_NAMES)] if rng.random() < 0.3 else [] for _ in range(2))
        log.schemas[table, action["fingerprint"]] = {
            **action, "key": key or None, "sort_order": order, "revision": first,
        }  # fmt: skip
        return [{"schema": {**action, "key": key, "sort_order": order}}]

    def new_files(self, table: str, count: int) -> list[HandFile]:
        """Files that are live from now on."""
        rng, log, found = self.rng, self.log, []
        for _ in range(count):
            known = rng.choice([key for key in sorted(log.schemas) if key[0] == table])
            again = [f for f in log.removed if f.facts["table"] == table]
            path = f"data/{rng.choice(['_', 'ü', 'p'])}/{self.number:04}.parquet"
            if log.locations and rng.random() < 0.3:
                url = rng.choice(sorted(log.locations))
                path = f"at/{location_id(url)}/{rng.choice(['ü', 'y=1/m=2'])}/{self.number}"
            self.number += 1
            if again and rng.random() < 0.3:
                path = rng.choice(again).facts["path"]
            if (table, path) in log.files:
                continue
            schema = log.schemas[known]["arrow_schema"]
            file = self.new_file(table, path, known[1], schema)
            log.files[table, path] = file
            found.append(file)
        return found

    def new_file(
        self, table: str, path: str, schema_fingerprint: bytes, arrow_schema: bytes
    ) -> HandFile:
        rng = self.rng
        try:
            schema, _ = decode_file_schema(arrow_schema)
        except Damaged:
            schema = pa.schema([])
        groups: list[tuple[int, dict[int, Known]]] = []
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            rows = rng.choice([1, 3, 100])
            columns = {
                at: random_known(rng, schema.field(at).type, rows, bloom=True)
                for at in range(len(schema))
                if rng.random() < 0.8
            }
            groups.append((rows, columns))
        facts = {
            "table": table, "path": path, "partition": rng.choice(PARTITIONS),
            "size_bytes": rng.choice(NUMBERS), "row_count": rng.choice(NUMBERS),
            "revision": self.log.revision + 1, "schema_fingerprint": schema_fingerprint,
            "first_clock": rng.choice([-1, 0, -(1 << 63), 1 << 40]), "last_clock": 1 << 50,
            "footer_bytes": rng.choice(NUMBERS),
            "footer_digest": rng.choice([bytes(8), rng.randbytes(8)]),
            "original_revision": rng.choice([None, None, 0, self.log.revision, -1, 1 << 62]),
        }  # fmt: skip
        return HandFile(facts, arrow_schema, groups)

    # --- The life of a log ---

    def prune(self) -> None:
        """Delete from the beginning of the log, up to the last checkpoint."""
        log = self.log
        for name in list(log.transactions):
            incarnation, _, rest = name.split("-", 2)
            revision = int(rest.split(".")[0])
            own = incarnation == f"{999 - log.incarnation:03}"
            old = revision < log.revision or rest.endswith("transaction")
            if own and old and revision <= log.revision and self.rng.random() < 0.95:
                del log.transactions[name]

    def seal(self, rebuild_id: bytes = bytes(16)) -> None:
        seal = {"next_incarnation": self.log.incarnation + 1, "rebuild_id": rebuild_id}
        member = {"transaction_id": self.rng.randbytes(16), "operation": "maintenance"}
        self.log.commit([{"seal": seal}], [{**member, "action_count": 1}], fence=True)

    def rebuild(self) -> None:
        """Seal, and write the next incarnation with all that is live in it."""
        log, rng = self.log, self.rng
        rebuild_id = rng.randbytes(16)
        self.seal(rebuild_id)
        files, schemas, epoch, at = dict(log.files), dict(log.schemas), log.epoch, log.at
        defined, buried, struck = dict(log.definitions), log.tombstones, log.row_deletes
        locations = sorted(log.locations, key=str.encode)
        log.incarnation += 1
        log.begin()
        log.epoch, log.at = epoch, at
        log.successor = rebuilt_uuid(rebuild_id, 0)
        held = {id(row): held_paths(row, files) for row in buried}
        used = {(table, f.facts["schema_fingerprint"]) for (table, _), f in files.items()}
        actions: list[Row] = [self.identity()]
        if locations:
            actions += self.places(locations)
        for key in sorted(used):
            actions.append({"schema": self.again(schemas[key])})
        for key, file in sorted(files.items()):
            file.facts = {**file.facts, "revision": 0}
            log.files[key] = file
            actions.append({"add": file.add()})
        for table, row in sorted(defined.items()):
            actions += self.redefined(table, row)
        carry(log, struck, actions)
        rows = sum(file.facts["row_count"] for file in files.values())
        size = sum(file.facts["size_bytes"] for file in files.values())
        log.commit(actions, self.members(0), counts=(len(files), 0, rows, size))
        if any(held.values()):
            actions = []
            for row in buried:
                message = {**row["message"], "paths": held[id(row)]}
                if message["paths"]:
                    bury(rng, log, row["table"], actions, self.defined, message)
            log.commit(actions, self.members(len(actions)))
        if rng.random() < 0.95:
            log.checkpoint()

    def redefined(self, table: str, row: Row) -> list[Row]:
        """A known definition as actions of revision 0."""
        self.log.definitions[table] = {**row, "revision": 0}
        self.log.features.add("definitions")
        known = ["definitions"]
        upgrade = {"required_reader_features": known, "required_writer_features": known}
        return [{"upgrade": upgrade}, {"definition": row["message"]}]

    def again(self, row: Row) -> Row:
        """A known schema as a Schema action of revision 0."""
        names = ("table", "fingerprint", "arrow_schema", "key", "sort_order")
        self.log.schemas[row["table"], row["fingerprint"]] = {**row, "revision": 0}
        return {name: row[name] for name in names}


def random_log(seed: int, hooks: Hooks | None = None) -> HandLog:
    """A valid log; with the same seed always the same."""
    return RandomLog(seed, hooks or Hooks()).make()
