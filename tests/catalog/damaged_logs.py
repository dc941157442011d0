"""What the tests of damaged logs share."""

from __future__ import annotations

import datetime as dt

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.testing.doubles import START_US
from table_cases import values

COUNT = 6  # commits of the log that is damaged, a second apart


def at(revision, plus_s=0.5):
    """A moment after a revision's commit."""
    return dt.datetime.fromtimestamp(START_US / 1e6 + revision + plus_s, dt.UTC)


def refused(store, error, key, readable=None):
    """Reading the newest state fails by type, names the key and says what stays readable."""
    with pytest.raises(error) as caught:
        values(store)
    found = caught.value
    assert found.exit_code == 5
    assert found.key == key
    assert key in str(found) or key[-20:] in str(found)
    if readable is not None:
        assert readable in str(found)
    with pytest.raises(error):
        Catalog(store).writer("w", "db")
    return found
