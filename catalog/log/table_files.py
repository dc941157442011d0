"""The live files of one table of one log: sorted immutable runs under a small overlay of recent
changes. Pure.

A run comes from a checkpoint or a large commit and may hold a million rows; it is never rewritten
in memory. What was added or removed since lies over it in a dict and a set, so that one commit
costs what it changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..format import segments
from ..format.run import CORE_COLUMNS, Batch, RawSegment, Run
from ..format.segment_bytes import decode_segment, encode_ipc
from ..wire.lakelog_checkpoint_pb2 import SegmentRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as wire

MANY_PATHS: Final = 256


@dataclass(slots=True)
class TableFiles:
    """The live files of one table.

    Attributes:
        runs: Disjoint sorted runs.
        removed: Paths of `runs` that are no longer live.
        added: Files added since, by path, with the revision that added each; in order of their
            commits.
        row_groups: Raw ROW_GROUPS segments that came with the runs: bytes, row count, key.
    """

    runs: list[Run] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    added: dict[str, tuple[wire.Add, int]] = field(default_factory=dict)
    row_groups: list[RawSegment] = field(default_factory=list)

    def copy(self) -> TableFiles:
        """An independent copy; runs are shared, being immutable."""
        return TableFiles(
            list(self.runs), set(self.removed), dict(self.added), list(self.row_groups)
        )

    def __contains__(self, path: str) -> bool:
        if path in self.added:
            return True
        return path not in self.removed and any(run.find(path) >= 0 for run in self.runs)

    def live_among(self, paths: Sequence[str]) -> set[str]:
        """The given paths that are live. Many are looked up by one array operation a run."""
        if len(paths) <= MANY_PATHS:
            return {path for path in paths if path in self}
        values = pa.array(paths, pa.string())
        found: set[str] = set()
        for run in self.runs:
            column = run.core.column("path")
            found.update(column.filter(pc.is_in(column, values)).to_pylist())
        return (found - self.removed) | {path for path in paths if path in self.added}

    def overlaps(self, run: Run) -> bool:
        """Whether a path of `run` is live in this table."""
        paths = run.core.column("path")
        if len(paths) <= MANY_PATHS:
            return any(path in self for path in paths.to_pylist())
        values = paths.combine_chunks()
        if pc.any(pc.is_in(pa.array(list(self.added), pa.string()), values)).as_py():
            return True
        for other in self.runs:
            known = other.core.column("path")
            shared = known.filter(pc.is_in(known, values)).to_pylist()
            if any(path not in self.removed for path in shared):
                return True
        return False

    def append(self, batch: Batch) -> None:
        """Add a run that does not overlap. It may bring back paths that were removed."""
        if self.removed:
            back = self.removed.intersection(batch.run.core.column("path").to_pylist())
            if back:
                self._forget(back)
        self.runs.append(batch.run)
        if batch.row_groups is not None:
            self.row_groups.append(batch.row_groups)

    def _forget(self, paths: set[str]) -> None:
        """Rewrite the runs without these removed paths, so that a later run may hold them."""
        gone = pa.array(sorted(paths), pa.string())
        self.runs = [run.without(gone) for run in self.runs]
        kept = []
        for raw, rows, key in self.row_groups:
            groups = decode_segment(raw, SegmentRef.ROW_GROUPS, rows, key)
            left = groups.filter(pc.invert(pc.is_in(groups.column("path"), gone)))
            same = left.num_rows == rows
            kept.append((raw, rows, key) if same else (encode_ipc(left), left.num_rows, key))
        self.row_groups = kept
        self.removed -= paths

    def remove(self, path: str) -> None:
        """Take out a live file."""
        if self.added.pop(path, None) is None:
            self.removed.add(path)

    @property
    def count(self) -> int:
        """Number of live files."""
        in_runs = sum(int(run.core.num_rows) for run in self.runs)
        return in_runs - len(self.removed) + len(self.added)

    def fingerprints(self) -> set[bytes]:
        """Fingerprints of the schemas of live files."""
        found = {add.schema_fingerprint for add, _ in self.added.values()}
        for run in self.runs:
            fingerprints = self._alive(run.core).column("schema_fingerprint")
            found.update(pc.unique(fingerprints).to_pylist())
        return found

    def table(self, schemas: dict[bytes, pa.Schema] | None = None) -> pa.Table:
        """All live files.

        Args:
            schemas: With it, all columns are included, those of statistics too (see
                `segments.with_statistics`); without it, those of `CORE_COLUMNS`.
        Returns:
            Columns of `segments.FILES` (and statistics). Rows of runs by path, then recent ones by
            commit.
        """
        parts = [self._alive(run.core if schemas is None else run.full()) for run in self.runs]
        if self.added or not parts:
            adds = [add for add, _ in self.added.values()]
            recent = segments.files_table(adds, [revision for _, revision in self.added.values()])
            if schemas is None:
                recent = recent.select(CORE_COLUMNS)
            parts.append(
                recent if schemas is None else segments.with_statistics(recent, adds, schemas)
            )
        return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]

    def row_groups_table(self, schemas: dict[bytes, pa.Schema]) -> pa.Table:
        """Row groups of the live files that have more than one.

        Returns:
            Columns of `segments.ROW_GROUPS` and statistics; order as in `table`.
        """
        parts = [
            self._alive(decode_segment(raw, SegmentRef.ROW_GROUPS, rows, key))
            for raw, rows, key in self.row_groups
        ]
        parts.append(segments.row_groups_table([add for add, _ in self.added.values()], schemas))
        return pa.concat_tables(parts, promote_options="default")

    def _alive(self, table: pa.Table) -> pa.Table:
        if not self.removed:
            return table
        gone = pa.array(sorted(self.removed), pa.string())
        return table.filter(pc.invert(pc.is_in(table.column("path"), gone)))
