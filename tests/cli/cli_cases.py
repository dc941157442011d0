"""What the tests of commands ask of what was printed, and of what is in a folder."""

from __future__ import annotations

from pathlib import Path

TOKEN = "token  ll1-"


def body(result) -> list[str]:
    """The lines of a text result up to the token, whose end differs between versions of pyarrow
    (it holds a digest of what the log says, sizes of files among it)."""
    assert result.code == 0
    assert result.err == ""
    lines = result.text.splitlines()
    if lines[-1].startswith(TOKEN):
        lines[-1] = TOKEN
    return lines


def objects(url: str) -> set[Path]:
    return {path for path in Path(url).rglob("*") if path.is_file()}


def both_copies(path: Path) -> tuple[Path, Path]:
    """The file of an object of a log, and that of its copy in the mirror."""
    return path, path.parents[1] / "mirror/transactions" / path.name
