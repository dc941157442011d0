"""The other clouds on loopback, for the conformance suite: fake-gcs-server and Azurite."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .servers import START_TIMEOUT_S, direct, missing, not_built, program, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

# Azurite's well-known account: its documentation gives it to everybody.
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass(frozen=True)
class CloudServer:
    """A running emulator.

    Attributes:
        endpoint_url: `http://127.0.0.1:<port>`.
        storage_options: What `lakelog.open_catalog` and fsspec take.
        scheme: Of its URLs.
    """

    endpoint_url: str
    storage_options: dict[str, Any]
    scheme: str

    def make_bucket(self) -> str:
        """Create an empty bucket or container and return its name."""
        name = f"bucket-{secrets.token_hex(4)}"
        if self.scheme == "gs":
            body = json.dumps({"name": name}).encode()
            headers = {"Content-Type": "application/json"}
            url = f"{self.endpoint_url}/storage/v1/b?project=p"
            with direct.open(urllib.request.Request(url, body, headers), timeout=START_TIMEOUT_S):
                return name
        blobs = importlib.import_module("azure.storage.blob")
        connection = self.storage_options["connection_string"]
        with blobs.BlobServiceClient.from_connection_string(connection) as service:
            service.create_container(name).close()
        return name


@contextlib.contextmanager
def fake_gcs_server() -> Iterator[CloudServer]:
    """Run fake-gcs-server, in memory: Google Cloud Storage's API, put-if-absent too.

    Raises:
        MissingDependency: It isn't built.
    """
    server = program("fake-gcs-server")
    if server is None:
        raise not_built("fake-gcs-server")

    def command(port: int) -> list[str]:
        at = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        here = f"127.0.0.1:{port}"
        named = ["-public-host", here, "-external-url", f"http://{here}"]
        return [server, *at, *named, "-backend", "memory", "-log-level", "error"]

    with serve(command, {}) as endpoint_url:
        options = {"project": "p", "token": "anon", "endpoint_url": endpoint_url}
        yield CloudServer(endpoint_url, options, "gs")


@contextlib.contextmanager
def azurite() -> Iterator[CloudServer]:
    """Run Azurite's blob service.

    The command is `azurite-blob`, or what the environment variable `LAKELOG_AZURITE` names.

    Raises:
        MissingDependency: It isn't installed.
    """
    server = os.environ.get("LAKELOG_AZURITE") or program("azurite-blob")
    if server is None:
        raise missing("azurite (of npm)")

    def command(port: int) -> list[str]:
        address = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        quiet = ["--skipApiVersionCheck", "--silent", "--disableTelemetry"]
        return [server, *address, "--inMemoryPersistence", *quiet]

    with serve(command, {}) as endpoint_url:
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": _ACCOUNT,
            "AccountKey": _ACCOUNT_KEY,
            "BlobEndpoint": f"{endpoint_url}/{_ACCOUNT}",
        }
        connection = ";".join(f"{name}={value}" for name, value in parts.items())
        yield CloudServer(endpoint_url, {"connection_string": connection}, "az")
