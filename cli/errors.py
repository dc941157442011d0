"""Errors and warnings on stderr, and the exit code of each.

0    done
1    a check found problems
2    usage: the call is wrong
3    what was named is not there
4    conflict: somebody else was first, or the state forbids it
5    the log holds something broken
6    the store failed or refused
7    nobody knows whether a commit happened
70   an error of lakelog itself
130  interrupted (Ctrl-C)
141  whoever read the output went away
"""

from __future__ import annotations

import os
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from .streams import tell
from .text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")
STORAGE: Final = 6
INTERNAL: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TRACEBACK: Final = "LAKELOG_TRACEBACK"
# Options that are no secrets and that a message is better with.
_HARMLESS: Final = frozenset(
    {"endpoint_url", "endpoint", "region", "region_name", "profile", "project", "account_name"}
)
_SHORTEST: Final = 6
# What to do next, where an error doesn't say it itself: the first class that fits.
_HINTS: Final[tuple[tuple[type[LakelogError], str], ...]] = (
    (UsageError, "`lakelog COMMAND --help` has examples"),
    (BucketNotFound, "Check its name and the endpoint; lakelog makes no buckets"),
    (NotFoundError, "`lakelog databases`, `tables` and `log` show what there is"),
    (ConflictError, "`lakelog log` shows what was committed meanwhile"),
    (CorruptError, "`lakelog check` tells more"),
    (AccessDenied, "Check the credentials and what they allow: LAKELOG_STORAGE_OPTIONS, --option"),
    (StorageError, "Is the store there, and the endpoint right? What failed can be tried again"),
    (CommitOutcomeUnknown, "Look for the transaction in `lakelog log` before you try again"),
)


class CommandWarning(UserWarning):
    """Something that the user of a command should know."""


class Redactor:
    """Blots the values of storage options out of texts."""

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


class _Command:
    """What the running command must not tell, what it has told, and how."""

    redact: Redactor = Redactor()
    told: tuple[LakelogError, ...] = ()
    quiet: bool = False
    url: str | None = None


def begin() -> Redactor:
    """The redactor of a new command, which has told nothing yet."""
    _Command.redact, _Command.told = Redactor(), ()
    _Command.quiet, _Command.url = False, None
    return _Command.redact


def learn_secrets(options: Mapping[str, Any]) -> None:
    """Hide the values of further storage options in all that is told from now on."""
    _Command.redact.learn(options)


def be_quiet(quiet: bool) -> None:
    """Whether errors alone are told: no warnings, no progress."""
    _Command.quiet = quiet


def took_url(url: str | None) -> None:
    """The environment's URL stands for one that was left out: errors tell it."""
    _Command.url = url


def is_quiet() -> bool:
    """Whether neither warnings nor progress are told."""
    return _Command.quiet


def report(error: BaseException, redact: Callable[[str], str]) -> int:
    """Print an error and what to do about it, which `note_error` may have done already; returns its
    exit code."""
    if isinstance(error, LakelogError) and any(error is one for one in _Command.told):
        _say("error", "Not everything was done: see above")
        return error.exit_code
    return _report(error, redact)


def _report(error: BaseException, redact: Callable[[str], str]) -> int:
    if os.environ.get(TRACEBACK) == "1":
        tell(redact("".join(traceback.format_exception(error))))
    if isinstance(error, LakelogError):
        message, hint, code = error.message, error.hint or _hint(error), error.exit_code
        if error.key and error.key not in message:
            message = f"{message} [{error.key}]"
    elif isinstance(error, OSError):
        message, hint, code = f"{error}", None, STORAGE
    else:
        message = f"{type(error).__name__}: {error}"
        hint = f"This is a fault of lakelog itself. {TRACEBACK}=1 shows where; please report it"
        code = INTERNAL
    _say("error", redact(message))
    if hint:
        _say("hint", redact(hint))
    if _Command.url is not None and isinstance(error, LakelogError):
        _say("hint", redact(f"No URL was given: LAKELOG_URL stood for it, {_Command.url}"))
    return code


def note_error(error: LakelogError) -> None:
    """Print that part of a command failed, which goes on with the rest; the command may raise it in
    the end."""
    _Command.told += (error,)
    _report(error, _Command.redact)


def _hint(error: LakelogError) -> str | None:
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)


def _say(kind: str, text: str) -> None:
    prefix = "hint: " if kind == "hint" else f"lakelog: {kind}: "
    tell(prefix + printable(" ".join(text.split("\n"))) + "\n")


def warn(text: str) -> None:
    """Print a warning, unless none are wanted."""
    if not _Command.quiet:
        _say("warning", text)


def show_warnings(redact: Callable[[str], str]) -> None:
    """From now on print Python warnings of lakelog's categories as ours, each once, and no others.

    Call it inside `warnings.catch_warnings()`.
    """
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = redact(str(message))
        if category.__module__.split(".")[0] == __name__.split(".")[0] and text not in seen:
            seen.add(text)
            warn(text)

    warnings.simplefilter("always")
    warnings.showwarning = show


def usage(message: str, command: str, *, hint: str = "") -> UsageError:
    """An error about the command line itself."""
    return UsageError(message, hint=hint or f"See `lakelog {command} --help`".replace("  ", " "))


def as_far_as_told(call: Callable[[], _T], partial: type[Warning]) -> tuple[_T, bool]:
    """What a call gives, and whether that is all: it warns of what damage hides, and so do we.

    Args:
        partial: The warning that says that something is missing.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return found, not any(issubclass(one.category, partial) for one in caught)
