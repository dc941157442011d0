"""The files that `lakelog write` reads: their names, formats, bytes and texts."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ...errors import AccessDenied, ObjectNotFound, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMATS: Final = ("parquet", "csv", "tsv", "jsonl", "arrow")
SEPARATED: Final = ("csv", "tsv")
_SUFFIXES: Final = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
STDIN: Final = "-"
_STDIN_PATH: Final = "/dev/stdin"
_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_OTHER_COMPRESSIONS: Final = (".xz", ".lzma", ".zip", ".7z", ".z", ".br", ".zstd", ".snappy")
_CHUNK: Final = 1 << 16
_UTF8: Final = "utf-8-sig"  # a byte order mark is not part of the text


@dataclass(slots=True)
class Source:
    """One file.

    Attributes:
        name: The name as it was given, for messages.
        form: One of `FORMATS`.
        path: The path of its bytes: of a copy, if they came through a pipe.
        encoding: The encoding of its text.
        stamp: Inode, size and time: the same as long as nobody changes it.
        scratch: A folder for a copy of its text, if that is in another encoding.
        int96_unit: The unit that its INT96 timestamps are read in; empty: not known yet.
    """

    name: str
    form: str
    path: str
    encoding: str
    stamp: tuple[int, ...]
    scratch: str
    int96_unit: str = ""

    def open(self) -> Any:
        """Open its bytes, decompressed according to its suffix."""
        import pyarrow as pa

        suffix = Path(self.name).suffix.lower()
        return pa.input_stream(self.path, compression=_COMPRESSIONS.get(suffix))

    def open_text(self) -> IO[str]:
        """Open its text, line ends as they are. For a UnicodeDecodeError see `undecodable`."""
        return io.TextIOWrapper(self.open(), encoding=self.encoding, newline="")

    def open_utf8(self) -> Any:
        """Open its text as bytes in UTF-8, without decoding in Python while they are read.

        A thread of Arrow reads ahead, even for a reader that is no longer used. If it calls Python
        to decode while the process ends, the process aborts or hangs. So text in another encoding
        is copied first, once.
        """
        import pyarrow as pa

        if self.encoding == _UTF8:
            return self.open()
        copy = Path(self.scratch, hashlib.sha256(self.path.encode()).hexdigest())
        if not copy.exists():
            self._copy(copy)
        return pa.input_stream(str(copy), compression=None)

    def _copy(self, to: Path) -> None:
        part = to.with_suffix(".part")
        try:
            with self.open_text() as text, part.open("wb") as copy:
                for chunk in iter(lambda: text.read(_CHUNK), ""):
                    copy.write(chunk.encode())
            part.rename(to)
        except UnicodeDecodeError as error:
            raise self.undecodable() from error
        except OSError as error:
            raise UsageError(
                f"{self.name} can't be copied in UTF-8 to {self.scratch}: {error}",
                key=self.name,
                hint="TMPDIR names another folder for such copies; nothing was committed",
            ) from error

    def undecodable(self) -> UsageError:
        """The error that names the first line with bytes that are not of the encoding."""
        line, bad = 1, b""
        decoder = codecs.getincrementaldecoder(self.encoding)()
        with self.open() as stream:
            while chunk := stream.read(_CHUNK):
                before = decoder.getstate()
                try:
                    line += decoder.decode(chunk).count("\n")
                except UnicodeDecodeError:
                    decoder.setstate(before)
                    break
            try:
                for place in range(len(chunk)):
                    line += decoder.decode(chunk[place : place + 1]).count("\n")
                decoder.decode(b"", final=True)
            except UnicodeDecodeError as error:
                bad = error.object[error.start : error.start + 1]
        shown = "utf-8" if self.encoding == _UTF8 else self.encoding
        what = f"byte 0x{bad.hex()}" if bad else "what it ends with"
        return UsageError(
            f"{self.name}, line {line}: {what} is not {shown} text",
            key=self.name,
            hint="--encoding names its encoding, e.g. --encoding latin-1; nothing was committed",
        )

    def check_unchanged(self) -> None:
        """Refuse a file that was changed between its two readings."""
        if _stamp(Path(self.path)) != self.stamp:
            raise UsageError(
                f"{self.name} was changed while it was read",
                key=self.name,
                hint="Nothing was committed. Write it again once nobody changes it any more",
            )


def check_encoding(name: str) -> str:
    """The encoding with a name; UTF-8 without its byte order mark."""
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)
    except (LookupError, ValueError):
        raise UsageError(
            f"There is no text encoding {name[:60]!r}",
            hint="For example utf-8, latin-1, cp1252, utf-16",
        ) from None
    return _UTF8 if codec.name in ("utf-8", _UTF8) else codec.name


@contextlib.contextmanager
def open_sources(names: Sequence[str], form: str | None, encoding: str) -> Iterator[list[Source]]:
    """Open the files, of one format if it is given. Pipes are copied, because each is read twice.

    Raises:
        ObjectNotFound: There is no such file.
        AccessDenied, StorageError: It can't be read.
        UsageError: It is a folder, its name has no known suffix, or stdin is named twice.
    """
    formats = [_format(name, form) for name in names]
    piped = [name for name in names if str(_path(name)) == _STDIN_PATH]
    if len(piped) > 1:
        raise UsageError("stdin can be read once", hint=f"Name one of {', '.join(piped)} only")
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="lakelog-"))
        sources = []
        for name, kind in zip(names, formats, strict=True):
            path = stack.enter_context(_seekable(_path(name)))
            shown = "stdin" if name == STDIN else name
            sources.append(Source(shown, kind, path, encoding, _stamp(Path(path)), scratch))
        yield sources


def _format(name: str, given: str | None) -> str:
    path = _path(name)
    if path.is_dir():
        raise UsageError(
            "This is a folder", key=name, hint="Name the files in it, e.g. FOLDER/*.parquet"
        )
    if not path.exists():
        raise ObjectNotFound("No such file", key=name, hint="FILE is a path on this machine")
    if path.suffix.lower() in _OTHER_COMPRESSIONS:
        raise UsageError(
            f"{path.suffix} is a compression that isn't read here",
            key=name,
            hint=f"Decompress it, and pipe it in as -; known are {', '.join(_COMPRESSIONS)}",
        )
    if given is not None:
        return _SUFFIXES.get(f".{given}", given)  # json is jsonl: both forms are read
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    kind = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise UsageError(
            "Its name doesn't say of what format this is",
            key=name,
            hint=f"Add --format: {', '.join(FORMATS)}",
        )
    return kind


def _path(name: str) -> Path:
    return Path(_STDIN_PATH if name == STDIN else name)


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        kind = AccessDenied if isinstance(error, PermissionError) else StorageError
        raise kind(
            f"{path} can't be read: {error.strerror}",
            key=str(path),
            hint="Check its permissions; nothing was committed",
        ) from error


@contextlib.contextmanager
def _seekable(path: Path) -> Iterator[str]:
    """The path, or that of a copy if it is a pipe."""
    if path.is_file() and str(path) != _STDIN_PATH:
        _check_readable(path)
        yield str(path)
        return
    with tempfile.NamedTemporaryFile(prefix="lakelog-") as copy:
        stdin = str(path) == _STDIN_PATH
        with open(0 if stdin else path, "rb", closefd=not stdin) as source:
            shutil.copyfileobj(source, copy)
        copy.flush()
        yield copy.name
