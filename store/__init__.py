"""The boundary to object stores: a small interface and its backends."""

from .base import Capabilities, ObjectInfo, Store
from .open import open_store
from .probe import probe, probe_names, store_time

__all__ = [
    "Capabilities",
    "ObjectInfo",
    "Store",
    "open_store",
    "probe",
    "probe_names",
    "store_time",
]
