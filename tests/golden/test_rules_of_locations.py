"""Rule by rule: what docs/format.md says of files that lie elsewhere. All readers refuse and take
alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from checkpoint_lies import outcome
from checkpoint_lies import trial as checkpointed
from hand_checkpoint import sound, write
from hand_small import add, remove
from independent_messages import CHECKPOINT
from independent_transaction import location_id
from rule_outcome import put_in, told_by_all
from test_rules_of_both import trial

if TYPE_CHECKING:
    from hand_objects import Tree
    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"
URLS = {
    "s3://b": OK,
    "s3://b/x/y": OK,
    "gs://b/ä ö": OK,
    "file://": OK,
    "file:///srv/x": OK,
    "az://c": OK,
    "abfss://c@x.y": OK,
    "abfs://c@d@x.y/z": OK,
    "x+y.z-1://b": OK,
    "s3://" + "b" * 1019: OK,
    "": DAMAGED,
    "s3://" + "b" * 1020: DAMAGED,
    "s3://" + "ä" * 510: DAMAGED,
    "s3:/b": DAMAGED,
    "S3://b": DAMAGED,
    "1s://b": DAMAGED,
    "//b": DAMAGED,
    "s3://": DAMAGED,
    "s3://b/": DAMAGED,
    "s3://b//x": DAMAGED,
    "s3:///b": DAMAGED,
    "s3://b/./x": DAMAGED,
    "s3://b/..": DAMAGED,
    "s3://b/...": OK,
    "s3://b?x": DAMAGED,
    "s3://b/x#y": DAMAGED,
    "s3://b\\x": DAMAGED,
    "s3://b\n": DAMAGED,
    "s3://b/\x7f": DAMAGED,
    "file://host": DAMAGED,
    "file://host/x": DAMAGED,
    "file:///": DAMAGED,
    "s3://user@b": DAMAGED,
    "s3://user:word@b": DAMAGED,
    "abfss://c:word@x.y": DAMAGED,
    "abfss://c@x:1": OK,
    "abfss://@x": DAMAGED,
    "abfss://c@": DAMAGED,
}
PATHS = {
    f"at/{location_id('s3://b')}/x.parquet": OK,
    "at/0123456789abcdef/y=1/x": OK,  # whose location nobody names: its rows can't be given
    "at/0123456789abcdef/" + "x" * 255: OK,
    "at/0123456789abcdef": DAMAGED,
    "at/0123456789abcdef/": DAMAGED,
    "at/0123456789abcdef//x": DAMAGED,
    "at/0123456789abcdef/../x": DAMAGED,
    "at/0123456789ABCDEF/x": DAMAGED,
    "at/0123456789abcde/x": DAMAGED,
    "at/0123456789abcdef0/x": DAMAGED,
    "At/0123456789abcdef/x": DAMAGED,
    "x/at/0123456789abcdef/x": DAMAGED,
}


def location(url: str) -> dict[str, Any]:
    return {"location": {"url": url}}


@pytest.mark.parametrize("url", URLS)
def test_the_url_of_a_location(url: str, maybe_go: GoReader | None) -> None:
    log, _ = trial()
    assert told_by_all(log.commit(location(url)), maybe_go) == URLS[url]


@pytest.mark.parametrize("path", PATHS)
def test_the_path_of_a_file_that_lies_elsewhere(path: str, maybe_go: GoReader | None) -> None:
    for actions in ([add(path)], [location("s3://b"), add(path), remove(path)]):
        log, _ = trial()
        assert told_by_all(log.commit(*actions), maybe_go) == PATHS[path]


def test_256_locations_and_no_more(maybe_go: GoReader | None) -> None:
    many = [location(f"s3://b{n}") for n in range(256)]
    log, _ = trial()
    assert told_by_all(log.commit(*many).commit(many[0]), maybe_go) == OK
    assert told_by_all(log.commit(location("s3://more")), maybe_go) == DAMAGED


def test_the_feature_is_known_and_others_are_not(maybe_go: GoReader | None) -> None:
    for names, expected in ((["locations"], OK), (["locations", "x"], TOO_NEW)):
        log, _ = trial()
        log.commit({"upgrade": {"required_reader_features": names}})
        assert told_by_all(log, maybe_go) == expected


MESSAGES = {
    "two": (["file://", "s3://b"], OK),
    "out of order": (["s3://b", "file://"], DAMAGED),
    "twice": (["s3://b", "s3://b"], DAMAGED),
    "no location": (["s3://b/"], DAMAGED),
    "256": ([f"s3://{n:03}" for n in range(256)], OK),
    "257": ([f"s3://{n:03}" for n in range(257)], DAMAGED),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_the_locations_of_a_checkpoint(case: str, maybe_go: GoReader | None) -> None:
    urls, expected = MESSAGES[case]
    log = checkpointed()

    def message(what: str, found: Tree) -> Tree:
        put_in(CHECKPOINT, "required_reader_features", ["locations"])(found)
        put_in(CHECKPOINT, "locations", urls)(found)
        return found

    log.log.hooks.message = message  # type: ignore[method-assign]
    write(log.log, sound(log.log))
    assert outcome(log, maybe_go) == expected
