"""The live files of a log: immutable sorted pieces with the rows of them that are dead, under a
small overlay of what was added since. Pure.

A piece comes from a checkpoint or a large commit and is never rewritten in memory, so that one
commit costs what it changes. What doesn't fit (a file added twice, one removed that is not live)
costs the table it is about: that table can't be used from there on, the others can.

Source: docs/format.md, sections 4.7 and 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptError, CorruptObject
from ..format import compute as pc
from ..format.columns import column, distinct, numbers
from ..format.run import CORE_COLUMNS, Run, files_rows
from .part import (
    MANY_PATHS,
    MANY_TABLES,
    Part,
    batch_parts,
    check_base,
    in_partition,
    not_taken_out,
    tables_with,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece
    from ..wire import lakelog_transaction_pb2 as wire

FEW_PARTS: Final = 8  # of one transaction are looked up one by one
_ROWS_FOR_A_TABLE: Final = 500  # so many are scanned while one table is looked up
_CORE: Final = [name for name in CORE_COLUMNS if name != "table"]


Added = dict[str, tuple["wire.Add", int]]
_Batches = dict[int, list[tuple[Part | CorruptError, "Piece"]]]


@dataclass(slots=True)
class Files:
    """Live files, of all tables and partitions or of those that were loaded.

    Attributes:
        only: The tables that were loaded; None: all.
        parts: Sorted pieces; no live file is in two of them.
        added: Per table and path what was added since, with the revision; in order of the commits.
        broken: Per table why it can't be used.
        broken_ranges: The same for ranges of tables that a damaged piece may have held.
        known: Per table the fingerprints that are known at this point; None: not asked.
        known_in_base: The same at the base, of the tables where it has changed since.
        left_out: Pieces that were not loaded, as only one partition is asked for. What transactions
            say of files that these may hold is taken as it stands.
    """

    only: frozenset[str] | None = None
    parts: list[Part] = field(default_factory=list)
    added: dict[str, Added] = field(default_factory=dict)
    broken: dict[str, CorruptError] = field(default_factory=dict)
    broken_ranges: list[tuple[Piece, CorruptError]] = field(default_factory=list)
    known: dict[str, set[bytes]] | None = None
    known_in_base: dict[str, set[bytes]] = field(default_factory=dict)
    left_out: tuple[Piece, ...] = ()
    _checked: set[str] = field(default_factory=set)
    _held: dict[str, set[bytes]] = field(default_factory=dict)  # `fingerprints`, till files change

    def copy(self) -> Files:
        """An independent copy; rows are shared, being immutable."""
        return replace(
            self,
            parts=[replace(part) for part in self.parts],
            added={table: dict(files) for table, files in self.added.items()},
            broken=dict(self.broken),
            broken_ranges=list(self.broken_ranges),
            known=None if self.known is None else {t: set(f) for t, f in self.known.items()},
            known_in_base=dict(self.known_in_base),
            _checked=set(self._checked),
            _held={},
        )

    # --- Reading ----------------------------------------------------------------------------------

    def check(self, table: str) -> None:
        """Raises `CorruptObject`, about the object at fault, if a table can't be used."""
        error = self.broken.get(table)
        if error is None:
            error = next((e for piece, e in self.broken_ranges if piece.may_hold(table)), None)
        if error is not None:
            raise error
        if table not in self._checked:
            self._check_once(table)
            self._checked.add(table)

    def _check_once(self, table: str) -> None:
        """In the base each file's schema is known, and no path stands twice. (What came since was
        checked as it came.)"""
        known = None
        if self.known is not None:
            known = self.known_in_base.get(table, self.known.get(table, set()))
        check_base(self.parts, table, known)

    def table(self, table: str, *, whole: bool = False, partition: str | None = None) -> pa.Table:
        """The live files of a table.

        Args:
            whole: All columns of FILES but `table`, instead of the core ones.
            partition: Only files of this one.
        Returns:
            Core columns (or all). Pieces, each by path; then what was added since, by commit.
        Raises:
            CorruptObject: The table can't be used.
        """
        self.check(table)
        parts = [
            part.rows(table, part.run.full().drop_columns(["table"]) if whole else None)
            for part in self.parts
            if table in part.run.ranges
        ]
        added = self.added.get(table)
        if added or not parts:
            recent = (added or {}).values()
            rows = files_rows([add for add, _ in recent], [revision for _, revision in recent])
            rows = rows.drop_columns(["table"])
            parts.append(rows if whole else rows.select(_CORE))
        if partition is not None:
            parts = [pc.filter(part, in_partition(part, partition)) for part in parts]
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def tables(self) -> list[str]:
        """Names of the tables that have live files, sorted."""
        found = {table for table, files in self.added.items() if files}
        for part in self.parts:
            for table, (start, end) in part.run.ranges.items():
                dead = part.dead is not None and part.dead[start:end].all()
                if not dead and (self.only is None or table in self.only):
                    found.add(table)
        return sorted(found, key=str.encode)

    def paths(self) -> Iterator[pa.Array]:
        """Paths of all live files, in pieces."""
        for part in self.parts:
            yield from part.rows(None).column("path").chunks
        recent = [path for files in self.added.values() for path in files]
        if recent:
            yield column(recent, pa.string())

    @property
    def count(self) -> int:
        """Number of live files."""
        held = sum(p.run.rows - (0 if p.dead is None else int(p.dead.sum())) for p in self.parts)
        return held + sum(map(len, self.added.values()))

    def fingerprints(self, table: str) -> set[bytes]:
        """Fingerprints of the schemas of a table's live files."""
        found = {add.schema_fingerprint for add, _ in self.added.get(table, {}).values()}
        for part in self.parts:
            if table in part.run.ranges:
                found.update(distinct(part.rows(table).column("schema_fingerprint")))
        return found

    def is_live(self, table: str, path: str) -> bool:
        """Whether a file of a table is live."""
        if path in self.added.get(table, ()):
            return True
        return any(part.find(table, path) >= 0 for part in self.parts)

    def tables_of(self, path: str) -> list[str]:
        """The tables in which a path is live: one, in a sound log."""
        found = [table for table, files in self.added.items() if path in files]
        for part in self.parts:
            found += [t for t in tables_with(part.run, path) if part.find(t, path) >= 0]
        return found

    def live_among(self, paths: Sequence[str]) -> set[str]:
        """The given paths that are live in any table; many are looked up by one array operation a
        piece."""
        if len(paths) <= MANY_PATHS:
            return {path for path in paths if self.tables_of(path)}
        wanted = column(paths, pa.string())
        found: set[str] = set()
        for chunk in self.paths():
            found.update(chunk.filter(pc.is_in(chunk, wanted)).to_pylist())
        return found

    # --- Replay -----------------------------------------------------------------------------------

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says. What doesn't fit breaks its table."""
        revision = transaction.message.revision
        batches = {place: list(batch_parts(p)) for place, p in transaction.batches.items()}
        fresh = self._fresh_among(batches, transaction) if batches else set()
        removed: list[tuple[str, str]] = []  # one after the other: taken out together
        for position, action in enumerate(transaction.message.actions):
            kind = action.WhichOneof("kind")
            if kind == "remove":
                removed.append((action.remove.table, action.remove.path))
                continue
            if removed:
                self._remove(removed, transaction.key)
                removed = []
            if kind == "add" and self._wants(action.add.table):
                self._check_known(action.add.table, action.add.schema_fingerprint, transaction.key)
                if self.is_live(action.add.table, action.add.path):
                    self._break(action.add.table, transaction.key, f"adds {action.add.path} again")
                self._held.clear()
                self.added.setdefault(action.add.table, {})[action.add.path] = (
                    action.add,
                    revision,
                )
            elif kind == "add_batch":
                for part, piece in batches[position]:
                    self._append(part, piece, transaction, is_new=id(part) in fresh)
            elif kind != "add":
                self._apply_other(action, transaction.key)
        self._remove(removed, transaction.key)

    def _remove(self, files: Sequence[tuple[str, str]], key: str) -> None:
        for table, path in self.take_out(files):
            if not self._is_left_out(table, path):
                self._break(table, key, f"removes {path}, which is not live")

    def take_out(self, files: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Take files out, by table and path; those that are not live."""
        if files:
            self._held.clear()
        wanted: dict[str, list[str]] = {}
        for table, path in files:
            if self._wants(table) and self.added.get(table, {}).pop(path, None) is None:
                wanted.setdefault(table, []).append(path)
        return [
            (table, path)
            for table, paths in wanted.items()
            for path in not_taken_out(self.parts, table, paths)
        ]

    def _apply_other(self, action: wire.Action, key: str) -> None:
        kind = action.WhichOneof("kind")
        if kind == "row_deletes":
            self._check_deletes(action.row_deletes, key)
        elif kind == "schema" and self.known is not None:
            self._known_of(action.schema.table).add(action.schema.fingerprint)
        elif kind == "forget":
            self._forget(action.forget, key)

    def _check_deletes(self, item: wire.RowDeletes, key: str) -> None:
        table, path = item.table, item.path
        there = self.is_live(table, path) or self._is_left_out(table, path)
        if self._wants(table) and not there:
            self._break(table, key, f"deletes rows of {path}, which is not live")

    def _is_left_out(self, table: str, path: str) -> bool:
        """Whether a path may be in a piece that was not loaded."""
        return any(piece.may_hold_path(table, path) for piece in self.left_out)

    def _known_of(self, table: str) -> set[bytes]:
        """The fingerprints that are known of a table, to be changed."""
        assert self.known is not None
        known = self.known.setdefault(table, set())
        if table not in self.known_in_base:
            self.known_in_base[table] = set(known)
        return known

    def _knows(self, table: str, fingerprint: bytes) -> bool:
        return self.known is None or fingerprint in self.known.get(table, ())

    def _check_known(self, table: str, fingerprint: bytes, key: str) -> None:
        if not self._knows(table, fingerprint):
            self._break(table, key, "adds a file with a schema that the log doesn't know")

    def _forget(self, forget: wire.Forget, key: str) -> None:
        gone = {(item.table, item.fingerprint) for item in forget.schemas}
        lost = set(forget.tables)
        named = lost | {table for table, _ in gone}
        for table in named.difference(self._held):
            self._held[table] = self.fingerprints(table) if self._wants(table) else set()
        held = self._held
        for table in lost:
            if held.get(table):
                self._break(table, key, f"forgets table {table!r}, which has files")
        for table, fingerprint in gone:
            if fingerprint in held.get(table, ()):
                self._break(table, key, f"forgets a schema of table {table!r} that files have")
        if self.known is not None:
            for table, fingerprint in gone:
                self._known_of(table).discard(fingerprint)
            for table in lost:
                self._known_of(table).clear()

    def _wants(self, table: str) -> bool:
        return self.only is None or table in self.only

    def _fresh_among(self, batches: _Batches, transaction: DecodedTransaction) -> set[int]:
        """Of many parts of one transaction those (by their `id`) none of whose paths stands in
        another one or in any table: by one operation, not part by part against each other."""
        sound = [p for found in batches.values() for p, _ in found if isinstance(p, Part)]
        if len(sound) <= FEW_PARTS:
            return set()
        chunks = [chunk for part in sound for chunk in part.run.core.column("path").chunks]
        wanted = pa.chunked_array(chunks, pa.string()).combine_chunks()
        actions = transaction.message.actions
        alone = [action.add.path for action in actions if action.WhichOneof("kind") == "add"]
        held = [*self._held_paths(), column(alone, pa.string())]
        known = pa.concat_tables(pa.table({"path": one}) for one in held).column("path")
        hits = pc.filter(known, pc.is_in(known, wanted)).combine_chunks()
        taken = numbers(pc.is_in(wanted, hits))
        if pc.count_distinct(wanted).as_py() < len(wanted):
            counts = pc.value_counts(wanted)
            twice = pc.filter(counts.field(0), pc.greater(counts.field(1), 1))
            taken = taken | numbers(pc.is_in(wanted, twice))
        ends = np.cumsum([part.run.rows for part in sound])
        return {
            id(part)
            for part, end in zip(sound, ends, strict=True)
            if not taken[end - part.run.rows : end].any()
        }

    def _append(
        self,
        part: Part | CorruptError,
        piece: Piece,
        transaction: DecodedTransaction,
        *,
        is_new: bool,
    ) -> None:
        if not isinstance(part, Part):
            self.broken_ranges.append((piece, part))
            return
        revisions = pc.unique(part.run.core.column("revision")).to_pylist()
        if revisions != [transaction.message.revision]:
            problem = f"{transaction.key} holds a batch of another revision"
            self.broken_ranges.append((piece, CorruptObject(problem, key=transaction.key)))
            return
        fingerprints = distinct(part.run.core.column("schema_fingerprint"))
        is_new = is_new or self._all_new(part.run)
        for table, (start, end) in part.run.ranges.items():
            if not self._wants(table):
                continue
            if self.known is not None and not all(
                self._knows(table, fingerprint) for fingerprint in fingerprints
            ):
                for own in distinct(part.rows(table).column("schema_fingerprint")):
                    self._check_known(table, own, transaction.key)
            if is_new:
                continue
            paths = part.run.core.column("path").slice(start, end - start)
            if self._any_live(table, paths):
                self._break(table, transaction.key, "adds a file in a batch that is live already")
        self._held.clear()
        self.parts.append(part)

    def _all_new(self, run: Run) -> bool:
        """Whether no path of a run stands in any table, if that is asked sooner of all its tables
        at once than of each."""
        held = sum(part.run.rows for part in self.parts)
        if len(run.ranges) <= MANY_TABLES or held > len(run.ranges) * _ROWS_FOR_A_TABLE:
            return False
        wanted = run.core.column("path").combine_chunks()
        return not any(pc.any(pc.is_in(one, wanted)).as_py() for one in self._held_paths())

    def _held_paths(self) -> Iterator[pa.Array | pa.ChunkedArray]:
        """Paths of all files, in pieces; of the dead ones too."""
        for part in self.parts:
            yield part.run.core.column("path")
        yield column([path for files in self.added.values() for path in files], pa.string())

    def _any_live(self, table: str, paths: pa.ChunkedArray) -> bool:
        others = [part for part in self.parts if table in part.run.ranges]
        added = self.added.get(table, {})
        if not others and not added:
            return False
        if len(paths) <= MANY_PATHS:
            return any(self.is_live(table, path) for path in paths.to_pylist())
        wanted = paths.combine_chunks()
        held = [part.rows(table).column("path") for part in others]
        held.append(pa.chunked_array([column(list(added), pa.string())]))
        return any(pc.any(pc.is_in(one, wanted)).as_py() for one in held if len(one))

    def _break(self, table: str, key: str, problem: str) -> None:
        self.broken.setdefault(
            table,
            CorruptObject(
                f"{key} {problem}: the files of table {table!r} can't be told from there on",
                key=key,
                hint="Read an earlier point in time, or rebuild the log; other tables are sound",
            ),
        )
