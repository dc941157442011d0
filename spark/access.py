"""A catalog as Spark's side of lakelog opens it: one configuration for lakelog's own requests, for
Spark's connector, and for the tasks that write.

lakelog's client is botocore, which looks for what its options leave out in the environment and in
AWS's files; S3A looks in Spark's settings. So what one of them finds is handed to the other.
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
from ..errors import AccessDenied, SparkUnsupported
from .hadoop import bucket_of, bucket_options, credentials_of, endpoint_of, is_s3
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
        """What Spark is told for a read; None: nothing, it is set up.

        Args:
            elsewhere: Roots of other places where files lie.
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


# --- Settings of one read -------------------------------------------------------------------------


_SALT = secrets.token_bytes(32)


class S3Settings:
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

    class Java:
        """What this is for py4j."""

        implements = ("java.util.function.Function",)


def _identified(places: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    told = json.dumps(places, sort_keys=True, default=lambda other: f"{type(other)} {id(other)}")
    return hashlib.blake2b(told.encode(), key=_SALT, digest_size=16).hexdigest()


# --- Credentials ----------------------------------------------------------------------------------


# Machines and containers that have a role of their own renew it by themselves, in S3A as well.
_RENEWED_THERE: Final = ("iam-role", "container-role")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION: Final = "us-east-1"  # that botocore signs for, where none is told
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
        they are valid now, region and endpoint. A profile's name gives way to what it stands for.

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
        told = client.get("region_name")
        endpoint = endpoint_of(options) or self._endpoint()
        region = told or self._botocore().get_config_variable("region")
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
        told = [os.environ.get(name) for name in _ENDPOINTS]
        told.append(self._botocore().get_scoped_config().get("endpoint_url"))
        return next((one for one in told if one), None)

    def _botocore(self) -> Any:
        if self._session is None:
            from botocore.session import Session

            self._session = Session(profile=self._given.get("profile"))
        return self._session


def session_options(spark: SparkSession, url: str) -> tuple[dict[str, Any], bool]:
    """What a session's `fs.s3a.*` say of a bucket, as storage options, and whether they say who
    one is.

    Args:
        spark: Any session; Connect doesn't tell.
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
    is_told = not settings.is_default(_PROVIDER) or bool(settings.get("delegation.token.binding"))
    return found, is_told


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
        """It may lie in a key store that Hadoop opens."""
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
