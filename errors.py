"""Every error lakelog raises, in one tree, sorted by what the caller can do next.

Each error names the object it is about (`key`), says what to do (`hint`), and belongs to a class
with an exit code, so that a script can tell "not there" from "broken" from "try again" without
reading text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class LakelogError(Exception):
    """Base of all errors of lakelog.

    Args:
        message: What happened, in one sentence.
        key: The object, path or name it is about.
        hint: What the caller can do next.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, key: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.hint = hint

    def __str__(self) -> str:
        text = self.message
        if self.key and self.key not in text:
            text = f"{text} [{self.key}]"
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


_NAMES_TOLD = 20
_MOST_COMPARED = 1_000


def some_names(names: Sequence[str]) -> str:
    """Names for a hint: the first ones of many, and how many more there are."""
    told = ", ".join(names[:_NAMES_TOLD]) or "none"
    return told if len(names) <= _NAMES_TOLD else f"{told} and {len(names) - _NAMES_TOLD:,} more"


def it_has(wanted: object, names: Sequence[str]) -> str:
    """For a hint: which names there are instead of one, and which of them it resembles."""
    import difflib

    by_case = {name.casefold(): name for name in reversed(names[:_MOST_COMPARED])}
    near = difflib.get_close_matches(str(wanted)[:80].casefold(), by_case, 1)
    meant = f"Did you mean {by_case[near[0]]!r}? " if near else ""
    return f"{meant}It has: {some_names(names)}"


def _rebuild(kind: type[LakelogError], message: str, fields: dict[str, object]) -> LakelogError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


# --- The call itself is wrong: change it (exit code 2) --------------------------------------------


class UsageError(LakelogError):
    """The call can't work as it was made."""

    exit_code = 2


class InvalidUrl(UsageError):
    """The catalog's URL has a scheme no backend serves, or no scheme where one is needed."""


class InvalidName(UsageError):
    """A writer, database, table or partition name breaks the rules of docs/format.md, section 2."""


class InvalidPath(UsageError):
    """A path is outside the writer's `data/` prefix or breaks the path grammar."""


class NestedCatalog(UsageError):
    """A catalog would begin inside another one, below the prefix of one of its writers."""


class NaiveTime(UsageError):
    """A point in time came without a time zone."""


class InvalidToken(UsageError):
    """A text that is not a snapshot token, or the token of another database."""


class InvalidParquet(UsageError):
    """An object offered as a Parquet file is not one, or can't be read."""


class InvalidSchema(UsageError):
    """Data whose schema Parquet or this catalog can't hold."""


class InvalidPartition(UsageError):
    """The name of a partition doesn't tell the value of a column, or one that isn't of its type."""


class InvalidPolicy(UsageError):
    """A policy of maintenance can't be read, or says what can't be."""


class InvalidPredicate(UsageError):
    """A `where=` that is not in the language of predicates, doesn't fit the table, or can't be told
    exactly to an engine."""


class InvalidQuery(UsageError):
    """SQL that DuckDB refuses, or that fails on the rows that it meets."""


class OperationInvalid(UsageError):
    """What a transaction does is not what its operation says: an append that removes, a rewrite
    that changes rows, data outside of what an overwrite replaces."""


class OperationNotAllowed(UsageError):
    """The writer was opened for other operations than this one."""


class SparkUnsupported(UsageError):
    """This session of Spark can't do it: it is one of Spark Connect, which gives no access to the
    JVM, or has another Spark inside than was tried."""


class SparkOutOfMemory(UsageError):
    """Spark's driver has too little memory for the files of a read: give it more, or ask for
    less."""


class MissingDependency(UsageError):
    """An optional package is needed for this call; the hint names the extra to install."""


# --- What was named is not there (exit code 3) ----------------------------------------------------


class NotFoundError(LakelogError):
    """What was named doesn't exist."""

    exit_code = 3


class BucketNotFound(NotFoundError):
    """The bucket or container of the URL doesn't exist."""


class NotACatalog(NotFoundError):
    """Nothing under this URL looks like a lakelog catalog."""


class DatabaseNotFound(NotFoundError):
    """No writer has a log of this database."""


class TableNotFound(NotFoundError):
    """The cut has no files of this table."""


class WriterNotFound(NotFoundError):
    """This writer has no log of the database."""


class RevisionNotFound(NotFoundError):
    """The log ends before this revision."""


class TimeBeforeFirstCommit(NotFoundError):
    """At this time no writer had committed anything."""


class SnapshotPruned(NotFoundError):
    """This point in time existed, but prune has removed what is needed to read it."""


class TagNotFound(NotFoundError):
    """No tag or published cut has this name, or it has expired."""


class ObjectNotFound(NotFoundError):
    """An object isn't in the store."""


# --- Somebody else was first, or the state forbids it (exit code 4) -------------------------------


class ConflictError(LakelogError):
    """The change doesn't fit the present state of the log."""

    exit_code = 4


class FencedError(ConflictError):
    """A newer owner has taken this writer over. This instance can never commit again."""


class ForkError(ConflictError):
    """Two transactions stand on one revision. `keys` names both."""

    def __init__(self, message: str, *, keys: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, key=" and ".join(keys), hint=hint)
        self.keys = keys


class EpochChanged(ConflictError):
    """A new owner came while a guest worked: the guest's files are void, run the transaction
    again."""


class ProcessDoubled(ConflictError):
    """A copy of this process has committed a transaction under the same id. This instance can never
    commit again."""


class TransactionExpired(ConflictError):
    """A transaction whose data files are so old that gc may have taken them: run it again."""


class DuplicateFile(ConflictError):
    """A path was added that the state already has."""


class UnknownSchema(ConflictError):
    """A file was added with a schema that neither the log nor its transaction names before it: its
    table was dropped since the file was written."""


class FileNotLive(ConflictError):
    """A path was removed that the state doesn't have."""


class OperationConflict(ConflictError):
    """What others committed meanwhile meets what an operation relies on: run it again.

    Attributes:
        table: Where they meet.
        revision: That of the other commit; None where the log doesn't tell it.
        transaction_id: Of the other one, hex; empty where the log doesn't tell.
        operation, app_id: Its operation, and its application; empty for none, or not told.
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        table: str = "",
        revision: int | None = None,
        transaction_id: str = "",
        operation: str = "",
        app_id: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, key=key, hint=hint)
        self.table = table
        self.revision = revision
        self.transaction_id = transaction_id
        self.operation = operation
        self.app_id = app_id


class InputRemoved(OperationConflict, FileNotLive):
    """A file that an operation takes out was taken out by another one meanwhile."""


class ForeignLog(ConflictError):
    """The log says that it is another writer's or database's: it was copied or renamed."""


class ClockError(ConflictError):
    """This machine's clock is far ahead of the store's: its commit times would stamp all later
    ones."""


class SameLogTwice(ConflictError):
    """Two folders of a cut hold one log: its rows would count twice."""


class PlanOutdated(ConflictError):
    """The store changed since the plan was made, in a way that voids it."""


class RefMoved(ConflictError):
    """A tag, a published cut or a lease was changed by somebody else meanwhile."""


class MaintenanceRunning(ConflictError):
    """Another job of maintenance has the lease."""


class ReplicaDiverged(ConflictError):
    """The destination of a replication holds a log that is no copy of the source's: somebody wrote
    there, or to a source that was set back."""


class IsReplica(ConflictError):
    """The log is a replica, which is written by replication alone."""


class SchemaConflict(ConflictError):
    """Files of one table have types that no safe widening unites. `writers` names whose."""

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        writers: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, key=key, hint=hint)
        self.writers = writers


class ColumnsChanged(ConflictError):
    """Another commit has changed the columns of a table, or dropped it, since this transaction
    looked at them, or this stream was loaded."""


class NotAppended(ConflictError):
    """A stream of appended rows meets a commit that takes rows out, or a table with a key."""


class StreamLost(ConflictError):
    """A stream can't go on from where its checkpoint says: a log was rebuilt or replaced, or the
    checkpoint is another stream's, or was set back."""


class ObjectExists(ConflictError):
    """Put-if-absent found the key taken."""


# --- The store holds something broken (exit code 5) -----------------------------------------------


class CorruptError(LakelogError):
    """The log can't be read as it stands."""

    exit_code = 5


class CorruptObject(CorruptError):
    """An object is cut short, altered, or not what its name says."""


class BrokenChain(CorruptError):
    """A transaction isn't the successor of the one before it."""


class MissingTransaction(CorruptError):
    """A transaction in the middle of the log is gone. `readable` says which revisions can still be
    read."""

    def __init__(
        self, message: str, *, key: str | None = None, readable: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, key=key, hint=hint)
        self.readable = readable


class LogLost(CorruptError):
    """The log is gone, and its mirror says that there was one: repair it before writing."""


class LostTail(CorruptError):
    """The log has lost its newest transactions: its mirror goes further. Repair it first."""


class UnsupportedFeature(CorruptError):
    """The log requires a feature or format version that this lakelog doesn't know."""


# --- The store said no, or nothing (exit code 6) --------------------------------------------------


class StorageError(LakelogError):
    """The store failed after bounded retries."""

    exit_code = 6


class AccessDenied(StorageError):
    """The store refused the credentials or the action."""


class CapabilityMissing(StorageError):
    """The store can't do what this operation needs (put-if-absent, most often)."""


# --- Nobody knows whether it happened (exit code 7) -----------------------------------------------


class CommitOutcomeUnknown(LakelogError):
    """The commit may or may not be in the log. Calling commit again on the same transaction is
    safe."""

    exit_code = 7

    def __init__(
        self, message: str, *, key: str, transaction_id: str, hint: str | None = None
    ) -> None:
        super().__init__(message, key=key, hint=hint)
        self.transaction_id = transaction_id
