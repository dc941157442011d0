"""A catalog as Spark's side of lakelog opens it: one configuration for lakelog's own requests, for
Spark's connector, and for the tasks that write.

lakelog's client is botocore, which looks for what its options leave out in the environment and in
AWS's files; S3A looks in Spark's settings. So what one of them finds is handed to the other, as
settings of one bucket, which win over what a session sets for all buckets. fsspec and Hadoop share
most schemes, but not all names: what is `s3://` to the one is `s3a://` to the other. Whether a
scheme has a connector is asked of the JVM, by loading the class, not guessed from a list of jars.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ..catalog.catalog import Catalog, open_catalog
from ..errors import AccessDenied, SparkUnsupported, UsageError
from .jvm import JavaFunction
from .versions import check_spark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Access:
    """A catalog, and what opens its store, which Spark's tasks need too.

    Attributes:
        by_session: Whether Spark's settings say who one is to the store, so that its connector
            needs nothing else.
    """

    catalog: Catalog
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    location_options: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)
    by_session: bool = False

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        location_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Access:
        """That of a root, opened as `open_catalog` does, on S3 by the session's `fs.s3a.*` if
        there are no storage options.

        Raises:
            SparkUnsupported: The Spark that is installed is too old.
            As `open_catalog`.
        """
        check_spark()
        by_session = False
        if not storage_options and is_s3(str(url)):
            storage_options, by_session = session_options(spark, str(url))
        catalog = open_catalog(url, storage_options, location_options)
        return cls(catalog, storage_options, location_options, by_session)

    def settings(self, elsewhere: Sequence[str]) -> S3Settings | None:
        """The settings that Spark needs for a read; None: none, the session has them.

        Args:
            elsewhere: Roots of other places of files.
        """
        own = [] if self.by_session else [(self.catalog.url, self.storage_options or {})]
        for root in elsewhere:
            options = self.catalog.wide.options_of(root)
            # Where the session doesn't say who one is, this process does, for any bucket.
            is_known = self.by_session or not is_s3(self.catalog.url)
            if not is_known or (options and options != self.storage_options):
                own.append((root, options))
        own = [(url, options) for url, options in own if is_s3(url)]
        return S3Settings(own) if own else None

    def task_options(self) -> dict[str, Any]:
        """The storage options for tasks of one job, on machines that know nothing of this one's
        environment and profiles.

        Raises, Requests: As `Identity.options`.
        """
        options = dict(self.storage_options or {})
        if self.by_session or not is_s3(self.catalog.url):
            return options
        return Identity(options).options()


def refuse_memory(url: str) -> None:
    """Raises `UsageError` for a store that other processes can't see."""
    if url.startswith("memory:"):
        raise UsageError(
            f"Spark can't use {url}: its tasks are other processes, which don't see it",
            key=url,
            hint="Give a folder or a bucket that all executors reach",
        )


# --- Settings of one read -------------------------------------------------------------------------

_SALT = secrets.token_bytes(32)


class S3Settings(JavaFunction):
    """Hadoop settings for the buckets of one read.

    Args:
        places: URLs, and the storage options of each.
    Raises:
        SparkUnsupported: One bucket is to be opened in two ways.
    """

    def __init__(self, places: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        by_bucket: dict[str, Mapping[str, Any]] = {}
        for url, options in places:
            if by_bucket.setdefault(bucket_of(url), options) != options:
                raise SparkUnsupported(
                    f"Files in bucket {bucket_of(url)} are opened by two sets of options, and "
                    "Spark's connector knows one for each bucket",
                    key=url,
                )
        self._places = [(url, Identity(options)) for url, options in places]
        self._lock = Lock()
        self.name = _identified(places)
        """Says in plans which reads have the same settings, and nothing about these."""

    def now(self) -> dict[str, str]:
        """The settings as they are at this time.

        Raises, Requests: As `Identity.options`.
        """
        found: dict[str, str] = {}
        with self._lock:  # queries are planned in threads
            for url, identity in self._places:
                found |= bucket_options(url, identity.options())
        return found

    def apply(self, _: Any = None) -> str:
        """Called by the JVM: names and values, one a line."""
        return "\n".join(line for pair in self.now().items() for line in pair)


def _identified(places: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    text = json.dumps(places, sort_keys=True, default=lambda other: f"{type(other)} {id(other)}")
    return hashlib.blake2b(text.encode(), key=_SALT, digest_size=16).hexdigest()


# --- Credentials ----------------------------------------------------------------------------------

# Machines and containers that have a role of their own renew it by themselves, in S3A as well.
_RENEWED_THERE: Final = ("iam-role", "container-role")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION: Final = "us-east-1"  # that botocore signs for by default
_PROVIDER: Final = "aws.credentials.provider"


class Identity:
    """What a set of storage options comes to, each time it is asked for.

    Args:
        options: As s3fs takes them.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._given = dict(options)
        self._session: Any = None
        self._kept: tuple[Any] | None = None

    def options(self) -> dict[str, Any]:
        """The storage options, with what botocore finds for what they leave out: credentials as
        they are valid now, region and endpoint. A profile's name is replaced by its values.

        Raises:
            AccessDenied: There is no such profile, or its credentials can't be renewed.
        Requests: none, but those of botocore for credentials that have run out.
        """
        from botocore.exceptions import BotoCoreError

        try:
            return self._completed()
        except BotoCoreError as error:
            raise AccessDenied(
                f"No credentials for S3: {error}",
                key=self._given.get("profile"),
                hint="Renew them as AWS's own tools do, or give key, secret and token in the "
                "storage options",
            ) from error

    def _completed(self) -> dict[str, Any]:
        options = {name: value for name, value in self._given.items() if name != "profile"}
        client = dict(options.get("client_kwargs") or {})
        endpoint = endpoint_of(options) or self._endpoint()
        region = client.get("region_name") or self._botocore().get_config_variable("region")
        if endpoint:
            options["endpoint_url"] = endpoint
            client.pop("endpoint_url", None)
        if region or endpoint:
            client["region_name"] = region or _REGION
        if client:
            options["client_kwargs"] = client
        if not options.get("anon") and not credentials_of(options):
            options |= self._credentials()
        return options

    def _credentials(self) -> dict[str, str]:
        from botocore.credentials import RefreshableCredentials

        if self._kept is None:
            found = self._botocore().get_credentials()
            is_ours = found is not None and (
                "profile" in self._given or found.method not in _RENEWED_THERE
            )
            self._kept = (found if is_ours else None,)
        (credentials,) = self._kept
        if credentials is None:  # for good: looking for a machine's role takes a second
            return {}
        if not isinstance(credentials, RefreshableCredentials):
            self._kept = self._session = None  # a file or the environment may change
        now = credentials.get_frozen_credentials()
        every = {"key": now.access_key, "secret": now.secret_key, "token": now.token}
        return {name: str(value) for name, value in every.items() if value}

    def _endpoint(self) -> str | None:
        endpoints = [os.environ.get(name) for name in _ENDPOINTS]
        endpoints.append(self._botocore().get_scoped_config().get("endpoint_url"))
        return next((one for one in endpoints if one), None)

    def _botocore(self) -> Any:
        if self._session is None:
            from botocore.session import Session

            self._session = Session(profile=self._given.get("profile"))
        return self._session


def session_options(spark: SparkSession, url: str) -> tuple[dict[str, Any], bool]:
    """What a session's `fs.s3a.*` say of a bucket, as storage options, and whether they say who
    one is.

    Args:
        spark: Any session; of Connect nothing is known.
        url: Of anything in the bucket.
    Requests: none.
    """
    java: Any = spark
    if getattr(java, "_jsparkSession", None) is None:
        return {}, False
    settings = _Settings(java, bucket_of(url))
    found: dict[str, Any] = {}
    endpoint = settings.get("endpoint")
    if endpoint and endpoint != "s3.amazonaws.com":
        secure = settings.get("connection.ssl.enabled") != "false"
        scheme = "https://" if secure else "http://"
        found["endpoint_url"] = endpoint if "://" in endpoint else scheme + endpoint
    if region := settings.get("endpoint.region"):
        found["client_kwargs"] = {"region_name": region}
    if settings.get("path.style.access") == "true":
        found["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if settings.get("requester.pays.enabled") == "true":
        found["requester_pays"] = True
    provider = settings.get(_PROVIDER)
    if "AnonymousAWS" in provider:
        return found | {"anon": True}, True
    key, secret = settings.secret("access.key"), settings.secret("secret.key")
    if key and secret and ("SimpleAWS" in provider or "TemporaryAWS" in provider):
        token = settings.secret("session.token") if "TemporaryAWS" in provider else ""
        return found | {"key": key, "secret": secret} | ({"token": token} if token else {}), True
    is_set = not settings.is_default(_PROVIDER) or bool(settings.get("delegation.token.binding"))
    return found, is_set


class _Settings:
    """Of a bucket: its own, else those of all buckets."""

    def __init__(self, java: Any, bucket: str) -> None:
        self._jvm = java._jvm
        self._conf = java._jsparkSession.sessionState().newHadoopConf()
        self._starts = (f"fs.s3a.bucket.{bucket}.", "fs.s3a.")

    def get(self, name: str) -> str:
        found = (self._conf.getTrimmed(start + name) for start in self._starts)
        return next((str(one) for one in found if one), "")

    def secret(self, name: str) -> str:
        """A secret, which may be in a key store that Hadoop opens."""
        for start in self._starts:
            found = self._conf.getPassword(start + name)
            if found is not None:
                return str(self._jvm.java.lang.String.valueOf(found)).strip()
        return ""

    def is_default(self, name: str) -> bool:
        """Whether nobody has set it."""
        for start in self._starts:
            sources = self._conf.getPropertySources(start + name)
            if sources is not None:
                return "core-default.xml" in list(sources)
        return True


# --- Hadoop's connectors --------------------------------------------------------------------------

_HADOOP_NAMES = {
    "local": ("file",),
    "s3": ("s3", "s3a"),  # `s3` first: on EMR it is a connector of its own
    "s3a": ("s3a",),
    "gcs": ("gs",),
}


def supports_url(spark: SparkSession, url: str) -> bool:
    """Whether this Spark can open the URL by itself, with a Hadoop connector that is on its class
    path.

    On Spark Connect, where there is no JVM to ask, only local files are. Where this is false, the
    Python data source (`format("lakelog")`) reads by fsspec.

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
    found = _hadoop_credentials(storage_options) | _hadoop_endpoint(storage_options)
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


def _hadoop_credentials(options: Mapping[str, Any]) -> dict[str, str]:
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


def _hadoop_endpoint(options: Mapping[str, Any]) -> dict[str, str]:
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
