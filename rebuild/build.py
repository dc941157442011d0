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
from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import (
    LOCATIONS,
    LogObject,
    log_folder,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import decode_transaction
from ..catalog.format.segments import MAX_TIME_US
from ..catalog.log.build import Intent, build_transaction, require_actions, schema_actions
from ..catalog.log.checkpoint_files import rows_of
from ..catalog.log.column_ids import newest_columns
from ..catalog.log.lookup import files_with, schemas_with
from ..catalog.log.part import batch_parts
from ..catalog.log.replay import apply, check_written, validate
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .plan import IN_ONE, parts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.merge import Rows
    from ..catalog.log.state import State
    from .plan import RebuildPlan, Survey
    from .rules import Salvaged
    from .scan import FileName, OwnFile

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


def opening_state(survey: Survey) -> State:
    """Returns the state at the plan's revision, in its incarnation.

    Raises:
        LakelogError: What a reader would refuse.
    """
    plan, base, readable = survey.plan, survey.old.state, survey.old.readable
    building = _Building(survey)
    placed: dict[int, list[Salvaged]] = {}
    last: list[Salvaged] = []
    for item in survey.decision.salvaged:
        # Only between readable ones does it matter: their predicates hold of lower revisions.
        has_place = item.revision not in readable and (readable or base.revision >= 0)
        if item.revision is not None and has_place:
            placed.setdefault(item.revision, []).append(item)
        else:
            last.append(item)
    parts = parts_of(survey.decision, survey.scan)
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
    # The store's time of the newest object, if it says it.
    begun_at_us = min(max(0, survey.scan.newest_us), MAX_TIME_US - 1)
    state.begun_at_us = begun_at_us or state.committed_at_us
    return state


class _Building:
    """The state as far as it is built."""

    def __init__(self, survey: Survey) -> None:
        self._plan: RebuildPlan = survey.plan
        self._schemas = survey.scan.schemas
        self._footers = {(one.table, one.path): one.fingerprint for one in survey.scan.own}
        self._gone = survey.decision.gone
        self._rebuild_id = bytes.fromhex(survey.plan.rebuild_id)
        self._now_us = int(survey.plan.made_at.timestamp() * 1_000_000)
        self._log = LogIdentity(survey.seals[0].log.log_id, survey.plan.incarnation)
        self.state = survey.old.state.copy()
        self.state.log, self.state.sealed_for = self._log, 0
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
            log=self._log,
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

    def add_salvaged(self, items: Sequence[Salvaged]) -> None:
        """Applies the proven transactions of a revision; without any, an empty one."""
        intents = []
        for item in items:
            one = item.attempt.first
            names = (one.operation, one.app_id, one.app_version, {"rebuilt": "proven"})
            intents.append(Intent(one.transaction_id, one.epoch, [], *names))
        if not intents:
            intents = [self.intent([], "lost")]
        intents[0].actions = self._actions_of(items)
        self.add(intents, epoch=max((item.attempt.first.epoch for item in items), default=0))

    # --- Actions ----------------------------------------------------------------------------------

    def last_actions(self, items: Sequence[Salvaged]) -> list[wire.Action]:
        """Returns what comes at the end: what has no revision of its own, and without files that
        are gone."""
        actions = [_remove(*name) for name in sorted(self._live(self._gone))]
        actions += self._actions_of(items)
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

    def _actions_of(self, items: Sequence[Salvaged]) -> list[wire.Action]:
        """Returns what transactions do together: their files are added before any is taken out."""
        files = {(one.table, one.path): (one, item) for item in items for one in item.files}
        names = sorted({name for item in items for name in item.removes})
        removes = [name for name in names if name not in files]
        added = {name: files[name] for name in files if name not in self._gone.union(names)}
        actions = self._new_schemas((one.table, one.fingerprint) for one, _ in files.values())
        actions += [_remove(*name) for name in removes]
        for file, item in added.values():
            is_own = item.revision in {None, self.state.revision + 1}
            actions.append(_add(file, None if is_own else item.revision))
        bodies = [
            body
            for item in items
            if item.revision is not None  # others hide nothing
            for one in item.attempt.vectors
            for body in one.vectors
        ]
        vectors = list(map(wire.RowDeletes.FromString, bodies))
        live = self._live([(one.table, one.path) for one in vectors]) if vectors else set()
        live = live.difference(removes) | added.keys()
        fitting = (one for one in vectors if (one.table, one.path) in live)
        return actions + [wire.Action(row_deletes=one) for one in fitting]

    def _new_schemas(self, names: Iterable[tuple[str, bytes]]) -> list[wire.Action]:
        """Names the schemas that the state doesn't know."""
        wanted = dict.fromkeys(names)
        known = schemas_with(self.state, {table for table, _ in wanted}) if wanted else ()
        missing = [name for name in wanted if name not in known and name in self._schemas]
        return [
            action for name in missing for action in schema_actions(name[0], self._schemas[name])
        ]

    def _live(self, names: Collection[FileName]) -> set[FileName]:
        """Those of some files that are live in the state."""
        files = files_with(self.state, [path for _, path in names])
        return {(table, path) for table, path in names if table in files.tables_of(path)}

    def _fitting(self, found: DecodedTransaction) -> tuple[list[wire.Action], list[Rows]]:
        """Returns what a readable transaction says, less what doesn't fit any more: removals of
        files that are not live here, files that are live already, and files without a schema, whose
        footers are gone."""
        parts = [part for pieces in found.batches.values() for part, _ in batch_parts(pieces)]
        batches = [(rows, _names(rows)) for part in parts for rows in [rows_of(self.state, part)]]  # type: ignore[arg-type]
        items = [(action, action.WhichOneof("kind") or "") for action in found.message.actions]
        of_files = [getattr(action, kind) for action, kind in items if kind in _OF_A_FILE]
        named = {(one.table, one.path) for one in of_files}.union(*(names for _, names in batches))
        live = self._live(named)
        known = schemas_with(self.state, {table for table, _ in named})
        here = {
            (one.schema.table, one.schema.fingerprint) for one, kind in items if kind == "schema"
        }
        used: set[tuple[str, bytes]] = set()

        def form(name: FileName, fingerprint: bytes) -> bytes | None:
            """Returns the schema that there is for a file: the one that the log says, or that of
            its footer."""
            one = name[0], fingerprint
            is_there = one in known or one in here or one in self._schemas
            own = fingerprint if is_there else self._footers.get(name)
            used.update({(name[0], own)} if own is not None else ())
            return own

        actions = []
        for action, kind in items:
            if kind == "add":
                name = action.add.table, action.add.path
                own = form(name, action.add.schema_fingerprint)
                if own is None:
                    continue
                action.add.schema_fingerprint = own
            if _fits(action, kind, live):
                actions.append(action)
        again: list[Rows] = []
        for rows, names in batches:
            logged = rows.files.column("schema_fingerprint").to_pylist()
            forms = [form(name, one) for name, one in zip(names, logged, strict=True)]
            pairs = zip(names, forms, strict=True)
            new = np.array([name not in live and one is not None for name, one in pairs], np.bool_)
            if new.any():
                column = pa.array([one or bytes(16) for one in forms], pa.binary(16))
                place = rows.files.schema.get_field_index("schema_fingerprint")
                files = rows.files.set_column(place, "schema_fingerprint", column)
                new = new if rows.live is None else rows.live & new
                again.append(replace(rows, files=files, live=new))
        return self._new_schemas(sorted(used - here)) + actions, again


def _names(rows: Rows) -> list[FileName]:
    tables, paths = (rows.files.column(one).to_pylist() for one in ("table", "path"))
    return list(zip(tables, paths, strict=True))


def _fits(action: wire.Action, kind: str, live: set[FileName]) -> bool:
    """Whether an action fits the files that are live right before it; notes what it changes."""
    if kind not in _OF_A_FILE:
        return kind in _AS_IT_IS
    item = getattr(action, kind)
    name = item.table, item.path
    was_live = name in live
    if kind == "add":
        live.add(name)
        return not was_live
    if kind == "remove":
        live.discard(name)
    return was_live


def _add(file: OwnFile, original: int | None) -> wire.Action:
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
