"""Writing a rebuilt log, so that no crash leaves one that reads as whole and is not.

The order of requests, and why:

1. All objects are built and replayed in memory. What can't be built is known before anything is
   touched.
2. The old log's objects are copied to `replaced/<rebuild id>/` and read back.
3. The newest object of the new log is put, if absent. Its name is the one that the old head
   promised to the next commit: who still commits there has either been first (then the plan is
   void, and nothing was destroyed), or is refused from here on. It fits no old object, so that
   from now until the end the head can't be read: a crash leaves an error, never a smaller state.
4. The old objects are deleted, and nothing else: checkpoints first, from which one might read on.
5. The other new objects are put, revision 0 last: without it nothing can be read.
6. A checkpoint, and the whole is read back; the files it names are looked for once more, since
   something may have gone by the old log meanwhile and deleted some.

After a crash, planning and executing again with `replace` does all of it anew.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.commit.checkpointer import write_checkpoint
from ..catalog.format.names import LogObject, base_folder, first_slot_uuid, log_folder
from ..catalog.format.objects import decode_transaction
from ..catalog.log.build import Intent, build_transaction
from ..catalog.log.state import State, apply, empty_state, validate
from ..catalog.read.log_reader import LogReader
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptObject, NotFoundError, ObjectExists, PlanOutdated
from ..plans import check_source, open_source
from ..store import probe
from .old_log import list_log
from .plan import RebuildInfo, RebuildPlan, check_plan
from .rebuild import data_digest, log_exists
from .scan import list_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..plans import Progress
    from ..store import Store
    from .values import RebuiltTransaction

_PARALLEL: Final = 16


@dataclass(frozen=True, slots=True)
class _Object:
    key: str
    body: bytes


def execute_rebuild(
    source: Catalog | Store,
    plan: RebuildPlan,
    *,
    ambient: Ambient | None = None,
    progress: Progress | None = None,
) -> RebuildInfo:
    """Check a plan again, and write its log, then a checkpoint of it.

    A crash at any point leaves a log that can't be read as if it were whole and smaller; planning
    and executing again with `replace` repairs it. Objects of an old log are first copied to
    `<writer>/<database>/replaced/<rebuild id>/` and read back.

    Args:
        source: The catalog that the plan was made for, or its store.
        ambient: Clock and identities; those of the catalog if not given.
        progress: Called with (done, total, what).
    Raises:
        UsageError, InvalidPath: Not a plan for this.
        NotFoundError: The plan holds no transaction; nothing was touched.
        LogExists: A log has appeared since the plan was made; nothing was touched.
        PlanOutdated: The data files or the old log changed since; plan again.
        StorageError: The store failed on the way: plan and execute again with `replace`.
    Requests: 4 for the probe, 5 LIST; 1 PUT a revision, 1 for the checkpoint and each of its
        segments; with an old log 2 GET, 1 PUT and 1 DELETE an object of it.
    """
    place = open_source(source, ambient)
    check_source(plan, "rebuild", place.store)
    check_plan(plan)
    if not plan.transactions:
        raise NotFoundError(
            f"No file of {plan.writer}/{plan.database} can be used: there is nothing to rebuild",
            key=f"{plan.writer}/{plan.database}",
            hint="The report says what is wrong with each file",
        )
    store = place.store
    exclusive = probe(store, f"{plan.writer}/").put_if_absent
    _check(store, plan)
    objects, state = _build(plan, place.ambient)
    kept = _copy_aside(store, plan)
    _put_first(store, plan, objects[-1], exclusive)
    _delete_old(store, plan)
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="lakelog-rebuild") as pool:
        middle = reversed(objects[1:-1])
        puts = pool.map(lambda item: _put(store, item, exclusive), middle)
        for done, _ in enumerate(puts, 2):
            if progress is not None:
                progress(done, len(objects), "objects written")
    if len(objects) > 1:
        _put(store, objects[0], exclusive)
    log = LogReader(store, plan.writer, plan.database, place.ambient)
    checkpoint = write_checkpoint(log, state, exclusive=exclusive)
    _read_back(log, plan, state)
    live = plan.live.values()
    return RebuildInfo(
        writer=plan.writer,
        database=plan.database,
        revision=state.revision,
        transactions=len(plan.transactions),
        files=len(live),
        rows=sum(file.row_count for file in live),
        size_bytes=sum(file.size_bytes for file in live),
        checkpoint_key=checkpoint.key,
        replaced_prefix=_aside(plan) if kept else "",
        replaced_objects=kept,
    )


# --- Before anything is touched ------------------------------------------------------------------


def _check(store: Store, plan: RebuildPlan) -> None:
    now = list_log(store, plan.writer, plan.database)
    before = [(info.key, info.size_bytes) for info in plan.replaced]
    if [(info.key, info.size_bytes) for info in now] != before:
        if not before:
            raise log_exists(plan.writer, plan.database)
        raise _outdated(plan, "its log")
    if data_digest(list_data(store, plan.writer, plan.database)) != plan.data_digest:
        raise _outdated(plan, "what lies below data/")


def _outdated(plan: RebuildPlan, what: str) -> PlanOutdated:
    return PlanOutdated(
        f"{what} of {plan.writer}/{plan.database} has changed since the rebuild was planned",
        key=f"{plan.writer}/{plan.database}",
        hint="Stop what writes there, and plan the rebuild again",
    )


def _build(plan: RebuildPlan, ambient: Ambient) -> tuple[list[_Object], State]:
    """All objects in order of revision, and the state that they lead to."""
    state = empty_state(plan.writer, plan.database)
    folder = log_folder(plan.writer, plan.database)
    top = len(plan.transactions) - 1 + plan.padding
    uuid = first_slot_uuid(plan.writer, plan.database)
    promised = {name.revision: name.start for name in plan.promised}
    schemas = {(item.table, item.fingerprint): item.message for item in plan.schemas}
    objects: list[_Object] = []
    for revision in range(top + 1):
        successor = ambient.new_id()
        successor = promised.get(revision + 1, successor[:4]) + successor[4:]
        if revision < len(plan.transactions):
            item = plan.transactions[revision]
            intent, now_us = _intent(plan, item, schemas, state), item.committed_at_us
        else:
            intent = Intent(ambient.new_id(), plan.epoch, summary={"rebuilt": "padding"})
            now_us = 0
        validate(state, intent.actions)
        body, _ = build_transaction(
            state, [intent], uuid=uuid, successor=successor, epoch=plan.epoch, guest=False,
            now_us=now_us,
        )  # fmt: skip
        key = folder + LogObject(revision, uuid[:4].hex(), "transaction").name
        apply(state, decode_transaction(body, key))  # what a reader would refuse is never written
        objects.append(_Object(key, body))
        uuid = successor
    _compare(plan, state)
    return objects, state


def _intent(
    plan: RebuildPlan,
    item: RebuiltTransaction,
    schemas: Mapping[tuple[str, bytes], bytes],
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
        intent.summary["original_revision"] = str(item.original_revision)
    known: set[tuple[str, bytes]] = set()
    for file in item.files:
        named = (file.table, file.fingerprint)
        if named not in known and named not in state.schemas:
            known.add(named)
            schema = wire.Schema(
                table=file.table, fingerprint=file.fingerprint, arrow_schema=schemas[named]
            )
            intent.actions.append(wire.Action(schema=schema))
        for path in file.removes:
            intent.actions.append(wire.Action(remove=wire.Remove(path=path)))
        intent.actions.append(wire.Action(add=wire.Add.FromString(file.add)))
    return intent


def _compare(plan: RebuildPlan, state: State) -> None:
    """Whether a state holds exactly the files that the plan leaves live."""
    planned = {path: (file.table, file.row_count) for path, file in plan.live.items()}
    found = {
        path: (name, rows)
        for name, files in state.tables.items()
        for path, rows in zip(
            *(column.to_pylist() for column in files.table().select(["path", "row_count"]).columns)
        )
    }
    if planned != found:
        raise CorruptObject(
            f"The rebuilt log of {plan.writer}/{plan.database} does not lead to the planned files",
            key=f"{plan.writer}/{plan.database}",
            hint="Please report this: it is a bug of lakelog",
        )


# --- Writing -------------------------------------------------------------------------------------


def _aside(plan: RebuildPlan) -> str:
    return f"{base_folder(plan.writer, plan.database)}replaced/{plan.rebuild_id}/"


def _copy_aside(store: Store, plan: RebuildPlan) -> int:
    """Copy the old log's objects, and read each copy back."""
    aside = _aside(plan)

    def copy(key: str) -> None:
        body = store.get(key)
        target = aside + key.rsplit("/", 1)[-1]
        store.put(target, body)
        if store.get(target) != body:
            raise CorruptObject(
                f"The copy {target} is not what was written",
                key=target,
                hint="The old log is untouched. Check the store with `lakelog doctor`",
            )

    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="lakelog-rebuild") as pool:
        _drain(pool.map(copy, [info.key for info in plan.replaced]))
    return len(plan.replaced)


def _put_first(store: Store, plan: RebuildPlan, item: _Object, exclusive: bool) -> None:
    try:
        _put(store, item, exclusive)
    except ObjectExists:
        raise _outdated(plan, "the log") from None


def _delete_old(store: Store, plan: RebuildPlan) -> None:
    keys = [info.key for info in plan.replaced]
    first = [key for key in keys if not key.endswith(".transaction")]
    for some in (first, [key for key in keys if key.endswith(".transaction")]):
        store.delete(some, ordered=False)


def _put(store: Store, item: _Object, exclusive: bool) -> None:
    try:
        store.put(item.key, item.body, if_absent=exclusive)
    except ObjectExists as error:
        if store.get(item.key) != item.body:  # equal: an own put, whose answer was lost
            error.hint = "Something commits while the log is rebuilt. Stop it, and rebuild again"
            raise


def _drain(results: Iterable[None]) -> None:
    for _ in results:
        pass


def _read_back(log: LogReader, plan: RebuildPlan, state: State) -> None:
    found = log.load()
    if found.revision != state.revision or found.digest != state.digest:
        raise _outdated(plan, "the log")
    _compare(plan, found)
    folder = base_folder(plan.writer, plan.database)
    there = {info.key[len(folder) :] for info in list_data(log.store, plan.writer, plan.database)}
    gone = sorted(plan.live.keys() - there)
    if gone:
        raise PlanOutdated(
            f"{len(gone)} data files were deleted while the log was rebuilt, {gone[0]} among them",
            key=gone[0],
            hint="Does gc run? Stop it, and plan the rebuild again with replace",
        )
