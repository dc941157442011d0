"""`lakelog compact`: the plan, the report, and arguments that can't be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import open_catalog


@pytest.fixture
def lake(tmp_path):
    """Six files of one row, of two writers."""
    catalog = open_catalog(str(tmp_path / "lake"))
    for name in ("EWR", "JFK"):
        with catalog.writer(name, "weather") as writer:
            for hour in range(3):
                with writer.transaction() as tx:
                    tx.write("hourly", pa.table({"hour": [hour]}))
    return str(tmp_path / "lake")


def test_a_plan_and_its_execution(cli, lake):
    before = cli("query", lake, "weather", "SELECT count(*) AS n FROM hourly", "-o", "json")
    arguments = ("compact", lake, "weather", "--min-input-files", "2")
    plan = cli(*arguments, "-o", "json").json
    assert plan["dry_run"]
    assert plan["remaining"] == len(plan["groups"]) > 0
    assert {group["status"] for group in plan["groups"]} == {"planned"}
    text = cli(*arguments)
    assert "would rewrite" in text.out
    assert "DRY RUN" in text.err
    done = cli(*arguments, "--execute", "-o", "json").json
    assert done["remaining"] == 0
    assert done["token"]
    assert {group["status"] for group in done["groups"]} == {"done"}
    assert all(group["files_after"] < group["files"] for group in done["groups"])
    again = cli(*arguments, "--execute")
    assert "nothing to compact" in again.out
    after = cli("query", lake, "weather", "SELECT count(*) AS n FROM hourly", "-o", "json")
    assert after.json["rows"] == before.json["rows"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--target-file-size", "big"),
        ("--target-file-size", "0"),
        ("--max-group-size", "-5MB"),
        ("--time-limit", "soon"),
        ("--delete-ratio", "30"),
        ("--min-input-files", "0"),
    ],
)
def test_values_that_can_not_be(cli, lake, option, value):
    result = cli("compact", lake, "weather", f"{option}={value}")
    assert result.code == 2
    assert value in result.err or option.strip("-").replace("-", "_") in result.err


def test_sizes_and_times_have_units(cli, lake):
    found = cli("compact", lake, "weather", "--target-file-size", "1B", "--time-limit", "1.5h")
    assert "large enough" in found.out
