"""The table of remote backends: a new one is a row here and a module."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .base import Store


@dataclass(frozen=True, slots=True)
class Backend:
    """What is needed to open one kind of remote store.

    Attributes:
        name: As `Store.backend` gives it.
        package: The fsspec file system's package.
        extra: What to install: `lakelog[<extra>]`.
        module: Module of this package with a class `BackendStore(url, bucket, path, options)`.
        scheme: The usual spelling of its URLs; None: as the caller wrote it.
    """

    name: str
    package: str
    extra: str
    module: str
    scheme: str | None


_S3 = Backend("s3", "s3fs", "s3", "s3", "s3")
_GCS = Backend("gs", "gcsfs", "gcs", "gcs", "gs")
_AZURE = Backend("az", "adlfs", "azure", "azure", None)
BACKENDS = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}


def open_backend(scheme: str, bucket: str, path: str, options: Mapping[str, Any]) -> Store:
    """Open a remote store.

    Args:
        scheme: A key of `BACKENDS`.
        bucket: Bucket or container, as the URL has it.
        path: Prefix of every key, without slashes at its ends; may be empty.
        options: Keyword arguments of the fsspec file system.
    Raises:
        MissingDependency: The backend's package isn't installed.
    """
    backend = BACKENDS[scheme]
    try:
        importlib.import_module(backend.package)
    except ImportError as error:
        raise MissingDependency(
            f"{scheme}:// needs the package {backend.package}",
            hint=f"pip install 'lakelog[{backend.extra}]'",
        ) from error
    module = importlib.import_module(f".{backend.module}", __package__)
    url = f"{backend.scheme or scheme}://{bucket}/{path}".rstrip("/")
    store: Store = module.BackendStore(url, bucket, path, options)
    return store
