"""What fsspec calls `storage_options`, said to Hadoop's connectors, for one read alone.

Hadoop keeps one connector for each bucket and process, made with the settings of whoever came
first: a second endpoint or key for a bucket of that name would silently read the first store. So
where settings are given, that cache is off for the read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .urls import split_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROVIDERS = "org.apache.hadoop.fs.s3a."
_OWN_CONNECTORS = {f"fs.{scheme}.impl.disable.cache": "true" for scheme in ("s3", "s3a", "s3n")}


def hadoop_options(url: str, storage_options: Mapping[str, Any] | None) -> dict[str, str]:
    """Translate the storage options of a catalog into Hadoop settings, as `read_files` takes them.

    S3 only: key, secret, token, anon, endpoint, region and addressing style. For other stores, and
    where nothing is given, Hadoop finds its credentials as Spark is set up to.

    Args:
        url: The catalog's root.
        storage_options: As s3fs takes them.
    """
    if split_scheme(url)[0] not in ("s3", "s3a") or not storage_options:
        return {}
    return _credentials(storage_options) | _endpoint(storage_options) | _OWN_CONNECTORS


def bucket_options(url: str, storage_options: Mapping[str, Any]) -> dict[str, str]:
    """The same for one bucket alone, beside others with settings of their own.

    Args:
        url: `s3://bucket`.
    """
    bucket = split_scheme(url)[1].partition("/")[0]
    found = hadoop_options(url, storage_options)
    start = "fs.s3a."
    return {
        f"{start}bucket.{bucket}.{name.removeprefix(start)}"
        if name.startswith(start) and name not in _OWN_CONNECTORS
        else name: value
        for name, value in found.items()
    }


def _credentials(options: Mapping[str, Any]) -> dict[str, str]:
    if options.get("anon"):
        provider = "AnonymousAWSCredentialsProvider"
        return {"fs.s3a.aws.credentials.provider": _PROVIDERS + provider}
    key, secret, token = (_either(options, name) for name in ("key", "secret", "token"))
    if not (key and secret):
        return {}
    found = {"fs.s3a.access.key": key, "fs.s3a.secret.key": secret}
    provider = "SimpleAWSCredentialsProvider"
    if token:
        found["fs.s3a.session.token"] = token
        provider = "TemporaryAWSCredentialsProvider"
    return found | {"fs.s3a.aws.credentials.provider": _PROVIDERS + provider}


def _endpoint(options: Mapping[str, Any]) -> dict[str, str]:
    client = options.get("client_kwargs") or {}
    config = options.get("config_kwargs") or {}
    found = {}
    endpoint = options.get("endpoint_url") or client.get("endpoint_url")
    style = (config.get("s3") or {}).get("addressing_style")
    if endpoint:
        found["fs.s3a.endpoint"] = str(endpoint)
        secure = str(endpoint).startswith("https:")
        found["fs.s3a.connection.ssl.enabled"] = str(secure).lower()
    if region := client.get("region_name"):
        found["fs.s3a.endpoint.region"] = str(region)
    if style in ("path", "virtual") or endpoint:
        # Stores that aren't Amazon's seldom have a host name for each bucket.
        found["fs.s3a.path.style.access"] = str(style != "virtual").lower()
    return found


def _either(options: Mapping[str, Any], name: str) -> str:
    """s3fs takes its own short names and, in `client_kwargs`, those of botocore."""
    long = {"key": "aws_access_key_id", "secret": "aws_secret_access_key"}
    long |= {"token": "aws_session_token"}
    client = options.get("client_kwargs") or {}
    return str(options.get(name) or client.get(long[name]) or "")
