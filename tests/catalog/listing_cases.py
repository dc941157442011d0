"""Names of logs, in the order of a listing."""

from __future__ import annotations

from lakelog.catalog.format.names import LogObject
from lakelog.catalog.log.listing import read_listing


def uuid8(revision, branch=0):
    return f"{revision & 0xFFFF:04x}{branch:04x}"


def transaction(revision, branch=0, incarnation=1):
    return LogObject(incarnation, revision, uuid8(revision, branch), "transaction").name


def checkpoint(revision, branch=0, incarnation=1):
    return LogObject(incarnation, revision, uuid8(revision, branch), "checkpoint").name


def names_of(transactions=(), checkpoints=(), more=()):
    """In the order of a listing."""
    names = [transaction(r) for r in transactions] + [checkpoint(r) for r in checkpoints]
    return sorted([*names, *more])


def listing(transactions=(), checkpoints=(), more=()):
    return read_listing("w", "db", names_of(transactions, checkpoints, more))


def bases(plan):
    return [None if item is None else item.revision for item in plan.bases]


def tail(plan):
    return [item.revision for item in plan.tail]
