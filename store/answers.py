"""Typed errors for the answers of remote stores: S3's, Google's and Azure's codes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import (
    AccessDenied,
    BucketNotFound,
    CapabilityMissing,
    InvalidUrl,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
    UsageError,
)

DENIED = frozenset({
    "AccessDenied", "AccountProblem", "AllAccessDisabled", "ExpiredToken", "Forbidden",
    "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSecurity", "InvalidToken", "NotSignedUp",
    "RequestTimeTooSkewed", "SignatureDoesNotMatch", "TokenRefreshRequired", "Unauthorized",
})  # fmt: skip
ABSENT = frozenset({"NoSuchKey", "NotFound", "BlobNotFound"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_EXISTS = frozenset({"PreconditionFailed", "BlobAlreadyExists"})
# ConditionalRequestConflict: two conditional writes met, and S3 asks for another try.
_TRANSIENT = frozenset({
    "BadDigest", "ConditionalRequestConflict", "IncompleteBody", "OperationAborted",
    "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests",
    "XAmzContentSHA256Mismatch",
})  # fmt: skip
_WRONG_REGION = frozenset({
    "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
    "301", "307",
})  # fmt: skip
# Names of the clients' errors, of several packages; by name, so that none of them is imported.
_UNANSWERED = frozenset({
    "ClientConnectionError", "ClientPayloadError", "ConnectionError", "FlexibleChecksumError",
    "HTTPClientError", "IncompleteRead", "IncompleteReadError", "ResponseParserError",
    "ServiceRequestError", "ServiceResponseError", "TimeoutError", "TransportError",
})  # fmt: skip
_NO_CREDENTIALS = frozenset({
    "ClientAuthenticationError", "CredentialRetrievalError", "DefaultCredentialsError",
    "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "RefreshError",
    "SSOTokenLoadError", "TokenRetrievalError", "UnauthorizedSSOTokenError",
})  # fmt: skip
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '([^']*)'")
_OPTION_HINTS = {
    "s3": "Options are those of s3fs: endpoint_url, key, secret, token, profile, anon, "
    "client_kwargs={'region_name': ...} (--option client_kwargs.region_name=...)",
    "gs": "Options are those of gcsfs: project, token, endpoint_url",
    "az": "Options are those of adlfs: account_name, account_key, connection_string",
}
# What other tools call them, in small letters and without `s3.`, `aws_` and the like.
_CALLED_HERE = {
    "s3": {
        "access_key_id": "key", "secret_access_key": "secret", "session_token": "token",
        "endpoint": "endpoint_url", "endpoint_url": "endpoint_url", "profile": "profile",
        "region": "client_kwargs={'region_name': ...}",
        "region_name": "client_kwargs={'region_name': ...}",
        "default_region": "client_kwargs={'region_name': ...}",
    },
    "gs": {
        "service_account": "token", "service_account_key": "token", "project_id": "project",
        "application_credentials": "token",
    },
    "az": {
        "account": "account_name", "storage_account_name": "account_name",
        "storage_account_key": "account_key", "storage_connection_string": "connection_string",
        "access_key": "account_key", "storage_sas_token": "sas_token",
    },
}  # fmt: skip
_PREFIX = re.compile(r"^(?:s3|aws|gcs|google|azure|adls|az)[._]")
_DENIED_HINT = "check the credentials, and that they allow get, put, list and delete here"
_REGION_HINT = "set the bucket's region: client_kwargs={'region_name': ...}"
_LOGIN_HINT = "pass them as storage options, or configure them as the store's own tools do"


@dataclass(frozen=True, slots=True)
class Answer:
    """An error code of the store.

    Attributes:
        code: Its word, or the status as text where it gave none (an answer to HEAD has no body).
        status: The HTTP status; 0 if unknown.
    """

    code: str
    status: int


def is_absent(answer: Answer | None) -> bool:
    """Whether the store has no such object."""
    return answer is not None and (answer.code in ABSENT or answer.code == "404")


def is_refused(answer: Answer | None) -> bool:
    """Whether the store can't do this."""
    return answer is not None and (answer.code == "NotImplemented" or answer.status == 501)


def is_bad_range(answer: Answer | None) -> bool:
    """Whether the object has no such bytes."""
    return answer is not None and (answer.code == "InvalidRange" or answer.status == 416)


def is_later(answer: Answer) -> bool:
    """Whether the store asks to try again: it is busy, broken for now, or got half of it."""
    if answer.code in _TRANSIENT or answer.status in {408, 429}:
        return True
    return answer.status >= 500 and not is_refused(answer)


def is_no_answer(error: BaseException) -> bool:
    """Whether a client's error means that no answer came, or half of one."""
    return not {kind.__name__ for kind in type(error).__mro__}.isdisjoint(_UNANSWERED)


def translate(answer: Answer, text: str, key: str, url: str) -> LakelogError:
    """The typed error for an answer about an object; `text` is the client's message."""
    code = answer.code
    reason = f"{code}: {text}"
    if code in _NO_BUCKET:
        return BucketNotFound("the bucket doesn't exist", key=url)
    if is_absent(answer):
        return ObjectNotFound("no such object", key=key)
    if code in _EXISTS or answer.status == 412:
        return ObjectExists("the object exists already", key=key)
    if code in DENIED or answer.status in {401, 403}:
        return AccessDenied(f"the store refuses: {reason}", key=key, hint=_DENIED_HINT)
    if code in _WRONG_REGION:
        return StorageError(f"the store is elsewhere: {reason}", key=url, hint=_REGION_HINT)
    if is_refused(answer):
        return CapabilityMissing(f"the store can't do this: {reason}", key=key)
    return StorageError(f"the store failed: {reason}", key=key)


def options_refused(error: Exception, backend: str, url: str) -> LakelogError:
    """The typed error for what a client's constructors say to options they don't know or can't use;
    `backend` is `Store.backend`."""
    unknown = _UNKNOWN_OPTION.search(str(error))
    hint = _OPTION_HINTS.get(backend)
    if unknown:
        plain = _PREFIX.sub("", unknown[1].lower().replace("-", "_"))
        here = _CALLED_HERE.get(backend, {}).get(plain)
        hint = f"It is {here} here. {hint}" if here else hint
        text = f"the {backend} backend has no storage option {unknown[1]!r}"
    else:
        text = f"the {backend} backend can't work with these storage options: {error}"
    return UsageError(text, key=url, hint=hint)


def translate_client_error(error: Exception, key: str, url: str) -> LakelogError:
    """The typed error for what a client raised without an answer of the store."""
    name = type(error).__name__
    if name in _NO_CREDENTIALS:
        return AccessDenied(f"no usable credentials: {error}", key=url, hint=_LOGIN_HINT)
    if name == "ParamValidationError":
        return InvalidUrl(f"the store has no such bucket or key name: {error}", key=url)
    if is_no_answer(error):
        return StorageError(
            f"the store doesn't answer: {name}: {error}".rstrip(": "),
            key=url,
            hint="check the endpoint, the network and the store's health, then repeat the call",
        )
    return StorageError(f"the store failed: {name}: {error}", key=key)
