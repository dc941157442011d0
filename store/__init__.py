"""The boundary to object stores: a small interface and its backends."""

from .base import Capabilities, ObjectInfo, Store
from .open import open_store
from .probe import probe, probe_names, store_time
from .wide import WideStore

__all__ = [
    "Capabilities",
    "ObjectInfo",
    "Store",
    "WideStore",
    "open_store",
    "probe",
    "probe_names",
    "store_time",
]
