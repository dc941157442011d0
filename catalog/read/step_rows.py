"""The rows of steps: which rows of a file a commit put in or took out, by what hid rows of it
before and after.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ..data.hidden import Bitmaps, Hidden
from ..data.scan import hidden_rows, scan_each
from ..format.columns import column
from ..format.deletes import MAX_ROWS, encode_bitmap
from ..log.steps import DELETE, INSERT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.scan import Projection

ABOUT: Final = pa.schema(
    [
        pa.field("_change", pa.string(), nullable=False),
        pa.field("_writer", pa.string(), nullable=False),
        pa.field("_revision", pa.int64()),
        pa.field("_committed_at", pa.timestamp("us", "UTC")),
    ]
)


class Seen(NamedTuple):
    """What can be seen of a file at one point.

    Attributes:
        is_live: Whether it is there.
        hidden: What hides rows of it; None: nothing.
    """

    is_live: bool
    hidden: Hidden | None = None


class Stamp(NamedTuple):
    """Who changed rows, and when; None: no commit that could be named."""

    writer: str
    revision: int | None
    committed_at_us: int | None


class RowStep(NamedTuple):
    """Rows of a file that came or went.

    Attributes:
        writer: In whose log it is.
        file: Tells it from others.
        part: What reading it takes, whatever hides rows of it.
        sign: INSERT or DELETE.
        before, after: What could be seen of it.
        stamp: By what commit.
        place: Which of several steps of the file this is; None: it is the only one that counts.
    """

    writer: str
    file: object
    part: FilePart
    sign: int
    before: Seen
    after: Seen
    stamp: Stamp
    place: int | None = None


def step_batches(
    store: Store,
    steps: Iterable[RowStep],
    together: Callable[[object], Sequence[tuple[Seen, Seen]]],
    projection: Projection,
    *,
    about: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of steps, in the order of the steps.

    Args:
        store: A `WideStore`.
        together: Of a file with several steps all of them, in order: rows that came and went again
            are left out.
        about: Put the columns of `ABOUT` before theirs.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for `scan_each`.
        UsageError: A file has more rows than can be numbered.
    """
    rows = _StepRows(store, together)
    given: list[RowStep] = []

    def parts() -> Iterator[FilePart]:
        for step in steps:
            part = rows.part_of(step)
            if part is not None:
                given.append(step)
                yield part

    schema = pa.schema([*ABOUT, *projection.given])
    for number, batch in scan_each(store, parts(), projection):
        if not about:
            yield batch
            continue
        step = given[number]
        change = "delete" if step.sign == DELETE else "insert"
        values = zip((change, *step.stamp), ABOUT, strict=True)
        arrays = [pa.repeat(column([v], f.type)[0], batch.num_rows) for v, f in values]
        yield pa.RecordBatch.from_arrays([*arrays, *batch.columns], schema=schema)


class _StepRows:
    """Finds the rows of steps; of files with several steps all at once, and keeps them, a few bytes
    a row that came or went."""

    def __init__(
        self, store: Store, together: Callable[[object], Sequence[tuple[Seen, Seen]]]
    ) -> None:
        self._store = store
        self._together = together
        self._bitmaps = Bitmaps(store)
        self._known: dict[object, list[dict[int, Hidden | None]]] = {}

    def part_of(self, step: RowStep) -> FilePart | None:
        """The file with all rows hidden but those of a step; None: there are none."""
        if step.place is None and not (step.before.is_live and step.after.is_live):
            seen = step.before if step.before.is_live else step.after
            return replace(step.part, hidden=seen.hidden)
        if step.place is None:
            (found,) = self._resolved(step.part, [(step.before, step.after)])
        else:
            if step.file not in self._known:
                self._known[step.file] = self._resolved(step.part, self._together(step.file))
            found = self._known[step.file][step.place]
        hidden = found[step.sign]
        return None if hidden is None else replace(step.part, hidden=hidden)

    def _resolved(
        self, part: FilePart, steps: Sequence[tuple[Seen, Seen]]
    ) -> list[dict[int, Hidden | None]]:
        """Per step and sign what hides all rows but its own; None: it has none. Of the steps of a
        row the last ones are left, of the sign that is left over."""
        if part.row_count > MAX_ROWS:
            raise UsageError(
                f"{part.key} has {part.row_count} rows, more than can be told one by one",
                key=part.key,
                hint="Compare both points in time by reading them",
            )
        seen: dict[Seen, np.ndarray] = {}
        left = np.zeros(part.row_count, np.int16)
        for pair in steps:
            for each in pair:
                if each not in seen:
                    seen[each] = self._visible(part, each)
            left += _signs(seen, pair)
        found: list[dict[int, Hidden | None]] = []
        for pair in reversed(steps):
            sign = _signs(seen, pair)
            met = (sign != 0) & (np.sign(left) == sign)
            left -= np.where(met, sign, 0).astype(np.int16)
            found.append({one: _only(met & (sign == one)) for one in (DELETE, INSERT)})
        found.reverse()
        return found

    def _visible(self, part: FilePart, seen: Seen) -> np.ndarray:
        rows = np.full(part.row_count, seen.is_live)
        if seen.hidden is not None:
            rows[hidden_rows(self._store, replace(part, hidden=seen.hidden), self._bitmaps)] = False
        return rows


def _signs(seen: Mapping[Seen, np.ndarray], pair: tuple[Seen, Seen]) -> np.ndarray:
    """Per row whether it went (-1) or came (1)."""
    before, after = (seen[each].astype(np.int8) for each in pair)
    found: np.ndarray = after - before
    return found


def _only(rows: np.ndarray) -> Hidden | None:
    """What hides all rows but these; None if there are none."""
    if not rows.any():
        return None
    others = np.flatnonzero(~rows)
    if not len(others):
        return Hidden()
    return Hidden(superseded=encode_bitmap(others), superseded_rows=len(others))
