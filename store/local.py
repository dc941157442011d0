"""Objects as files of a local or mounted file system.

A write is: a temporary file under `_tmp/`, fsync, then one step that gives it its final name
(`link` where the name must be new, else `rename`), then fsync of the folder. So a crash leaves no
object or a whole one, and of any number of processes exactly one creates a name. fsspec's own
backend gives neither.

Symbolic links below the root are not followed: one that leads out would let a key read or write
any file. The root itself may be one.

A root that was seen and then is unmounted or moved away is not made anew.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import stat
from typing import TYPE_CHECKING, Any

from ..errors import CapabilityMissing, InvalidPath, ObjectExists, ObjectNotFound, StorageError
from . import local_files as files
from .base import PAGE_KEYS, ObjectInfo, Store
from .keys import check_first_page, check_key, check_list_prefix, check_prefix, check_range, is_utf8
from .local_files import FOLDER, entries
from .server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .base import Keys, Names

_TMP = "_tmp"
_DOTS = frozenset({"", ".", ".."})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalStore(Store):
    """Objects below a folder, which need not exist yet.

    Args:
        root: Path of the folder; made absolute now, so a later change of the working directory
            doesn't matter.
    """

    backend = "file"

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
            files.fail(error, key, "write")

    def _put(self, key: str, body: bytes, if_absent: bool) -> None:
        folder = key.rpartition("/")[0]
        for needed in (folder, _TMP):
            if needed not in self._folders:
                self._make_folder(needed, key)
        temporary = f"{self._base}{_TMP}/{os.urandom(files.TMP_NAME_BYTES).hex()}"
        try:
            written_s = files.write_file(temporary, body)
            self._clock.saw(written_s)
            if if_absent:
                self._link(temporary, key)
            else:
                os.replace(temporary, self._base + key)
            # Later than the time of its bytes, if this process stood still in between.
            with contextlib.suppress(OSError):
                self._clock.saw(os.lstat(self._base + key).st_ctime)
            if not if_absent:
                temporary = ""
        except ObjectExists:
            # It can be one's own, from a put that failed when the folder was synced.
            self._sync(folder, key)
            raise
        finally:
            if temporary:
                # Whatever goes wrong here says nothing about the object; the sweep comes by later.
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        self._sync(folder, key)
        if not self._swept:
            self._swept = True
            files.sweep(self._base + _TMP, written_s)

    def _sync(self, folder: str, key: str) -> None:
        """Make the name of an object durable that is there by now.

        Raises:
            StorageError: Never `AccessDenied`: callers take that for "nothing was written".
        """
        try:
            files.sync_folder(self._base + folder)
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
        identity = files.identity(self._root)
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
            files.make_durable(self._root)
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
                files.refuse_link(path, done)
            # Also where it existed: another process may have made it and not have synced yet.
            files.sync_folder(parent)
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
                if error.errno not in files.ABSENT and not os.path.isdir(self._base + key):
                    files.fail(error, key, "delete")
                gone.add(key)
        return frozenset(gone)

    # --- reading ---

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read a file or a range of it; see `Store.get`."""
        check_range(start, end)
        path = self._path(key)
        try:
            descriptor = os.open(path, files.READ)
            try:
                if start is None and end is None:
                    return files.read_all(descriptor)
                size_bytes = files.file_status(descriptor).st_size
                first, last, _ = slice(start, end).indices(size_bytes)
                return files.read_range(descriptor, first, last)
            finally:
                os.close(descriptor)
        except OSError as error:
            files.fail(error, key, "read")

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole files one after the other: threads would only add switching.

        See `Store.get_many`.
        """
        found: list[bytes | None] = []
        open_file, close, flags = os.open, os.close, files.READ
        read_all, path_of = files.read_all, self._path
        for key in keys:
            body = None
            try:
                descriptor = open_file(path_of(key), flags)
                try:
                    body = read_all(descriptor)
                finally:
                    close(descriptor)
            except ObjectNotFound:
                pass
            except OSError as error:
                if error.errno not in files.ABSENT:
                    files.fail(error, key, "read")
            found.append(body)
        return found

    def head(self, key: str) -> ObjectInfo:
        """Size and time of a file; see `Store.head`."""
        path = self._path(key)
        try:
            found = os.lstat(path)
        except OSError as error:
            files.fail(error, key, "read")
        if stat.S_ISLNK(found.st_mode):
            raise files.link_refused(key)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound("no such object (a folder has this name)", key=key)
        return ObjectInfo(
            key, found.st_size, dt.datetime.fromtimestamp(files.arrived_s(found), dt.UTC)
        )

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """The file, read by Arrow's own code; see `Store.open_input`."""
        import pyarrow as pa

        self.head(key)
        try:
            return pa.OSFile(self._base + key, "rb")
        except OSError as error:
            files.fail(error, key, "read")

    def object_url(self, key: str) -> str:
        """The absolute path: what Spark, Arrow and DuckDB open."""
        return self._base + check_key(key)

    def local_path(self, key: str) -> str:
        """The absolute path; see `Store.local_path`."""
        return self.object_url(key)

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
        check_first_page(first_page)
        return self._listed(check_list_prefix(prefix), after, first_page)

    def _listed(self, prefix: str, after: str | None, first_page: int) -> Iterator[ObjectInfo]:
        try:
            if self._is_folder(prefix.rpartition("/")[0]):
                yield from scan(self._base, prefix, after, first_page, hidden=_TMP)
        except OSError as error:
            files.fail(error, prefix, "list")

    def list_folders(self, prefix: str) -> Names:
        """Names of the folders directly below `prefix`; see `Store.list_folders`."""
        check_prefix(prefix)
        try:
            if not self._is_folder(prefix[:-1]):
                return []
            names = files.folder_names(self._base + prefix)
        except OSError as error:
            files.fail(error, prefix, "list")
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
            self._identity = files.identity(self._root) or self._identity
        path, done = self._root, ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}"
            done = f"{done}/{name}" if done else name
            if done in self._folders:
                continue
            try:
                files.refuse_link(path, done)
            except (FileNotFoundError, NotADirectoryError):
                return False
            self._folders.add(done)
        return True


# --- Listing --------------------------------------------------------------------------------------
#
# A folder is read as a whole, because file systems keep names in no order. Sizes and times are
# looked up a page at a time: a caller that stops early costs no more look-ups. No file is open
# between two pages, so an abandoned iterator holds nothing.


def scan(
    base: str, prefix: str, after: str | None, first_page: int, *, hidden: str
) -> Iterator[ObjectInfo]:
    """All regular files whose key starts with `prefix` and is greater than `after`, by key.

    Symbolic links are left out, and so are names that have no UTF-8 form. A folder that vanishes
    meanwhile is no error.

    Args:
        base: Path of the root, with a trailing `/`.
        prefix: A key prefix.
        after: A key, or None.
        first_page: How many files of a folder are looked up at first.
        hidden: Name of a folder in the root to leave out.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    names = _names(base, folder, prefix[len(folder) :], after, hidden)
    pending = [_walk(base, folder, names, first_page)]
    while pending:  # a list of generators: folders nest deeper than Python's calls may
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
        elif isinstance(step, str):
            names = _names(base, step, "", after, hidden)
            pending.append(_walk(base, step, names, first_page))
        else:
            yield step


def _names(base: str, folder: str, start: str, after: str | None, hidden: str) -> list[str]:
    """Names in a folder that may lead to an object, those of folders with `/`, in order of keys."""
    found = []
    for entry in entries(base + folder):
        name = entry.name
        if not name.startswith(start) or not (name.isascii() or is_utf8(name)):
            continue
        if entry.is_file(follow_symlinks=False):
            if after is None or folder + name > after:
                found.append(name)
        elif entry.is_dir(follow_symlinks=False) and folder + name != hidden:
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
    arrived_s = files.arrived_s
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
