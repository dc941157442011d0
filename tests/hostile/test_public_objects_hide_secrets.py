"""A canary in the storage options shows in no public object, however it is printed, pickled or
logged. The stores and the command line have tests of their own beside this one."""

from __future__ import annotations

import contextlib
import copy
import logging
import pickle
import traceback
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import LakelogError
from lakelog.gc.collect import plan_gc
from lakelog.rebuild import plan_rebuild
from lakelog.store import open_store
from lakelog.testing.fault_proxy import Reply, fault_proxy

CANARY = "c4n4ry-of-the-coal-mine"
pytestmark = pytest.mark.s3


def shown(thing) -> str:
    """All that printing, pickling and looking inside can show; what refuses to be pickled is
    fine."""
    parts = [str(thing), repr(thing), f"{thing!s:>9}"]
    for protocol in (0, pickle.HIGHEST_PROTOCOL):
        try:
            parts.append(pickle.dumps(thing, protocol).decode("latin-1"))
        except (TypeError, AttributeError, pickle.PicklingError):
            continue
    with contextlib.suppress(TypeError):
        parts.append(repr(copy.copy(thing)))
    parts.append(repr(getattr(thing, "__dict__", "")))
    if isinstance(thing, BaseException):
        parts += traceback.format_exception(thing)
    return "\n".join(parts)


@pytest.fixture
def told(caplog):
    """Everything that is logged or warned of during a test."""
    caplog.set_level(logging.DEBUG, logger="lakelog")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: caplog.text + "\n".join(str(item.message) for item in caught)


def test_objects_of_a_working_catalog(moto, told):
    options = moto.storage_options | {"key": f"key-{CANARY}", "secret": f"secret-{CANARY}"}
    store = open_store(f"s3://{moto.make_bucket()}/root", options)
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", pa.table({"a": [1]}))
        snapshot = catalog.snapshot("db")
        plan = plan_gc(catalog, "w", "db")
        rebuild = plan_rebuild(catalog, "w", "db")
        things = [store, catalog, writer, tx, tx.commit_info, snapshot, snapshot.cut, plan, rebuild]
        seen = "\n".join(shown(thing) for thing in things)
        seen += plan.to_json() + snapshot.token + str(snapshot.files("t").to_pylist())
        seen += str(catalog.history("db").to_pylist()) + path
        assert CANARY not in seen
    assert CANARY not in told()


def test_errors_of_a_server_that_repeats_what_it_was_told(moto, told):
    def rule(request):
        said = " ".join(f"{name}={value}" for name, value in request.headers.items())
        body = f"<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>"
        return Reply(403, body.encode(), {"Content-Type": "application/xml"})

    with fault_proxy(moto.endpoint_url) as proxy:
        proxy.rule = rule
        options = {
            "key": f"key-{CANARY}", "secret": f"secret-{CANARY}", "token": f"token-{CANARY}",
            "endpoint_url": proxy.endpoint_url,
        }  # fmt: skip
        catalog = Catalog(open_store("s3://bucket/root", options))
        for call in (
            catalog.databases,
            lambda: catalog.snapshot("db"),
            lambda: catalog.snapshot("db", {"w": 0}),
            lambda: catalog.history("db"),
            lambda: catalog.writer("w", "db"),
            lambda: plan_gc(catalog, "w", "db"),
            lambda: plan_rebuild(catalog, "w", "db"),
        ):
            with pytest.raises(LakelogError) as caught:
                call()
            assert CANARY not in shown(caught.value)
            again = pickle.loads(pickle.dumps(caught.value))
            assert type(again) is type(caught.value)
            assert CANARY not in shown(again)
    assert CANARY not in told()
