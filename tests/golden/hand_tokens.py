"""Tokens of any cut, sound or not. Follows docs/format.md, section 7."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import hand_objects
import independent_messages as messages


def token_of(database: str, *writers: dict[str, Any]) -> str:
    values = {"database": database, "writers": writers}
    body = hand_objects.encode(hand_objects.tree(messages.CUT, values))
    body += zlib.crc32(body).to_bytes(4, "little")
    return "ll1-" + base64.urlsafe_b64encode(body).decode().rstrip("=")
