"""What is asked before a log is begun: nothing of it may be lost, and no name may be a twin.

Source: docs/format.md, sections 2 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import InvalidName
from ..format.names import is_id
from ..nesting import refuse_nested
from ..read.mirror import refuse_lost_log

if TYPE_CHECKING:
    from ...store import Store


def check_birth(store: Store, writer: str, database: str) -> None:
    """Refuse to begin a log where one was lost, or under a name that differs from another one's
    only in case: stores that fold case would take both for one.

    Raises:
        LogLost: Its mirror says that there was a log.
        NestedCatalog: The log would begin inside another catalog.
        InvalidName: Another writer or database has this name in other letters.
    Requests: 3 LIST, and those of `nesting.refuse_nested`.
    """
    _refuse_twin(store.list_folders(""), writer, "writer")
    _refuse_twin(store.list_folders(f"{writer}/"), database, "database")
    refuse_lost_log(store, writer, database)
    refuse_nested(store)


def _refuse_twin(names: list[str], name: str, what: str) -> None:
    for other in names:
        if is_id(other) and other != name and other.lower() == name.lower():
            raise InvalidName(
                f"{what} {name!r} differs only in case from {other!r}, which is there",
                key=name,
                hint=f"Use {other!r}, or a name that differs in more than case",
            )
