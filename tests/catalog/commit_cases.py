"""What the tests of committing share."""

from __future__ import annotations

from lakelog.catalog.commit.mirror import copy_checkpoint
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.testing.keys import log_keys, revision_in

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


def transactions(store):
    return log_keys(store, "transaction")


def prune_to_checkpoint(store, revision):
    """What prune leaves, in both places: the checkpoint of a revision, and what came after it."""
    log = LogReader(store, "w", "db")
    (checkpoint,) = log.names().checkpoints[revision]
    copy_checkpoint(log, checkpoint, exclusive=True)
    keys = [key for key in log_keys(store) if revision_in(key) < revision]
    store.delete([*keys, *map(mirror_key, keys)])
