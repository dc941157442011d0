"""Amazon S3 and what speaks its protocol, through s3fs.

The requests are made with s3fs's client, not with its file functions: those cut a key at
`?versionId=`, ask for the size before each read, can't start a listing in the middle, and drop
the errors of a batch of deletions.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from botocore.parsers import ResponseParserError

from ..errors import AccessDenied, StorageError
from . import answers
from .answers import Answer
from .base import ONE_PUT_BYTES, ObjectInfo, in_utc
from .object_store import PARALLEL_REQUESTS, ObjectStore, in_parallel, range_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOT_ASCII = re.compile(r"[^\x00-\x7f].*", re.DOTALL)
_DELETE_BATCH = 1000
_EXPRESS = "--x-s3"  # so end the names of directory buckets, which list in no order
_MAX_PARTS = 10_000
_PARALLEL_PARTS = 8
_SIGNS_OF_A_LISTING = frozenset({"IsTruncated", "Name", "KeyCount", "Contents"})


class S3Store(ObjectStore):
    """Objects of an S3 bucket."""

    backend = "s3"
    one_put_bytes = ONE_PUT_BYTES  # larger bodies are sent in parts
    part_size_bytes = 32 << 20

    def __init__(self, url: str, bucket: str, path: str, options: Mapping[str, Any]) -> None:
        super().__init__(url, bucket, path, options)
        if bucket.endswith(_EXPRESS):
            self.order = "none"

    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        import s3fs

        config = {
            "connect_timeout": 4,
            "max_pool_connections": PARALLEL_REQUESTS,
            # Some servers send the whole object's checksum with a part of it; `_read` asks for
            # the check where it can be right.
            "response_checksum_validation": "when_required",
            "user_agent": "lakelog",  # botocore's own takes a tenth of the time of a request
            **(options.pop("config_kwargs", None) or {}),
            "retries": {"mode": "standard", "total_max_attempts": 1},
        }
        filesystem = s3fs.S3FileSystem(**options, config_kwargs=config)
        filesystem.retries = 1
        return filesystem

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One request of the S3 API, with retries."""
        return await self._request(lambda: self._call_once(method, parameters))

    async def _call_once(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        filesystem = self._filesystem
        if method == "list_objects_v2":
            await filesystem.set_session()
            read_quickly(filesystem._s3)
        answer: dict[str, Any] = await filesystem._call_s3(
            method, Bucket=self._bucket, **parameters
        )
        self._clock.saw(answer["ResponseMetadata"]["HTTPHeaders"].get("date"))
        return answer

    async def _put(self, key: str, body: bytes, if_absent: bool) -> None:
        full = self._base + key
        # With a condition one PUT whatever the size: some servers check it there, and overlook it
        # when they are asked to join parts, which would replace an object of a log.
        if if_absent or len(body) <= self.one_put_bytes:
            condition = {"IfNoneMatch": "*"} if if_absent else {}
            answer = await self._call("put_object", Key=full, Body=body, **condition)
            if "ETag" not in answer:
                raise self._no_store()
            return
        begun = await self._call("create_multipart_upload", Key=full)
        upload = {"Key": full, "UploadId": begun["UploadId"]}
        try:
            parts = await self._put_parts(upload, body)
            joined = {"MultipartUpload": {"Parts": parts}}
            await self._call("complete_multipart_upload", **upload, **joined)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                await self._call("abort_multipart_upload", **upload)
            raise

    async def _endpoint(self) -> str:
        await self._filesystem.set_session()
        return str(self._filesystem._s3.meta.endpoint_url)

    async def _put_parts(self, upload: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
        size_bytes = max(self.part_size_bytes, -(-len(body) // _MAX_PARTS))

        async def put_part(start: int) -> dict[str, Any]:
            number = start // size_bytes + 1
            part = body[start : start + size_bytes]
            answer = await self._call("upload_part", **upload, PartNumber=number, Body=part)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        return await in_parallel(put_part, range(0, len(body), size_bytes), _PARALLEL_PARTS)

    async def _get(self, key: str, start: int | None, end: int | None) -> bytes:
        if start is None and end is None:
            return await self._get_whole(key)
        try:
            answer, body = await self._read(key, {"Range": range_header(start, end)})
        except Exception as error:
            if not answers.is_bad_range(self._answer_of(error)):
                raise
            # The range starts behind the end; or the object is shorter than the last bytes asked
            # for, which some servers refuse.
            return b"" if start is None or start >= 0 else await self._get_whole(key)
        # A server that knows no ranges sends the whole; the status alone doesn't tell.
        return body if answer.get("ContentRange") else body[start:end]

    async def _get_whole(self, key: str) -> bytes:
        return (await self._read(key, {"ChecksumMode": "ENABLED"}))[1]

    async def _read(self, key: str, parameters: dict[str, str]) -> tuple[dict[str, Any], bytes]:
        async def attempt() -> tuple[dict[str, Any], bytes]:
            answer = await self._call_once("get_object", {"Key": self._base + key, **parameters})
            stream = answer["Body"]
            try:
                return answer, await stream.read()
            finally:
                stream.close()

        return await self._request(attempt)

    async def _page(
        self, prefix: str, after: str | None, token: str | None, keys: int | None
    ) -> tuple[list[ObjectInfo], str | None]:
        cut = len(self._base)
        # Up to what isn't ASCII: a server that compares UTF-16 would leave out what stands before a
        # name there and behind it by UTF-8. What is too much is left out by `list`.
        start = {} if after is None else {"StartAfter": self._base + _NOT_ASCII.sub("", after)}
        limit = {} if keys is None else {"MaxKeys": keys}
        page, following = await self._list_page(token, Prefix=self._base + prefix, **start, **limit)
        found = [
            ObjectInfo(entry["Key"][cut:], entry["Size"], in_utc(entry.get("LastModified")))
            for entry in page.get("Contents", ())
            if entry["Key"].startswith(self._base)
        ]
        return found, following

    async def _folders(self, full: str, token: str | None) -> tuple[list[str], str | None]:
        page, following = await self._list_page(token, Prefix=full, Delimiter="/")
        return [entry["Prefix"] for entry in page.get("CommonPrefixes", ())], following

    async def _list_page(
        self, token: str | None, **parameters: Any
    ) -> tuple[dict[str, Any], str | None]:
        """One page of a listing, and the token of the next."""
        follow = {} if token is None else {"ContinuationToken": token}
        try:
            page = await self._call("list_objects_v2", **parameters, **follow)
        except Exception as error:
            if answers.is_absent(self._answer_of(error)):
                raise self._no_store() from error
            raise
        if page.keys().isdisjoint(_SIGNS_OF_A_LISTING):
            raise self._no_store()  # a proxy's welcome page must not pass for an empty store
        if not page.get("IsTruncated"):
            return page, None
        if not page.get("NextContinuationToken"):
            raise self._stuck()
        return page, page["NextContinuationToken"]

    async def _head(self, key: str) -> ObjectInfo:
        answer = await self._call("head_object", Key=self._base + key)
        return ObjectInfo(key, answer["ContentLength"], in_utc(answer.get("LastModified")))

    async def _remove(self, key: str) -> None:
        await self._call("delete_object", Key=self._base + key)

    async def _delete_unordered(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            try:
                await self._delete_batch(batch)
            except Exception as error:
                if not answers.is_refused(self._answer_of(error)):
                    raise
                await self._for_each(self._delete, batch)

    async def _delete_batch(self, keys: Sequence[str]) -> None:
        objects = [{"Key": self._base + key} for key in keys]
        answer = await self._call("delete_objects", Delete={"Objects": objects, "Quiet": True})
        for failed in answer.get("Errors", ()):
            code = failed.get("Code", "")
            if code not in answers.ABSENT:
                kind = AccessDenied if code in answers.DENIED else StorageError
                text = f"not deleted: {code}: {failed.get('Message', '')}"
                raise kind(text, key=failed["Key"][len(self._base) :])

    def _answer_of(self, error: BaseException) -> Answer | None:
        # s3fs turns the client's error into an OSError and keeps it as the cause.
        cause: BaseException | None = error
        while cause is not None:
            response = getattr(cause, "response", None)
            if isinstance(response, dict) and "Error" in response:
                code = str(response["Error"].get("Code") or "")
                status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
                return Answer(code or str(status), status)
            cause = cause.__cause__
        return None


BackendStore = S3Store


# --- Listings -------------------------------------------------------------------------------------

_EVENT = "before-parse.s3.ListObjectsV2"


def read_quickly(client: Any) -> None:
    """Have a client read its listings so; to say it again changes nothing.

    Args:
        client: Of botocore or aiobotocore, for S3.
    """
    # First: botocore's own handler of this event parses the whole page to look for an error in it.
    client.meta.events.register_first(_EVENT, take_objects, unique_id=_EVENT)


def take_objects(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Move the objects of a page from the raw answer to the parsed one.

    What is no page of a listing is left to botocore, whose errors explain it.

    Args:
        response_dict: The raw answer: `status_code` and `body`; the body is replaced.
        customized_response_dict: What to add to botocore's result.
    Raises:
        ResponseParserError: An object's size or time can't be read: the page was damaged.
    """
    if response_dict["status_code"] != 200:
        return
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return
    namespace, brace, name = page.tag.rpartition("}")
    if name != "ListBucketResult":
        return
    key, size, time, contents = (
        f"{namespace}{brace}{field}" for field in ("Key", "Size", "LastModified", "Contents")
    )
    entries = page.findall(contents)
    try:
        objects = [_object(entry, key, size, time) for entry in entries]
    except ValueError as error:
        # Taken for half an answer, and asked for again.
        raise ResponseParserError(f"an object of a listing can't be read: {error}") from error
    if objects:
        for entry in entries:
            page.remove(entry)
        response_dict["body"] = ElementTree.tostring(page)
        customized_response_dict["Contents"] = objects


def _object(
    entry: ElementTree.Element, key_tag: str, size_tag: str, time_tag: str
) -> dict[str, Any]:
    key, size, time = entry.findtext(key_tag), entry.findtext(size_tag), entry.findtext(time_tag)
    if not key or not size:
        raise ValueError("an object without a name or size")
    found: dict[str, Any] = {"Key": key, "Size": int(size)}
    if time:
        found["LastModified"] = dt.datetime.fromisoformat(time)
    return found
