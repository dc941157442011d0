"""Who one is to S3: one configuration for lakelog's own requests and for Spark's.

lakelog's client is botocore, which looks for what its options leave out in the environment and in
AWS's files; S3A looks in Spark's settings. So what the one finds is told to the other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from ..errors import AccessDenied
from .hadoop_options import bucket_of, credentials_of, endpoint_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

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
