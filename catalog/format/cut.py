"""Cuts and their tokens: one revision per writer, named exactly in a short string. Pure.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...errors import CorruptObject, InvalidToken
from ..wire import lakelog_cut_pb2 as wire
from .frame import LogIdentity, parse_message
from .names import MAX_INCARNATION, MAX_REVISION, is_id

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "ll1-"
TOKEN_DIGEST_BYTES: Final = 8
MAX_TOKEN_CHARS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """Where a cut stands in one log.

    Attributes:
        revision: From 0.
        digest: First 8 bytes of the digest of that revision's transaction; empty where the caller
            gave a number only.
        log: Id and incarnation of the log; None where the caller gave a number only.
    """

    revision: int
    digest: bytes = b""
    log: LogIdentity | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """One revision for each writer of a database.

    Attributes:
        database: The database.
        writers: Position by writer, sorted by writer. A writer that isn't in it has nothing in the
            cut.
    """

    database: str
    writers: Mapping[str, Position]

    @property
    def revisions(self) -> dict[str, int]:
        """Revision by writer."""
        return {writer: position.revision for writer, position in self.writers.items()}

    @property
    def token(self) -> str:
        """The cut as a string of URL-safe characters; `parse_token` is its inverse."""
        body = cut_message(self).SerializeToString(deterministic=True)
        body += zlib.crc32(body).to_bytes(4, "little")
        return PREFIX + _text(body)


def cut_message(cut: Cut) -> wire.Cut:
    """Returns a cut as a message."""
    return wire.Cut(
        database=cut.database,
        writers=[
            wire.WriterRevision(
                writer=name,
                revision=at.revision,
                digest=at.digest[:TOKEN_DIGEST_BYTES],
                log_id=at.log.log_id if at.log else b"",
                incarnation=at.log.incarnation if at.log else 0,
            )
            for name, at in sorted(cut.writers.items())
        ],
    )


def cut_of_message(message: wire.Cut) -> Cut | None:
    """Returns the cut that a message holds; None if it breaks the rules."""
    names = [item.writer for item in message.writers]
    if (
        not is_id(message.database)
        or not all(map(is_id, names))
        or not names
        or any(low >= high for low, high in itertools.pairwise(names))
        or not all(map(_is_sound, message.writers))
    ):
        return None
    return Cut(message.database, {item.writer: _position(item) for item in message.writers})


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def is_token(text: str) -> bool:
    """Whether a string looks like a token (it may still be malformed)."""
    return text.lstrip().startswith(PREFIX)


def parse_token(token: str) -> Cut:
    """The cut that a token names.

    Raises:
        InvalidToken: Malformed, cut short, or with white space around it.
    """
    problem = InvalidToken(
        "The token is malformed or cut short",
        key=token[:40] + ("..." if len(token) > 40 else ""),
        hint="Copy it whole, as `snapshot.token` gives it; it begins with ll1-",
    )
    if token != token.strip():
        raise InvalidToken(
            "The token has white space before or behind it",
            key=problem.key,
            hint="Give it as `snapshot.token` is: `.strip()` what was read from a file",
        )
    if not token.startswith(PREFIX) or len(token) > MAX_TOKEN_CHARS:
        raise problem
    text = token[len(PREFIX) :]
    try:
        body = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if _text(body) != text:  # base64 leaves bits open: one cut has one token
            raise problem
        if len(body) < 4 or zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
            raise problem
        message = wire.Cut()
        parse_message(message, body[:-4], "the token")
    except (binascii.Error, ValueError, CorruptObject) as error:
        raise problem from error
    cut = cut_of_message(message)
    if cut is None:
        raise problem
    return cut


def _is_sound(item: wire.WriterRevision) -> bool:
    known = (16, True) if item.log_id else (0, False)
    return (
        len(item.digest) in (0, TOKEN_DIGEST_BYTES)
        and (len(item.log_id), item.incarnation > 0) == known
        and item.incarnation <= MAX_INCARNATION
        and item.revision <= MAX_REVISION
    )


def _position(item: wire.WriterRevision) -> Position:
    log = LogIdentity(item.log_id, item.incarnation) if item.log_id else None
    return Position(item.revision, item.digest, log)
