"""Values on their way between the driver and tasks: pickled, with the messages of the format among
them, which pickle alone finds no class for.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from google.protobuf.message import Message

from ..catalog.wire import lakelog_transaction_pb2 as wire

unpack = pickle.loads


def pack(value: object) -> bytes:
    """The bytes of a value, for `unpack`."""
    sink = io.BytesIO()
    _Pickler(sink, pickle.HIGHEST_PROTOCOL).dump(value)
    return sink.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Message):
            return NotImplemented
        return _message, (type(value).DESCRIPTOR.name, value.SerializeToString())


def _message(name: str, body: bytes) -> Message:
    found: Message = getattr(wire, name).FromString(body)
    return found
