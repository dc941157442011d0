"""lakelog: a transaction-log catalog for Parquet on object storage. No server, no database.

The public names are loaded on first use, so that `import lakelog` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import LakelogError

if TYPE_CHECKING:
    from .catalog.catalog import Catalog, open_catalog
    from .catalog.commit.transaction import Transaction
    from .catalog.commit.writer import Writer
    from .catalog.format.cut import Cut
    from .catalog.log.outcomes import CommitInfo
    from .catalog.snapshot import Snapshot

__version__ = "0.1.0"

_WHERE = {
    "Catalog": "catalog.catalog",
    "CommitInfo": "catalog.log.outcomes",
    "Cut": "catalog.format.cut",
    "Snapshot": "catalog.snapshot",
    "Transaction": "catalog.commit.transaction",
    "Writer": "catalog.commit.writer",
    "open_catalog": "catalog.catalog",
}

_MODULES = ("errors", "rebuild", "replication", "spark", "testing")

__all__ = [
    "Catalog",
    "CommitInfo",
    "Cut",
    "LakelogError",
    "Snapshot",
    "Transaction",
    "Writer",
    "__version__",
    "open_catalog",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*__all__, *_MODULES})
