"""Objects as files of a local or mounted file system.

A write is: a temporary file under `_tmp/`, fsync, then one step that gives it its final name (`link` where the name must
be new, `rename` elsewhere), then fsync of the folder. So a crash leaves no object or a whole one, and of any number of
processes exactly one creates a name. fsspec's own backend gives neither.

Symbolic links below the root are not followed: one that leads out would let a key read or write anything.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import secrets
import stat
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidPath,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .base import ObjectInfo, Store
from .keys import check_key, check_prefix, check_range, is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TMP = "_tmp"
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ_SIZE_BYTES = 1 << 16
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalStore(Store):
    """Objects below a folder, which need not exist yet.

    Args:
        root: Path of the folder; made absolute now, so a later change of the working directory doesn't matter.
    """

    backend = "file"

    def __init__(self, root: str) -> None:
        self.url = os.path.abspath(root)
        self._root = os.path.realpath(root)
        self._base = self._root.rstrip("/") + "/"
        # Folders seen to exist and to be reached without a symbolic link, as keys without the trailing `/`. Sets are
        # safe to read and grow from many threads; a folder that vanishes is found out by the call that fails.
        self._folders: set[str] = set()

    # --- writing ---

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object durably; see `Store.put`."""
        check_key(key)
        folder = key.rpartition("/")[0]
        if key.split("/", 1)[0] == _TMP:
            raise InvalidPath("the local store keeps '_tmp/' for itself", key=key)
        try:
            try:
                self._put(key, folder, body, if_absent)
            except FileNotFoundError:
                # A folder known to this store was removed by somebody else: make it again, once.
                self._folders.clear()
                self._put(key, folder, body, if_absent)
        except OSError as error:
            _fail(error, key, "write")

    def _put(self, key: str, folder: str, body: bytes, if_absent: bool) -> None:
        if folder not in self._folders:
            self._make_folder(folder)
        if _TMP not in self._folders:
            self._make_folder(_TMP)
        temporary = f"{self._base}{_TMP}/{secrets.token_hex(12)}"
        try:
            _write_file(temporary, body)
            if if_absent:
                self._link(temporary, key)
            else:
                os.replace(temporary, self._base + key)
                temporary = ""
        finally:
            if temporary:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
        _sync_folder(self._base + folder)

    def _link(self, temporary: str, key: str) -> None:
        try:
            os.link(temporary, self._base + key, follow_symlinks=False)
        except FileExistsError:
            if os.path.isdir(self._base + key):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
            raise ObjectExists("the object exists already", key=key) from None
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise CapabilityMissing(
                    "this file system has no hard links, so a name can't be created exclusively",
                    key=key,
                    hint="keep the catalog on a file system that has them",
                ) from error
            raise

    def _make_folder(self, folder: str) -> None:
        """Make a folder and its parents durable, down from the first that exists."""
        if not os.path.isdir(self._root):
            _make_durable(self._root)
        path, done = self._root, ""
        for name in folder.split("/") if folder else ():
            parent, path = path, f"{path}/{name}"
            done = f"{done}/{name}" if done else name
            if done in self._folders:
                continue
            try:
                os.mkdir(path)
            except FileExistsError:
                self._refuse_link(path, done)
            # Also where it existed: another process may have made it just now and not have synced yet.
            _sync_folder(parent)
            self._folders.add(done)
        self._folders.add(folder)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        """Remove files; see `Store.delete`. A removal that a power cut undoes is harmless, so it isn't synced."""
        for key in keys:
            try:
                os.unlink(self._path(key))
            except OSError as error:
                if error.errno not in _ABSENT and not os.path.isdir(self._base + key):
                    _fail(error, key, "delete")
            except ObjectNotFound:
                pass

    # --- reading ---

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read a file or a range of it; see `Store.get`."""
        check_range(start, end)
        try:
            descriptor = os.open(self._path(key), _READ)
            try:
                if start is None and end is None:
                    return _read_all(descriptor)
                size_bytes = os.fstat(descriptor).st_size
                first, last, _ = slice(start, end).indices(size_bytes)
                return _read_range(descriptor, first, last)
            finally:
                os.close(descriptor)
        except OSError as error:
            _fail(error, key, "read")

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole files, one after the other: threads only add switching here; see `Store.get_many`."""
        found: list[bytes | None] = []
        path_of, read_all, absent = self._path, _read_all, _ABSENT
        for key in keys:
            try:
                descriptor = os.open(path_of(key), _READ)
                try:
                    found.append(read_all(descriptor))
                finally:
                    os.close(descriptor)
            except ObjectNotFound:
                found.append(None)
            except OSError as error:
                if error.errno not in absent:
                    _fail(error, key, "read")
                found.append(None)
        return found

    def head(self, key: str) -> ObjectInfo:
        """Size and time of a file; see `Store.head`."""
        try:
            found = os.lstat(self._path(key))
        except OSError as error:
            _fail(error, key, "read")
        if stat.S_ISLNK(found.st_mode):
            raise _link_refused(key)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound("no such object (it is a folder)", key=key)
        return ObjectInfo(key, found.st_size, dt.datetime.fromtimestamp(found.st_mtime, dt.UTC))

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """The file itself, read by Arrow's own code; see `Store.open_input`."""
        import pyarrow as pa

        self.head(key)
        try:
            return pa.OSFile(self._base + key, "rb")
        except OSError as error:
            _fail(error, key, "read")

    def object_url(self, key: str) -> str:
        """The absolute path: what Spark, Arrow and DuckDB open."""
        return self._base + check_key(key)

    # --- listing ---

    def list(self, prefix: str, *, after: str | None = None) -> list[ObjectInfo]:
        """All files below `prefix`; see `Store.list`. Not one moment in time: a racing writer's file may be missed."""
        check_prefix(prefix)
        found: list[ObjectInfo] = []
        try:
            if self._is_folder(prefix[:-1]):
                self._scan(prefix, after, found)
        except OSError as error:
            _fail(error, prefix, "list")
        # Code point order is the order of the UTF-8 bytes.
        found.sort(key=lambda info: info.key)
        return found

    def _scan(self, prefix: str, after: str | None, found: list[ObjectInfo]) -> None:
        from_timestamp, utc = dt.datetime.fromtimestamp, dt.UTC
        folders: list[str] = []
        for entry in self._entries(prefix):
            key = prefix + entry.name
            if after is not None and key <= after:
                below = key + "/"
                if entry.is_file(follow_symlinks=False) or (
                    below <= after and not after.startswith(below)
                ):
                    continue  # the file is too low, or all that the folder can hold is
            if entry.is_file(follow_symlinks=False):
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append(ObjectInfo(key, status.st_size, from_timestamp(status.st_mtime, utc)))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(key + "/")
        for folder in folders:
            self._scan(folder, after, found)

    def list_folders(self, prefix: str) -> list[str]:
        """Names of the folders directly below `prefix`; see `Store.list_folders`."""
        check_prefix(prefix)
        try:
            if not self._is_folder(prefix[:-1]):
                return []
            entries = self._entries(prefix)
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError as error:
            _fail(error, prefix, "list")

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        """What the folder of `prefix` holds; nothing if it has just vanished."""
        try:
            with os.scandir(self._base + prefix) as entries:
                found = [e for e in entries if e.name.isascii() or is_utf8(e.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return found if prefix else [e for e in found if e.name != _TMP]

    # --- paths ---

    def _path(self, key: str) -> str:
        """The path of a key to be read or removed, reached without a symbolic link."""
        check_key(key)
        folder = key.rpartition("/")[0]
        if folder and folder not in self._folders and not self._is_folder(folder):
            raise ObjectNotFound("no such object", key=key)
        return self._base + key

    def _is_folder(self, folder: str) -> bool:
        """Whether the folder exists and no part of it is a symbolic link."""
        path, done = self._root, ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}"
            done = f"{done}/{name}" if done else name
            if done in self._folders:
                continue
            try:
                self._refuse_link(path, done)
            except (FileNotFoundError, NotADirectoryError):
                return False
            self._folders.add(done)
        return True

    def _refuse_link(self, path: str, folder: str) -> None:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            raise _link_refused(folder)
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _write_file(path: str, body: bytes) -> None:
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_durable(path: str) -> None:
    """Make a folder outside the store's root, with its parents, and sync what names them."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make_durable(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    _sync_folder(parent)


def _read_all(descriptor: int) -> bytes:
    body = os.read(descriptor, _READ_SIZE_BYTES)
    if len(body) < _READ_SIZE_BYTES:  # a regular file reads short only at its end
        return body
    size_bytes = os.fstat(descriptor).st_size
    return body + _read_range(descriptor, _READ_SIZE_BYTES, size_bytes)


def _read_range(descriptor: int, first: int, last: int) -> bytes:
    parts: list[bytes] = []
    while first < last:
        part = os.pread(descriptor, last - first, first)
        if not part:
            break
        parts.append(part)
        first += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _link_refused(key: str) -> AccessDenied:
    return AccessDenied(
        "a symbolic link below the root is not followed",
        key=key,
        hint="put the files themselves there, or open the catalog at the link's target",
    )


def _fail(error: OSError, key: str, verb: str) -> NoReturn:
    """Raise the typed error for what the operating system said."""
    code, text = error.errno, error.strerror or type(error).__name__
    failure: LakelogError
    if code in _ABSENT and verb != "write":
        failure = ObjectNotFound("no such object", key=key)
    elif code == errno.ELOOP:
        failure = _link_refused(key)
    elif code in {errno.EACCES, errno.EPERM, errno.EROFS}:
        failure = AccessDenied(f"not allowed to {verb}: {text}", key=key)
    else:
        failure = StorageError(f"can't {verb}: {text}", key=key, hint=_HINTS.get(code or 0))
    raise failure from error


_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, then repeat the call",
    errno.EDQUOT: "the disk quota is used up: free some space, then repeat the call",
    errno.EMFILE: "this process has too many files open: raise `ulimit -n`",
    errno.EISDIR: "a folder has this name: on a file system one name can't be both",
    errno.ENOTDIR: "a file has the name of a folder in this key: on a file system one name can't be both",
    errno.ENAMETOOLONG: "file systems end at 255 bytes a name",
    errno.EXDEV: "a folder below the root is another file system: open the catalog inside it",
}
