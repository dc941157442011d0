"""What a check finds, one row for each object that is wrong, and what a repair does about it. Pure.

Source: docs/recovery.md, "check".
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

import pyarrow as pa

from ..catalog.format.names import base_folder, mirror_key
from ..errors import UsageError
from ..plans.saved import decode_plan, encode_plan

Level = Literal["log", "files", "footers", "data"]
Severity = Literal["error", "warning", "note"]
# Copy the object from the other place, compute the checkpoint again, remove the file from its
# table, or rebuild the log; or none.
Remedy = Literal["copy", "checkpoint", "remove-file", "rebuild", ""]

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
_SUBSET: Final = re.compile(r"(\d+(?:\.\d+)?)%|(\d+)/(\d+)|(\d+(?:\.\d+)?)([KMGT]iB)", re.ASCII)
_UNITS: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

FINDINGS: Final = pa.schema(
    {
        "severity": pa.string(),
        "writer": pa.string(),
        "database": pa.string(),
        "object": pa.string(),
        "problem": pa.string(),
        "revision": pa.int64(),
        "rows": pa.int64(),
        "first_at": pa.timestamp("us", "UTC"),
        "last_at": pa.timestamp("us", "UTC"),
        "command": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with one object.

    Attributes:
        severity: `error`: rows or points in time can't be read. `warning`: everything reads, from
            the one copy that is left. `note`: worth knowing.
        writer, database: The log.
        object: The key.
        problem: What is wrong, in one sentence.
        remedy: What repairs it.
        table: Of a data file, its table.
        revision: The revision that the object belongs to; None: none.
        rows: Rows at stake; None: not known.
        first_at, last_at: The commit times of the revisions that need it; None: not known.
        command: The command that repairs it; empty: nothing needs to be done.
    """

    severity: Severity
    writer: str
    database: str
    object: str
    problem: str
    remedy: Remedy = ""
    table: str = ""
    revision: int | None = None
    rows: int | None = None
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    command: str = ""

    @property
    def other_copy(self) -> str:
        """The key of the other copy of an object of a log."""
        base = base_folder(self.writer, self.database)
        own = base + self.object.removeprefix(base).removeprefix("mirror/")
        return mirror_key(own) if own == self.object else own


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check has found.

    Attributes:
        level: How far it looked.
        findings: Errors first, then warnings, then notes.
        objects: How many objects of logs were read, both copies counted.
        files: How many data files were looked at.
        bytes_read: Of data files.
    """

    level: Level
    findings: tuple[Finding, ...]
    objects: int = 0
    files: int = 0
    bytes_read: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether there is no error and no warning."""
        return all(finding.severity == "note" for finding in self.findings)

    def to_json(self) -> str:
        """Returns the report as text, for `from_json`."""
        return encode_plan(self, "findings")

    @classmethod
    def from_json(cls, text: str) -> CheckReport:
        """Reads a saved report.

        Raises:
            UsageError: The text is none.
        """
        return decode_plan(cls, text)

    def to_arrow(self) -> pa.Table:
        """Returns a row for each finding: severity, writer, database, object, problem, revision,
        rows, first_at, last_at, command."""
        rows = [{name: getattr(one, name) for name in FINDINGS.names} for one in self.findings]
        return pa.Table.from_pylist(rows, schema=FINDINGS)


@dataclass(frozen=True, slots=True)
class Subset:
    """A share of the data files, for the level `data`.

    Attributes:
        part, parts: The files whose paths fall into this part of so many.
        max_bytes: At most so much; None: no limit.
    """

    part: int = 1
    parts: int = 1
    max_bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Subset:
        """Reads a share: `5%`, `1/7`, `10GiB`.

        Raises:
            UsageError: The text is none.
        """
        match = _SUBSET.fullmatch(text.strip())
        if match is not None:
            percent, part, parts, size, unit = match.groups()
            if percent and 0 < float(percent) <= 100:
                return cls(1, max(1, round(100 / float(percent))))
            if part and 1 <= int(part) <= int(parts):
                return cls(int(part), int(parts))
            if size:
                return cls(max_bytes=int(float(size) * _UNITS[unit]))
        raise UsageError(
            f"{text!r:.40} is no share of the data",
            hint="Give a percentage (5%), a part of many (1/7), or a size (10GiB)",
        )

    def holds(self, path: str) -> bool:
        """Checks whether a file belongs to the share."""
        import xxhash

        return int(xxhash.xxh64_intdigest(path.encode())) % self.parts == self.part - 1


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair is going to do: an immutable value without a store. To save it, save the report
    that it was made from.

    Attributes:
        url: The root that it was made for.
        steps: The findings that are repaired, in that order: `copy`, `checkpoint`, `remove-file`.
        left: The errors that a repair can't help.
    """

    url: str
    steps: tuple[Finding, ...]
    left: tuple[Finding, ...] = ()

    def describe(self) -> str:
        """Returns the plan as text: a line for each folder that objects are copied to, and for each
        other step."""
        together: dict[str, list[Finding]] = {}
        for step in self.steps:
            folder = step.object.rpartition("/")[0] + "/"
            together.setdefault(folder if step.remedy == "copy" else step.object, []).append(step)
        lines = []
        for where, steps in together.items():
            one, number, rows = steps[0], len(steps), steps[0].rows or 0
            if one.remedy == "copy":
                source = one.other_copy.rpartition("/")[0]
                what = f"copy {number:,} object{'s' * (number > 1)} from {source}/ to {where}"
                lines.append(f"{what} (first {one.object.removeprefix(where)} {one.problem})")
                continue
            what = f"compute the checkpoint {where} from the transactions below it"
            if one.remedy == "remove-file":
                lost = "1 row is lost" if rows == 1 else f"{rows:,} rows are lost"
                what = f"remove {where} from table {one.table!r}: {lost}"
            lines.append(f"{what} ({one.problem})")
        lines += [f"a repair can't help {one.object} ({one.problem})" for one in self.left]
        return "\n".join(lines) or "nothing to repair"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair has done.

    Attributes:
        plan: What was planned.
        executed: Whether it was done; if not, all else is 0.
        copied: Objects that were restored from their copies.
        checkpoints: Checkpoints that were computed.
        removed: Data files that were removed from their tables.
        rows_lost: Rows of these.
        left: Errors that are left, in words.
    """

    plan: RepairPlan
    executed: bool = False
    copied: int = 0
    checkpoints: int = 0
    removed: int = 0
    rows_lost: int = 0
    left: tuple[str, ...] = ()
