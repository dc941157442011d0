"""Which paths a store may take for one: those that differ only in case, in Unicode's normal form,
or in dots and spaces at the end of a segment. Pure.

A log compares paths byte for byte. File systems of Macs and Windows, and SMB shares, don't. So
whoever deletes by a listing, or adds what a user names, compares folded; that may take two files
of an exact store for one, and then nothing is deleted.

Source: docs/format.md, section 2; docs/protocol.md, section 2.9.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from . import compute as pc
from .columns import column

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDED_AWAY: Final = ". "  # at the end of a segment
_ENDS: Final = r"[. ]+(/|$)"


def fold(path: str) -> str:
    """What is equal for all paths that some store may take for this one."""
    return "/".join(map(_segment, path.split("/")))


def _segment(text: str) -> str:
    if not text.isascii():  # folding case can undo a normal form
        text = unicodedata.normalize("NFD", text)
        text = unicodedata.normalize("NFD", text.casefold())
    return text.lower().rstrip(FOLDED_AWAY)


def last_segment(path: str) -> str:
    """The name of a file without its folders."""
    return path.rpartition("/")[2]


def folded_among(
    chunks: Iterable[pa.Array], wanted: Iterable[str], *, last_segments: bool = False
) -> set[str]:
    """Which folded texts some of these paths fold to.

    Args:
        chunks: Paths.
        wanted: Folded already.
        last_segments: Compare only the last segment of each path.
    """
    sought = set(wanted)
    if not sought:
        return set()
    values, found = column(sorted(sought), pa.string()), set()
    for chunk in chunks:
        paths = pc.replace_substring_regex(chunk, r"^.*/", "") if last_segments else chunk
        plain = pc.string_is_ascii(paths)
        simple = pc.replace_substring_regex(pc.ascii_lower(paths.filter(plain)), _ENDS, r"\1")
        found.update(_texts(simple.filter(pc.is_in(simple, values))))
        found.update(sought.intersection(map(fold, _texts(paths.filter(pc.invert(plain))))))
    return found


def _texts(paths: Any) -> list[str]:
    texts: list[str] = paths.to_pylist()
    return texts
