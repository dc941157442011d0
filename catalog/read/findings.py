"""What `doctor` finds: a typed value, for whoever shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that somebody should know.

    Attributes:
        severity: `problem`: something is wrong. `note`: worth knowing.
        what: What was found, in words.
        key: The object it is about, or None.
        to_do: What to do about it, or None.
        writer, database: Whose log; None where it is about the store.
    """

    severity: Severity
    what: str
    key: str | None = None
    to_do: str | None = None
    writer: str | None = None
    database: str | None = None
