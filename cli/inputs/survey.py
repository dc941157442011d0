"""One reading of all files that don't know their types: what the columns are, or whether they are
of the types that they should be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .csv_files import CsvOptions, line_of, read_csv
from .json_files import read_json
from .json_types import JsonTypes
from .json_values import texts_of_any, values_as
from .places import Place, Seen
from .sources import SEPARATED
from .text_types import TextTypes
from .texts import first_misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from .sources import Source


@dataclass(slots=True)
class Column:
    """What is known of one column.

    Attributes:
        wanted: The type that it should have; None: to be found.
        forced: The user has named that type.
        misfit: The first value that isn't of that type.
        texts, values: What was found, in csv and in json.
    """

    wanted: pa.DataType | None = None
    forced: bool = False
    misfit: Seen | None = None
    texts: TextTypes = field(default_factory=TextTypes)
    values: JsonTypes = field(default_factory=JsonTypes)

    def feed_texts(self, texts: pa.Array, source: Source, line: Callable[[int], int]) -> None:
        """Take in texts of a csv."""
        wanted = self.wanted
        if wanted is None:
            self.texts.feed(texts, source, line)
        else:
            self._hold(
                texts,
                lambda a, n: texts_of_any(texts.slice(a, n), wanted, forced=self.forced),
                lambda place: Seen(texts[place].as_py(), Place(source, lambda: line(place))),
            )

    def feed_values(self, values: list[Any], source: Source, lines: list[int]) -> None:
        """Take in values of a json."""
        wanted = self.wanted
        if wanted is None:
            self.values.feed(values, source, lines)
        else:
            self._hold(
                values,
                lambda a, n: values_as(values[a : a + n], wanted, forced=self.forced),
                lambda place: Seen(values[place], Place(source, lambda: lines[place])),
            )

    def _hold(
        self, values: Any, convert: Callable[[int, int], Any], seen: Callable[[int], Seen]
    ) -> None:
        def fits(start: int, length: int) -> bool:
            try:
                convert(start, length)
            except ValueError:
                return False
            return True

        if self.misfit is None:
            place = first_misfit(len(values), fits)
            if place >= 0:
                self.misfit = seen(place)


def survey(
    sources: Sequence[Source],
    options: CsvOptions,
    wanted: Mapping[str, tuple[pa.DataType, bool]],
    only: set[str] | None = None,
    step: Callable[[], None] = lambda: None,
) -> dict[str, Column]:
    """Read all files once.

    Args:
        wanted: Types that columns should have, and whether the user has named them.
        only: Look at these columns; None: at all.
        step: Called after each file.
    Returns:
        The columns, in the order in which they are met.
    Raises:
        UsageError: A file can't be read.
    """
    columns: dict[str, Column] = {}

    def column(name: str) -> Column | None:
        if only is not None and name not in only:
            return None
        if name not in columns:
            columns[name] = Column(*wanted.get(name, ()))
        return columns[name]

    for source in sources:
        if source.form in SEPARATED:
            _survey_csv(source, options, column)
        else:
            _survey_json(source, column)
        step()
    return columns


def _survey_csv(
    source: Source, options: CsvOptions, column: Callable[[str], Column | None]
) -> None:
    for first, batch in read_csv(source, options):
        for name, texts in zip(batch.schema.names, batch.columns):
            found = column(name)
            if found is not None and batch.num_rows:
                found.feed_texts(texts, source, _line(source, options, first))


def _line(source: Source, options: CsvOptions, first: int) -> Callable[[int], int]:
    return lambda place: line_of(source, options, first + place)


def _survey_json(source: Source, column: Callable[[str], Column | None]) -> None:
    for lines, rows in read_json(source):
        for name in dict.fromkeys(name for row in rows for name in row):
            found = column(name)
            if found is not None:
                found.feed_values([row.get(name) for row in rows], source, lines)
