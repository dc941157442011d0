"""A table's key on the command line: given, shown, explained and taken away."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import open_catalog


@pytest.fixture
def lake(tmp_path):
    url = str(tmp_path / "lake")
    catalog = open_catalog(url)
    for clock, (name, text) in enumerate([("u", "old"), ("v", "new")]):
        with catalog.writer(name, "db") as writer, writer.transaction() as tx:
            table = pa.table({"id": [1, clock + 2], "x": [text, text]})
            tx.write("t", table, clock=(clock, clock))
    return url


def test_a_key_is_given_shown_explained_and_taken_away(cli, lake):
    asked = ("schema", lake, "db", "t")
    planned = cli(*asked, "--evolve", "--key", "id", "-o", "json").json["logs"]
    assert [(row["writer"], row["key"], row["changes"]) for row in planned] == [
        ("u", "id", True), ("v", "id", True)
    ]  # fmt: skip
    assert open_catalog(lake).snapshot("db").key("t") == ()
    assert cli(*asked, "--evolve", "--key", "id", "--execute").code == 0
    assert "\nkey: id\n" in cli(*asked).out
    assert cli(*asked, "-o", "json").json["key"] == ["id"]
    assert cli("scan", lake, "db", "t", "-o", "json").json["rows"] == [
        {"id": 2, "x": "old"}, {"id": 1, "x": "new"}, {"id": 3, "x": "new"}
    ]  # fmt: skip
    result = cli("explain", lake, "db", "t", "--where", "x = 'old'")
    assert "keys of 1 file are resolved, of one among up to 2 files" in result.out
    rows = cli("explain", lake, "db", "t", "--where", "x = 'old'", "-o", "json").json["files"]
    assert {row["writer"]: row["key_files"] for row in rows} == {"u": 2, "v": 0}
    defined = [row for row in cli(*asked, "--history", "-o", "json").json["history"] if row["key"]]
    assert {(row["writer"], row["key"]) for row in defined} == {("u", "id"), ("v", "id")}
    assert cli(*asked, "--evolve", "--no-key", "--execute").code == 0
    assert "key:" not in cli(*asked).out
    assert len(cli("scan", lake, "db", "t", "-o", "json").json["rows"]) == 4
    result = cli("explain", lake, "db", "t", "--where", "x = 'old'")
    assert "keys of" not in result.out
    assert cli("explain", lake, "db", "t", "--where", "id > 99").code == 0  # keeps no file


def test_a_column_that_no_key_can_have_is_refused(cli, lake):
    result = cli("schema", lake, "db", "t", "--evolve", "--add", "f double", "--key", "f")
    assert result.code != 0
    assert "can't be of a key" in result.err
