"""Files that lie elsewhere: nothing but reading goes there, and each has one name."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant


@plant("tests/catalog/test_in_place_adding.py")
def files_of_the_lake_get_another_name() -> Any:
    """A file below the writer's own `data/` is named by its URL: gc takes it for unnamed."""
    from lakelog.catalog.commit import adopt

    return mock.patch.object(adopt, "place_below", return_value=None)


@plant("tests/catalog/test_in_place_adding.py")
def names_elsewhere_say_whose_they_are() -> Any:
    """A file elsewhere with the transaction's id in its name is new by its name."""
    from lakelog.catalog.log import replay

    return mock.patch.object(replay, "is_in_place", return_value=False)


@plant("tests/catalog/test_in_place_adding.py")
def links_are_names_of_their_own() -> Any:
    """A file is live twice, by a link and by its own name."""
    from lakelog.store import places

    path = places.os.path
    return mock.patch.object(path, "realpath", lambda name, **more: path.abspath(name))


@plant("tests/catalog/test_in_place.py")
def checkpoints_forget_places() -> Any:
    """A checkpoint doesn't know the locations of its state."""
    from lakelog.catalog.log import state

    def without(decoded: Any, writer: str, database: str) -> Any:
        found = real(decoded, writer, database)
        found.locations = frozenset()
        return found

    from lakelog.catalog.read import log_reader

    real = state.state_of_checkpoint
    return mock.patch.object(log_reader, "state_of_checkpoint", without)
