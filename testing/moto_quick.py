"""moto with the same answers for a third of the time: half the tests' requests to S3 waited for it.

What it computes anew for each request, or for each key of a listing, is computed once.
"""

from __future__ import annotations

import functools
from typing import Any

from moto import backends
from moto.core import errors
from moto.core.serialize import S3Serializer, TimestampSerializer

_AS_THEY_ARE = ("Key", "ETag", "Size", "StorageClass")  # members of a listing's entry
_MORE = {"LastModified", "ChecksumAlgorithm"}
# In the order of S3's model, which is that of the answer.
_ORDER = ("Key", "LastModified", "ETag", "ChecksumAlgorithm", "Size", "StorageClass")


def quicken() -> None:
    """Replace the slow parts of moto in this process."""
    folders = list(backends.list_of_moto_modules())  # 175 folders, twice a request
    backends.list_of_moto_modules = lambda: folders
    lookups = errors.ErrorLookupFactory()  # each error read the model of the whole service
    errors.ErrorLookupFactory = lambda: lookups
    _times_once()
    _entries_at_once()


def _times_once() -> None:
    """The objects of a listing were written in few different seconds."""
    real = TimestampSerializer._convert_timestamp_to_str
    any_of_them = TimestampSerializer("iso8601")  # its default plays no part below

    @functools.lru_cache(maxsize=4_096)
    def of_text(value: str, form: str) -> Any:
        return real(any_of_them, value, form)

    def convert(self: TimestampSerializer, value: Any, form: str) -> Any:
        return of_text(value, form) if isinstance(value, str) else real(self, value, form)

    TimestampSerializer._convert_timestamp_to_str = convert


def _entries_at_once() -> None:
    """An entry of a listing is a flat dict: no need to look for each of its members in seven ways.

    What has other members than usual goes moto's own way.
    """
    real = S3Serializer._serialize_type_list
    usual = _MORE.union(_AS_THEY_ARE)

    def serialize(self: S3Serializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name != "ObjectList" or not all(usual.issuperset(entry) for entry in value):
            real(self, serialized, value, shape, key)
        elif value:
            time_shape = shape.member.members["LastModified"]
            entries = [_entry(self, entry, time_shape) for entry in value]
            self._default_serialize(serialized, entries, shape.member, "Contents")

    S3Serializer._serialize_type_list = serialize


def _entry(serializer: S3Serializer, entry: dict[str, Any], time_shape: Any) -> dict[str, Any]:
    found = dict.fromkeys(name for name in _ORDER if entry.get(name) is not None)
    for name in found:
        found[name] = entry[name]
    serializer._timestamp_serializer.serialize(
        found, entry["LastModified"], time_shape, "LastModified"
    )
    return found
