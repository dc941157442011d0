"""The boundary to object stores: a small interface and its backends."""

from .base import Capabilities, ObjectInfo, Store
from .open import open_store
from .places import Opening, WideStore
from .probe import keep_finding, kept_finding, kept_key, probe, probe_names, race, store_time

__all__ = [
    "Capabilities",
    "ObjectInfo",
    "Opening",
    "Store",
    "WideStore",
    "keep_finding",
    "kept_finding",
    "kept_key",
    "open_store",
    "probe",
    "probe_names",
    "race",
    "store_time",
]
