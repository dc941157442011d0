"""Files that a transaction makes live and did not write: added as they were found, or once more.
Objects of actions say so; what is in the files their own footers say. Pure.

Source: docs/format.md, section 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.locations import is_in_place
from ..catalog.format.schema import EncodedSchema
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .evidence import of_kind
from .known_log import ROW
from .old_state import as_in_log, keep_schema, scanned_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .evidence import FoundTransaction
    from .known_log import KnownLog
    from .scanned import Scan
    from .values import RebuiltFile


class Again:
    """Gives the file that an action adds.

    Args:
        scan: The schemas of the files are put in.
        transactions: Whose objects name schemas.
        known: What the old log says.
    """

    def __init__(
        self, scan: Scan, transactions: Iterable[FoundTransaction], known: KnownLog | None
    ) -> None:
        self._scan = scan
        self._known = known
        self._scanned = scanned_files(scan)
        for item in transactions:
            for found in of_kind(item.actions, "schema"):
                schema = EncodedSchema(found.fingerprint, found.arrow_schema)
                scan.schemas.setdefault((found.table, found.fingerprint), schema)

    def __call__(self, said: wire.Add) -> RebuiltFile | None:
        """The file; None if it is gone, or damaged, or can't be understood."""
        body = self._scanned.get(said.path)
        if body is None:
            return None
        add = wire.Add.FromString(body)
        row = {name: getattr(said, name) for name in ROW}
        if not keep_schema(self._known, self._scan, (said.table, said.schema_fingerprint)):
            if is_in_place(said.path):
                return None
            row["schema_fingerprint"] = add.schema_fingerprint  # that of its own footer
        name = (said.table, row["schema_fingerprint"])
        if not keep_schema(self._known, self._scan, name):
            return None
        return as_in_log(add, said.table, row, self._scan.schemas[name])
