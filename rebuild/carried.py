"""Schemas and application versions of a rebuilt log: in the end those of the old log. What no file
tells of is carried over, and what the old log has forgotten stays forgotten. Pure.

Source: docs/format.md, sections 5.1 and 10.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.format.schema import EncodedSchema
from .values import derived_id

if TYPE_CHECKING:
    from .assemble import Assembled
    from .known_log import KnownLog
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
    result: Assembled, known: KnownLog, schemas: dict[SchemaName, EncodedSchema], rebuild_id: bytes
) -> None:
    """Schemas that no rebuilt file has, definitions, and application versions that no footer tells,
    by more transactions at the end, which also forget what the old log has forgotten.

    Args:
        schemas: Those that are carried over are put in.
    """
    for name, entry in known.schemas.items():
        schemas.setdefault(name, EncodedSchema(name[1], entry.message, entry.generations))
    chunks = _schema_chunks(result, known, schemas)
    chunks += _definition_chunks(known)
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
    result: Assembled, known: KnownLog, schemas: dict[SchemaName, EncodedSchema]
) -> list[_Chunk]:
    """Schemas of the old log that no rebuilt file has."""
    named = {(file.table, file.fingerprint) for item in result.transactions for file in item.files}
    chunks: list[_Chunk] = []
    room = 0
    for name in known.schemas:
        if name in named:
            continue
        size = len(schemas[name].message)
        if room < size or len(chunks[-1].schemas) == _IN_ONE:
            chunks.append(_Chunk())
            room = _BYTES_IN_ONE
        chunks[-1].schemas.append(name)
        room -= size
    return chunks


def _definition_chunks(known: KnownLog) -> list[_Chunk]:
    """What the old log says of the columns of tables: no file tells it."""
    chunks: list[_Chunk] = []
    room = 0
    for _, message in sorted(known.definitions.items()):
        if room < len(message) or len(chunks[-1].definitions) == _IN_ONE:
            chunks.append(_Chunk())
            room = _BYTES_IN_ONE
        chunks[-1].definitions.append(message)
        room -= len(message)
    return chunks


def _in_parts(items: list[_T]) -> list[list[_T]]:
    return [items[start : start + _IN_ONE] for start in range(0, len(items), _IN_ONE)]
