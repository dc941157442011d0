"""The boundary to object stores: a small interface and its backends."""

from .base import Capabilities, ObjectInfo, Store
from .open import open_store
from .places import Opening, WideStore
from .probe import probe, probe_names, store_time

__all__ = [
    "Capabilities",
    "ObjectInfo",
    "Opening",
    "Store",
    "WideStore",
    "open_store",
    "probe",
    "probe_names",
    "store_time",
]
