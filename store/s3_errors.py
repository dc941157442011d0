"""What S3's error codes mean to a caller.

The code is the store's own, from the client's error that s3fs translated and kept as the cause.
"""

from __future__ import annotations

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
)

DENIED = frozenset(
    {
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "ExpiredToken",
        "Forbidden",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidToken",
        "NotSignedUp",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "Unauthorized",
    }
)
ABSENT = frozenset({"NoSuchKey", "NotFound"})
_TRANSIENT = frozenset(
    {
        "BadDigest",
        "ConditionalRequestConflict",  # two conditional writes met: S3 asks for another try
        "IncompleteBody",
        "OperationAborted",
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "XAmzContentSHA256Mismatch",
    }
)
_WRONG_REGION = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "PermanentRedirect",
        "301",
        "307",
    }
)
# Names of the clients' errors, of several packages; by name, so that none of them is imported.
_UNANSWERED = frozenset(
    {
        "ClientConnectionError",
        "ClientPayloadError",
        "ConnectionError",
        "FlexibleChecksumError",
        "HTTPClientError",
        "IncompleteRead",
        "IncompleteReadError",
        "ResponseParserError",
        "TimeoutError",
    }
)
_NO_CREDENTIALS = frozenset(
    {
        "CredentialRetrievalError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_DENIED_HINT = "check the credentials, and that they allow get, put, list and delete here"
_REGION_HINT = "set the bucket's region: client_kwargs={'region_name': ...}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the store said.

    Attributes:
        code: Its word, or the status as text where it gave none (an answer to HEAD has no body).
        status: The HTTP status; 0 if unknown.
    """

    code: str
    status: int


def answer_of(error: BaseException | None) -> Answer | None:
    """What the store said in an error or its cause; None if it said nothing."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict) and "Error" in response:
            code = str(response["Error"].get("Code") or "")
            status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
            if not status and code.isdecimal():
                status = int(code)
            return Answer(code or str(status), status)
        error = error.__cause__
    return None


def is_absent(answer: Answer | None) -> bool:
    """Whether the store said that there is no such object."""
    return answer is not None and (answer.code in ABSENT or answer.code == "404")


def is_refused(answer: Answer | None) -> bool:
    """Whether the store said that it can't do what was asked."""
    return answer is not None and (answer.code == "NotImplemented" or answer.status == 501)


def is_transient(error: BaseException) -> bool:
    """Whether another attempt may succeed: no answer, half of one, or 'later'."""
    answer = answer_of(error)
    if answer is None:
        return not {kind.__name__ for kind in type(error).__mro__}.isdisjoint(_UNANSWERED)
    if answer.code in _TRANSIENT or answer.status == 429:
        return True
    return answer.status >= 500 and not is_refused(answer)


def translate(error: Exception, key: str, url: str) -> LakelogError:
    """The typed error for an error of s3fs or its clients.

    Args:
        error: As it came.
        key: About which object.
        url: Of the store.
    """
    answer = answer_of(error)
    if answer is None:
        return _unanswered(error, key, url)
    code = answer.code
    text = f"{code}: {error}"
    if code == "NoSuchBucket":
        return BucketNotFound("the bucket doesn't exist", key=url)
    if is_absent(answer):
        return ObjectNotFound("no such object", key=key)
    if code == "PreconditionFailed" or answer.status == 412:
        return ObjectExists("the object exists already", key=key)
    if code in DENIED or answer.status in {401, 403}:
        return AccessDenied(f"the store refuses: {text}", key=key, hint=_DENIED_HINT)
    if code in _WRONG_REGION:
        return StorageError(f"the store is elsewhere: {text}", key=url, hint=_REGION_HINT)
    if is_refused(answer):
        return CapabilityMissing(f"the store can't do this: {text}", key=key)
    return StorageError(f"the store failed: {text}", key=key)


def _unanswered(error: Exception, key: str, url: str) -> LakelogError:
    name = type(error).__name__
    if name in _NO_CREDENTIALS:
        return AccessDenied(
            f"no usable credentials: {error}",
            key=url,
            hint="pass key and secret as storage options, or configure them as for AWS's tools",
        )
    if name == "ParamValidationError":
        return InvalidUrl(f"S3 has no such bucket or key name: {error}", key=url)
    return StorageError(f"the store failed: {name}: {error}", key=key)
