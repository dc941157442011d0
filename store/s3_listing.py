"""Read S3's listings quickly: botocore takes 150 µs a name.

botocore lets a handler see an answer before it parses it. This one takes the objects out of the
page and gives them ready made, with the three fields that are needed; botocore parses what is left.
"""

from __future__ import annotations

import datetime as dt
from typing import Any
from xml.etree import ElementTree

from botocore.parsers import ResponseParserError

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
