"""Schemas and application versions of a rebuilt log: in the end those of the old log. What no file
tells of is carried over, and what the old log has forgotten stays forgotten. Pure.

Source: docs/format.md, sections 5.1 and 10.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.format.schema import EncodedSchema
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .gaps import own_revision
from .values import derived_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .assemble import Assembled
    from .evidence import FoundTransaction
    from .known_log import KnownLog
    from .moments import Moments
    from .values import SchemaName

_T = TypeVar("_T")
_IN_ONE: Final = 500  # schemas or applications that one transaction carries over
_BYTES_IN_ONE: Final = 2 << 20  # of schemas
_CARRIED: Final = (
    "schemas, definitions and application versions of the old log that no file tells of"
)
_FORGOTTEN: Final = "schemas of files that the old log has forgotten"


@dataclass(slots=True)
class _Chunk:
    """What one transaction more says."""

    schemas: list[SchemaName] = field(default_factory=list)
    applications: list[tuple[str, int]] = field(default_factory=list)
    forgotten: list[SchemaName] = field(default_factory=list)
    definitions: list[bytes] = field(default_factory=list)


def carry_over(
    moments: Moments, schemas: dict[SchemaName, EncodedSchema], rebuild_id: bytes
) -> list[str]:
    """Schemas that no rebuilt file has, definitions, and application versions that no footer tells,
    by more transactions at the end, which also forget what the old log has forgotten.

    Args:
        moments: Of the rebuild; nothing is carried over if nothing is known of the old log.
        schemas: Those that are carried over are put in.
    Returns:
        What is in doubt, in words.
    """
    result, ordered, known = moments.result, moments.ordered, moments.known
    if known is None:
        return []
    final = final_of(result)
    later = _forgotten_later(result, ordered, known)
    _drop_undefined(result, ordered, known, final)
    for name, entry in known.schemas.items():
        schemas.setdefault(name, EncodedSchema(name[1], entry.message))
    wanted = [
        name
        for name in known.schemas
        if name not in final.schemas and (name[0] not in later or name[0] in final.tables)
    ]
    chunks = _schema_chunks(wanted, schemas)
    definitions, doubts = _definitions(moments, known, final, later)
    chunks += _definition_chunks(definitions)
    chunks += [_Chunk(applications=some) for some in _in_parts(_versions(result, known))]
    chunks += [_Chunk(forgotten=some) for some in _in_parts(_forgotten_schemas(result, known))]
    for number, chunk in enumerate(chunks):
        result.append(
            transaction_id=derived_id(rebuild_id, f"carried over {number}"),
            proof="proven",
            operation="maintenance",
            not_before_us=known.latest_us,
            files=(),
            why=_FORGOTTEN if chunk.forgotten else _CARRIED,
            schemas=tuple(chunk.schemas),
            applications=tuple(chunk.applications),
            forgotten=tuple(chunk.forgotten),
            definitions=tuple(chunk.definitions),
        )
    return doubts


def _versions(result: Assembled, known: KnownLog) -> list[tuple[str, int]]:
    """Application versions of the old log that no transaction sets."""
    set_already: dict[str, int] = {}
    for item in result.transactions:
        set_already[item.app_id] = max(item.app_version, set_already.get(item.app_id, -1))
    return sorted(
        (app, version)
        for app, version in known.applications.versions().items()
        if version > set_already.get(app, -1)
    )


def _forgotten_schemas(result: Assembled, known: KnownLog) -> list[SchemaName]:
    """Schemas that files had and that a log which is read to its end doesn't know."""
    if not known.is_whole:
        return []
    files = [file for item in result.transactions for file in item.files]
    last = {(file.table, file.path): file.fingerprint for file in files}
    live = {(name[0], last[name]) for name in result.live if name in last}
    named = {(file.table, file.fingerprint) for file in files}
    return sorted(named - live - known.schemas.keys())


def _schema_chunks(
    names: Iterable[SchemaName], schemas: dict[SchemaName, EncodedSchema]
) -> list[_Chunk]:
    """Schemas of the old log that no rebuilt transaction names."""
    chunks: list[_Chunk] = []
    room = 0
    for name in names:
        size = len(schemas[name].message)
        if room < size or len(chunks[-1].schemas) == _IN_ONE:
            chunks.append(_Chunk())
            room = _BYTES_IN_ONE
        chunks[-1].schemas.append(name)
        room -= size
    return chunks


@dataclass(slots=True)
class _Final:
    """What the transactions lead to.

    Attributes:
        schemas: That are known.
        definitions: By table, each with the revision that says it.
    """

    schemas: set[SchemaName] = field(default_factory=set)
    definitions: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    @property
    def tables(self) -> set[str]:
        """Of which anything is known."""
        return {*self.definitions, *(table for table, _ in self.schemas)}


def final_of(result: Assembled) -> _Final:
    """What the transactions of a rebuild lead to."""
    final = _Final()
    for item in result.transactions:
        final.schemas.update(item.schemas)
        final.schemas.update((file.table, file.fingerprint) for file in item.files)
        for data in item.definitions:
            table = wire.Definition.FromString(data).table
            final.definitions[table] = data, item.revision
        final.schemas = {name for name in final.schemas if name[0] not in item.tables}
        for table in item.tables:
            final.definitions.pop(table, None)
    return final


def _forgotten_later(
    result: Assembled, ordered: Sequence[FoundTransaction], known: KnownLog
) -> set[str]:
    """Tables that were forgotten by what the old log doesn't tell any more."""
    return {
        table
        for item, found in zip(result.transactions, ordered, strict=False)
        if found.transaction_id not in known.committed and not known.is_whole
        for table in item.tables
    }


def _drop_undefined(
    result: Assembled, ordered: Sequence[FoundTransaction], known: KnownLog, final: _Final
) -> None:
    """Leave out definitions of tables that the old log has forgotten since."""
    for table, (_, revision) in [*final.definitions.items()]:
        is_known = known.is_whole or ordered[revision].transaction_id in known.committed
        if table in known.definitions or not is_known:
            continue
        del final.definitions[table]
        for item in result.transactions:
            kept = tuple(
                data for data in item.definitions if wire.Definition.FromString(data).table != table
            )
            if len(kept) < len(item.definitions):
                result.transactions[item.revision] = replace(item, definitions=kept)


def _definitions(
    moments: Moments, known: KnownLog, final: _Final, later: set[str]
) -> tuple[list[bytes], list[str]]:
    """Those of the old log that the transactions don't lead to, unless by what came later; and of
    which that may be so, in words."""
    wanted, doubts = [], []
    for table, message in sorted(known.definitions.items()):
        data, revision = final.definitions.get(table, (b"", -1))
        if data == message or (not data and table in later):
            continue
        item = moments.ordered[revision] if data and not known.is_whole else None
        came_later = item is not None and _is_later(item, known.defined[table], moments)
        if came_later:
            continue
        if came_later is None and item is not None:
            doubts.append(
                f"Whether transaction {item.transaction_id.hex()} changed the columns of table "
                f"{table!r} before the last change that the old log tells of, nothing tells: they "
                "are as the old log says"
            )
        wanted.append(message)
    return wanted, doubts


def _is_later(item: FoundTransaction, defined: int, moments: Moments) -> bool | None:
    """Whether a transaction came after a revision of the old log; None if nothing tells."""
    known, evidence = moments.known, moments.evidence
    if known is None or item.transaction_id in known.committed:
        return False
    log = known.state.log
    if log is not None and item.incarnation > log.incarnation:
        return True
    own = own_revision(item, evidence, known)
    if own is not None and own > defined:
        return True
    gap = evidence.gaps.get(item.transaction_id)
    return False if gap is None or gap.last <= defined else None


def _definition_chunks(messages: Iterable[bytes]) -> list[_Chunk]:
    """What the old log says of the columns of tables, where nothing else does."""
    chunks: list[_Chunk] = []
    room = 0
    for message in messages:
        if room < len(message) or len(chunks[-1].definitions) == _IN_ONE:
            chunks.append(_Chunk())
            room = _BYTES_IN_ONE
        chunks[-1].definitions.append(message)
        room -= len(message)
    return chunks


def _in_parts(items: list[_T]) -> list[list[_T]]:
    return [items[start : start + _IN_ONE] for start in range(0, len(items), _IN_ONE)]
