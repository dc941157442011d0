"""What the tests of committing share."""

from __future__ import annotations

from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.testing.keys import log_keys, revision_in

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


def transactions(store):
    return log_keys(store, "transaction")


def prune_to_checkpoint(store, revision):
    """What prune leaves: the checkpoint of a revision, and what came after it."""
    store.delete([key for key in log_keys(store) if revision_in(key) < revision])
