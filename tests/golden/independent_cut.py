"""Tokens and footers for the independent reader: docs/format.md, sections 7 and 8."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import independent_messages as messages
from independent_log import Log, read_name
from independent_wire import (
    MAX_REVISION,
    Damaged,
    NotThere,
    Pruned,
    check_id,
    check_path,
    decode,
    need,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from independent_state import State

MAX_TOKEN = 1 << 20


@dataclass(frozen=True)
class Entry:
    """What a token says of one writer."""

    revision: int
    digest: bytes
    log_id: bytes
    incarnation: int


def parse_token(token: str) -> tuple[str, dict[str, Entry]]:
    """Database, and what is said of each writer."""
    need(token.startswith("ll1-") and len(token) <= MAX_TOKEN, "no token")
    text = token[4:]
    need(text.isascii(), "base64")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise Damaged("base64") from None
    need(base64.urlsafe_b64encode(data).decode().rstrip("=") == text, "base64 is not canonical")
    need(len(data) >= 4 and zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little"), "CRC")
    cut = decode(messages.CUT, data[:-4])
    check_id(cut.database)
    names = [check_id(item.writer).encode() for item in cut.writers]
    need(names and all(a < b for a, b in itertools.pairwise(names)), "writers")
    for item in cut.writers:
        need(len(item.digest) in (0, 8) and len(item.log_id) in (0, 16), "digest or log id")
        need(item.revision <= MAX_REVISION and item.incarnation <= 999, "numbers")
        need(bool(item.log_id) == bool(item.incarnation), "log id without incarnation")
    return cut.database, {
        item.writer: Entry(item.revision, item.digest, item.log_id, item.incarnation)
        for item in cut.writers
    }


def read_entry(
    transactions: Mapping[str, bytes], segments: Mapping[str, bytes], entry: Entry
) -> State:
    """The state of a log that an entry of a token names."""
    log = Log(transactions, segments) if not entry.log_id else named(transactions, segments, entry)
    state = log.read(entry.revision)
    if entry.log_id and state.head.log_id != entry.log_id:
        raise NotThere("another log")
    if state.head.digest[: len(entry.digest)] != entry.digest:
        raise NotThere("the log was replaced since")
    return state


def named(transactions: Mapping[str, bytes], segments: Mapping[str, bytes], entry: Entry) -> Log:
    """The incarnation that an entry names."""
    found = [name for name in map(read_name, transactions) if name]
    if entry.incarnation > max((name[0] for name in found), default=1):
        raise NotThere(f"incarnation {entry.incarnation} is not there")
    if found and not any(name[0] == entry.incarnation for name in found):
        raise Pruned(f"incarnation {entry.incarnation} was pruned")
    return Log(transactions, segments, incarnation=entry.incarnation)


# --- Section 8 ------------------------------------------------------------------------------------

TEXTS = ("writer", "database", "table", "partition", "app_id", "operation")
NUMBERS = (
    "incarnation", "number", "base_revision", "epoch", "first_clock", "last_clock",
    "app_version",
)  # fmt: skip
IDS = ("log_id", "slot_seed", "transaction_id", "base_transaction_id")


def parse_footer(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """What a data file says of itself; None if it is foreign, or of another version.

    Args:
        metadata: All keys and values of the Parquet footer.
    """
    own = {k.removeprefix("lakelog."): v for k, v in metadata.items() if k.startswith("lakelog.")}
    if own.get("version") != "1":
        return None
    missing = {*TEXTS, *NUMBERS, *IDS, "schema", "replaces"} - own.keys()
    need(not missing, f"keys {sorted(missing)}")
    found: dict[str, Any] = {name: own[name] for name in TEXTS}
    for name in NUMBERS:
        need(re.fullmatch(r"-?[0-9]{1,20}", own[name]), f"number {name}")
        found[name] = int(own[name])
    for name in IDS:
        empty = name == "base_transaction_id" and not own[name]
        need(empty or re.fullmatch(r"[0-9a-f]{32}", own[name]), name)
        found[name] = bytes.fromhex(own[name])
    try:
        found["schema"] = base64.b64decode(own["schema"], validate=True)
        found["replaces"] = json.loads(own["replaces"])
    except (ValueError, binascii.Error, RecursionError):
        raise Damaged("schema or replaces") from None
    check_json(found["replaces"])
    if "task" in own:
        for name in ("task", "attempt"):
            need(re.fullmatch(r"[0-9]{1,19}", own.get(name, "")), name)
            found[name] = int(own[name])
    return found


def check_json(replaces: Any) -> None:
    need(isinstance(replaces, list), "replaces")
    for pair in replaces:
        need(isinstance(pair, list) and len(pair) == 2, "replaces")
        need(all(isinstance(text, str) for text in pair), "replaces")
        check_path(pair[1])
