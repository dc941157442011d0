"""Spark on S3A with executors in processes of their own, which have nothing of the credentials but
what the driver hands to their tasks."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from lakelog.testing.fault_proxy import fault_proxy, s3_error
from processes import HERE
from s3a_jars import need_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakelog.testing.fault_proxy import Reply, Request
    from lakelog.testing.servers import S3Server

KEY, SECRET, TOKEN = "the-drivers-key", "canary-secret-of-driver", "canary-token-of-driver"
CONNECTOR = re.compile(r"[?&]fs=([0-9a-f-]+)")  # S3A names itself in the Referer


class Store:
    """A bucket that takes one identity's requests alone."""

    def __init__(self, moto: S3Server, endpoint_url: str) -> None:
        self.url = f"s3a://{moto.make_bucket()}/lake"
        self.options = moto.storage_options | {
            "key": KEY, "secret": SECRET, "token": TOKEN, "endpoint_url": endpoint_url,
        }  # fmt: skip
        self.seen: list[Request] = []

    def rule(self, request: Request) -> Reply | None:
        self.seen.append(request)
        said = request.headers
        if f"Credential={KEY}/" not in said.get("authorization", ""):
            return s3_error(403, "AccessDenied")
        return None if said.get("x-amz-security-token") == TOKEN else s3_error(403, "InvalidToken")

    def connectors(self) -> set[str]:
        """Those of S3A that opened data files, by their identities."""
        asked = [each for each in self.seen if "/data/" in each.path]
        found = [CONNECTOR.search(each.headers.get("referer", "")) for each in asked]
        return {each[1] for each in found if each}


@pytest.fixture
def store(moto: S3Server) -> Iterator[Store]:
    with fault_proxy(moto.endpoint_url) as proxy:
        made = Store(moto, proxy.endpoint_url)
        proxy.rule = made.rule
        yield made


@pytest.mark.s3
@pytest.mark.slow("a driver with hadoop-aws and two executors, each a JVM that starts Python")
def test_executors_have_the_credentials_of_the_drivers_options(processes, store, tmp_path):
    folder = need_jars()
    (tmp_path / "options.json").write_text(json.dumps(store.options))
    (tmp_path / "events").mkdir()
    bare = {name: None for name in os.environ if name.startswith("AWS_")}
    bare |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    job = (HERE / "s3a_job.py", store.url, tmp_path)
    processes.python("job", *job, more=bare | {"LAKELOG_IVY": folder})
    assert processes.ended("job") == 0, processes.said("job")
    said = dict(re.findall(r"^([a-z]+): (.*)$", processes.said("job"), re.M))
    assert said == {
        "executors": "2 ['AWS_EC2_METADATA_DISABLED']",
        "written": "1000 4",
        "native": "True",
        "read": "500 248500",
        "sql": "10 1000",
        "inserted": "1000 1001",
        "shown": "[]",
    }
    assert len(store.connectors()) == 2, "one of each executor"
    logs = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    text = "".join(path.read_text(errors="replace") for path in logs)
    assert text.count('"Event":"SparkListenerExecutorAdded"') == 2
    assert "SparkListenerSQLExecutionStart" in text
    told = text + processes.said("job")
    assert not [secret for secret in (SECRET, TOKEN) if secret in told]
