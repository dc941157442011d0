"""The notebook of docs/ runs, and shows what is stored in it."""

from __future__ import annotations

import base64
import copy

import pytest
from flights_notebook import load, outputs, pictures, run, texts

MOST_BYTES = 80_000  # of a picture: the repository keeps each version


@pytest.fixture(scope="module")
def stored():
    return load()


@pytest.mark.spark
@pytest.mark.slow("a kernel of its own, and in it a Spark of its own: some 25 s alone")
def test_it_runs_and_says_what_is_stored(stored):
    again = run(copy.deepcopy(stored))
    assert texts(again) == texts(stored)
    assert len(pictures(again)) == len(pictures(stored)) == 3


def test_what_it_shows_is_small_and_of_no_machine(stored):
    for picture in pictures(stored):
        assert base64.b64decode(picture).startswith(b"\x89PNG")
        assert len(picture) < MOST_BYTES
    kinds = {each.output_type for each in outputs(stored)}
    assert kinds == {"stream", "display_data"}, "no error, no warning"
    assert {each.name for each in outputs(stored) if each.output_type == "stream"} == {"stdout"}
    assert not any("/" in text for text in texts(stored)), "a path, perhaps"
