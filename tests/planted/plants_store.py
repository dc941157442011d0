"""Stores."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest import mock

from planting import plant


@plant("tests/store/test_local_store.py")
def local_put_overwrites() -> Any:
    """Put-if-absent overwrites on local disk."""
    from lakelog.store.local import LocalStore

    real = LocalStore._put
    return mock.patch.object(
        LocalStore, "_put", lambda self, key, body, _: real(self, key, body, False)
    )


@plant("tests/store/test_store_secrets.py")
def secrets_shown() -> Any:
    """Errors show credentials."""
    from lakelog.store.object_store import SecretOptions

    return mock.patch.object(SecretOptions, "redact", lambda self, text: text)


def _probe() -> Any:
    """The module: the package has a function of that name."""
    return import_module("lakelog.store.probe")


@plant("tests/gc/test_gc_folding.py::test_the_probe_tells_what_a_store_folds")
def the_probe_asks_for_no_names() -> Any:
    """A store that folds names is taken for an exact one."""
    return mock.patch.dict(_probe()._TWINS, clear=True)


@plant("tests/store/test_probe.py::test_the_race_sees_through")
def the_probe_believes_its_answer() -> Any:
    """A racer that was told that it won is taken for one that was refused."""
    real = _probe()._put
    return mock.patch.object(_probe(), "_put", lambda *args: real(*args) and False)


@plant("tests/store/test_probe.py::test_a_finding_is_not_believed_on_another_store")
def a_finding_is_believed_anywhere() -> Any:
    """What was found out about one store is believed of every other one."""
    from lakelog.store.local import LocalStore

    return mock.patch.object(LocalStore, "identity", return_value="a disk")


@plant("tests/store/test_s3_store.py::test_put_if_absent_is_one_put_whatever_the_size")
def log_objects_go_in_parts() -> Any:
    """A large log object is joined from parts, where some servers overlook put-if-absent."""
    from lakelog.store.s3 import S3Store

    real = S3Store._put

    async def put(self: Any, key: str, body: bytes, if_absent: bool) -> None:
        await real(self, key, body, if_absent and len(body) <= self.one_put_bytes)

    return mock.patch.object(S3Store, "_put", put)
