"""`lakelog tag` and `lakelog publish`, and `@name` for a point in time."""

from __future__ import annotations

import json

import lakelog
import pyarrow as pa
import pytest


@pytest.fixture
def lake(tmp_path):
    """Two commits, a tag, two more."""
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("oslo", "weather") as writer:
        for number in range(4):
            if number == 2:
                catalog.tag("half")
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [number]}))
    return catalog


def test_the_commands(cli, lake):
    url = lake.url
    assert "half" in cli("tag", "list", url).out
    made = cli("tag", "create", url, "now", "--expires", "90d", "-m", "why", "-o", "json").json
    assert [(one["name"], one["kind"], one["message"]) for one in made] == [("now", "tag", "why")]
    assert made[0]["expires_at"] > made[0]["created_at"]
    assert cli("tag", "create", url, "now").code == 4
    assert cli("scan", url, "weather", "t", "--as-of", "@half", "-o", "jsonl").out.count("\n") == 2
    sql = "SELECT count(*) AS n FROM t"
    found = cli("query", url, "weather", sql, "--as-of", "@half", "-o", "json").json
    assert found["rows"] == [{"n": 2}]
    both = "SELECT (SELECT count(*) FROM t) AS now, (SELECT count(*) FROM old.t) AS then"
    found = cli("query", url, "weather", both, "--also", "old=@half", "-o", "json").json
    assert found["rows"] == [{"now": 4, "then": 2}]
    assert cli("diff", url, "weather", "@half", "now").code == 0
    assert cli("publish", url, "prod", "--as-of", "@half", "--expect", "0").code == 0
    assert cli("publish", url, "prod", "--expect", "0").code == 4
    assert cli("publish", url, "prod", "--expect", "1").code == 0
    shown = json.loads(cli("tag", "show", url, "@prod", "-o", "json").out)
    assert [one["number"] for one in shown] == [2, 1]
    assert cli("tag", "delete", url, "prod").code == 0
    missing = cli("tables", url, "weather", "--as-of", "@prod")
    assert missing.code == 3
    assert "half" in missing.err
    assert cli("tag", "show", url, "prod").code == 3
    assert cli("tag", "delete", url).code == 2
    assert cli("tag", "create", url, "x", "--expires", "soon").code == 2


def test_the_url_may_come_from_the_environment(cli, lake, monkeypatch):
    monkeypatch.setenv("LAKELOG_URL", lake.url)
    assert "half" in cli("tag", "list").out
    assert "half" in cli("tag", "show", "@half").out
    assert cli("publish", "prod", "--as-of", "@half").code == 0
