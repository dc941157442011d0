"""The three standard streams as a command finds them: one may be closed, or its reader gone."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_DESCRIPTORS: Final = 3


def open_missing() -> None:
    """Lead each standard stream that is closed to nowhere (`lakelog ... >&-`).

    Else the next file that is opened would get its number, and what is printed would land there.
    """
    for descriptor in range(_DESCRIPTORS):
        try:
            os.fstat(descriptor)
        except OSError:
            found = os.open(os.devnull, os.O_RDWR)
            if found != descriptor:
                os.dup2(found, descriptor)
                os.close(found)
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def silence(stream: TextIO) -> None:
    """Lead a stream to nowhere whose other end is gone.

    What is still buffered would fail again when the interpreter ends, with a message and with
    another exit code.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, stream.fileno())
        os.close(silent)


def tell(words: str) -> None:
    """Write to stderr. That nobody reads it any more changes nothing about the command."""
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
