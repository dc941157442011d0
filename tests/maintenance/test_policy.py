"""The policy of maintenance: what it says of a lake, a database and a table; what is refused."""

from __future__ import annotations

import inspect

import lakelog
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import CapabilityMissing, InvalidPolicy, UsageError
from lakelog.maintenance.policy import Policy, Settings
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PlainStore

TEXT = """\
# kept by the data team
keep_days = 30
publish = "prod"
target_file_size_bytes = "512MiB"

[databases.weather]
keep_days = 90.5
keep_revisions = 10
check_level = "data"
tag = "weather-%Y-%m-%d"

[databases.weather.tables.hourly]
sort_by = "hour"
target_file_size_bytes = 1000

[databases.traffic]
gc = false
"""


def test_the_default_prunes_nothing():
    settings = Policy().of_database("any")
    assert settings == Settings()
    assert (settings.keep_days, settings.keep_revisions) == (None, None)
    assert settings.gc
    assert not settings.publish


def test_what_holds_for_a_table_comes_from_its_database_and_that_from_the_lake():
    policy = Policy.parse(TEXT)
    weather, hourly = policy.of_database("weather"), policy.of_table("weather", "hourly")
    assert (weather.keep_days, weather.keep_revisions) == (90.5, 10)
    assert (weather.target_file_size_bytes, weather.check_level) == (512 << 20, "data")
    assert (hourly.sort_by, hourly.target_file_size_bytes) == (("hour",), 1000)
    assert policy.of_table("weather", "daily") == weather
    assert (policy.of_database("traffic").gc, policy.of_database("traffic").keep_days) == (
        False, 30,
    )  # fmt: skip
    assert policy.of_database("other").keep_days == 30


def test_a_name_of_the_lake_is_none_of_each_database():
    policy = Policy.parse(TEXT)
    assert policy.lake.publish == "prod"
    assert {policy.of_database(name).publish for name in ("weather", "traffic", "other")} == {""}
    assert policy.of_database("weather").tag == "weather-%Y-%m-%d"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keep_day = 3", "a key keep_day, which there isn't.*Did you mean 'keep_days'"),
        ("[database.weather]", "a key database.*Did you mean 'databases'"),
        ("[databases.weather]\nkep_days = 3", "databases.weather.kep_days.*'keep_days'"),
        ("[databases.w.tables.t]\nsort_bye = 'a'", "tables.t.sort_bye.*Did you mean 'sort_by'"),
        ("[databases.w.tables.t]\nkeep_days = 3", "all its tables share one"),
        ("sort_by = ['a']", "sort_by is of one table"),
        ("keep_days = '30'", "keep_days is a number of days, from 0 on, not '30'"),
        ("keep_days = -1", "from 0 on"),
        ("keep_days = nan", "from 0 on"),
        ("keep_revisions = 0", "a whole number from 1 on, not 0"),
        ("keep_revisions = true", "a whole number from 1 on"),
        ("gc = 1", "gc is true or false"),
        ("delete_ratio_threshold = 0", "above 0 and at most 1"),
        ("target_file_size_bytes = '12 apples'", "a size such as '256MiB'"),
        ("max_group_bytes = 0", "a size"),
        ("check_level = 'all'", "one of none, log, files, footers, data"),
        ("publish = 'a/b'", "a name of letters"),
        ("tag = 'nightly %c'", "the day as of strftime"),
        ("[databases.'no id']\ngc = true", "databases.no id"),
        ("databases = 3", "databases is no table of TOML"),
        ("keep_days = ", "no TOML"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_meant(text, said):
    with pytest.raises(InvalidPolicy, match=f"(?s){said}"):
        Policy.parse(text)
    assert issubclass(InvalidPolicy, UsageError)


def test_what_a_compaction_is_given_is_what_it_takes():
    """And its defaults are the same."""
    taken = inspect.signature(lakelog.Catalog.compact).parameters
    given = Settings().compaction
    assert {name: taken[name].default for name in given} == given
    left = taken.keys() - given.keys() - {"self", "database", "table", "where", "writers"}
    assert left == {"sort_by", "time_limit_s", "execute", "step"}


# --- In the lake ----------------------------------------------------------------------------------


def test_a_lake_keeps_it_for_every_job(tmp_path):
    catalog = lakelog.open_catalog(tmp_path)
    assert catalog.policy() == Policy()
    assert catalog.set_policy(TEXT).text == TEXT
    assert lakelog.open_catalog(tmp_path).policy() == Policy.parse(TEXT)
    path = tmp_path / "policy.toml"
    path.write_text("keep_days = 3")
    catalog.set_policy(path)
    assert catalog.policy().lake.keep_days == 3
    catalog.set_policy("")
    assert catalog.policy() == Policy()


def test_what_is_refused_leaves_the_old_one():
    catalog = Catalog(MemoryStore("policy"))
    catalog.set_policy("keep_days = 3")
    with pytest.raises(InvalidPolicy):
        catalog.set_policy("keep_dayz = 5")
    with pytest.raises(InvalidPolicy, match="can't be read"):
        catalog.set_policy(__import__("pathlib").Path("/no/such/file"))
    with pytest.raises(UsageError):
        catalog.set_policy(None)
    assert catalog.policy().lake.keep_days == 3


def test_a_store_without_put_if_absent_keeps_none():
    catalog = Catalog(PlainStore(MemoryStore("plain")))
    with pytest.raises(CapabilityMissing):
        catalog.set_policy("keep_days = 3")
    assert catalog.policy() == Policy()
