"""Histories in which somebody restores earlier revisions, and others name them, beside commits,
prune and gc."""

from __future__ import annotations

from unittest import mock

import pytest
from at_speed import at_speed
from lakelog.catalog.commit import execute_change
from lakelog.catalog.commit.execute_change import Execution
from lakelog.catalog.refs.series import Entry, Series
from lakelog.gc import prune
from lakelog.testing.histories import Outcome, run_history
from sample import EVERY
from seeds import base_seed

FEW = 15


def outcomes(first: int, count: int) -> list[Outcome]:
    with at_speed():
        return [run_history(seed, goes_back=True) for seed in range(first, first + count)]


@pytest.mark.slow("15 whole histories, each of some hundred requests")
@pytest.mark.parametrize("count", [FEW, EVERY])
def test_whoever_goes_back_breaks_no_invariant(count):
    found = outcomes(base_seed(), count or 5_000)
    assert not [f"{one.seed}: {one.violation}" for one in found if one.violation]
    assert sum(one.commits for one in found)


def _forgets_a_file(state, files, wanted):
    return REAL(state, files, {table: paths[1:] for table, paths in wanted.items()})


def _for_any_head(self, session, prepared):
    intent = self._intent(session, prepared)
    intent.onto = b""
    return session.commit(intent)


def _put_over(self, body, after):
    key = f"{self.folder}{999_999_999_999 - after.number - 1:012d}-{after.number + 1}.ref"
    self.store.put(key, body)
    return Entry(after.number + 1, key, len(body), None, 0.0)


REAL = execute_change.rows_again
PLANTED = {
    "forgets a file": mock.patch.object(execute_change, "rows_again", _forgets_a_file),
    "holds for any head": mock.patch.object(Execution, "_commit_files", _for_any_head),
    "prune doesn't look at names": mock.patch.object(prune, "pins_of", return_value=[]),
    "prune looks before it marks": mock.patch.object(prune, "_mark", return_value={}),
    "names are put over others": mock.patch.object(Series, "append", _put_over),
}


@pytest.mark.slow("histories until one shows it")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name):
    with PLANTED[name]:
        assert any(outcomes(seed, 1)[0].violation for seed in range(200))
