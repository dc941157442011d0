"""Objects as files of a local or mounted file system.

A write is: a temporary file under `_tmp/`, fsync, then one step that gives it its final name
(`link` where the name must be new, else `rename`), then fsync of the folder. So a crash leaves no
object or a whole one, and of any number of processes exactly one creates a name. fsspec's own
backend gives neither.

Symbolic links below the root are not followed: one that leads out would let a key read or write
any file. The root itself may be one.

A root that was seen and then is unmounted or moved away is not created again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import re
import stat
import warnings
import weakref
from typing import IO, TYPE_CHECKING, Any, NoReturn

from ..errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidPath,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .base import (
    PAGE_KEYS,
    ObjectInfo,
    ServerClock,
    Store,
    check_key,
    check_listing,
    check_prefix,
    check_range,
    is_utf8,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .base import Keys, Names

_TMP = "_tmp"
_PROBE = "/_probe"  # what is found out there is found out again, should the power fail
_DOTS = frozenset({"", ".", ".."})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalStore(Store):
    """Objects below a folder, which need not exist yet.

    Args:
        root: Path of the folder; made absolute now, so a later change of the working directory
            doesn't matter.
    """

    backend = "file"
    racers, raced_names = 2, 1  # the kernel locks a folder while it makes a name in it

    def __init__(self, root: str) -> None:
        self.url = os.path.abspath(root)
        self._root = os.path.realpath(root)
        self._base = self._root.rstrip("/") + "/"
        # Folders seen to exist and reached without a symbolic link, as keys without the trailing
        # `/`. A set is safe to read and grow from many threads; that a folder is gone again is
        # found out by the call that fails.
        self._folders: set[str] = set()
        # Device and inode of the root once it was seen or made; None before.
        self._identity: tuple[int, int] | None = None
        self._swept = False
        self._clock = ServerClock()

    # --- writing ---

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object durably; see `Store.put`."""
        self._bring(key, body, if_absent)

    def spool(self) -> IO[bytes]:
        """A temporary file of this store, which `put_file` gives its name; see `Store.spool`."""
        self._make_folder(_TMP, _TMP)
        path = self._temporary()
        file = open(path, "x+b")  # noqa: SIM115 - its reader closes it
        weakref.finalize(file, _discard, path, os.getpid())
        return file

    def put_file(self, key: str, spool: IO[bytes], *, if_absent: bool = False) -> None:
        """Bring a temporary file to the disk, and give it its name; see `Store.put_file`."""
        spool.flush()
        self._bring(key, spool, if_absent)

    def _bring(self, key: str, body: bytes | IO[bytes], if_absent: bool) -> None:
        check_key(key)
        if key.startswith(_TMP + "/"):
            raise InvalidPath("the local store keeps '_tmp/' for itself", key=key)
        try:
            try:
                self._put(key, body, if_absent)
            except FileNotFoundError:
                # A folder that this store knew was removed by somebody else: make it again, once.
                # Not so if the whole root went: what is written into an empty mount point is gone
                # when the disk comes back.
                self._see_root(key)
                self._folders.clear()
                self._put(key, body, if_absent)
        except OSError as error:
            fail(error, key, "write")

    def _temporary(self) -> str:
        return f"{self._base}{_TMP}/{os.urandom(TMP_NAME_BYTES).hex()}"

    def _put(self, key: str, body: bytes | IO[bytes], if_absent: bool) -> None:
        folder = key.rpartition("/")[0]
        lasting = _PROBE not in folder
        for needed in (folder, _TMP):
            if needed not in self._folders:
                self._make_folder(needed, key)
        if not isinstance(body, bytes | bytearray | memoryview):
            os.fsync(body.fileno())
            written_s = os.fstat(body.fileno()).st_mtime
            self._name(body.name, key, written_s, if_absent, lasting=lasting)
        else:
            temporary = self._temporary()
            try:
                written_s = write_file(temporary, body, lasting=lasting)
                self._name(temporary, key, written_s, if_absent, lasting=lasting)
            finally:
                # Whatever goes wrong here says nothing about the object; the sweep comes by later.
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        if lasting:
            self._sync(folder, key)
        if not self._swept:
            self._swept = True
            sweep(self._base + _TMP, written_s)

    def _name(
        self, temporary: str, key: str, written_s: float, if_absent: bool, *, lasting: bool
    ) -> None:
        """Give a temporary file the name of an object."""
        self._clock.saw(written_s)
        try:
            if if_absent:
                self._link(temporary, key)
            else:
                os.replace(temporary, self._base + key)
        except ObjectExists:
            # It can be one's own, from a put that failed when the folder was synced.
            if lasting:
                self._sync(key.rpartition("/")[0], key)
            raise
        # Later than the time of its bytes, if this process stood still in between.
        with contextlib.suppress(OSError):
            self._clock.saw(os.lstat(self._base + key).st_ctime)

    def _sync(self, folder: str, key: str) -> None:
        """Make the name of an object durable that is there by now.

        Raises:
            StorageError: Never `AccessDenied`: callers take that for "nothing was written".
        """
        try:
            sync_folder(self._base + folder)
        except OSError as error:
            raise StorageError(
                f"the object may be there, but its folder can't be synced: {error.strerror}",
                key=key,
                hint="look at the disk and at the folder's permissions (it must be readable), "
                "then repeat the call",
            ) from error

    def _link(self, temporary: str, key: str) -> None:
        try:
            os.link(temporary, self._base + key, follow_symlinks=False)
        except FileExistsError:
            if stat.S_ISDIR(os.lstat(self._base + key).st_mode):
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

    def _see_root(self, key: str) -> bool:
        """Whether the root is there; remembers which folder it is, at the first time.

        Raises:
            StorageError: It was there and is not, or is another folder by now.
        """
        known = self._identity  # before the look: another thread may be making the root
        identity = folder_identity(self._root)
        if known is None:
            self._identity = identity or self._identity
        elif identity != known:
            what = "is not there any more" if identity is None else "is another folder than before"
            raise StorageError(
                f"the catalog's root {self._root} {what}; nothing was written",
                key=key,
                hint="was it unmounted or moved? When it is back, open the catalog again",
            )
        return identity is not None

    def _make_folder(self, folder: str, key: str) -> None:
        """Make a folder and its parents, and make durable what names them.

        Args:
            key: Of the object it is for.
        """
        if not self._see_root(key):
            make_durable(self._root)
            self._see_root(key)
        path, done = self._root, ""
        for name in folder.split("/") if folder else ():
            parent, path = path, f"{path}/{name}"
            done = f"{done}/{name}" if done else name
            if done in self._folders:
                continue
            try:
                os.mkdir(path)
            except FileExistsError:
                refuse_link(path, done)
            # Also where it existed: another process may have made it and not have synced yet.
            sync_folder(parent)
            self._folders.add(done)
        self._folders.add(folder)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys:
        """Remove files, always in order; see `Store.delete`.

        Not synced: a removal that a power cut undoes is only an object to be removed again.
        """
        gone = set()
        for key in keys:
            try:
                os.unlink(self._path(key))
            except ObjectNotFound:
                gone.add(key)
            except OSError as error:
                if error.errno not in ABSENT and not os.path.isdir(self._base + key):
                    fail(error, key, "delete")
                gone.add(key)
        return frozenset(gone)

    # --- reading ---

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read a file or a range of it; see `Store.get`."""
        check_range(start, end)
        try:
            descriptor = os.open(self._path(key), READ)
            try:
                if start is None and end is None:
                    return read_all(descriptor)
                size_bytes = file_status(descriptor).st_size
                first, last, _ = slice(start, end).indices(size_bytes)
                return read_range(descriptor, first, last)
            finally:
                os.close(descriptor)
        except OSError as error:
            fail(error, key, "read")

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole files one after the other: threads would only add switching.

        See `Store.get_many`.
        """
        found: list[bytes | None] = []
        open_file, close, flags = os.open, os.close, READ
        read, path_of = read_all, self._path
        for key in keys:
            body = None
            try:
                descriptor = open_file(path_of(key), flags)
                try:
                    body = read(descriptor)
                finally:
                    close(descriptor)
            except ObjectNotFound:
                pass
            except OSError as error:
                if error.errno not in ABSENT:
                    fail(error, key, "read")
            found.append(body)
        return found

    def head(self, key: str) -> ObjectInfo:
        """Size and time of a file; see `Store.head`."""
        try:
            found = os.lstat(self._path(key))
        except OSError as error:
            fail(error, key, "read")
        if stat.S_ISLNK(found.st_mode):
            raise link_refused(key)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound("no such object (a folder has this name)", key=key)
        return ObjectInfo(key, found.st_size, dt.datetime.fromtimestamp(arrived_s(found), dt.UTC))

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """The file, read by Arrow's own code; see `Store.open_input`."""
        import pyarrow as pa

        self.head(key)
        try:
            return pa.OSFile(self._base + key, "rb")
        except OSError as error:
            fail(error, key, "read")

    def object_url(self, key: str) -> str:
        """The absolute path: what Spark, Arrow and DuckDB open."""
        return self._base + check_key(key)

    def local_path(self, key: str) -> str:
        return self.object_url(key)

    def identity(self) -> str:
        """The folder, by its path and by what the file system tells it by; see `Store.identity`."""
        try:
            device, number = folder_identity(self._root) or (0, 0)
            system = os.statvfs(self._root).f_fsid
        except OSError:  # a root that is still to be made
            return self._root
        return f"{self._root} (folder {number} of device {device}, file system {system:x})"

    def above(self, levels: int) -> LocalStore | None:
        """The store of a folder above the root; see `Store.above`."""
        parts = self._root.strip("/").split("/")
        return None if levels > len(parts) else LocalStore("/" + "/".join(parts[:-levels]))

    # --- listing ---

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """All files below `prefix`, folder by folder; see `Store.list`.

        Not one moment in time: the scan may miss a file that another process writes meanwhile,
        and yet show a later one.
        """
        return self._listed(check_listing(prefix, first_page), after, first_page)

    def _listed(self, prefix: str, after: str | None, first_page: int) -> Iterator[ObjectInfo]:
        try:
            if self._is_folder(prefix.rpartition("/")[0]):
                yield from _scan(self._base, prefix, after, first_page)
        except OSError as error:
            fail(error, prefix, "list")

    def list_folders(self, prefix: str) -> Names:
        """Names of the folders directly below `prefix`; see `Store.list_folders`."""
        check_prefix(prefix)
        try:
            if not self._is_folder(prefix[:-1]):
                return []
            names = folder_names(self._base + prefix)
        except OSError as error:
            fail(error, prefix, "list")
        return sorted(name for name in names if prefix or name != _TMP)

    def server_time(self) -> dt.datetime | None:
        """By the file system's time of the newest file named here; see `Store.server_time`."""
        return self._clock.now()

    # --- paths ---

    def _path(self, key: str) -> str:
        """The path of a key to be read or removed, reached without a symbolic link."""
        folder, _, name = key.rpartition("/")
        # Of a key in a known folder only the last name is new; ten thousand reads pass here. The
        # root is no such folder: the key `/x` would be one of its own.
        known = folder and folder in self._folders and name not in _DOTS
        if not (known and name.isascii() and "\0" not in name):
            check_key(key)
            if not self._is_folder(folder):
                raise ObjectNotFound("no such object", key=key)
        return self._base + key

    def _is_folder(self, folder: str) -> bool:
        """Whether the folder exists; a symbolic link on the way is refused."""
        if self._identity is None:  # else folders could be known of a root that is not
            self._identity = folder_identity(self._root) or self._identity
        path, done = self._root, ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}"
            done = f"{done}/{name}" if done else name
            if done in self._folders:
                continue
            try:
                refuse_link(path, done)
            except (FileNotFoundError, NotADirectoryError):
                return False
            self._folders.add(done)
        return True


# --- Listing --------------------------------------------------------------------------------------
#
# A folder is read as a whole, because file systems keep names in no order. Sizes and times are
# looked up a page at a time: a caller that stops early costs no more look-ups. No file is open
# between two pages, so an abandoned iterator holds nothing.


def _scan(base: str, prefix: str, after: str | None, first_page: int) -> Iterator[ObjectInfo]:
    """All regular files whose key starts with `prefix` and is greater than `after`, by key.

    Symbolic links are left out, and so are names that have no UTF-8 form. A folder that vanishes
    meanwhile is no error.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    names = _names(base, folder, prefix[len(folder) :], after)
    pending = [_walk(base, folder, names, first_page)]
    while pending:  # a list of generators: folders nest deeper than Python's calls may
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
        elif isinstance(step, str):
            names = _names(base, step, "", after)
            pending.append(_walk(base, step, names, first_page))
        else:
            yield step


def _names(base: str, folder: str, start: str, after: str | None) -> list[str]:
    """Names in a folder that may lead to an object, those of folders with `/`, in order of keys."""
    found = []
    for entry in entries(base + folder):
        name = entry.name
        if not name.startswith(start) or not (name.isascii() or is_utf8(name)):
            continue
        if entry.is_file(follow_symlinks=False):
            if after is None or folder + name > after:
                found.append(name)
        elif entry.is_dir(follow_symlinks=False) and folder + name != _TMP:
            name += "/"
            if after is None or not _all_before(folder + name, after):
                found.append(name)
    # With its `/` a folder's name is where its keys are. The order of code points is the order of
    # the UTF-8 bytes.
    found.sort()
    return found


def _walk(
    base: str, folder: str, names: Sequence[str], first_page: int
) -> Iterator[ObjectInfo | str]:
    """The files and folders of a folder, in order: the files looked up, the folders as keys."""
    start, end = 0, first_page
    while start < len(names):
        page = names[start:end]
        found = _look_up(base, folder, page)
        for name in page:
            if name.endswith("/"):
                yield folder + name
            elif name in found:
                yield found[name]
        start, end = end, end + PAGE_KEYS


def _look_up(base: str, folder: str, names: Sequence[str]) -> dict[str, ObjectInfo]:
    """Sizes and times of the files among `names` that are still there."""
    found: dict[str, ObjectInfo] = {}
    time_of, utc, status_of = dt.datetime.fromtimestamp, dt.UTC, os.stat
    try:
        descriptor = os.open(base + folder, FOLDER | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return found
    try:
        for name in names:
            if name.endswith("/"):
                continue
            try:
                # By descriptor: needs no walk from the root of the file system.
                status = status_of(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                time = time_of(arrived_s(status), utc)
                found[name] = ObjectInfo(folder + name, status.st_size, time)
    finally:
        os.close(descriptor)
    return found


def _all_before(folder: str, after: str) -> bool:
    """Whether no key that starts with `folder` can be greater than `after`."""
    return folder <= after and not after.startswith(folder)


# --- System calls, each with what is easily forgotten about it ------------------------------------

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


def _discard(path: str, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(OSError):
            os.unlink(path)


def write_file(path: str, body: bytes, *, lasting: bool) -> float:
    """Create a file and bring its bytes to the disk.

    Args:
        lasting: False: the disk may take its time.
    Returns:
        Its modification time: the file system's own now.
    """
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        view = memoryview(body).cast("B")
        while view:
            view = view[os.write(descriptor, view) :]
        if lasting:
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


def folder_identity(folder: str) -> tuple[int, int] | None:
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
    """Raise the typed error for an error of the operating system.

    Args:
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
