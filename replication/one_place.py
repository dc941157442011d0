"""Whether a source and a destination are one place.

Source: docs/replication.md, "When it can't go on".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..catalog.catalog import Catalog

# Storage options that name a server or an account on it, at any depth. Others, such as credentials,
# don't make another place of it.
_SERVERS: Final = frozenset({"endpoint_url", "endpoint", "account_name", "account_host"})
# The same in a connection string of Azure.
_CONNECTION: Final = {"AccountName": "account_name", "BlobEndpoint": "endpoint"}


def refuse_one_place(source: Catalog, destination: Catalog) -> None:
    """Refuse to replicate a place into itself.

    Raises:
        UsageError: Both are one place, or one lies in the other.
    """
    ends = [_place(catalog) for catalog in (source, destination)]
    if _server(source) == _server(destination) and (
        ends[0].startswith(ends[1]) or ends[1].startswith(ends[0])
    ):
        raise UsageError(
            f"{source.url} and {destination.url} are one place, or one lies in the other",
            key=destination.url,
            hint="Replicate into a place of its own",
        )


def _place(catalog: Catalog) -> str:
    url = catalog.store.url
    local = catalog.store.local_path("x")
    return (os.path.realpath(url) if local is not None else url).rstrip("/") + "/"


def _server(catalog: Catalog) -> dict[str, str]:
    """What tells on which server a place is."""
    if catalog.store.backend not in ("s3", "gs", "az"):
        return {}
    return dict(_named(catalog.wide.opening.storage_options))


def _named(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _named(value)
        elif name == "connection_string":
            parts = (part.partition("=") for part in str(value).split(";"))
            yield from _named({_CONNECTION.get(key, ""): text for key, _, text in parts})
        elif name in _SERVERS and value:
            yield name, str(value).rstrip("/").lower()
