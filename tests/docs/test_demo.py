"""The demo runs, and README shows what it really prints."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from lakelog.cli.main import main

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the demo prints; `.ci/run` has run it already and says where that is."""
    import contextlib
    import io

    kept = os.environ.get("LAKELOG_DEMO_PRINTED")
    if kept:
        return Path(kept).read_text()
    folder = tmp_path_factory.mktemp("demo")
    here = os.getcwd()
    os.chdir(folder)
    try:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            assert main(["demo", "demo-lake"]) == 0
        assert main(["log", "demo-lake", "weather", "--limit", "1"]) == 0
    finally:
        os.chdir(here)
    return text.getvalue()


def normal(line: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"[0-9a-f]{32}", "ID", line.rstrip())


@pytest.mark.spark
def test_spark_counts_what_the_source_has(printed):
    assert printed.count("10,854 rows, as many as in the source") == 2
    assert printed.count("26,115 rows, as many as in the source") == 2


@pytest.mark.spark
def test_the_answers_differ_between_the_points_in_time(printed):
    assert printed.count("JFK  744 hours in May, the coldest 13.10 °F") == 2
    assert printed.count("JFK  744 hours in May, the coldest 44.06 °F") == 2


@pytest.mark.spark
def test_readme_shows_the_real_output(printed):
    block = README.split("This is what `make demo` prints")[1].split("```text\n")[1].split("```")[0]
    real = [normal(line) for line in printed.splitlines()]
    at = 0
    for line in block.splitlines():
        if not line.strip():
            continue
        assert normal(line) in real[at:], line
        at = real.index(normal(line), at) + 1


def test_a_folder_that_no_demo_made_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["demo", str(tmp_path)]) == 2
    assert (tmp_path / "mine.txt").read_text() == "precious"
    assert "isn't empty" in capsys.readouterr().err


def test_without_java_the_demo_leaves_spark_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    assert main(["demo", str(tmp_path / "lake")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("left out: Spark needs Java") == 1
    assert printed.count("JFK                         13.1    44.06") == 2


def test_readme_shows_what_the_first_query_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    start = README.split("## Start")[1].split("## What the demo shows")[0]
    code, command, shown = (
        start.split(f"```{kind}\n")[number].split("```")[0]
        for kind, number in (("python", 1), ("sh", 1), ("text", 2))
    )
    exec(code, {})
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.split() == shown.split()
