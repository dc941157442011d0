"""The system calls of the local store, each with what is easily forgotten about it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import warnings
from typing import TYPE_CHECKING, NoReturn

from ..errors import AccessDenied, LakelogError, ObjectNotFound, StorageError
from .keys import is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
TMP_NAME_BYTES = 12
_TMP_NAME = re.compile(rf"[0-9a-f]{{{2 * TMP_NAME_BYTES}}}")
_TMP_AGE_S = 24 * 3600.0
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ_SIZE_BYTES = 1 << 16
_CANT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})


class LinkWarning(UserWarning):
    """A symbolic link to a folder was left out of a listing."""


def arrived_s(status: os.stat_result) -> float:
    """When a file came to be where it is, or later: a file that is moved, or unpacked, keeps the
    time at which its bytes were written, perhaps years ago, but nobody can set the time at which
    its inode changed.
    """
    return max(status.st_mtime, status.st_ctime)


def write_file(path: str, body: bytes) -> float:
    """Create a file and bring its bytes to the disk.

    Returns:
        Its modification time: the file system's own now.
    """
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        view = memoryview(body).cast("B")
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Bring the names in a folder to the disk, where the file system can."""
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANT_SYNC:  # some network file systems are always in sync
            raise
    finally:
        os.close(descriptor)


def identity(folder: str) -> tuple[int, int] | None:
    """Device and inode of a folder; None if it isn't there."""
    try:
        status = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def make_durable(path: str) -> None:
    """Make a folder and its parents, and bring what names them to the disk."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_durable(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    sync_folder(parent)


def sweep(folder: str, now_s: float) -> None:
    """Remove the temporary files that killed writers left behind a day ago or earlier.

    A writer that was merely asleep for so long finds its file gone and writes it again.

    Args:
        folder: Where the temporary files are.
        now_s: By the file system's own clock.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TMP_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                age_s = now_s - entry.stat(follow_symlinks=False).st_mtime
                if age_s > _TMP_AGE_S:
                    os.unlink(entry.path)


def read_all(descriptor: int) -> bytes:
    """Read an open file from its start to its end."""
    body = os.read(descriptor, _READ_SIZE_BYTES)
    if len(body) < _READ_SIZE_BYTES:  # a regular file reads short only at its end
        return body
    # From the start again: a large file is read in one piece then, and copied nowhere.
    return read_range(descriptor, 0, os.fstat(descriptor).st_size)


def read_range(descriptor: int, first: int, last: int) -> bytes:
    """Read the bytes from `first` up to `last`, or to the end of the file."""
    parts: list[bytes] = []
    while first < last:
        part = os.pread(descriptor, last - first, first)
        if not part:
            break
        parts.append(part)
        first += len(part)
    return b"".join(parts)


def file_status(descriptor: int) -> os.stat_result:
    """The status of an open file; a folder, which can be opened too, is refused."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return status


def folder_names(path: str) -> list[str]:
    """Names of the folders in a folder, in no order; nothing if it has just vanished.

    Symbolic links are left out: of one that leads to a folder a `LinkWarning` tells, since it may
    be meant for a writer or database of the catalog.
    """
    names = []
    for entry in entries(path):
        if not is_utf8(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            names.append(entry.name)
        elif entry.is_symlink() and _leads_to_folder(entry):
            where = os.path.join(path, entry.name)
            text = f"{where} is a symbolic link to a folder: not followed, and left out"
            warnings.warn(f"{text}. {_INSTEAD_OF_LINK}", LinkWarning, stacklevel=4)
    return names


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a loop, or not allowed to look
        return False


def entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder, in no order; nothing if it is not there, or no folder."""
    try:
        descriptor = os.open(path, FOLDER | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        # By descriptor: `stat` of an entry then needs no walk from the root of the file system.
        with os.scandir(descriptor) as found:
            yield from found
    finally:
        os.close(descriptor)


def refuse_link(path: str, folder: str) -> None:
    """Refuse a path that is a symbolic link, or no folder.

    Raises:
        AccessDenied: It is a link.
        NotADirectoryError: It is something else.
    """
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise link_refused(folder)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def link_refused(key: str) -> AccessDenied:
    """The error for a symbolic link."""
    return AccessDenied(
        "a symbolic link below the root is not followed",
        key=key,
        hint=_INSTEAD_OF_LINK,
    )


def fail(error: OSError, key: str, verb: str) -> NoReturn:
    """Raise the typed error for what the operating system said.

    Args:
        error: What it said.
        key: About which object.
        verb: What was tried: `read`, `write`, `list` or `delete`.
    """
    code, text = error.errno, error.strerror or type(error).__name__
    failure: LakelogError
    if code in ABSENT and verb != "write":
        failure = ObjectNotFound("no such object", key=key)
    elif code == errno.ELOOP:
        failure = link_refused(key)
    elif code in {errno.EACCES, errno.EPERM, errno.EROFS}:
        failure = AccessDenied(f"not allowed to {verb}: {text}", key=key, hint=_HINTS[code])
    else:
        failure = StorageError(f"can't {verb}: {text}", key=key, hint=_HINTS.get(code or 0))
    try:
        raise failure from error
    finally:
        del failure, error  # else the error and this frame hold each other, and all callers' frames


_INSTEAD_OF_LINK = (
    "Put the files themselves there (or mount the folder there), or open the catalog at the link's "
    "target"
)
_BOTH = "a file system can't have a file and a folder of one name: use another name"
_PERMISSIONS = "check the owner and the permissions of this file and of the folders above it"
_HINTS = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "this file system is mounted read-only: mount it for writing",
    errno.ENOSPC: "the disk is full: free some space, then repeat the call",
    errno.EDQUOT: "the disk quota is used up: free some space, then repeat the call",
    errno.EMFILE: "this process has too many files open: raise `ulimit -n`",
    errno.EISDIR: _BOTH,
    errno.ENOTDIR: _BOTH,
    errno.ENAMETOOLONG: "file systems allow 255 bytes a name: use a shorter one",
    errno.EXDEV: "a folder below the root is another file system: open the catalog inside it",
}
