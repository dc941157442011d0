"""Amazon S3 and what speaks its protocol, through s3fs.

The requests are made with s3fs's own client call, not with its file functions: those cut a key at `?versionId=`, ask for
the size before each read, list twice and hide the error code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import (
    AccessDenied,
    BucketNotFound,
    CapabilityMissing,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .base import ObjectInfo
from .object_store import PARALLEL_REQUESTS, Backend, ObjectStore, refuse_bucket, unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELETE_BATCH = 1000
_DENIED = frozenset(
    "AccessDenied AccountProblem AllAccessDisabled ExpiredToken Forbidden InvalidAccessKeyId InvalidClientTokenId "
    "InvalidSecurity InvalidToken NotSignedUp RequestTimeTooSkewed SignatureDoesNotMatch TokenRefreshRequired 401 403".split()
)
_ABSENT = frozenset({"NoSuchKey", "NotFound", "404"})
_EXISTS = frozenset({"PreconditionFailed", "412"})
_REFUSED = frozenset({"NotImplemented", "501"})
_TRANSIENT = frozenset(
    "BadDigest ConditionalRequestConflict InternalError OperationAborted RequestTimeout ServiceUnavailable SlowDown "
    "Throttling ThrottlingException TooManyRequests XAmzContentSHA256Mismatch 409 429 500 502 503 504".split()
)
_NO_CREDENTIALS = frozenset(
    "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError ProfileNotFound "
    "UnauthorizedSSOTokenError SSOTokenLoadError".split()
)


def open_backend(backend: Backend, bucket: str, path: str, options: dict[str, Any]) -> S3Store:
    """Open an S3 store; called by `open_object_store`."""
    return S3Store(backend, bucket, path, options)


class S3Store(ObjectStore):
    """Objects of an S3 bucket."""

    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        import s3fs

        config = {
            "connect_timeout": 4,
            "read_timeout": 20,
            "max_pool_connections": PARALLEL_REQUESTS,
            **(options.pop("config_kwargs", None) or {}),
            # Retries are ours alone; both clients' would multiply.
            "retries": {"mode": "standard", "total_max_attempts": 1},
        }
        filesystem = s3fs.S3FileSystem(**options, config_kwargs=config)
        filesystem.retries = 1
        return filesystem

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._filesystem._call_s3(
            method, Bucket=self._bucket, **parameters
        )
        return answer

    async def _put(self, key: str, body: bytes, if_absent: bool) -> None:
        condition = {"IfNoneMatch": "*"} if if_absent else {}

        async def attempt() -> None:
            await self._call("put_object", Key=self._base + key, Body=body, **condition)

        await self._request(attempt)

    async def _get(self, key: str, start: int | None, end: int | None) -> bytes:
        if start is not None and end is not None and end <= start or end == 0:
            await self._head(key)
            return b""
        ranged = {"Range": _range_header(start, end)} if start or end is not None else {}

        async def attempt() -> bytes:
            answer = await self._call("get_object", Key=self._base + key, **ranged)
            stream = answer["Body"]
            try:
                body: bytes = await stream.read()
            finally:
                stream.close()
            if ranged and answer["ResponseMetadata"]["HTTPStatusCode"] == 200:
                return body[start:end]  # a server that knows no ranges
            return body

        try:
            return await self._request(attempt)
        except Exception as error:
            if ranged and _code(error) in {"InvalidRange", "416"}:
                return b""  # the range starts behind the end
            raise

    async def _list(self, prefix: str, after: str | None) -> list[ObjectInfo]:
        cut = len(self._base)
        start = {"StartAfter": self._base + after} if after is not None else {}
        found: list[ObjectInfo] = []
        for page in await self._pages(Prefix=self._base + prefix, **start):
            found += [
                ObjectInfo(entry["Key"][cut:], entry["Size"], entry.get("LastModified"))
                for entry in page.get("Contents", ())
                if entry["Key"].startswith(self._base)
            ]
        return found

    async def _list_folders(self, prefix: str) -> set[str]:
        full = self._base + prefix
        pages = await self._pages(Prefix=full, Delimiter="/")
        return {
            entry["Prefix"][len(full) : -1]
            for page in pages
            for entry in page.get("CommonPrefixes", ())
            if entry["Prefix"].startswith(full)
        }

    async def _pages(self, **parameters: Any) -> list[dict[str, Any]]:
        pages: list[dict[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            sent = token

            async def attempt() -> dict[str, Any]:
                return await self._call("list_objects_v2", **parameters, **sent)

            page = await self._request(attempt)
            pages.append(page)
            if not page.get("IsTruncated"):
                return pages
            token = {"ContinuationToken": page.get("NextContinuationToken", "")}
            if token == sent or not token["ContinuationToken"]:
                raise StorageError(
                    "the store cuts a listing short and gives no way to go on", key=self.url
                )

    async def _head(self, key: str) -> ObjectInfo:
        async def attempt() -> dict[str, Any]:
            return await self._call("head_object", Key=self._base + key)

        answer = await self._request(attempt)
        return ObjectInfo(key, answer["ContentLength"], answer.get("LastModified"))

    async def _delete(self, key: str) -> None:
        async def attempt() -> None:
            await self._call("delete_object", Key=self._base + key)

        try:
            await self._request(attempt)
        except Exception as error:
            if _code(error) not in _ABSENT:
                raise

    async def _delete_many(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            try:
                await self._delete_batch(batch)
            except Exception as error:
                if _code(error) not in _REFUSED:
                    raise
                await self._in_parallel(self._delete, batch)

    async def _delete_batch(self, keys: Sequence[str]) -> None:
        objects = [{"Key": self._base + key} for key in keys]

        async def attempt() -> dict[str, Any]:
            return await self._call("delete_objects", Delete={"Objects": objects, "Quiet": True})

        answer = await self._request(attempt)
        for failed in answer.get("Errors", ()):
            key, code = failed["Key"][len(self._base) :], failed.get("Code", "")
            if code in _ABSENT:
                continue
            kind = AccessDenied if code in _DENIED else StorageError
            raise kind(f"not deleted: {code} {failed.get('Message', '')}", key=key)

    def _is_transient(self, error: Exception) -> bool:
        code = _code(error)
        if code is not None:
            return code in _TRANSIENT
        # No answer, or half of one. A wrong option or missing credentials won't heal.
        names = {kind.__name__ for kind in type(error).__mro__}
        return bool(names & _UNANSWERED)

    def _translate(self, error: Exception, key: str) -> LakelogError:
        code = _code(error)
        if code is None:
            return self._translate_unanswered(error, key)
        text = str(error) or code
        if code == "NoSuchBucket":
            return BucketNotFound("the bucket doesn't exist", key=self.url)
        if code in _ABSENT:
            return ObjectNotFound("no such object", key=key)
        if code in _EXISTS:
            return ObjectExists("the object exists already", key=key)
        if code in _DENIED:
            return AccessDenied(
                f"the store refuses: {code}: {text}",
                key=key,
                hint="check the credentials and what they allow (get, put, list and delete in this bucket)",
            )
        if code in _REFUSED:
            return CapabilityMissing(f"the store can't do this: {code}: {text}", key=key)
        return StorageError(f"the store failed: {code}: {text}", key=key)

    def _translate_unanswered(self, error: Exception, key: str) -> LakelogError:
        name = type(error).__name__
        if name in _NO_CREDENTIALS:
            return AccessDenied(
                f"no usable credentials: {error}",
                key=self.url,
                hint="pass key and secret in storage_options, or configure them as for the AWS tools",
            )
        if name == "ParamValidationError":
            return refuse_bucket(self.url, str(error))
        if self._is_transient(error):
            return unavailable(error, self.url)
        return StorageError(f"the store failed: {name}: {error}", key=key)


_UNANSWERED = frozenset(
    "HTTPClientError ConnectionError TimeoutError ClientError ClientPayloadError IncompleteRead IncompleteReadError "
    "ResponseParserError FSTimeoutError FlexibleChecksumError AioAwsChunkedWrapperError".split()
)


def _range_header(start: int | None, end: int | None) -> str:
    if start is not None and start < 0:
        return f"bytes={start}"
    return f"bytes={start or 0}-{'' if end is None else end - 1}"


def _code(error: BaseException | None) -> str | None:
    """The store's own error code, from the client error that s3fs translated; None if there was no answer."""
    while error is not None:
        answer = getattr(error, "response", None)
        if isinstance(answer, dict) and "Error" in answer:
            code = str(answer["Error"].get("Code") or "")
            return code or str(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        error = error.__cause__
    return None
