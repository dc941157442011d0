"""Completion: the scripts of `lakelog completion`, and what TAB gives."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lakelog.cli.command_list import COMMANDS

DRIVER = """
source {script}
COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_python_argcomplete lakelog "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the command `lakelog` and bash's script."""
    found = tmp_path_factory.mktemp("shell")
    command = found / "lakelog"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lakelog "$@"\n')
    command.chmod(0o755)
    script = subprocess.run([command, "completion", "bash"], capture_output=True, check=True)
    (found / "script").write_bytes(script.stdout)
    return found


@pytest.fixture
def tab(folder, weather):
    """What bash offers behind these words; the last one is being typed."""

    def press(*words: str, **env: str) -> list[str]:
        text = DRIVER.format(
            script=folder / "script",
            line=shlex.quote(" ".join(("lakelog", *words))),
            words=shlex.join(("lakelog", *words)),
        )
        done = subprocess.run(
            ["bash", "-c", text],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **env},
        )
        assert done.stderr == ""
        return [word.strip() for word in done.stdout.splitlines() if word.strip()]

    return press


def test_commands(tab):
    assert set(tab("")) == {entry.name for entry in COMMANDS}
    assert set(tab("sc")) == {"schema", "scan"}


def test_options_and_their_values(tab, weather):
    assert set(tab("scan", "--o")) == {"--output", "--option"}
    forms = ["text", "json", "jsonl", "csv", "parquet", "arrow"]
    assert tab("scan", weather, "weather", "hourly", "--output", "") == forms
    assert tab("explain", weather, "weather", "hourly", "--where", "") == []
    assert set(tab("completion", "")) == {"bash", "zsh", "fish"}


def test_names_of_a_local_catalog(tab, weather):
    assert tab("files", weather, "") == ["weather"]
    assert tab("files", weather, "weather", "") == ["hourly", "stations"]
    assert tab("files", weather, "weather", "hourly", "--writer", "") == ["EWR", "JFK"]
    parent, name = os.path.split(weather)
    assert tab("files", f"{parent}/{name[:3]}") == [weather]


def test_names_behind_the_variable(tab, weather):
    assert "weather" in tab("files", "w", LAKELOG_URL=weather)
    assert tab("files", "weather", "", LAKELOG_URL=weather) == ["hourly", "stations"]


def test_what_is_not_there_or_far_away_offers_nothing_and_says_nothing(tab, tmp_path):
    assert tab("files", str(tmp_path / "none"), "") == []
    assert tab("files", "s3://bucket/lake", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_one_that_its_shell_takes(cli, tmp_path, shell):
    found = cli("completion", shell)
    assert found.code == 0
    assert "lakelog" in found.out
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "script").write_text(found.out)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_another_shell_is_refused(cli):
    assert cli("completion", "tcsh").code == 2
