"""What opens the stores of one read: told to Spark when a query of it is planned, and to nobody
else. So no plan holds it, and credentials that are renewed are those of the time of the query.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..errors import SparkUnsupported
from .hadoop_options import bucket_of, bucket_options
from .s3_identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SALT = secrets.token_bytes(32)


class S3Settings:
    """Hadoop settings for the buckets of one read.

    Args:
        places: URLs, and the storage options of each.
    Raises:
        SparkUnsupported: One bucket is to be opened in two ways.
    """

    def __init__(self, places: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        by_bucket: dict[str, Mapping[str, Any]] = {}
        for url, options in places:
            if by_bucket.setdefault(bucket_of(url), options) != options:
                raise SparkUnsupported(
                    f"Files in bucket {bucket_of(url)} are opened by two sets of options, and "
                    "Spark's connector knows one for each bucket",
                    key=url,
                )
        self._places = [(url, Identity(options)) for url, options in places]
        self._lock = Lock()
        self.name = _identified(places)
        """Says in plans which reads have the same settings, and nothing about these."""

    def now(self) -> dict[str, str]:
        """The settings as they are at this time.

        Raises, Requests: As `Identity.options`.
        """
        found: dict[str, str] = {}
        with self._lock:  # queries are planned in threads
            for url, identity in self._places:
                found |= bucket_options(url, identity.options())
        return found

    def apply(self, _: Any = None) -> str:
        """Called by the JVM: names and values, one a line."""
        return "\n".join(line for pair in self.now().items() for line in pair)

    class Java:
        """What this is for py4j."""

        implements = ("java.util.function.Function",)


def _identified(places: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    told = json.dumps(places, sort_keys=True, default=lambda other: f"{type(other)} {id(other)}")
    return hashlib.blake2b(told.encode(), key=_SALT, digest_size=16).hexdigest()
