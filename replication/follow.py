"""A replica that follows its source until it is told to stop.

Source: docs/replication.md, "Following".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..errors import StorageError
from .replicate import replicate

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from ..catalog.catalog import Catalog
    from .reports import Report, Told


class FollowWarning(UserWarning):
    """A look at the source failed; the next one comes."""


def follow(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    stop: threading.Event,
    every_s: float = 10.0,
    progress: Callable[[Told], None] | None = None,
    **options: Any,
) -> Iterator[Report]:
    """Replicate, again and again, writers and databases that come later too.

    Args:
        stop: Set it to end: what is under way is finished file by file, and the iterator ends.
        every_s: Seconds between the end of one round and the beginning of the next.
        source, destination, progress, options: As for `replicate`.
    Yields:
        The report of each round.
    Raises:
        LakelogError: What another try can't mend; what the store fails at is a warning, and tried
            again.
    Warns:
        FollowWarning: The store failed; the next round tries again.
    """
    while not stop.is_set():
        try:
            report = replicate(source, destination, progress=progress, stop=stop, **options)
        except StorageError as error:
            _warn(error)
        else:
            yield report
            for failed in report.errors:
                if not isinstance(failed, StorageError):
                    raise failed
                _warn(failed)
        stop.wait(every_s)


def _warn(error: StorageError) -> None:
    warnings.warn(f"{error}; the next round tries again", FollowWarning, stacklevel=3)
