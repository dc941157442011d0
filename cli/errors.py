"""Errors, warnings and progress on stderr, and the exit code of each error.

0    done
1    a check found problems
2    usage: the call is wrong
3    what was named does not exist
4    conflict: somebody else was first, or the state forbids it
5    the log holds something broken
6    the store failed or refused
7    nobody knows whether a commit happened
70   an error of lakelog itself
130  interrupted (Ctrl-C)
141  the reader of the output closed the pipe
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .. import progress
from ..errors import (
    AccessDenied,
    BucketNotFound,
    CommitOutcomeUnknown,
    ConflictError,
    CorruptError,
    LakelogError,
    NotFoundError,
    StorageError,
    UsageError,
)
from .text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

_T = TypeVar("_T")
_R = TypeVar("_R")
STORAGE: Final = 6
INTERNAL: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TRACEBACK: Final = "LAKELOG_TRACEBACK"
# Options that are no secrets; a message is more useful with them.
_HARMLESS: Final = frozenset(
    {"endpoint_url", "endpoint", "region", "region_name", "profile", "project", "account_name"}
)
_SHORTEST: Final = 6
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
# What to do next, for errors that don't say it themselves: the first class that fits.
_HINTS: Final[tuple[tuple[type[LakelogError], str], ...]] = (
    (UsageError, "`lakelog COMMAND --help` has examples"),
    (BucketNotFound, "Check its name and the endpoint; lakelog makes no buckets"),
    (NotFoundError, "`lakelog databases`, `tables` and `log` show what there is"),
    (ConflictError, "`lakelog log` shows what was committed in the meantime"),
    (CorruptError, "`lakelog check` shows more"),
    (AccessDenied, "Check the credentials and what they allow: LAKELOG_STORAGE_OPTIONS, --option"),
    (StorageError, "Is the store there, and the endpoint right? What failed can be tried again"),
    (CommitOutcomeUnknown, "Look for the transaction in `lakelog log` before you try again"),
)


class CommandWarning(UserWarning):
    """Something that the user of a command should know."""


class Redactor:
    """Replaces the values of storage options in texts."""

    def __init__(self) -> None:
        self._values: list[str] = []

    def learn(self, options: Mapping[str, Any]) -> None:
        """Hide these options' values from now on, at any depth."""
        for name, value in options.items():
            if isinstance(value, dict):
                self.learn(value)
            elif isinstance(value, list):
                self.learn({f"{name}.{index}": item for index, item in enumerate(value)})
            elif isinstance(value, str) and len(value) >= _SHORTEST and name not in _HARMLESS:
                self._values.append(value)
        self._values.sort(key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "***")
        return text


@dataclass(slots=True)
class Running:
    """The command that runs in this process.

    Attributes:
        redact: Removes its secrets from texts.
        printed: The errors printed so far.
        quiet: Print errors alone: no warnings, no progress.
        url: The URL of the environment, if that was taken.
    """

    redact: Redactor = field(default_factory=Redactor)
    printed: list[LakelogError] = field(default_factory=list)
    quiet: bool = False
    url: str | None = None


_running = Running()


def running() -> Running:
    """The command that runs."""
    return _running


def begin() -> Redactor:
    """Start a new command; returns its redactor."""
    global _running  # noqa: PLW0603
    _running = Running()
    return _running.redact


def report(error: BaseException, redact: Callable[[str], str]) -> int:
    """Print an error with its hint, unless `note_error` has done so; returns its exit code."""
    if isinstance(error, LakelogError) and any(error is one for one in _running.printed):
        _print("error", "Not everything was done: see above")
        return error.exit_code
    return _report(error, redact)


def _report(error: BaseException, redact: Callable[[str], str]) -> int:
    if os.environ.get(TRACEBACK) == "1":
        to_stderr(redact("".join(traceback.format_exception(error))))
    if isinstance(error, LakelogError):
        general = next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)
        message, hint, code = error.message, error.hint or general, error.exit_code
        if error.key and error.key not in message:
            message = f"{message} [{error.key}]"
    elif isinstance(error, OSError):
        full = error.errno in _FULL and error.filename is None  # the store's errors are typed
        message = f"The output can't be written: {error.strerror}" if full else f"{error}"
        hint, code = None, STORAGE
    else:
        message = f"{type(error).__name__}: {error}"
        hint = f"This is a fault of lakelog itself. {TRACEBACK}=1 shows where; please report it"
        code = INTERNAL
    _print("error", redact(message))
    if hint:
        _print("hint", redact(hint))
    of_input = isinstance(error, LakelogError) and os.path.isfile(error.key or "")
    if _running.url is not None and isinstance(error, LakelogError) and not of_input:
        _print("hint", redact(f"No URL was given: it is that of LAKELOG_URL, {_running.url}"))
    return code


def note_error(error: LakelogError) -> None:
    """Print that a part of a command failed. The command goes on with the rest, and may raise the
    error at the end."""
    _running.printed.append(error)
    _report(error, _running.redact)


def for_each(items: Sequence[_T], call: Callable[[_T], _R]) -> tuple[list[_R], LakelogError | None]:
    """Call a function for each item. An error of one, which is printed, doesn't stop the others.
    Returns the results, and the first error, which the command raises at the end."""
    results: list[_R] = []
    failed: LakelogError | None = None
    for item in items:
        try:
            results.append(call(item))
        except LakelogError as error:
            if len(items) > 1:
                note_error(error)
            failed = failed or error
    return results, failed


def _print(kind: str, text: str) -> None:
    prefix = "hint: " if kind == "hint" else f"lakelog: {kind}: "
    to_stderr(prefix + printable(" ".join(text.split("\n"))) + "\n")


def dry_run(text: str) -> None:
    """Say, after the plan on stdout, that it was not executed: `nothing was deleted`."""
    sys.stdout.flush()
    to_stderr(f"\nDRY RUN: {text}; add --execute\n")


def show_warnings(redact: Callable[[str], str]) -> None:
    """Print Python warnings of lakelog's categories from now on, each once, and no others. Call it
    inside `warnings.catch_warnings()`."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = redact(str(message))
        if category.__module__.split(".")[0] == __name__.split(".")[0] and text not in seen:
            seen.add(text)
            if not _running.quiet:
                _print("warning", text)

    warnings.simplefilter("always")
    warnings.showwarning = show


def usage(message: str, command: str, *, hint: str = "") -> UsageError:
    """An error about the command line itself."""
    return UsageError(message, hint=hint or f"See `lakelog {command} --help`".replace("  ", " "))


def as_far_as_readable(call: Callable[[], _T], partial: type[Warning]) -> tuple[_T, bool]:
    """The result of a call, and whether it is complete: the call warns of what is missing by the
    warning `partial`. Its warnings are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return result, not any(issubclass(one.category, partial) for one in caught)


class Progress(progress.Progress):
    """A counter that shows itself now and then: on a terminal, or with LAKELOG_PROGRESS=1, or where
    lines are `asked` for; not if results are `streaming` to the same terminal."""

    def __init__(
        self, what: str, total: int | None = None, *, streaming: bool = False, asked: bool = False
    ) -> None:
        quiet = _running.quiet or (streaming and sys.stdout.isatty())
        super().__init__(what, total, asked=asked, quiet=quiet, tell=to_stderr)


# --- The standard streams: one may be closed, or its reader gone ----------------------------------


def open_missing() -> None:
    """Open the null device for each standard stream that is closed (`lakelog ... >&-`).

    Else the next file that is opened would get its number, and what is printed would land there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def silence(stream: TextIO) -> None:
    """Redirect a stream to the null device, because its reader is gone.

    What is still buffered would fail again when the interpreter ends, with a message and with
    another exit code.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, stream.fileno())
        os.close(silent)


def to_stderr(words: str) -> None:
    """Write to stderr. If nobody reads it any more, the command goes on all the same."""
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
