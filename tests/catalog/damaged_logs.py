"""What the tests of damaged logs share."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from table_cases import values


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
