"""Names and keys: what may be called how, where it lies, and which object names are ours. Pure.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote_to_bytes

from ...errors import CorruptObject, InvalidName, InvalidPath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


MAX_PATH_BYTES: Final = (
    892  # object stores take keys of 1,024 bytes; `<writer>/<database>/` and a margin come before
)
MAX_SEGMENT_BYTES: Final = 255
MAX_REVISION: Final = 999_999_999_999  # its complement has 12 digits
MAX_INCARNATION: Final = 999
MAX_EPOCH: Final = (1 << 62) - 1
LOG_ID_BYTES: Final = 16

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_LOG_OBJECT = re.compile(
    r"(?P<incarnation>[0-9]{3})-(?P<complement>[0-9]{12})-(?P<revision>0|[1-9][0-9]{0,11})"
    r"\.(?P<uuid8>[0-9a-f]{8})\.(?P<kind>transaction|checkpoint)",
    re.ASCII,
)
_SEGMENT = re.compile(r"(?P<digest>[0-9a-f]{64})\.segment", re.ASCII)
_OWN_FILE = r"(?P<epoch>[1-9][0-9]{0,18})-(?P<id>[0-9a-f]{32})-(?P<number>[0-9]{1,9})"
_DATA_FILE = re.compile(_OWN_FILE + r"\.parquet")
_DELETES_FILE = re.compile(_OWN_FILE + r"\.deletes")
_REPLICA_NAME = r"replica-(?P<source>[0-9a-f]{16})-[0-9a-f]{40}\.parquet"
_REPLICA_FILE = re.compile(_REPLICA_NAME)
OWN_NAME: Final = rf"/(?:{_OWN_FILE}\.parquet|{_REPLICA_NAME})$"
"""How keys of data files end that lakelog wrote, as a pattern."""
# Of a file that lies elsewhere: the id of its location stands behind it (`locations`).
IN_PLACE: Final = "at/"
_IN_PLACE = re.compile(r"at/[0-9a-f]{16}/")
# What would end a key segment or be expanded as a pattern by the engines that open the file.
_ESCAPED: Final = frozenset("/\\%*?[]{}")

Kind = Literal["transaction", "checkpoint"]


@dataclass(frozen=True, slots=True, order=True)
class LogObject:
    """The parsed name of an object in `transactions/`.

    Attributes:
        incarnation: Of the log, from 1.
        revision: The number it belongs to.
        uuid8: First 8 hex digits of the slot uuid.
        kind: transaction or checkpoint.
    """

    incarnation: int
    revision: int
    uuid8: str
    kind: Kind

    @property
    def name(self) -> str:
        """The object's name, without its folder: the newest sorts first."""
        return f"{name_prefix(self.incarnation, self.revision)}.{self.uuid8}.{self.kind}"


def name_prefix(incarnation: int, revision: int | None = None) -> str:
    """How the names of an incarnation, or of one revision of it, begin."""
    prefix = f"{MAX_INCARNATION - incarnation:03d}-"
    return prefix if revision is None else f"{prefix}{MAX_REVISION - revision:012d}-{revision}"


# Among a log's names, before all others: the log is a replica, and is written by replication alone.
REPLICA_MARK: Final = "000-replica"


def parse_log_object(name: str) -> LogObject | None:
    """The parsed name, or None for a name that isn't ours (it is then ignored and never
    deleted)."""
    match = _LOG_OBJECT.fullmatch(name)
    if match is None:
        return None
    incarnation = MAX_INCARNATION - int(match["incarnation"])
    revision = int(match["revision"])
    if incarnation < 1 or int(match["complement"]) + revision != MAX_REVISION:
        return None
    kind: Kind = match["kind"]  # type: ignore[assignment]
    return LogObject(incarnation, revision, match["uuid8"], kind)


def segment_name(digest: bytes) -> str:
    """The name of a segment object, without its folder, from its frame digest."""
    return f"{digest.hex()}.segment"


def parse_segment_name(name: str) -> bytes | None:
    """The digest that a segment's name says, or None for a name that isn't ours."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else bytes.fromhex(match["digest"])


def check_id(value: str, what: str) -> str:
    """Returns `value`. Raises `InvalidName` if it may not name a writer or database."""
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise InvalidName(
            f"{what} id {value!r} is not valid",
            key=str(value),
            hint="Use 1 to 64 letters, digits, '-' and '_' of ASCII, the first a letter or digit",
        )
    return value


def is_id(value: str) -> bool:
    """Whether `value` may name a writer or database."""
    return _ID.fullmatch(value) is not None


def escape_name(name: str, what: str) -> str:
    """A table or partition name as one key segment: UTF-8 as it is, with `/ \\ % * ? [ ] { }`,
    control characters and the whole segments `.` and `..` percent-encoded.

    Raises:
        InvalidName: No text, empty, not encodable, or longer than 255 bytes once encoded.
    """
    if not isinstance(name, str):
        raise InvalidName(
            f"{what} name {name!r} is of type {type(name).__name__}, not text",
            key=repr(name)[:60],
            hint="Leave it out, or give '' for none"
            if name is None and what == "partition"
            else f"Give text: str({str(name)[:60]})",
        )
    if not name:
        raise InvalidName(f"{what} name is empty", hint="Give it a name")
    if name in (".", ".."):
        encoded = name.replace(".", "%2E")
    else:
        encoded = "".join(_escape(char) if _must_escape(char) else char for char in name)
    try:
        length = len(encoded.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidName(f"{what} name {name!r} is not valid Unicode", key=repr(name)) from error
    if length > MAX_SEGMENT_BYTES:
        raise InvalidName(
            f"{what} name of {length} bytes is too long",
            key=name[:60],
            hint=f"At most {MAX_SEGMENT_BYTES} bytes fit, percent-encoding included",
        )
    return encoded


def is_text(value: object) -> bool:
    """Whether a value is text that has a UTF-8 form: not so for half of a surrogate pair."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def fits_name(name: str) -> bool:
    """Whether a table or partition name is short enough to be a folder, percent-encoded."""
    if len(name) <= MAX_SEGMENT_BYTES // 12:  # a character takes at most 12 bytes
        return True
    size = len(name.encode()) + 2 * sum(map(_must_escape, name))
    return size <= MAX_SEGMENT_BYTES


def _must_escape(char: str) -> bool:
    return char in _ESCAPED or _control(char)


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8"))


def check_path(path: str) -> str:
    """Returns `path`. Raises `InvalidPath` if a log may not name it: it must be below `data/` or a
    location, relative, and without tricks."""
    if not isinstance(path, str):
        raise InvalidPath(
            f"A path is text, and {repr(path)[:200]} is of type {type(path).__name__}",
            key=str(path)[:200],
            hint="Give text: `.as_py()` of an Arrow value, `str()` of a path",
        )
    problem = _path_problem(path)
    if problem:
        raise InvalidPath(
            f"Path {str(path)[:200]!r} {problem}",
            key=str(path)[:200],
            hint="Paths are relative to <writer>/<database>/ and begin with data/; files elsewhere "
            "are named by their URLs or absolute paths",
        )
    return path


def _path_problem(path: str) -> str:
    if not path.startswith("data/") and _IN_PLACE.match(path) is None:
        return "is not below data/"
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if len(raw) > MAX_PATH_BYTES:
        return "is too long"
    if "\\" in path or has_control(path):
        return "holds a backslash or a control character"
    for segment, size in zip(path.split("/"), map(len, raw.split(b"/"))):
        if segment in ("", ".", ".."):
            return "has an empty or a dot segment"
        if size > MAX_SEGMENT_BYTES:
            return "has a segment that is too long"
    return ""


def has_control(text: str) -> bool:
    """Whether a text holds a control character."""
    return not text.isprintable() and any(map(_control, text))


def _control(char: str) -> bool:
    return ord(char) < 0x20 or ord(char) == 0x7F


@dataclass(frozen=True, slots=True)
class DataFile:
    """What the name of a data file made by lakelog says."""

    epoch: int
    transaction_id: bytes
    number: int


def parse_data_file(path: str) -> DataFile | None:
    """Epoch, transaction id and number of a data file's path, or None for a foreign name."""
    return _own_file(_DATA_FILE, path)


def parse_deletes_file(path: str) -> DataFile | None:
    """The same of an object of row deletes; None for any other name."""
    return _own_file(_DELETES_FILE, path)


def parse_own_file(path: str) -> DataFile | None:
    """The same of a data file or an object of row deletes."""
    return parse_data_file(path) or parse_deletes_file(path)


def parse_replica_file(path: str) -> str:
    """Returns what the name of a file that a replication of chosen tables made says of the log that
    it was made from; empty for any other name."""
    match = _REPLICA_FILE.fullmatch(path.rsplit("/", 1)[-1])
    return "" if match is None else match["source"]


def is_own(key: str) -> bool:
    """Whether lakelog wrote a data file, by its key: not one that it only took in."""
    return "://" not in key and re.search(OWN_NAME, f"/{key}") is not None


def _own_file(pattern: re.Pattern[str], path: str) -> DataFile | None:
    match = pattern.fullmatch(path.rsplit("/", 1)[-1])
    if match is None or int(match["epoch"]) > MAX_EPOCH:
        return None
    return DataFile(int(match["epoch"]), bytes.fromhex(match["id"]), int(match["number"]))


NO_PARTITION: Final = "_"


def data_path(partition: str, table: str, epoch: int, transaction_id: bytes, number: int) -> str:
    """Where a new data file goes, relative to `<writer>/<database>/`.

    Raises:
        InvalidName: A partition or table name that can't be.
    """
    folder = partition_folder(partition)
    file = f"{epoch}-{transaction_id.hex()}-{number}.parquet"
    return check_path(f"data/{folder}/{escape_name(table, 'table')}/{file}")


def deletes_path(table: str, epoch: int, transaction_id: bytes, number: int) -> str:
    """Where a new object of row deletes goes, beside the files of no partition."""
    path = data_path("", table, epoch, transaction_id, number)
    return path.removesuffix(".parquet") + ".deletes"


def partition_folder(partition: str) -> str:
    """Returns the folders of a partition: a level for each part between `/`, percent-encoded; `_`
    for an empty part. Raises `InvalidName` if no partition can be called so."""
    if partition != "":
        escape_name(partition, "partition")  # the length of the whole
    return "/".join(_level(part) for part in partition.split("/"))


def _level(part: str) -> str:
    if part == "":
        return NO_PARTITION
    return "%5F" if part == NO_PARTITION else escape_name(part, "partition")


def log_folder(writer: str, database: str) -> str:
    """Key prefix of a log's objects."""
    return f"{writer}/{database}/transactions/"


def segments_folder(writer: str, database: str) -> str:
    """Key prefix of the segments of a log's checkpoints."""
    return f"{writer}/{database}/segments/"


def mirror_log_folder(writer: str, database: str) -> str:
    """Returns the key prefix of the second copy of a log's objects."""
    return f"{writer}/{database}/mirror/transactions/"


def mirror_segments_folder(writer: str, database: str) -> str:
    """Returns the key prefix of the second copy of the segments of a log's checkpoints."""
    return f"{writer}/{database}/mirror/segments/"


def mirror_key(key: str) -> str:
    """Returns the key of the second copy of an object of a log, from the object's own key."""
    writer, database, rest = key.split("/", 2)
    return f"{writer}/{database}/mirror/{rest}"


def base_folder(writer: str, database: str) -> str:
    """Key prefix that the paths in a log are relative to."""
    return f"{writer}/{database}/"


def first_slot_uuid(writer: str, database: str) -> bytes:
    """The slot uuid of revision 0, which any two committers derive alike (so that they race for one
    name)."""
    return hashlib.sha256(f"lakelog\n{writer}\n{database}".encode()).digest()[:16]


def successor_uuid(slot_seed: bytes, revision: int) -> bytes:
    """The slot uuid of the revision after `revision`, for the opening that drew `slot_seed`.

    Whoever knows the seed knows every name that this opening may still commit under.
    """
    text = b"lakelog successor" + slot_seed + revision.to_bytes(8, "little")
    return hashlib.sha256(text).digest()[:16]


def rebuilt_slot_uuid(rebuild_id: bytes, revision: int) -> bytes:
    """The slot uuid of a revision that a rebuild writes: the same again if it is run again."""
    text = b"lakelog rebuild" + rebuild_id + revision.to_bytes(8, "little")
    return hashlib.sha256(text).digest()[:16]


# --- External files: base URLs that a log names, and paths below them -----------------------------

LOCATIONS: Final = "locations"
MAX_LOCATIONS: Final = 256
MAX_LOCATION_BYTES: Final = 1_024
_HINT: Final = "Rebuild the log, or read an earlier point in time; other tables are sound"
_ID_CHARS: Final = 16
HEAD_CHARS: Final = len(IN_PLACE) + _ID_CHARS + 1  # of a path, before what is below the location
_LOCATION = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>(/[^/]+)*)")


def location_id(url: str) -> str:
    """How paths name a location: 16 hex digits."""
    return hashlib.sha256(f"lakelog location\n{url}".encode()).hexdigest()[:_ID_CHARS]


def location_problem(url: str) -> str:
    """Why a URL can't be a location; empty if it can."""
    match = _LOCATION.fullmatch(url)
    if match is None:
        return "is no absolute URL without a slash at its end"
    scheme, authority = match["scheme"], match["authority"]
    if len(url.encode()) > MAX_LOCATION_BYTES:
        return "is too long"
    if any(sign in url for sign in "?#\\") or has_control(url):
        return "holds a query, a fragment, a backslash or a control character"
    user, at, host = authority.rpartition("@")
    if at and (":" in user or not (user and host) or not scheme.startswith("abfs")):
        return "holds credentials"
    if (scheme == "file") != (not authority):
        return "names no place, or a file on another machine"
    if any(segment in (".", "..") for segment in match["path"].split("/")):
        return "has a dot segment"
    return ""


def is_in_place(path: str) -> bool:
    """Whether a path in a log names a file that lies elsewhere."""
    return path.startswith(IN_PLACE)


def path_at(location: str, rest: str) -> str:
    """Returns the path of a file below a location. Raises `InvalidPath` if no log may hold it."""
    return check_path(f"{IN_PLACE}{location_id(location)}/{rest}")


def rest_of(path: str) -> str:
    """What the path of a file that lies elsewhere says below its location."""
    return path[HEAD_CHARS:]


class Places:
    """The locations that a log names, by id.

    Args:
        locations: Their URLs.
        where: The log, for messages.
    """

    def __init__(self, locations: Collection[str], where: str) -> None:
        self._urls = {location_id(url): url for url in locations}
        self._where = where

    def url(self, path: str) -> str:
        """Returns the URL of an external file. Raises `CorruptObject` if the log doesn't name its
        location."""
        return f"{self.location(path)}/{rest_of(path)}"

    def location(self, path: str) -> str:
        """Returns the base URL of a path. Raises `CorruptObject` if the log doesn't name its
        location."""
        found = self._urls.get(path[len(IN_PLACE) : HEAD_CHARS - 1])
        if found is None:
            raise CorruptObject(
                f"The log of {self._where} holds {path}, and doesn't say where that is",
                key=path,
                hint=_HINT,
            )
        return found


# --- Names of partitions that state values of columns, as Hive has them ---------------------------

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
# What Hive and Spark escape, and the other half of each pair of brackets.
_ESCAPED_BY_HIVE: Final = frozenset("\"#%'*/:=?\\{}[]^") | set(map(chr, (*range(0x20), 0x7F)))
_HIVE_ESCAPE: Final = re.compile("[" + "".join(map(re.escape, sorted(_ESCAPED_BY_HIVE))) + "]")
_HEX: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_HIVE_FOLDER: Final = re.compile(r"[^=]+=.*", re.DOTALL)


def partition_name(values: Iterable[tuple[str, str | None]]) -> str:
    """The name of the partition of some values.

    Args:
        values: Columns, and the text of the value of each; None is null.
    Raises:
        InvalidName: It is longer than 255 bytes, percent-encoded, or no Unicode.
    """
    name = "/".join(f"{_escaped(column)}={_value(text)}" for column, text in values)
    escape_name(name, "partition")
    return name


def parse_partition(name: str) -> dict[str, str | None]:
    """The columns that a partition's name tells of, and the text of the value of each; None is
    null. Parts without `=` or with an invalid escape tell of no column, nor does a column that
    stands twice.
    """
    found: dict[str, str | None] = {}
    twice = set()
    for part in name.split("/"):
        key, equals, text = part.partition("=")
        column, value = _unescaped(key), _unescaped(text)
        if not equals or not column or value is None:
            continue
        if column in found:
            twice.add(column)
        found[column] = None if text == NULL else value
    return {column: value for column, value in found.items() if column not in twice}


def hive_partition(path: str) -> str:
    """The partition that the folders right above a file name.

    Args:
        path: A key, path or URL with `/` between its segments.
    Returns:
        Those folders as they stand, `name=value` each, joined by `/`; empty if there are none.
    """
    above = reversed(path.split("/")[:-1])
    named = [*takewhile(_HIVE_FOLDER.fullmatch, above)]
    return "/".join(reversed(named))


def _value(text: str | None) -> str:
    if text is None:
        return NULL
    return "%5F" + text[1:] if text == NULL else _escaped(text)


def _escaped(text: str) -> str:
    return _HIVE_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescaped(text: str) -> str | None:
    if "%" not in text:
        return text
    if _HEX.search(text):
        return None
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        return None
