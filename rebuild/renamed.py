"""Files of this very log whose footers name it otherwise: they were written before it was renamed,
or copied, and adopted its new name. Pure.

Such a file carries the log id of this log. Its head is one below those of files that were written
here since, and where both name a head of one revision, it is the same. Else it was written where
the log was copied from, after the copy: that is another history by now.

Source: docs/format.md, sections 4.6 and 8.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .scanned import OwnObject

if TYPE_CHECKING:
    from .old_log import OldLog
    from .scanned import Scan, Writing

_Head = tuple[bytes, int, int]  # log id, incarnation, revision


def claim_renamed(scan: Scan, old: OldLog) -> None:
    """Move the files that are this log's own, but for the name, from those left out to `own`."""
    top: dict[bytes, tuple[int, int]] = {}
    heads: dict[_Head, set[bytes]] = defaultdict(set)
    for file in scan.written:
        top[file.log_id] = max(top.get(file.log_id, (0, 0)), (file.incarnation, file.base_revision))
        heads[_head(file)].add(file.base_transaction_id)
    if old.log_id:
        top[old.log_id] = max(top.get(old.log_id, (0, 0)), (old.incarnation, old.head))
    elsewhere: set[bytes] = set()  # transactions of another history
    claimed: set[str] = set()
    renamed = sorted(
        scan.renamed.values(),
        key=lambda item: (item.file.incarnation, item.file.base_revision, item.file.path),
    )
    for item in renamed:
        file = item.file
        if file.log_id not in top:
            continue
        known = heads.get(_head(file))
        if (
            (file.incarnation, file.base_revision) >= top[file.log_id]
            or (known is not None and file.base_transaction_id not in known)
            or file.base_transaction_id in elsewhere
        ):
            elsewhere.add(file.transaction_id)
            continue
        claimed.add(file.path)
        if isinstance(file, OwnObject):
            scan.said.append(file)
        else:
            assert item.schema is not None
            scan.own.append(file)
            scan.schemas[file.table, file.fingerprint] = item.schema
            del scan.strays[file.path]
        del scan.renamed[file.path]
    scan.left_out = [item for item in scan.left_out if item.path not in claimed]
    scan.claimed += len(claimed)


def _head(file: Writing) -> _Head:
    return file.log_id, file.incarnation, file.base_revision


def renamed_note(scan: Scan) -> str:
    """What a plan has to say of the files that were claimed; empty for nothing."""
    if not scan.claimed:
        return ""
    return (
        f"Footers of {scan.claimed} files name another writer or database, with the log id of this "
        "log: it was renamed or copied, and adopted. They are taken for this log's own"
    )
