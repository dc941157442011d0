"""The objects of a rebuilt log, from its plan and nothing else: built again they are the same.
Pure.

Source: docs/format.md, section 10.6.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.locations import FEATURE
from ..catalog.format.names import LogObject, log_folder, rebuilt_slot_uuid
from ..catalog.format.objects import decode_transaction
from ..catalog.log.build import Intent, build_transaction, identity_action, upgrade_actions
from ..catalog.log.definitions import definition_actions
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state
from ..catalog.log.validate import check_written, validate
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptObject
from .known_log import ORIGINAL
from .values import derived_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .plan import RebuildPlan
    from .values import KnownSchema, RebuiltTransaction

# Of revision 0: a digest of the whole plan. Of two rebuilds that would write other logs under the
# same names, the first put tells which one stands.
CONTENT: Final = "rebuilt_content"


@dataclass(frozen=True, slots=True)
class LogBytes:
    """One object of the new log."""

    key: str
    body: bytes


def build_objects(plan: RebuildPlan) -> tuple[list[LogBytes], State]:
    """All transactions in order of revision, and the state that they lead to.

    Raises:
        CorruptObject: They don't lead to the planned files.
        LakelogError: What a reader would refuse.
    """
    state = empty_state(plan.writer, plan.database)
    folder = log_folder(plan.writer, plan.database)
    rebuild_id = bytes.fromhex(plan.rebuild_id)
    schemas = {(schema.table, schema.fingerprint): schema for schema in plan.schemas}
    objects: list[LogBytes] = []
    for item in plan.transactions:
        intent = _intent(plan, item, schemas, state)
        if item.revision == 0:
            intent.actions.insert(0, identity_action(plan.writer, plan.database, plan.begun_at_us))
            intent.actions[1:1] = _locations(plan)
            intent.summary[CONTENT] = content_of(plan)
        intents = [intent, *_applications(item, plan.epoch, rebuild_id)]
        validate(state, intent.actions, {intent.transaction_id})
        uuid = rebuilt_slot_uuid(rebuild_id, item.revision)
        body, _ = build_transaction(
            state,
            intents,
            log=plan.log,
            uuid=uuid,
            slot_seed=rebuild_id,
            epoch=plan.epoch,
            guest=False,
            now_us=item.committed_at_us,
            successor=rebuilt_slot_uuid(rebuild_id, item.revision + 1),
        )
        name = LogObject(plan.incarnation, item.revision, uuid[:4].hex(), "transaction")
        decoded = decode_transaction(body, folder + name.name)
        check_written(state, decoded)  # what a reader would refuse is never written
        apply(state, decoded)
        objects.append(LogBytes(folder + name.name, body))
    compare(plan, state)
    return objects, state


def _intent(
    plan: RebuildPlan,
    item: RebuiltTransaction,
    schemas: Mapping[tuple[str, bytes], KnownSchema],
    state: State,
) -> Intent:
    intent = Intent(
        transaction_id=bytes.fromhex(item.transaction_id),
        epoch=plan.epoch,
        operation=item.operation,
        app_id=item.app_id,
        app_version=item.app_version,
        summary={"rebuilt": item.proof},
    )
    if item.original_revision is not None:
        intent.summary[ORIGINAL] = str(item.original_revision)
    intent.actions += [_remove(table, path) for table, path in item.removed]
    known = set(item.schemas)
    intent.actions += [action for name in item.schemas for action in _schema(schemas[name])]
    for file in item.files:
        name = (file.table, file.fingerprint)
        if name not in known and name not in state.schemas:
            known.add(name)
            intent.actions += _schema(schemas[name])
        intent.actions += [_remove(table, path) for table, path in file.removes]
        intent.actions.append(wire.Action(add=wire.Add.FromString(file.add)))
    features = state.reader_features & state.writer_features
    for data in item.definitions:
        intent.actions += definition_actions(features, wire.Definition.FromString(data))
    intent.actions += map(wire.Action.FromString, item.deletes)
    if item.forgotten or item.tables:
        lost = [wire.SchemaName(table=table, fingerprint=name) for table, name in item.forgotten]
        forget = wire.Forget(tables=item.tables, schemas=lost)
        intent.actions.append(wire.Action(forget=forget))
    return intent


def _locations(plan: RebuildPlan) -> list[wire.Action]:
    if not plan.locations:
        return []
    upgrade = wire.Upgrade(required_reader_features=[FEATURE], required_writer_features=[FEATURE])
    named = [wire.Action(location=wire.Location(url=url)) for url in plan.locations]
    return [wire.Action(upgrade=upgrade), *named]


def _applications(item: RebuiltTransaction, epoch: int, rebuild_id: bytes) -> list[Intent]:
    """Members that say nothing but the version of an application."""
    return [
        Intent(
            transaction_id=derived_id(rebuild_id, f"application {app}"),
            epoch=epoch,
            operation=item.operation,
            app_id=app,
            app_version=version,
            summary={"rebuilt": item.proof},
        )
        for app, version in item.applications
    ]


def _remove(table: str, path: str) -> wire.Action:
    return wire.Action(remove=wire.Remove(path=path, table=table))


def _schema(schema: KnownSchema) -> list[wire.Action]:
    item = wire.Schema(
        table=schema.table,
        fingerprint=schema.fingerprint,
        arrow_schema=schema.message,
        key=schema.key,
        sort_order=schema.sort_order,
    )
    return [*upgrade_actions(schema.message), wire.Action(schema=item)]


def content_of(plan: RebuildPlan) -> str:
    """A digest of all that follows from a plan."""
    of_the_log = (plan.writer, plan.database, plan.log, plan.epoch, plan.begun_at_us)
    digest = hashlib.sha256(repr((*of_the_log, *plan.locations)).encode())
    for schema in plan.schemas:
        digest.update(repr((schema.table, schema.fingerprint)).encode())
        digest.update(repr((schema.key, schema.sort_order)).encode())
    for item in plan.transactions:
        said = (
            item.transaction_id, item.proof, item.original_revision, item.operation,
            item.committed_at_us, item.app_id, item.app_version, item.removed, item.schemas,
            item.applications, item.forgotten, item.definitions, item.tables, *item.deletes,
        )  # fmt: skip
        digest.update(repr(said).encode())
        for file in item.files:
            digest.update(repr((file.table, file.fingerprint, file.removes)).encode() + file.add)
    return digest.hexdigest()


def compare(plan: RebuildPlan, state: State) -> None:
    """Whether a state holds exactly the files that the plan leaves live.

    Raises:
        CorruptObject: It doesn't.
    """
    planned = {path: (file.table, file.row_count) for path, file in plan.live.items()}
    found: dict[str, tuple[str, int]] = {}
    for name in state.files.tables():
        rows = state.files.table(name)
        paths, counts = (rows.column(one).to_pylist() for one in ("path", "row_count"))
        found |= {path: (name, count) for path, count in zip(paths, counts, strict=True)}
    if planned != found:
        raise CorruptObject(
            f"The rebuilt log of {plan.writer}/{plan.database} does not lead to the planned files",
            key=f"{plan.writer}/{plan.database}",
            hint="Please report this: it is a bug of lakelog",
        )
