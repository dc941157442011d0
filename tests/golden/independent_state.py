"""The chain and the state of a revision for the independent reader: docs/format.md, section 4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from independent_content import Deletes, File, Schema, Table
from independent_ipc import decode_file_schema
from independent_messages import ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from independent_statistics import Known, bound_type, group_statistics, known_of, merge
from independent_view import ENDLESS, View
from independent_wire import Damaged, Refusal, TooNew, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from independent_segments import Columns
    from independent_transaction import Checkpoint, Transaction
    from independent_wire import Message

Statistics = dict[str, Known]  # by column


@dataclass(frozen=True)
class Head:
    """What the chain says at a revision."""

    revision: int = -1
    uuid: bytes = b""
    successor: bytes = b""
    digest: bytes = b""
    epoch: int = 0
    committed_at_us: int = 0
    log_id: bytes | None = None
    incarnation: int = 0
    transaction_id: bytes = b""
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()
    writer: str = ""
    database: str = ""
    seal: int = 0
    locations: frozenset[str] = frozenset()


def head_of(checkpoint: Checkpoint) -> Head:
    message = checkpoint.message
    return Head(
        message.revision,
        message.uuid,
        message.successor_uuid,
        message.digest,
        message.epoch,
        message.committed_at_us,
        checkpoint.frame.log_id,
        checkpoint.frame.incarnation,
        message.transaction_id,
        frozenset(message.required_reader_features),
        frozenset(message.required_writer_features),
        message.writer,
        message.database,
        locations=frozenset(message.locations),
    )


def follow(head: Head, transaction: Transaction) -> Head:
    """The state after a transaction, if it is the next one (section 4.2)."""
    message, frame = transaction.message, transaction.frame
    commit = message.commit
    need(message.revision == head.revision + 1, "not the next revision")
    need(message.previous_uuid == head.uuid, "previous uuid")
    need(message.previous_digest == head.digest, "previous digest")
    need(head.log_id in (None, frame.log_id), "it belongs to another log")
    need(message.epoch >= head.epoch, "epoch")
    need(commit.committed_at_us > head.committed_at_us, "time of commit")
    need(not head.seal, "a transaction after a Seal")
    readers, features = set(head.reader_features), set(head.writer_features)
    names, locations = (head.writer, head.database), set(head.locations)
    for kind, item in transaction.actions:
        if kind == "upgrade":
            readers.update(item.required_reader_features)
            features.update(item.required_writer_features)
        elif kind == "location":
            locations.add(item.url)
        elif kind == "identity":
            names = item.writer, item.database
    need(max(len(readers), len(features)) <= 256, "too many features")
    need(len(locations) <= 256, "too many locations")
    return Head(
        message.revision,
        message.uuid,
        commit.successor_uuid,
        frame.digest,
        message.epoch,
        commit.committed_at_us,
        frame.log_id,
        frame.incarnation,
        commit.members[-1].transaction_id,
        frozenset(readers),
        frozenset(features),
        *names,
        transaction.seal,
        frozenset(locations),
    )


@dataclass
class State:
    """What a log says at a revision. Parts are looked up when they are asked for, each in the
    highest base that gives it (section 4.7)."""

    head: Head
    views: Callable[[], Iterator[View]]
    known: dict[str, Table | Refusal] = field(default_factory=dict)

    def part(self, want: Callable[[View], Any]) -> Any:
        """What a view gives, from the highest base that can."""
        problem: Refusal | None = None
        try:
            for view in self.views():
                try:
                    return want(view)
                except Damaged as error:
                    problem = problem or error
        except TooNew:
            raise
        except Refusal as error:  # a lower base cannot be reached
            problem = problem or error
        assert problem is not None
        raise problem

    def tables(self) -> list[str]:
        """The tables whose schemas are known, as far as any base tells."""
        return self.listed()[0]

    def listed(self) -> tuple[list[str], bool]:
        """The tables whose schemas are known, and whether these are all."""
        names: set[str] = set()
        left = [(b"", ENDLESS)]  # the ranges that no base has told yet

        def look(view: View) -> None:
            found, faults = view.candidates()
            if not faults:  # this base tells all of them
                names.clear()
                left[:] = [(b"", ENDLESS)]
            names.update(n for n in found if any(a <= n.encode() <= b for a, b in left))
            shared = [(max(a, c), min(b, d), error) for a, b in left for c, d, error in faults]
            shared = [both for both in shared if both[0] <= both[1]]
            left[:] = [(low, high) for low, high, _ in shared]
            for *_, error in sorted(shared, key=lambda both: not isinstance(both[2], TooNew)):
                raise error

        complete = True
        try:
            self.part(look)
        except Refusal:
            complete = False
        return sorted(filter(self._is_known, names), key=str.encode), complete

    def _is_known(self, name: str) -> bool:
        try:
            return bool(self.schemas(name))
        except Refusal:
            return False

    def table(self, name: str) -> Table:
        """The files and schemas of a table; refused if it is unusable."""
        if name not in self.known:
            try:
                self.known[name] = self.part(lambda view: view.table(name))
            except Refusal as error:
                self.known[name] = error
        found = self.known[name]
        if isinstance(found, Refusal):
            raise found
        return found

    def files(self, name: str) -> dict[str, File]:
        return self.table(name).files

    def schemas(self, name: str) -> dict[bytes, Schema]:
        """The schemas of a table, also if its files cannot be used."""
        try:
            return self.table(name).schemas
        except Refusal:
            found: dict[bytes, Schema] = self.part(lambda view: view.schemas(name))
            return found

    def definitions(self) -> dict[str, tuple[Message, int]]:
        """By table what defines it, and since when."""
        found: dict[str, tuple[Message, int]] = self.part(lambda view: view.definitions())
        return found

    def deletes(self) -> Deletes:
        """All that is deleted without its file being removed."""
        found: Deletes = self.part(lambda view: view.deletes())
        return found

    def applications(self) -> dict[str, tuple[int, int]]:
        """Version and time by application id."""
        found: dict[str, tuple[int, int]] = self.part(lambda view: view.applications())
        return found

    def history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.part(lambda view: view.history())
        return found

    def statistics(self, name: str) -> dict[str, tuple[Statistics, list[tuple[int, Statistics]]]]:
        """By path: what is known of the columns of each file, and its row groups if it has more
        than one and they are known, each with its row count."""
        table = self.table(name)
        return {
            path: file_statistics(file, table.schemas[file.facts["schema_fingerprint"]])
            for path, file in table.files.items()
        }


# --- Statistics -----------------------------------------------------------------------------------


def file_statistics(file: File, known: Schema) -> tuple[Statistics, list[tuple[int, Statistics]]]:
    try:
        schema, _ = decode_file_schema(known.arrow_schema)
    except Damaged:
        schema = None
    if file.add is not None:
        groups = file.add.row_groups
        if schema is None:
            plain: list[tuple[int, Statistics]] = [(g.row_count, {}) for g in groups]
            return {}, plain if len(groups) > 1 else []
        parts = [(group.row_count, group_statistics(group, schema)) for group in groups]
        told = [(rows, by_name(columns, schema)) for rows, columns in parts]
        return by_name(merge(parts, schema), schema), told if len(told) > 1 else []
    return segment_statistics(file, schema)


def by_name(columns: Mapping[int, Known], schema: pa.Schema) -> Statistics:
    return {schema.field(at).name: known for at, known in columns.items() if known}


def segment_statistics(
    file: File, schema: pa.Schema | None
) -> tuple[Statistics, list[tuple[int, Statistics]]]:
    """The statistics of a file that stands in a FILES segment."""
    groups = file.facts["row_groups"]
    whole = {
        name: known
        for (name, _), known in rows_about(file, schema, STATISTICS, bloom=groups == 1).items()
    }
    counts: dict[int, list[int]] = {}
    for columns in described(file, ROW_GROUPS):
        for row, group, rows in zip(columns["row"], columns["row_group"], columns["row_count"]):
            if row == file.row:
                counts.setdefault(group, []).append(rows)
    # A file may say that it has billions of them.
    each = len(counts) == groups and sorted(counts) == list(range(len(counts)))
    exact = each and all(len(found) == 1 for found in counts.values())
    if groups < 2 or not exact:
        return whole, []
    told: list[tuple[int, Statistics]] = [(counts[group][0], {}) for group in range(groups)]
    found = rows_about(file, schema, ROW_GROUP_STATISTICS, bloom=True)
    for (name, group), known in found.items():
        if 0 <= group < groups:
            told[group][1][name] = known
    return whole, told


def described(file: File, kind: int) -> Iterator[Columns]:
    """The segments of a kind that describe the part of a file; damaged ones say nothing."""
    for ref in file.describing:
        if ref.kind == kind and file.pieces is not None:
            try:
                yield file.pieces.open(ref)
            except Refusal:
                continue


def rows_about(
    file: File, schema: pa.Schema | None, kind: int, *, bloom: bool
) -> dict[tuple[str, int], Known]:
    """By column and row group (0 in STATISTICS) what is known; twice told is unknown."""
    found: dict[tuple[str, int], Known] = {}
    twice: set[tuple[str, int]] = set()
    for columns in described(file, kind) if schema is not None else ():
        for at, row in enumerate(columns["row"]):
            name = columns["name"][at]
            place = schema.get_field_index(name) if row == file.row else -1
            if place < 0:
                continue
            where = name, columns["row_group"][at] if kind == ROW_GROUP_STATISTICS else 0
            if where in found:
                twice.add(where)
            item = {what: values[at] for what, values in columns.items()}
            found[where] = known_of(item, bound_type(schema.field(place).type), bloom)
    return {where: known for where, known in found.items() if known and where not in twice}
