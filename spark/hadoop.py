"""How Hadoop's connectors open what fsspec opens: the spelling of URLs, and S3A's settings.

fsspec and Hadoop share most schemes, but not all names: what is `s3://` to the one is `s3a://` to
the other. Whether a scheme has a connector is asked of the JVM, by loading the class, not guessed
from a list of jars. Settings are those of one bucket, so that they win over what a session sets for
all buckets, and leave other buckets alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_HADOOP_NAMES = {
    "local": ("file",),
    "s3": ("s3", "s3a"),  # `s3` first: on EMR it is a connector of its own
    "s3a": ("s3a",),
    "gcs": ("gs",),
}


def supports_url(spark: SparkSession, url: str) -> bool:
    """Whether this Spark can open the URL by itself, with a Hadoop connector that is on its class
    path.

    On Spark Connect nobody can be asked: only local files are said to be supported there. Where
    this is false, the Python data source (`format("lakelog")`), which reads by fsspec, is the way.

    Requests: none.
    """
    scheme, rest = split_scheme(url)
    if scheme in ("abfs", "abfss") and "@" not in rest.partition("/")[0]:
        return False  # adlfs takes the account from the options, Hadoop only from the URL
    return hadoop_scheme(spark, scheme) is not None


def hadoop_scheme(spark: SparkSession, scheme: str) -> str | None:
    """Name the scheme under which Hadoop has a connector for an fsspec scheme; None without one."""
    if getattr(spark, "_jsparkSession", None) is None:
        return "file" if scheme in ("file", "local") else None
    for name in _HADOOP_NAMES.get(scheme, (scheme,)):
        if _has_connector(spark, name):
            return name
    return None


def split_scheme(url: str) -> tuple[str, str]:
    """Split a URL into scheme and rest; a plain path is a local file."""
    scheme, separator, rest = url.partition("://")
    return (scheme.lower(), rest) if separator else ("file", url)


def _has_connector(spark: SparkSession, scheme: str) -> bool:
    from py4j.protocol import Py4JJavaError

    # Spark's view of the configuration: it has what `spark.hadoop.*` set.
    java: Any = spark
    configuration = java._jsparkSession.sessionState().newHadoopConf()
    file_system = java._jvm.org.apache.hadoop.fs.FileSystem
    try:
        file_system.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:  # no such scheme, or its class isn't there
        return False
    return True


# --- Storage options ------------------------------------------------------------------------------


OWN_CREDENTIALS = "lakelog.own.credentials."
"""With a bucket behind it: a key store that the session names is not asked for that bucket."""

_PROVIDER = "aws.credentials.provider"
_PROVIDERS = "org.apache.hadoop.fs.s3a."


def is_s3(url: str) -> bool:
    """Whether S3A may open the URL."""
    return split_scheme(url)[0] in ("s3", "s3a")


def bucket_of(url: str) -> str:
    """The bucket that a URL names."""
    return split_scheme(url)[1].partition("/")[0]


def bucket_options(url: str, storage_options: Mapping[str, Any]) -> dict[str, str]:
    """Translate the storage options of a place into Hadoop settings for its bucket.

    S3 only: key, secret, token, anon, endpoint, region, addressing style and requester pays. For
    other stores Hadoop finds its credentials as Spark is set up to.

    Args:
        url: Of anything in the bucket.
        storage_options: As s3fs takes them.
    """
    if not is_s3(url):
        return {}
    bucket = bucket_of(url)
    found = _credentials(storage_options) | _endpoint(storage_options)
    if storage_options.get("requester_pays"):
        found["requester.pays.enabled"] = "true"
    own = {f"{OWN_CREDENTIALS}{bucket}": "true"} if _PROVIDER in found else {}
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in found.items()} | own


def credentials_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Key, secret and token among storage options: s3fs takes its own short names and, in
    `client_kwargs`, those of botocore. Empty where they lack a key or a secret.
    """
    client = options.get("client_kwargs") or {}
    long = {
        "key": "aws_access_key_id",
        "secret": "aws_secret_access_key",
        "token": "aws_session_token",
    }
    every = {name: str(options.get(name) or client.get(at) or "") for name, at in long.items()}
    found = {name: value for name, value in every.items() if value}
    return found if {"key", "secret"} <= found.keys() else {}


def endpoint_of(options: Mapping[str, Any]) -> str | None:
    """The endpoint among storage options."""
    client = options.get("client_kwargs") or {}
    found = options.get("endpoint_url") or client.get("endpoint_url")
    return str(found) if found else None


def _credentials(options: Mapping[str, Any]) -> dict[str, str]:
    if options.get("anon"):
        return {_PROVIDER: f"{_PROVIDERS}AnonymousAWSCredentialsProvider"}
    known = credentials_of(options)
    if not known:
        return {}
    found = {"access.key": known["key"], "secret.key": known["secret"]}
    if "token" in known:
        found["session.token"] = known["token"]
    kind = "Temporary" if "token" in known else "Simple"
    return found | {_PROVIDER: f"{_PROVIDERS}{kind}AWSCredentialsProvider"}


def _endpoint(options: Mapping[str, Any]) -> dict[str, str]:
    client = options.get("client_kwargs") or {}
    config = options.get("config_kwargs") or {}
    found = {}
    endpoint = endpoint_of(options)
    style = (config.get("s3") or {}).get("addressing_style")
    if endpoint:
        found["endpoint"] = endpoint
        found["connection.ssl.enabled"] = str(endpoint.startswith("https:")).lower()
    if region := client.get("region_name"):
        found["endpoint.region"] = str(region)
    if style in ("path", "virtual") or endpoint:
        # Stores that aren't Amazon's seldom have a host name for each bucket.
        found["path.style.access"] = str(style != "virtual").lower()
    return found
