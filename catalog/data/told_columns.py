"""By which columns rows are told that are no longer there: those of a later point in time, found
under all the names that definitions in between have given them. Pure.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..format.schema import generation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..format.definitions import Definition, Identity


def told_by(
    last: Definition | None, others: Iterable[Definition], visible: Iterable[pa.Schema]
) -> Definition | None:
    """The definition of a later point in time, with what files of other times call its columns.

    Args:
        last: That of the later point; None: it has none.
        others: Of other times: two columns are the same if files of some name are of both.
        visible: What files show at the later point.
    """
    if last is None:
        return None
    fields = {field.name: field for field in last.schema}
    sources: dict[str, tuple[Identity, ...]] = dict(last.sources)
    for schema in visible:  # also those that nobody declared
        for field in schema:
            if fields.setdefault(field.name, field) is field:
                sources[field.name] = ((field.name, generation(field)),)
    owners = {one: name for name, found in sources.items() for one in found}
    for other in others:
        for found in other.sources.values():
            names = {owners[one] for one in found if one in owners}
            if len(names) == 1:  # else a name means something else by now
                (name,) = names
                more = tuple(one for one in found if one not in owners)
                sources[name] += more
                owners |= dict.fromkeys(more, name)
    dropped = last.dropped - owners.keys()
    schema = pa.schema([fields[name] for name in sources])
    return replace(last, schema=schema, sources=sources, dropped=dropped, name=b"told" + last.name)
