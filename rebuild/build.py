"""Builds the state that the rebuilt log opens with: the base, the readable transactions above it,
and what was salvaged. Pure, but for the pieces that the base reads.

Each is applied as a transaction in memory, under the number that it had. Lost revisions that no
footer names become empty ones, so that the history has no gap. Unproven transactions come last:
nothing that is known hides their rows.

Source: docs/format.md, section 4.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ..catalog.format import definitions, deletes
from ..catalog.format.names import (
    LOCATIONS,
    LogObject,
    log_folder,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import decode_transaction
from ..catalog.format.schema import EncodedSchema
from ..catalog.log.build import Intent, build_transaction, require_actions, schema_actions
from ..catalog.log.checkpoint_files import rows_of
from ..catalog.log.column_ids import newest_columns
from ..catalog.log.lookup import files_with, schemas_with
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.replay import apply, check_written, validate
from ..catalog.log.state import empty_state
from ..catalog.wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.merge import Rows
    from ..catalog.log.state import State
    from .plan import FileName, RebuildPlan, SalvagedFile, SalvagedTransaction

IN_ONE: Final = 50_000  # actions in one transaction
# What a readable transaction says that is taken over as it is.
_AS_IT_IS: Final = frozenset(
    {"schema", "definition", "upgrade", "location", "tombstone", "identity"}
)
_OF_A_FILE: Final = frozenset({"add", "remove", "row_deletes"})
_FEATURES: Final = {
    "definition": definitions.FEATURE,
    "location": LOCATIONS,
    "row_deletes": deletes.ROW_DELETES,
    "tombstone": deletes.TOMBSTONES,
}


def opening_state(
    plan: RebuildPlan, base: State, readable: Mapping[int, DecodedTransaction]
) -> State:
    """Returns the state at the plan's revision, in its incarnation.

    Args:
        base: The newest state that could be read; the empty one if none could.
        readable: The transactions above it that can be read, by revision.
    Raises:
        LakelogError: What a reader would refuse.
    """
    building = _Building(plan, base)
    placed: dict[int, list[SalvagedTransaction]] = {}
    last: list[SalvagedTransaction] = []
    for item in plan.transactions:
        # Only between readable ones does it matter: their predicates hold of lower revisions.
        has_place = item.revision not in readable and (readable or base.revision >= 0)
        if item.revision is not None and has_place:
            placed.setdefault(item.revision, []).append(item)
        else:
            last.append(item)
    parts = parts_of(plan.transactions, len(plan.gone), len(plan.schemas))
    first = plan.revision - parts + 1
    if base.revision < 0:
        building.begin(min([first, *readable, *placed]) - 1)
    for revision in range(building.state.revision + 1, first):
        if revision in readable:
            building.add_readable(readable[revision])
        else:
            building.add_salvaged(placed.get(revision, []))
    actions = building.last_actions(last)
    for part in range(parts):
        some = actions[part * IN_ONE : (part + 1) * IN_ONE]
        building.add([building.intent(some)], epoch=plan.epoch)
    state = building.state
    state.first_epoch = plan.epoch  # this incarnation's own, and so is when it was begun
    state.begun_at_us = plan.begun_at_us or state.committed_at_us
    return state


def live_files_of(state: State) -> dict[FileName, int]:
    """Returns the live files of a state with their rows."""
    found: dict[FileName, int] = {}
    for table in state.files.tables():
        rows = state.files.table(table)
        paths, counts = (rows.column(one).to_pylist() for one in ("path", "row_count"))
        found.update(((table, path), n) for path, n in zip(paths, counts, strict=True))
    return found


def parts_of(transactions: Iterable[SalvagedTransaction], gone: int, schemas: int) -> int:
    """Returns how many revisions it takes at the end to hold all that may come there."""
    actions = gone + 3 * schemas + 2
    actions += sum(len(one.files) + len(one.removes) + len(one.vectors) for one in transactions)
    return 1 + actions // IN_ONE


class _Building:
    """The state as far as it is built."""

    def __init__(self, plan: RebuildPlan, base: State) -> None:
        self._plan = plan
        self._schemas = {(one.table, one.fingerprint): one for one in plan.schemas}
        self._unmarked = {
            (one.table, marked): one.fingerprint for one in plan.schemas for marked in one.marked
        }
        self._rebuild_id = bytes.fromhex(plan.rebuild_id)
        self._now_us = int(plan.made_at.timestamp() * 1_000_000)
        if base.revision >= 0:
            self.state = base.copy()
        else:
            self.state = empty_state(plan.writer, plan.database)
        self.state.log, self.state.sealed_for = plan.log, 0
        self.state.older = None  # all parts were read: nothing is to be read of another base

    def begin(self, revision: int) -> None:
        """Begins a log of which no state can be read above a revision."""
        if revision < 0:
            return
        state, plan = self.state, self._plan
        state.named = (plan.writer, plan.database)
        state.revision, state.epoch = revision, 1
        state.uuid, state.digest = rebuilt_slot_uuid(self._rebuild_id, revision), bytes(32)
        state.successor_uuid = rebuilt_slot_uuid(self._rebuild_id, revision + 1)

    # --- One revision -----------------------------------------------------------------------------

    def add(
        self,
        intents: list[Intent],
        *,
        epoch: int = 0,
        uuid: bytes = b"",
        at_us: int = 0,
        guest: bool = False,
    ) -> None:
        """Applies the next revision, after requiring the features that it takes."""
        state, plan = self.state, self._plan
        revision = state.revision + 1
        kinds = {action.WhichOneof("kind") or "" for one in intents for action in one.actions}
        wanted = {_FEATURES[kind] for kind in kinds & _FEATURES.keys()} - state.reader_features
        intents[0].actions[:0] = require_actions(sorted(wanted))
        validate(state, intents[0].actions, {one.transaction_id for one in intents})
        is_last = revision == plan.revision
        seed = self._rebuild_id
        body, _ = build_transaction(
            state,
            intents,
            log=plan.log,
            uuid=uuid or rebuilt_slot_uuid(seed, revision),
            slot_seed=seed,
            epoch=max(epoch, state.epoch, 1),
            guest=guest,
            now_us=at_us or (self._now_us if is_last else 0),
            successor=successor_uuid(seed, revision) if is_last else b"",
        )
        uuid8 = (uuid or rebuilt_slot_uuid(seed, revision))[:4].hex()
        name = LogObject(plan.incarnation, revision, uuid8, "transaction").name
        decoded = decode_transaction(body, log_folder(plan.writer, plan.database) + name)
        check_written(state, decoded)  # what a reader would refuse is never written
        apply(state, decoded)

    def intent(self, actions: list[wire.Action], what: str = "opening") -> Intent:
        """Returns an intent of this rebuild's own."""
        return Intent(self._rebuild_id, 1, actions, "maintenance", summary={"rebuilt": what})

    def add_readable(self, found: DecodedTransaction) -> None:
        """Applies a transaction that can be read, as far as it fits what is there."""
        message = found.message
        intents = [
            Intent(
                member.transaction_id, message.epoch, [], member.operation, member.app_id,
                member.app_version, dict(member.summary),
            )
            for member in message.commit.members
        ]  # fmt: skip
        intents[0].actions, intents[0].again = self._fitting(found)
        self.add(
            intents,
            epoch=message.epoch,
            uuid=message.uuid,
            at_us=message.commit.committed_at_us,
            guest=message.guest and message.epoch == self.state.epoch,
        )

    def add_salvaged(self, items: Sequence[SalvagedTransaction]) -> None:
        """Applies the proven transactions of a revision; without any, an empty one."""
        intents = [
            Intent(
                bytes.fromhex(item.transaction_id), item.epoch, [], item.operation, item.app_id,
                item.app_version, {"rebuilt": item.proof},
            )
            for item in items
        ]  # fmt: skip
        if not intents:
            intents = [self.intent([], "lost")]
        intents[0].actions = self._actions_of(items)
        self.add(intents, epoch=max((item.epoch for item in items), default=0))

    # --- Actions ----------------------------------------------------------------------------------

    def last_actions(self, items: Sequence[SalvagedTransaction]) -> list[wire.Action]:
        """Returns what comes at the end: what has no revision of its own, and without files that
        are gone."""
        gone = self._live([(one.table, one.path) for one in self._plan.gone])
        actions = [_remove(*name) for name in sorted(gone)] + self._actions_of(items)
        return actions + self._newest_columns(actions)

    def _newest_columns(self, actions: Sequence[wire.Action]) -> list[wire.Action]:
        """Defines the columns of tables of whose files some have a name with another id than
        others: that column was dropped and came again, and only the newest is the table's. Where
        an id has several names nothing is defined: who renamed what isn't known."""
        new: dict[str, list[bytes]] = {}
        for action in actions:
            if action.WhichOneof("kind") == "schema":
                new.setdefault(action.schema.table, []).append(action.schema.arrow_schema)
        found = []
        for table, messages in sorted(new.items()):
            definition = self.state.definitions.of(table)
            known = [entry.message for entry in self.state.schemas_of(table).of_table(table)]
            message = newest_columns(table, definition, [*known, *messages])
            found += [] if message is None else [wire.Action(definition=message)]
        return found

    def _actions_of(self, items: Sequence[SalvagedTransaction]) -> list[wire.Action]:
        """Returns what transactions do together: their files are added before any is taken out."""
        files = {(one.table, one.path): (one, item) for item in items for one in item.files}
        names = [name for item in items for name in item.removes]
        removes = [name for name in names if name not in files]
        gone = {(one.table, one.path) for one in self._plan.gone}
        added = {name: files[name] for name in files if name not in gone.union(names)}
        actions = self._new_schemas((one.table, one.fingerprint) for one, _ in files.values())
        actions += [_remove(*name) for name in removes]
        for file, item in added.values():
            is_own = item.revision in {None, self.state.revision + 1}
            actions.append(_add(file, None if is_own else item.revision))
        vectors = [wire.RowDeletes.FromString(body) for item in items for body in item.vectors]
        live = self._live([(one.table, one.path) for one in vectors]) if vectors else set()
        live = live.difference(removes) | added.keys()
        fitting = (one for one in vectors if (one.table, one.path) in live)
        return actions + [wire.Action(row_deletes=one) for one in fitting]

    def _new_schemas(self, names: Iterable[tuple[str, bytes]]) -> list[wire.Action]:
        """Names the schemas that the state doesn't know."""
        wanted = dict.fromkeys(names)
        known = schemas_with(self.state, {table for table, _ in wanted}) if wanted else ()
        missing = [
            self._schemas[name] for name in wanted if name not in known and name in self._schemas
        ]
        return [
            action
            for one in missing
            for action in schema_actions(one.table, EncodedSchema(one.fingerprint, one.message))
        ]

    def _live(self, names: Collection[FileName]) -> set[FileName]:
        """Those of some files that are live in the state."""
        files = files_with(self.state, [path for _, path in names])
        return {(table, path) for table, path in names if table in files.tables_of(path)}

    def _fitting(self, found: DecodedTransaction) -> tuple[list[wire.Action], list[Rows]]:
        """Returns what a readable transaction says, less what doesn't fit any more: removals of
        files that are not live here, files that are live already, and files without a schema, whose
        footers are gone."""
        batches = list(self._batches(found))
        items = [(action, action.WhichOneof("kind") or "") for action in found.message.actions]
        named = {name for _, names in batches for name in names}
        named |= {_file(action, kind) for action, kind in items if kind in _OF_A_FILE}
        live = self._live(named)
        known = schemas_with(self.state, {table for table, _ in named})
        here = _named(found.message.actions)
        used: set[tuple[str, bytes]] = set()

        def form(table: str, fingerprint: bytes) -> bytes | None:
            """Returns the schema that there is for a file: the one that the log says, or that of
            the footers."""
            name = table, fingerprint
            is_there = name in known or name in here or name in self._schemas
            own = fingerprint if is_there else self._unmarked.get(name)
            used.update({(table, own)} if own is not None else ())
            return own

        actions = []
        for action, kind in items:
            if kind == "add":
                own = form(action.add.table, action.add.schema_fingerprint)
                if own is None:
                    continue
                action.add.schema_fingerprint = own
            if _fits(action, kind, live):
                actions.append(action)
        again: list[Rows] = []
        for rows, names in batches:
            logged = rows.files.column("schema_fingerprint").to_pylist()
            forms = [form(name[0], one) for name, one in zip(names, logged, strict=True)]
            pairs = zip(names, forms, strict=True)
            fresh = np.array(
                [name not in live and one is not None for name, one in pairs], np.bool_
            )
            if fresh.any():
                column = pa.array([one or bytes(16) for one in forms], pa.binary(16))
                place = rows.files.schema.get_field_index("schema_fingerprint")
                files = rows.files.set_column(place, "schema_fingerprint", column)
                new = fresh if rows.live is None else rows.live & fresh
                again.append(replace(rows, files=files, live=new))
        return self._new_schemas(sorted(used - _named(actions))) + actions, again

    def _batches(self, found: DecodedTransaction) -> Iterator[tuple[Rows, list[FileName]]]:
        for pieces in found.batches.values():
            for part, _ in batch_parts(pieces):
                if not isinstance(part, Part):
                    raise part
                rows = rows_of(self.state, part)
                tables, paths = (rows.files.column(one).to_pylist() for one in ("table", "path"))
                yield rows, list(zip(tables, paths, strict=True))


def _file(action: wire.Action, kind: str) -> FileName:
    item = getattr(action, kind)
    return item.table, item.path


def _fits(action: wire.Action, kind: str, live: set[FileName]) -> bool:
    """Whether an action fits the files that are live right before it; notes what it changes."""
    if kind not in _OF_A_FILE:
        return kind in _AS_IT_IS
    name = _file(action, kind)
    was_live = name in live
    if kind == "add":
        live.add(name)
        return not was_live
    if kind == "remove":
        live.discard(name)
    return was_live


def _named(actions: Iterable[wire.Action]) -> set[tuple[str, bytes]]:
    return {
        (one.schema.table, one.schema.fingerprint)
        for one in actions
        if one.WhichOneof("kind") == "schema"
    }


def _add(file: SalvagedFile, original: int | None) -> wire.Action:
    """Adds a file.

    Args:
        original: The revision that first added it, where it is another and is proven.
    """
    add = wire.Add.FromString(file.add)
    if original is not None:
        add.original_revision = original
    return wire.Action(add=add)


def _remove(table: str, path: str) -> wire.Action:
    return wire.Action(remove=wire.Remove(path=path, table=table))
