"""Where a stream stands: what Spark keeps in its checkpoint after each batch. Pure.

A batch is what lies between two such places. It ends at a cut: so many commits of each writer were
given, whoever committed when. Of the rows that were there when the stream began it may end between
two files: these have an order that doesn't change.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..catalog.format.cut import Cut, parse_token
from ..errors import InvalidToken, StreamLost

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 1
_AGAIN: Final = "Give the query a new checkpointLocation: it begins anew, where `since` says"


@dataclass(frozen=True, slots=True)
class Place:
    """How far a stream has come.

    Attributes:
        cut: What was committed up to here was given; a cut of no writer: nothing.
        files: Of the files that were there at `cut` only so many were given; None: all.
    """

    cut: Cut
    files: int | None = None


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """What Spark keeps.

    Attributes:
        table: Which one is followed.
        feed: Whether changes are given, or rows that are appended.
        at: Where the stream stands; None: it hasn't begun.
        begun: Of the first batch, where it began: of a time this is looked up once. None: with the
            rows that were there, or it isn't the first.
        since: Of a stream that hasn't begun, as the option says it.
    """

    table: str
    feed: bool
    at: Place | None = None
    begun: Cut | None = None
    since: str = ""

    def moved(self, at: Place, begun: Cut | None = None) -> StreamOffset:
        """The same stream at another place."""
        return replace(self, at=at, begun=begun, since="")

    @property
    def json(self) -> dict[str, Any]:
        """As Spark keeps it; `read_offset` is its inverse."""
        found: dict[str, Any] = {"lakelog": VERSION, "table": self.table, "feed": self.feed}
        if self.at is None:
            return found | {"since": self.since}
        found["cut"] = _text(self.at.cut)
        if self.at.files is not None:
            found["files"] = self.at.files
        if self.begun is not None:
            found["begun"] = _text(self.begun)
        return found


def read_offset(found: Mapping[str, Any], database: str, table: str, *, feed: bool) -> StreamOffset:
    """An offset of a checkpoint.

    Args:
        database, table, feed: Of the stream that reads it.
    Raises:
        StreamLost: It is of another stream, or of another version of lakelog.
    """
    if found.get("lakelog") != VERSION:
        raise StreamLost(
            f"The checkpoint of the stream holds an offset that this lakelog doesn't know: "
            f"{str(dict(found))[:200]}",
            key=table,
            hint=f"Was it written by a later version, or is it of another source? {_AGAIN}",
        )
    if (found["table"], found["feed"]) != (table, feed):
        words = ("rows that are appended to", "changes of")
        raise StreamLost(
            f"The checkpoint is of a stream of {words[found['feed']]} table {found['table']!r}, "
            f"and this one is of {words[feed]} table {table!r}",
            key=table,
            hint=_AGAIN,
        )
    if "since" in found:
        return StreamOffset(table, feed, since=found["since"])
    begun = _cut(found["begun"], database) if "begun" in found else None
    at = Place(_cut(found["cut"], database), found.get("files"))
    return StreamOffset(table, feed, at, begun)


def _text(cut: Cut) -> str:
    return cut.token if cut.writers else ""


def _cut(text: str, database: str) -> Cut:
    if not text:
        return Cut(database, {})
    try:
        cut = parse_token(text)
    except InvalidToken as error:
        raise StreamLost(
            f"The checkpoint of the stream holds an offset that is damaged: {text[:60]!r}",
            key=database,
            hint=_AGAIN,
        ) from error
    if cut.database != database:
        raise StreamLost(
            f"The checkpoint is of a stream of database {cut.database!r}, not of {database!r}",
            key=database,
            hint=_AGAIN,
        )
    return cut
