"""What opens the stores of maintenance in tasks, on machines that know nothing of this one's
environment and profiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import LakelogError, UsageError
from .hadoop_options import is_s3
from .parcels import pack
from .s3_identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..store import WideStore

    Options = Mapping[str, Any]


class Openings:
    """Of some stores.

    Raises:
        UsageError: A store that other processes can't see.
    """

    def __init__(self, stores: Sequence[WideStore]) -> None:
        for store in stores:
            if store.url.startswith("memory:"):
                raise UsageError(
                    f"Spark can't work on {store.url}: its tasks are other processes, which don't "
                    "see it",
                    key=store.url,
                    hint="Give a folder or a bucket that all executors reach",
                )
        found = [store.opening for store in stores]
        self._each = [
            (
                each,
                _options(each.url, each.storage_options),
                {url: _options(url, given) for url, given in each.location_options.items()},
            )
            for each in found
        ]

    def now(self) -> bytes:
        """What opens them, packed: on S3 with the credentials as they are valid now.

        Raises:
            UsageError: An option that can't be sent.
        Raises, Requests: As `Identity.options`.
        """
        try:
            return pack(
                [
                    replace(
                        opening,
                        storage_options=own(),
                        location_options={url: options() for url, options in elsewhere.items()},
                    )
                    for opening, own, elsewhere in self._each
                ]
            )
        except LakelogError:
            raise
        except Exception:
            raise UsageError(
                "The storage options hold something that can't be sent to Spark's tasks",
                key="storage_options",
                hint="Give plain texts, numbers, lists and dicts",
            ) from None  # the cause might show a value


def _options(url: str, given: Options) -> Callable[[], Options]:
    return Identity(given).options if is_s3(url) else lambda: given
